"""Heads and modules for search on a CPU: copies whose weights are laid out for their kernels once, or rounded to int8.

A copy shares all other parameters with its original, has no gradients and no dropout, and does not follow later
training. Heads with log-probabilities of their own (shared tail, Mixtape) keep their output embedding as it is.
"""

import copy
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fastmos.heads.fused import Layer
from fastmos.heads.kernel import ALIGNMENT, chunk_tokens, slices
from fastmos.heads.modules import Head
from fastmos.heads.products import PackedProduct
from fastmos.heads.shortlist import PartialLogProbs, ShortlistMixture

AnyModule = TypeVar("AnyModule", bound=nn.Module)


def packed_copy(module: AnyModule, int8: bool = False) -> AnyModule:
    """A copy of a module in which each that has a method `pack_` has been packed."""
    twin = copy.copy(module)
    twin.training, twin._buffers = False, dict(module._buffers)
    twin._modules = {name: one and packed_copy(one, int8) for name, one in module._modules.items()}
    if hasattr(twin, "pack_"):
        twin.pack_(int8)  # type: ignore[operator]
    return twin


def packed_head(head: nn.Module, int8: bool = False) -> nn.Module:
    """The head for search: hidden states [N, D] -> log-probabilities [N, V], perhaps partial."""
    if isinstance(head, ShortlistMixture):
        return PackedShortlist(head, int8)
    if isinstance(head, Head) and type(head).log_probs is Head.log_probs:
        return PackedHead(head, int8)
    return packed_copy(head, int8)


class PackedLayer:
    """Log-probabilities of a layer."""

    def __init__(self, layer: Layer, int8: bool) -> None:
        self.parts, self.mixtures, self.softcap = layer.parts, layer.mixtures, layer.softcap
        self.vocab_size, size = len(layer.weight), -len(layer.weight) % ALIGNMENT  # of what only aligns rows of logits
        bias = layer.weight.new_zeros(self.vocab_size) if layer.bias is None else layer.bias
        self.bias = F.pad(bias.detach(), (0, size), value=-torch.inf)
        self.product = PackedProduct(F.pad(layer.weight.detach(), (0, 0, 0, size)), self.bias, int8)
        self.tokens = chunk_tokens(layer.weight, layer.mixtures, 1)

    def __call__(self, hidden: Tensor) -> Tensor:
        """Log-probabilities [N, V] of hidden states [N, D]."""
        if not len(hidden):
            return hidden.new_empty(0, self.vocab_size)
        if self.mixtures == 1:
            logits = self._logits(self.parts(hidden)[0][:, 0])
            return torch.log_softmax(logits, 1, out=logits)[:, : self.vocab_size]
        result = hidden.new_empty(len(hidden), len(self.bias))
        for here in slices(len(hidden), self.tokens):
            contexts, log_prior = self.parts(hidden[here])
            self._mix(contexts, log_prior, result[here])
        return result[:, : self.vocab_size]

    def _logits(self, contexts: Tensor) -> Tensor:
        """Logits [n, stride] of contexts [n, d]; -inf where there is no token."""
        logits = self.product(contexts)
        if self.softcap is not None:
            logits[:, : self.vocab_size].div_(self.softcap).tanh_().mul_(self.softcap)
        return logits

    def _mix(self, contexts: Tensor, log_prior: Tensor, out: Tensor) -> None:
        """Sum the probabilities; where some underflow, in log-space, which takes twice the time."""
        probs = self._logits(contexts.flatten(0, 1))  # [nK, stride] logits, so far
        torch.softmax(probs, 1, out=probs)
        torch.bmm(log_prior.exp()[:, None], probs.view(*log_prior.shape, -1), out=out[:, None])
        limits = torch.finfo(out.dtype)
        underflow = out.amin(0) < limits.tiny / limits.eps  # [stride]
        if self.softcap is None:
            underflow &= self.bias != -torch.inf  # these are 0, and their logarithms right
        if not underflow[: self.vocab_size].any():
            out.log_()
            return
        logits = self._logits(contexts.flatten(0, 1))
        joint = torch.log_softmax(logits, 1, out=logits).view(*log_prior.shape, -1).add_(log_prior[..., None])
        out.copy_(torch.logsumexp(joint, 1))


class PackedHead(nn.Module):
    """A head of one layer."""

    def __init__(self, head: Head, int8: bool) -> None:
        super().__init__()
        self.layer = PackedLayer(packed_copy(head, int8)._layer(), int8)

    @torch.no_grad()
    def forward(self, hidden: Tensor) -> Tensor:
        log_probs: Tensor = self.layer(hidden)
        return log_probs


class PackedShortlist(nn.Module):
    """A shortlist mixture, which puts off the log-probabilities of the tail."""

    def __init__(self, head: ShortlistMixture, int8: bool) -> None:
        super().__init__()
        twin = packed_copy(head, int8)
        self.shortlist, self.vocab_size = head.shortlist, head.vocab_size
        self.mixture, self.tail = (PackedLayer(layer, int8) for layer in twin._layers())

    @torch.no_grad()
    def forward(self, hidden: Tensor) -> PartialLogProbs:
        listed = self.mixture(hidden)  # [N, F + 1]
        tail = listed[:, -1]
        known = listed.new_full((len(hidden), self.vocab_size), -torch.inf)
        self.shortlist.put(known, listed[:, :-1], 0)

        def complete(rows: Tensor) -> None:
            others = self.tail(hidden[rows]).add_(tail[rows, None])
            self.shortlist.put(known, others, len(self.shortlist), rows)

        return PartialLogProbs(known, tail, self.vocab_size - len(self.shortlist), complete)
