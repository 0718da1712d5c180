"""Loss and gradients of one chunk of tokens, in buffers that all chunks share.

For a token with target y write p_k for the softmax of component k, pi_k for its prior, P = sum_k pi_k p_k for the
mixture and r_k(v) = pi_k p_k(v) / P(v) for the responsibility of component k for token v. Then

    d -log P(y) / d logits_k = r_k(y) (p_k - onehot(y))        d -log P(y) / d log pi_k = -r_k(y)

so the gradients of a chunk follow from its logits at once. Beside the three matrix products of a component, a chunk
costs one softmax in place: the factor r_k(y) is folded into the small operands of the products, and the one-hot is a
scatter of single numbers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fastmos.heads import products

# Bytes of the buffers for logits, by kind of device. Constants, so that a result never depends on the memory that
# happens to be free. A CPU wants them in its last cache; a GPU wants more tokens at once.
BUFFER_BYTES = {"cpu": 2**24, "cuda": 2**28}
CONTEXT_SHARE = 8  # the contexts of a block of tokens may take this part of those bytes
LOWEST = {dtype: torch.finfo(dtype).min for dtype in (torch.float32, torch.float64)}
ALIGNMENT = 16  # rows of a buffer start at multiples of this many numbers, or matrix products slow down by a third

# The row-wise inputs of a block of tokens -> what a kernel reads, of a mixture contexts [n, K, d] and log-prior [n, K].
Parts = Callable[..., tuple[Tensor, ...]]


@dataclass(frozen=True)
class Objective:
    """The loss of a token is -sum_v a(v) log P(v) + z_loss mean_k (log Z_k)^2, where Z_k normalizes component k.

    Here a(v) = uniform + target q(v) + last [v is the last token], with q the one-hot of the target or, where targets
    are soft, given probabilities. A target of -1 is no token of the vocabulary. Or the loss is the entropy of P.
    """

    target: float = 1.0
    uniform: float = 0.0
    last: float = 0.0
    z_loss: float = 0.0
    soft: bool = False
    entropy: bool = False

    @property
    def every_token(self) -> bool:
        """Does log P of every token count, or of the target alone?"""
        return self.uniform != 0 or self.soft or self.entropy


@dataclass(frozen=True)
class Recipe:
    """What to compute. The tensors come in this order: the vocabulary's, the rows, the parameters of `parts`."""

    parts: Parts
    mixtures: int
    kernel: "type[Kernel]"
    vocabulary: int  # how many tensors are the vocabulary's
    rows: int  # how many have a row for each token
    objective: Objective
    softcap: float | None
    dtype: torch.dtype  # of the logits' matrix product
    per_token: bool  # a loss for each token, whose gradients wait for the backward pass; else the sum
    grad_enabled: bool  # is autograd recording?


class Products:
    """The three matrix products of one output embedding [V, d]: logits, and gradients by contexts and by itself."""

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        d_weight: Tensor | None,
        d_bias: Tensor | None,
        dtype: torch.dtype,
        rows: int,
    ) -> None:
        exact = exact_dtype(dtype)
        # float16 has too little range for sums over V and tokens: there the gradients' products run in float32.
        gradient_dtype = torch.bfloat16 if dtype == torch.bfloat16 else exact
        self.weight, self.gradient_weight = weight.to(dtype), weight.to(gradient_dtype)  # [V, d]
        self.bias = None if bias is None else bias.to(dtype)  # [V]
        self.d_weight, self.d_bias = d_weight, d_bias
        self.low = weight.new_empty(rows, row_stride(len(weight)), dtype=dtype) if dtype != exact else None

    def logits(self, contexts: Tensor, out: Tensor) -> None:
        """Fill `out` [n, V] with the logits of contexts [n, d]."""
        product = out if self.low is None else self.low[: len(out), : out.shape[1]]
        products.logits(contexts.to(product.dtype), self.weight, self.bias, product)
        if self.low is not None:
            out.copy_(product)

    def backward(self, slope: Tensor, share: Tensor | None, contexts: Tensor, d_contexts: Tensor | None) -> None:
        """Take gradients by logits, slope [n, V] times share [n, 1], to contexts [n, d] and to what belongs to V."""
        if self.d_bias is not None:
            _ = self.d_bias.add_(slope.sum(0)) if share is None else self.d_bias.addmv_(slope.t(), share[:, 0])
        if self.low is not None and self.gradient_weight.dtype == self.low.dtype:
            slope = self.low[: len(slope), : slope.shape[1]].copy_(slope)
        if d_contexts is not None:
            gradient = products.mm(slope, self.gradient_weight)
            d_contexts.view_as(contexts).copy_(gradient if share is None else gradient.mul_(share))
        if self.d_weight is not None:
            small = (contexts if share is None else contexts * share).to(slope.dtype)  # [n, d]
            if slope.dtype == self.d_weight.dtype:
                products.addmm_(self.d_weight, slope.t(), small)
            else:
                self.d_weight += torch.mm(slope.t(), small)


