"""A mixture over the frequent tokens, at about the price of one softmax over all of them.

The shortlist S holds the F most frequent tokens. Each of K softmaxes covers S and one symbol for the tail, all other
tokens T; one more softmax, with a context h_0 of its own, covers T:

    P(x) = sum_k pi_k p_k(x)                                        for x in S, p_k = softmax(h_k [W_S; w_tail]^T + b)
    P(x) = (sum_k pi_k p_k(tail)) softmax(h_0 W_T^T + b_T)(x)       for x in T

A training token costs K (F + 1) logits, and V - F more only where its target is in the tail (or is smoothed).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fastmos.heads.fused import Layer
from fastmos.heads.kernel import Kernel, Objective
from fastmos.heads.log_probs import layer_log_probs, soft_capped
from fastmos.heads.loss import fused, given_parts, layer_entropy
from fastmos.heads.modules import ContextKind, Contexts, MixtureOfSoftmaxes
from fastmos.heads.targets import CheckedTargets

Tokens = int | Sequence[int] | Tensor  # the first so many tokens, or these


class Shortlist(nn.Module):
    """A set of frequent tokens. A head that has one computes in this order: the shortlist, then the other tokens."""

    ids: Tensor  # [F] the tokens, ascending
    order: Tensor  # [V] all tokens in that order
    places: Tensor  # [V] where in that order a token stands

    def __init__(self, tokens: Tokens, vocab_size: int) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        ids = torch.arange(max(0, tokens)) if isinstance(tokens, int) else _as_tensor(tokens)
        _check_shortlist(ids, vocab_size)
        self.register_buffer("ids", ids.long().sort().values)
        for name in ("order", "places"):
            self.register_buffer(name, torch.empty(vocab_size, dtype=torch.long), persistent=False)
        self._index()
        # A loaded state may bring other ids.
        self.register_load_state_dict_post_hook(lambda self, _: self._index())  # type: ignore[no-untyped-call]

    def __len__(self) -> int:
        return len(self.ids)

    def _index(self) -> None:
        listed = torch.zeros_like(self.order, dtype=torch.bool).index_fill_(0, self.ids, True)
        self.order = torch.cat([self.ids, (~listed).nonzero()[:, 0]])
        self.places = torch.empty_like(self.order).index_copy_(
            0, self.order, torch.arange(self.vocab_size).to(self.order)
        )
        self.sorted = bool(listed[: len(self)].all())  # are they the first F tokens? Then nothing moves

    @property
    def rest(self) -> Tensor:
        """The other tokens [V - F], ascending."""
        return self.order[len(self) :]

    def reorder(self, tensor: Tensor) -> Tensor:
        """The rows of a tensor [V, ...] in the order of the head."""
        return tensor if self.sorted else tensor.index_select(0, self.order)

    def listed(self, tensor: Tensor) -> Tensor:
        """The rows of a tensor [V, ...] that belong to the shortlist [F, ...]."""
        return tensor[: len(self)] if self.sorted else tensor.index_select(0, self.ids)

    def others(self, tensor: Tensor) -> Tensor:
        """The other rows [V - F, ...]."""
        return tensor[len(self) :] if self.sorted else tensor.index_select(0, self.rest)

    def put(self, log_probs: Tensor, values: Tensor, first: int, rows: Tensor | None = None) -> None:
        """Write values [n, C] of tokens that stand at `first` and behind into rows [n] (all) of [N, V], in place."""
        last = first + values.shape[1]
        tokens: slice | Tensor = slice(first, last) if self.sorted else self.order[first:last]
        if rows is None:
            log_probs[:, tokens] = values
        else:
            log_probs[rows if isinstance(tokens, slice) else rows[:, None], tokens] = values

    def split(self, tensor: Tensor) -> tuple[Tensor, Tensor]:
        """The rows of a tensor [V, ...] that belong to the shortlist [F, ...], and the others [V - F, ...]."""
        listed, others = torch.split(self.reorder(tensor), [len(self), self.vocab_size - len(self)])
        return listed, others

    def targets(self, targets: CheckedTargets) -> CheckedTargets:
        """Targets in the order of the head: tokens below F are in the shortlist."""
        tokens, probs, kept = targets
        if self.sorted:
            return targets
        if probs is not None and tokens.shape != probs.shape:  # probabilities of all tokens
            return CheckedTargets(tokens, probs.index_select(1, self.order), kept)
        return CheckedTargets(self.places[tokens], probs, kept)

    def restore(self, log_probs: Tensor) -> Tensor:
        """Log-probabilities [..., V] in the order of the head -> in the order of the tokens."""
        return log_probs if self.sorted else log_probs.index_select(-1, self.places)

    def extra_repr(self) -> str:
        return str(len(self))


def split_targets(
    tokens: Tensor, probs: Tensor | None, size: int
) -> tuple[tuple[Tensor, Tensor | None], tuple[Tensor, Tensor | None]]:
    """Tokens and probabilities for a mixture in which one symbol stands for the tail, and for the tail (-1: not there).

    They are in the order of the head, which has a shortlist of this size.
    """
    if probs is not None and tokens.shape != probs.shape:  # probabilities of all tokens
        listed = torch.cat([probs[:, :size], probs[:, size:].sum(1, keepdim=True)], 1)
        return (tokens, listed), (tokens, probs[:, size:])
    return (tokens.clamp(max=size), probs), ((tokens - size).clamp(min=-1), probs)


def _as_tensor(tokens: Tokens) -> Tensor:
    try:
        return torch.as_tensor(tokens, device="cpu")
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"the shortlist is {tokens!r}; it must be a number of tokens, or a list of ids") from None


def _check_shortlist(ids: Tensor, vocab_size: int) -> None:
    if ids.ndim != 1:
        raise ValueError(f"the shortlist has shape {list(ids.shape)}; it must be a number of tokens, or a list of ids")
    if ids.dtype == torch.bool:
        raise ValueError("the shortlist is a mask; it must be ids, which mask.nonzero()[:, 0] are")
    if not 1 <= len(ids) < vocab_size:
        raise ValueError(f"the shortlist has {ids.numel()} tokens; it must have 1 to {vocab_size - 1} of {vocab_size}")
    if ids.is_floating_point() or ids.min() < 0 or ids.max() >= vocab_size:
        raise ValueError(f"the shortlist holds {ids.min()} to {ids.max()}; its tokens must lie in 0..{vocab_size - 1}")
    if len(set(ids.tolist())) < len(ids):
        raise ValueError("the shortlist names a token twice; it must name each once")


def best_shortlist(counts: Tensor | Sequence[int], mixtures: int, price: float | None = None) -> Tensor:
    """The tokens [F] for a shortlist mixture, the most frequent by counts [V] of the tokens in training data.

    A token costs K (F + 1) + (1 - coverage) (V - F) logits, one softmax V. With a price, in softmaxes, F is the largest
    that costs no more; without, or where none is so cheap, the cheapest.
    """
    counts = torch.as_tensor(counts, dtype=torch.float64, device="cpu")
    if counts.ndim != 1:
        raise ValueError(f"counts have shape {list(counts.shape)}; they must be one number for each token, [V]")
    vocab_size = len(counts)
    bad = ((counts < 0) | ~counts.isfinite()).nonzero()[:, 0]
    if len(bad):
        raise ValueError(f"counts hold {counts[bad[0]]:g} for token {bad[0]}; a count must be finite and at least 0")
    if vocab_size < 2 or not counts.sum() > 0:
        raise ValueError(
            f"counts hold {vocab_size} tokens seen {counts.sum():.0f} times; a shortlist needs seen tokens"
        )
    if mixtures < 1:
        raise ValueError(f"mixtures is {mixtures}; it must be at least 1")
    if price is not None and not price > 0:
        raise ValueError(f"price is {price}; it must be above 0, in softmaxes, or None")
    ordered, tokens = counts.sort(descending=True, stable=True)
    sizes = torch.arange(1, vocab_size)  # F
    uncovered = 1 - ordered.cumsum(0)[:-1] / ordered.sum()
    cost = mixtures * (sizes + 1) + uncovered * (vocab_size - sizes)
    affordable = sizes[cost <= vocab_size * price] if price is not None else sizes[:0]
    size = affordable[-1] if len(affordable) else sizes[cost.argmin()]
    return tokens[:size].sort().values


class PartialLogProbs(NamedTuple):
    """Log-probabilities of which some are missing, until somebody asks for them."""

    known: Tensor  # [N, V], -inf where they are missing
    bound: Tensor  # [N] no missing one of a row is above; nor is the sum of their probabilities
    missing: int  # how many are missing in a row
    complete: Callable[[Tensor], None]  # fill in the missing ones of these rows [n]


class ShortlistHead(MixtureOfSoftmaxes):
    """What both mixtures over a shortlist share: its tokens, and a context h_0 of the softmax over the others."""

    def __init__(
        self,
        hidden_size: int,
        vocab_size: int,
        mixtures: int,
        shortlist: Tokens,
        *,
        contexts: ContextKind = "tanh",
        embedding_size: int | None = None,
        embedding: nn.Embedding | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        softcap: float | None = None,
    ) -> None:
        super().__init__(
            hidden_size,
            vocab_size,
            mixtures,
            contexts=contexts,
            embedding_size=embedding_size,
            embedding=embedding,
            bias=bias,
            dropout=dropout,
            softcap=softcap,
        )
        self.shortlist = Shortlist(shortlist, vocab_size)
        self.tail_latent = Contexts(hidden_size, self.embedding_size, 1, contexts)  # of h_0
        self.start_tail()

    def start_tail(self) -> None:
        """Make what else a head needs for its tail."""

    def tail_context(self, hidden: Tensor) -> Tensor:
        """The context h_0 [..., 1, d]."""
        return self.dropout(self.tail_latent(hidden))  # type: ignore[no-any-return]


class ShortlistMixture(ShortlistHead):
    """A mixture of softmaxes over the tokens of a shortlist and one softmax over the others; exact and normalized.

    `shortlist` is F for the tokens 0 to F - 1, or their ids; `best_shortlist` finds them by counts. Everything else is
    as in `MixtureOfSoftmaxes`. With one mixture it is an adaptive softmax of two levels.
    """

    def start_tail(self) -> None:
        """The tail symbol is as likely as all others together."""
        others = torch.tensor([float(self.vocab_size - len(self.shortlist))])
        self.tail_weight = nn.Parameter(torch.zeros(1, self.embedding_size))
        self.tail_bias = None if self.bias is None else nn.Parameter(others.log())

    def tail_parts(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Context h_0 [..., 1, d] and log-prior 0 [..., 1] of the softmax over the tail."""
        context = self.tail_context(hidden)
        return context, context.new_zeros(context.shape[:-1])

    def shortlist_log_probs(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the shortlist's tokens [..., F], and of the tail as a whole [...].

        The latter bounds log P of every token in the tail, so a search may leave out `tail_log_probs` where it is low.
        """
        bias = None if self.bias is None else self.shortlist.listed(self.bias)
        log_probs = layer_log_probs(self._mixture(self.shortlist.listed(self.weight), bias), hidden)  # [..., F + 1]
        return log_probs[..., :-1], log_probs[..., -1]

    def tail_log_probs(self, hidden: Tensor) -> Tensor:
        """Log-probabilities of the other tokens [..., V - F], given that the token is one of them."""
        bias = None if self.bias is None else self.shortlist.others(self.bias)
        return layer_log_probs(self._tail(self.shortlist.others(self.weight), bias), hidden)

    def log_probs(self, hidden: Tensor) -> Tensor:
        listed, tail = self.shortlist_log_probs(hidden)
        return self.shortlist.restore(torch.cat([listed, self.tail_log_probs(hidden) + tail[..., None]], -1))

    def component_log_probs(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Every softmax has its own probability of the tail, and shares the softmax over the tail with the others."""
        contexts, log_prior = self.parts(hidden)
        bias = None if self.bias is None else self.shortlist.listed(self.bias)
        layer = self._mixture(self.shortlist.listed(self.weight), bias)
        logits = soft_capped(F.linear(contexts, layer.weight, layer.bias), self.softcap)
        listed, tail = torch.log_softmax(logits, -1, dtype=log_prior.dtype).tensor_split([-1], -1)  # [..., K, F | 1]
        return log_prior, self.shortlist.restore(
            torch.cat([listed, tail + self.tail_log_probs(hidden)[..., None, :]], -1)
        )

    @torch.no_grad()
    def partial_log_probs(self, hidden: Tensor) -> Tensor | PartialLogProbs:
        """Log-probabilities [N, V] for a search, without the tail's at first: those cost as much as one softmax.

        Whether they are needed is seen from the numbers, for which a program would have to wait: only on a CPU.
        """
        if not hidden.is_cpu or torch.compiler.is_compiling():
            return self.log_probs(hidden)
        listed, tail = self.shortlist_log_probs(hidden)
        known = listed.new_full((len(hidden), self.vocab_size), -torch.inf)
        self.shortlist.put(known, listed, 0)

        def complete(rows: Tensor) -> None:
            others = self.tail_log_probs(hidden[rows]).add_(tail[rows, None])
            self.shortlist.put(known, others, len(self.shortlist), rows)

        return PartialLogProbs(known, tail, self.vocab_size - len(self.shortlist), complete)

    def _layers(self) -> tuple[Layer, Layer]:
        """Both layers, by one split of the parameters: in the backward pass each part would else be as large as all."""
        weight, other_weight = self.shortlist.split(self.weight)
        bias, other_bias = (None, None) if self.bias is None else self.shortlist.split(self.bias)
        return self._mixture(weight, bias), self._tail(other_weight, other_bias)

    def _mixture(self, weight: Tensor, bias: Tensor | None) -> Layer:
        """The mixture over the shortlist, of which weight [F, d] and bias [F] are, and the tail symbol."""
        weight = torch.cat([weight, self.tail_weight])
        if bias is not None and self.tail_bias is not None:
            bias = torch.cat([bias, self.tail_bias])
        inner = [*self.prior.parameters(), *self.latent.parameters()]
        return Layer(self.parts, inner, [weight, bias], self.mixtures, Kernel, self.softcap)

    def _tail(self, weight: Tensor, bias: Tensor | None) -> Layer:
        """The softmax over the tail, of which weight [V - F, d] and bias [V - F] are."""
        return Layer(self.tail_parts, [*self.tail_latent.parameters()], [weight, bias], 1, Kernel, self.softcap)

    def _fused(
        self, hidden: Tensor, targets: CheckedTargets, objective: Objective, per_token: bool
    ) -> tuple[Tensor, Tensor]:
        mixture, tail = self._layers()
        (tokens, probs, kept), size = self.shortlist.targets(targets), len(self.shortlist)
        listed, others = (CheckedTargets(*part, kept) for part in split_targets(tokens, probs, size))
        # The tail symbol counts as often as all tokens that it stands for.
        last = (self.vocab_size - size - 1) * objective.uniform
        loss, nll = fused(mixture, [hidden], listed, replace(objective, last=last), per_token)
        if objective.every_token:
            tail_loss, tail_nll = fused(tail, [hidden], others, objective, per_token)
        else:
            others = others._replace(kept=others.kept & (others.tokens >= 0))
            tail_loss, tail_nll = fused(tail, [hidden], others, objective, per_token, pick=True)
        return loss + tail_loss, nll + tail_nll

    def _entropy(self, hidden: Tensor) -> Tensor:
        """That of shortlist and tail symbol, and that of the tail as often as the token is there."""
        mixture, tail = self._layers()
        rows, mixture = given_parts(mixture, [hidden])
        in_tail = torch.full_like(hidden[:, 0], len(self.shortlist), dtype=torch.long)
        every = CheckedTargets(in_tail, None, torch.ones_like(in_tail, dtype=torch.bool))
        tail_nll, _ = fused(mixture, rows, every, Objective(), True)
        return layer_entropy(mixture, rows) + torch.exp(-tail_nll) * layer_entropy(tail, [hidden])
