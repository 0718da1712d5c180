"""A mixture over the frequent tokens whose components share the logits of all others: it can start as a given softmax.

The shortlist S holds the F most frequent tokens, the tail T the others. Component k has logits z_k of its own over S;
those over T, z_0, are common. With Z_k = sum of exp(z_k) over S + Z_T, and Z_T = sum of exp(z_0) over T,

    P(x) = sum_k pi_k exp(z_k(x)) / Z_k       for x in S
    P(x) = exp(z_0(x)) sum_k pi_k / Z_k       for x in T

So each component is a softmax over S and one symbol for the tail, whose logit is log Z_T. A token costs K F + V - F
logits, whatever its target is. Where all contexts are g, as residual contexts are at first, this is softmax(g W^T + b).
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fastmos.heads.fused import Layer
from fastmos.heads.kernel import LOWEST, Kernel, Objective, Recipe, exact_dtype, softmax
from fastmos.heads.log_probs import in_chunks, soft_capped
from fastmos.heads.loss import fused
from fastmos.heads.products import linear
from fastmos.heads.shortlist import ShortlistHead, split_targets
from fastmos.heads.targets import CheckedTargets


class Tail(Kernel):
    """The softmax over the tail of a chunk: its loss and log Z_T first, its gradients when the mixture's are known."""

    def begin(self, context: Tensor, targets: Tensor, probs: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Loss [n] and nll [n], 0 where the target is not in the tail, and log Z_T [n, 1]."""
        logits = self.rows(len(context))
        self.products.logits(context, logits[:, : self.vocab_size])
        self.bend = self.cap(logits)
        top = logits.amax(1, keepdim=True)
        if self.second is None:
            self.columns, inside = targets.clamp(min=0)[:, None], (targets >= 0)[:, None]
            at_target = logits.gather(1, self.columns) - top
            self.probs = softmax(logits, 1, logits)
            log_top = self.probs.amax(1, keepdim=True).log()
            self.total = inside.to(logits.dtype)
            loss = nll = -(at_target + log_top).where(inside, 0.0)[:, 0]
        else:
            logits -= top
            self.probs = softmax(logits, 1, self.second[: len(logits)])
            log_top = self.probs.amax(1, keepdim=True).log()
            log_probs = logits.add_(log_top).clamp_(min=LOWEST[logits.dtype])[:, : self.vocab_size]
            nll, self.weights = self.weigh(log_probs, targets, probs)
            loss = nll if self.objective.entropy else -(self.weights * log_probs).sum(1)
            self.total = self.weights.sum(1, keepdim=True)
        return loss, nll, top - log_top

    def finish(self, factor: Tensor, d_log_z: Tensor) -> Tensor:
        """Gradient [n, T] by the logits of this loss times a factor [n, 1], and of log Z_T times d_log_z [n, 1]."""
        total = factor * self.total
        slope = self.probs.mul_(total + d_log_z)
        if self.second is None:
            slope.scatter_add_(1, self.columns, -total)
        else:
            slope[:, : self.vocab_size] -= self.weights.mul_(factor)
        if self.bend is not None:
            slope *= self.bend
        return slope[:, : self.vocab_size]


class SharedTailKernel(Kernel):
    """The mixture over shortlist and tail symbol (whose embedding is 0, so that log Z_T is its logit), and the tail."""

    def __init__(
        self, recipe: Recipe, vocabulary: Sequence[Tensor | None], gradients: Sequence[Tensor | None], tokens: int
    ) -> None:
        of_tail = replace(recipe, mixtures=1, objective=replace(recipe.objective, last=0.0))
        self.tail = Tail(of_tail, vocabulary[2:], gradients[2:], tokens)
        super().__init__(recipe, vocabulary[:2], gradients[:2], self.tail.tokens)

    def chunk(
        self,
        made: Sequence[Tensor],
        targets: Tensor,
        probs: Tensor | None,
        scale: Tensor | None,
        d_made: Sequence[Tensor | None],
    ) -> tuple[Tensor, Tensor]:
        *mixture, context = made
        *d_mixture, d_context = d_made
        context = context.flatten(0, 1)  # [n, d]
        listed, others = split_targets(targets, probs, self.vocab_size - 1)
        tail_loss, tail_nll, self.log_z = self.tail.begin(context, *others)
        self.tail_entropy, self.factor = tail_loss, torch.ones_like(self.log_z)
        loss, nll = super().chunk(mixture, *listed, scale, d_mixture)
        if not self.objective.entropy:
            loss = loss + (tail_loss if scale is None else (tail_loss * scale).where(scale != 0, 0.0))
        if d_context is not None or self.tail.needs_gradients:
            factor = self.factor if scale is None else self.factor * scale[:, None]
            self.tail.products.backward(self.tail.finish(factor, self.d_log_z), None, context, d_context)
        return loss, nll + tail_nll

    def cap(self, logits: Tensor) -> Tensor | None:
        bend = super().cap(logits)
        last = self.vocab_size - 1
        logits.view(len(self.log_z), -1, logits.shape[1])[:, :, last] = self.log_z
        if bend is not None:
            bend[:, last] = 1
        return bend

    def differentiate(
        self, logits: Tensor, log_prior: Tensor, targets: Tensor, probs: Tensor | None, scale: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        found = super().differentiate(logits, log_prior, targets, probs, scale)
        _, _, slope, share, _ = found
        self.d_log_z = (slope[:, -1].view_as(share) * share).sum(1, keepdim=True)  # [n, 1]
        return found

    def weigh(self, log_probs: Tensor, targets: Tensor, target_probs: Tensor | None) -> tuple[Tensor, Tensor]:
        """The entropy has that of the tail besides, as often as the token is there."""
        nll, weights = super().weigh(log_probs, targets, target_probs)
        if self.objective.entropy:
            self.factor = log_probs[:, -1:].exp()
            inside = self.factor[:, 0] * self.tail_entropy
            nll += inside
            weights[:, -1] -= inside
        return nll, weights


class SharedTailMixture(ShortlistHead):
    """A mixture over the tokens of a shortlist, whose components share the logits of all other tokens.

    With contexts "residual" and the weights of a softmax it starts as that softmax, at 1 + (K - 1) F / V times its
    price; a `ShortlistMixture` is cheaper, but cannot. All arguments are as there.
    """

    def all_parts(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Contexts [..., K, d] and log-prior [..., K] of the mixture, context h_0 [..., 1, d] of the tail."""
        return *self.parts(hidden), self.tail_context(hidden)

    def log_probs(self, hidden: Tensor) -> Tensor:
        return self.shortlist.restore(in_chunks(self._log_probs, hidden, self.weight))

    def component_log_probs(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Every softmax divides the tail's logits, which all share, by its own sum."""
        logits, others, log_prior, norm = self._logits(hidden)
        log_probs = torch.cat([logits - norm[..., None], others[..., None, :] - norm[..., None]], -1)  # [..., K, V]
        return log_prior, self.shortlist.restore(log_probs)

    def _log_probs(self, hidden: Tensor) -> Tensor:
        """By the formula, the shortlist first."""
        logits, others, log_prior, norm = self._logits(hidden)
        factor = log_prior - norm
        listed = torch.logsumexp(logits + factor[..., None], -2)
        return torch.cat([listed, others + factor.logsumexp(-1, keepdim=True)], -1)

    def _logits(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Logits [..., K, F] of the shortlist and [..., V - F] of the others, log-prior and log Z_k [..., K]."""
        contexts, log_prior, context = self.all_parts(hidden)
        weight, other_weight = self.shortlist.split(self.weight)
        bias, other_bias = (None, None) if self.bias is None else self.shortlist.split(self.bias)
        logits = soft_capped(linear(contexts, weight, bias), self.softcap)  # [..., K, F]
        others = soft_capped(linear(context[..., 0, :], other_weight, other_bias), self.softcap)  # [..., V - F]
        logits, others, log_prior = (one.to(exact_dtype(one.dtype)) for one in (logits, others, log_prior))
        log_z = others.logsumexp(-1, keepdim=True)  # [..., 1]
        return logits, others, log_prior, torch.logaddexp(logits.logsumexp(-1), log_z)

    def _fused(
        self, hidden: Tensor, targets: CheckedTargets, objective: Objective, per_token: bool
    ) -> tuple[Tensor, Tensor]:
        # The tail symbol counts as often as all tokens that it stands for.
        last = (self.vocab_size - len(self.shortlist) - 1) * objective.uniform
        objective = replace(objective, last=last)
        return fused(self._layer(), [hidden], self.shortlist.targets(targets), objective, per_token)

    def _layer(self) -> Layer:
        weight, other_weight = self.shortlist.split(self.weight)
        weight, bias, other_bias = torch.cat([weight, torch.zeros_like(weight[:1])]), None, None
        if self.bias is not None:
            bias, other_bias = self.shortlist.split(self.bias)
            bias = torch.cat([bias, torch.zeros_like(bias[:1])])
        inner = [*self.prior.parameters(), *self.latent.parameters(), *self.tail_latent.parameters()]
        vocabulary = [weight, bias, other_weight, other_bias]
        return Layer(self.all_parts, inner, vocabulary, self.mixtures, SharedTailKernel, self.softcap)