class Kernel:
    """Loss and gradients of one chunk of tokens, in buffers that all chunks share; here for a mixture of softmaxes."""

    def __init__(
        self, recipe: Recipe, vocabulary: Sequence[Tensor | None], gradients: Sequence[Tensor | None], tokens: int
    ) -> None:
        weight = vocabulary[0]
        assert weight is not None
        self.objective, self.softcap, exact = recipe.objective, recipe.softcap, exact_dtype(recipe.dtype)
        self.vocab_size, embedding_size = weight.shape
        every, capped, low = recipe.objective.every_token, recipe.softcap is not None, recipe.dtype != exact
        buffers = 1 + every * (1 + 1 / recipe.mixtures) + capped + low
        most = chunk_tokens(weight, recipe.mixtures, buffers)
        self.tokens = min(most, max(1, tokens))
        self.block_tokens = max(self.tokens, int(most * self.vocab_size / (CONTEXT_SHARE * embedding_size)))
        shape = self.tokens * recipe.mixtures, row_stride(self.vocab_size)
        self.buffer = weight.new_empty(shape, dtype=exact)
        self.second = weight.new_empty(shape, dtype=exact) if every else None
        self.bends = weight.new_empty(shape, dtype=exact) if capped else None
        self.needs_gradients = any(gradient is not None for gradient in gradients)
        self.make_products(recipe, vocabulary, gradients)

    def make_products(
        self, recipe: Recipe, vocabulary: Sequence[Tensor | None], gradients: Sequence[Tensor | None]
    ) -> None:
        (weight, bias), (d_weight, d_bias) = vocabulary, gradients
        assert weight is not None
        self.products = Products(weight, bias, d_weight, d_bias, recipe.dtype, len(self.buffer))

    def chunk(
        self,
        made: Sequence[Tensor],
        targets: Tensor,
        probs: Tensor | None,
        scale: Tensor | None,
        d_made: Sequence[Tensor | None],
    ) -> tuple[Tensor, Tensor]:
        """Loss [n], negative log-likelihood [n]; fills the gradients given, adds to the vocabulary's."""
        contexts, log_prior = made
        d_contexts, d_log_prior = d_made
        contexts = contexts.reshape(-1, contexts.shape[-1])  # [nK, d]
        logits = self.rows(len(contexts))
        self.products.logits(contexts, logits[:, : self.vocab_size])
        loss, nll, slope, share, d_prior = self.differentiate(logits, log_prior, targets, probs, scale)
        if d_log_prior is not None:
            d_log_prior.copy_(d_prior)
        if d_contexts is not None or self.needs_gradients:
            self.products.backward(slope, share.reshape(-1, 1), contexts, d_contexts)
        return loss, nll

    def rows(self, count: int) -> Tensor:
        """Rows [count, stride] of the buffer for logits, with -inf in the columns that only align it."""
        rows = self.buffer[:count]
        rows[:, self.vocab_size :] = -torch.inf
        return rows

    def differentiate(
        self, logits: Tensor, log_prior: Tensor, targets: Tensor, probs: Tensor | None, scale: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Loss [n], nll [n]; gradient by logits: rows [nK, V] times share [n, K]; gradient by log-prior [n, K]."""
        log_prior = log_prior.to(logits.dtype)  # [n, K]
        bend = self.cap(logits)
        if self.second is None:
            loss, nll, slope, share, d_prior = self._target_only(logits, log_prior, targets)
        else:
            loss, nll, slope, share, d_prior = self._every_token(logits, log_prior, targets, probs)
        if bend is not None:
            slope *= bend
        if scale is not None:
            counts, scale = scale != 0, scale.to(loss.dtype)
            # The loss of a token that does not count may be infinite, and 0 times that would be nan.
            loss = (loss * scale).where(counts, 0.0)
            share, d_prior = ((one * scale[:, None]).where(counts[:, None], 0.0) for one in (share, d_prior))
        return loss, nll, slope[:, : self.vocab_size], share, d_prior

    def cap(self, logits: Tensor) -> Tensor | None:
        """Cap logits [nK, stride] in place, if they are to be; the slope of that."""
        if self.bends is None or self.softcap is None:
            return None
        bend = torch.div(logits, self.softcap, out=self.bends[: len(logits)]).tanh_()
        torch.mul(bend[:, : self.vocab_size], self.softcap, out=logits[:, : self.vocab_size])
        return bend.square_().neg_().add_(1)

    def _target_only(
        self, logits: Tensor, log_prior: Tensor, targets: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Where the loss is -log P(y): one softmax in place."""
        columns = targets[:, None].expand_as(log_prior).reshape(-1, 1)  # [nK, 1]
        top = logits.amax(1)
        at_target = logits.gather(1, columns)[:, 0] - top  # [nK]
        probs = softmax(logits, 1, logits)
        log_top = probs.amax(1).log()
        log_probs = at_target + log_top  # [nK] log p_k(y): right where p_k(y) itself underflows
        joint = log_probs.view_as(log_prior) + log_prior
        log_likelihood = torch.logsumexp(joint, 1, keepdim=True)
        share = torch.exp(joint - log_likelihood)  # r_k(y)
        loss = nll = -log_likelihood[:, 0]
        if self.objective.z_loss == 0:
            probs.scatter_add_(1, columns, probs.new_full((1, 1), -1.0).expand_as(columns))
            return loss, nll, probs, share, -share
        z_loss, d_log_z = self._z_loss((top - log_top).view_as(share))
        probs.mul_((share + d_log_z).view(-1, 1)).scatter_add_(1, columns, -share.view(-1, 1))
        return loss + z_loss, nll, probs, torch.ones_like(share), -share

    def _every_token(
        self, logits: Tensor, log_prior: Tensor, targets: Tensor, target_probs: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Where log P of every token counts.

        d loss / d logits_k(u) = p_k(u) R_k - a(u) r_k(u) with R_k = sum_v a(v) r_k(v), and d loss / d log pi_k = -R_k.
        """
        assert self.second is not None
        n, mixtures = log_prior.shape
        top = logits.amax(1, keepdim=True)
        logits -= top  # or large ones would swallow the log-prior
        probs = softmax(logits, 1, self.second[: len(logits)])
        log_top = probs.amax(1, keepdim=True).log()  # [nK, 1] log-probability of the token whose logit is now 0
        # A component of prior 0, or a token of bias -inf, stays below every other without turning 0 / 0 into nan.
        joint = logits.add_(log_prior.reshape(-1, 1) + log_top).clamp_(min=LOWEST[logits.dtype])
        log_probs, shares = _mix(joint.view(n, mixtures, -1))  # log P(v), r_k(v), of log pi_k p_k(v) [n, K, stride]
        log_probs, shares = log_probs[:, : self.vocab_size], shares[:, :, : self.vocab_size]
        nll, weights = self.weigh(log_probs, targets, target_probs)  # [n], a(v) [n, V]
        loss = nll if self.objective.entropy else -(weights * log_probs).sum(1)
        shares = weights[:, None] if mixtures == 1 else shares.mul_(weights[:, None])
        total = shares.sum(2)  # [n, K] R_k
        z_loss, d_log_z = self._z_loss((top - log_top).view(n, mixtures))
        probs.view(n, mixtures, -1)[:, :, : self.vocab_size].mul_((total + d_log_z)[:, :, None]).sub_(shares)
        return loss + z_loss, nll, probs, torch.ones_like(total), -total

    def weigh(self, log_probs: Tensor, targets: Tensor, target_probs: Tensor | None) -> tuple[Tensor, Tensor]:
        """Negative log-likelihood [n] of the targets (or the entropy), and the weight a(v) [n, V] of every token."""
        objective = self.objective
        if objective.entropy:  # its gradient by log P(v) is -P(v) (log P(v) + 1)
            probs = log_probs.exp()
            return -(probs * log_probs).sum(1), probs.mul_(log_probs + 1)
        weights = torch.full_like(log_probs, objective.uniform)
        weights[:, -1] += objective.last
        target_probs = None if target_probs is None else target_probs.to(log_probs.dtype)
        if target_probs is not None and target_probs.shape != targets.shape:  # of all tokens
            return -(target_probs * log_probs).sum(1), weights.add_(target_probs, alpha=objective.target)
        tokens = targets.view(len(targets), -1)  # [n, k]
        found = (tokens >= 0).to(weights.dtype)
        found = found if target_probs is None else found * target_probs
        tokens = tokens.clamp(min=0)
        nll = -(found * log_probs.gather(1, tokens)).sum(1)
        return nll, weights.scatter_add_(1, tokens, objective.target * found)

    def _z_loss(self, log_z: Tensor) -> tuple[Tensor, Tensor]:
        """Its value [n], and its gradient by log Z_k [n, K]."""
        if self.objective.z_loss == 0:  # 0 times the square of a large number would be nan
            return log_z.new_zeros(len(log_z)), torch.zeros_like(log_z)
        weight = self.objective.z_loss / log_z.shape[1]
        return weight * log_z.square().sum(1), 2 * weight * log_z


def exact_dtype(dtype: torch.dtype) -> torch.dtype:
    """In which sums are made."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def row_stride(vocab_size: int) -> int:
    """Numbers from row to row of a buffer: aligned, but no multiple of a page, or rows would fight for cache lines."""
    stride = -(-vocab_size // ALIGNMENT) * ALIGNMENT
    return stride + ALIGNMENT if stride % 1024 == 0 else stride


def _mix(joint: Tensor) -> tuple[Tensor, Tensor]:
    """Log-sum-exp [n, V] and softmax [n, K, V] over components; the softmax takes the place of `joint`."""
    if joint.shape[1] == 1:
        return joint[:, 0], joint.new_ones(1, 1, 1).expand_as(joint)
    best = joint.amax(1)
    shares = softmax(joint, 1, joint)
    return best - shares.amax(1).log(), shares


def softmax(logits: Tensor, dim: int, out: Tensor) -> Tensor:
    """A softmax written to `out`, which may be its own input on a CPU (kernels elsewhere do not promise that)."""
    if out is logits and not logits.is_cpu:
        return torch.softmax(logits, dim)
    return torch.softmax(logits, dim, out=out)


def chunk_tokens(weight: Tensor, mixtures: int, buffers: float) -> int:
    """Tokens whose logits fit into this many buffers together."""
    budget = BUFFER_BYTES.get(weight.device.type, BUFFER_BYTES["cpu"])
    size = 8 if weight.dtype == torch.float64 else 4
    return max(1, int(budget / (buffers * mixtures * row_stride(len(weight)) * size)))


def slices(count: int, most: int) -> Iterator[slice]:
    """Cut `count` tokens into the fewest pieces of at most `most`, of nearly equal size."""
    size = -(-count // -(-count // most)) if count else 1
    for start in range(0, count, size):
        yield slice(start, min(count, start + size))


def as_given(*rows: Tensor) -> tuple[Tensor, ...]:
    """The `parts` of a layer whose rows are contexts and log-prior already."""
    return rows
