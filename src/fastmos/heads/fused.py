"""The fused loss: loss and gradients of a mixture of softmaxes, chunk of tokens by chunk of tokens, in one buffer.

For a token with target y write p_k for the softmax of component k, pi_k for its prior, P = sum_k pi_k p_k for the
mixture and r_k(v) = pi_k p_k(v) / P(v) for the responsibility of component k for code v. Then

    d -log P(y) / d logits_k = r_k(y) (p_k - onehot(y))        d -log P(y) / d log pi_k = -r_k(y)

so the gradients of a chunk follow from its logits at once, and neither [N, K, V] nor [N, V] numbers ever live together.
Beside the three matrix products of a component, a chunk costs one softmax in place: the factor r_k(y) is folded into
the small operands of the products, and the one-hot is a scatter of single numbers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

# Bytes of the buffers for logits, by kind of device. Constants, so that a result never depends on the memory that
# happens to be free. A CPU wants them in its last cache; a GPU wants more tokens at once.
BUFFER_BYTES = {"cpu": 2**25, "cuda": 2**28}
CONTEXT_SHARE = 8  # the contexts of a block of tokens may take this part of those bytes
ALIGNMENT = 16  # rows of a buffer start at multiples of this many numbers, or matrix products slow down by a third

# The row-wise inputs of a block of tokens -> its contexts [n, K, d] and log-prior [n, K].
Parts = Callable[..., tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Recipe:
    """What to compute. The loss of a token is -sum_v a(v) log P(v) with a(v) = everywhere + gold [v = y]."""

    mixtures: int
    dtype: torch.dtype  # of the logits' matrix product
    parts: Parts
    gold: float = 1.0
    everywhere: float = 0.0
    hits: bool = False  # tell the tokens whose target is the best code of the mixture
    each: bool = False  # a loss for each token, whose gradients wait for the backward pass; else the sum
    recording: bool = True  # is autograd recording?


class FusedLoss(torch.autograd.Function):
    """Row-wise inputs (N tokens each) and the parameters that `parts` uses -> loss, nll [N], hits [N]."""

    @staticmethod
    def forward(
        ctx: Any,
        recipe: Recipe,
        targets: Tensor,
        scale: Tensor | None,
        rows: int,
        weight: Tensor,
        bias: Tensor | None,
        *inputs: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        needs = [recipe.recording and need for need in ctx.needs_input_grad[4:]]
        ctx.recipe, ctx.rows, ctx.needs = recipe, rows, needs
        sweep = _Sweep(recipe, weight, bias, inputs[:rows], inputs[rows:], [need and not recipe.each for need in needs])
        loss, nll, hits = sweep.run(targets, scale)
        ctx.mark_non_differentiable(nll, hits)
        if recipe.each:
            ctx.save_for_backward(targets, scale, weight, bias, *inputs)
            return loss, nll, hits
        ctx.save_for_backward(*sweep.gradients)
        return loss.sum(), nll, hits

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("the mixture loss has no second derivative; call backward without create_graph=True")
        if not ctx.recipe.each:
            return None, None, None, None, *(None if one is None else one * upstream for one in ctx.saved_tensors)
        targets, scale, weight, bias, *inputs = ctx.saved_tensors
        sweep = _Sweep(ctx.recipe, weight, bias, inputs[: ctx.rows], inputs[ctx.rows :], ctx.needs)
        sweep.run(targets, upstream if scale is None else upstream * scale)
        return None, None, None, None, *sweep.gradients


class _Sweep:
    """One walk over the tokens: blocks make contexts, chunks of a block make logits. Gradients where they are needed.

    Gradients add up in float32 (or float64), whatever the inputs are: small ones would vanish in lower precision.
    """

    def __init__(
        self,
        recipe: Recipe,
        weight: Tensor,
        bias: Tensor | None,
        rows: Sequence[Tensor],
        parameters: Sequence[Tensor],
        needs: Sequence[bool],
    ) -> None:
        self.recipe, self.weight, self.bias, self.rows, self.parameters = recipe, weight, bias, rows, parameters
        self.gradients = [
            torch.zeros_like(one, dtype=_exact(recipe.dtype), memory_format=torch.contiguous_format)
            if need and one is not None
            else None
            for one, need in zip([weight, bias, *rows, *parameters], needs, strict=True)
        ]
        self.through = any(gradient is not None for gradient in self.gradients[2:])  # on to the contexts and beyond?

    def run(self, targets: Tensor, scale: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Loss [N] of the tokens times their scale [N], negative log-likelihood [N], hits [N]."""
        exact = _exact(self.recipe.dtype)
        kernel = _Kernel(self.recipe, self.weight, self.bias, self.gradients[0], self.gradients[1], len(targets))
        loss, nll = targets.new_empty(len(targets), dtype=exact), targets.new_empty(len(targets), dtype=exact)
        hits = targets.new_zeros(len(targets), dtype=torch.bool)
        for block in slices(len(targets), kernel.block_tokens):
            leaves = [row[block].detach() for row in self.rows]
            contexts, log_prior = self._contexts(leaves)  # [n, K, d], [n, K]
            wide = exact if contexts.dtype == torch.float16 else None
            d_contexts, d_log_prior = (
                torch.empty_like(one, dtype=wide, memory_format=torch.contiguous_format) if self.through else None
                for one in (contexts, log_prior)
            )
            with torch.no_grad(), torch.autocast(targets.device.type, enabled=False):
                for chunk in slices(len(contexts), kernel.tokens):
                    here = slice(block.start + chunk.start, block.start + chunk.stop)
                    loss[here], nll[here], hits[here] = kernel.chunk(
                        contexts[chunk],
                        log_prior[chunk],
                        targets[here],
                        None if scale is None else scale[here],
                        None if d_contexts is None else d_contexts[chunk],
                        None if d_log_prior is None else d_log_prior[chunk],
                    )
            if d_contexts is not None and d_log_prior is not None:
                self._backpropagate(block, leaves, [contexts, log_prior], [d_contexts, d_log_prior])
        return loss, nll, hits

    def _contexts(self, leaves: list[Tensor]) -> tuple[Tensor, Tensor]:
        """The contexts of a block, recorded by autograd on their own, apart from any hooks on the graph outside."""
        if not self.through:
            return self.recipe.parts(*leaves)
        for leaf, gradient in zip(leaves, self.gradients[2:], strict=False):
            leaf.requires_grad_(gradient is not None)
        with torch.enable_grad(), saved_tensors_hooks(_as_is, _as_is):
            return self.recipe.parts(*leaves)

    def _backpropagate(self, block: slice, leaves: list[Tensor], outputs: list[Tensor], upstream: list[Tensor]) -> None:
        """Take the gradients of a block's contexts and log-prior on to the inputs these were made from.

        Through float16 they go in a unit of their own, or small ones would vanish where no GradScaler has seen them.
        """
        unit = _unit(*upstream) if outputs[0].dtype == torch.float16 else None
        if unit is not None:
            upstream = [gradient / unit for gradient in upstream]
        of_rows, of_parameters = self.gradients[2 : 2 + len(leaves)], self.gradients[2 + len(leaves) :]
        sums = [None if gradient is None else gradient[block] for gradient in of_rows] + of_parameters
        wanted = [(one, sum_) for one, sum_ in zip([*leaves, *self.parameters], sums, strict=True) if sum_ is not None]
        ends = [(output, gradient) for output, gradient in zip(outputs, upstream, strict=True) if output.requires_grad]
        found = torch.autograd.grad(
            [output for output, _ in ends],
            [one for one, _ in wanted],
            [gradient for _, gradient in ends],
            allow_unused=True,
        )
        for (_, sum_), gradient in zip(wanted, found, strict=True):
            if gradient is not None:
                sum_ += gradient if unit is None else gradient.to(sum_.dtype) * unit


class _Kernel:
    """Loss and gradients of one chunk of tokens, in buffers that all chunks share."""

    def __init__(
        self,
        recipe: Recipe,
        weight: Tensor,
        bias: Tensor | None,
        d_weight: Tensor | None,
        d_bias: Tensor | None,
        tokens: int,
    ) -> None:
        self.recipe, self.d_weight, self.d_bias = recipe, d_weight, d_bias
        self.codes, width = weight.shape
        exact = _exact(recipe.dtype)
        # float16 has too little range for sums over codes and tokens: there the gradients' products run in float32.
        self.gradient_dtype = torch.bfloat16 if recipe.dtype == torch.bfloat16 else exact
        self.weight, self.gradient_weight = weight.to(recipe.dtype), weight.to(self.gradient_dtype)  # [V, d]
        self.bias = None if bias is None else bias.to(recipe.dtype)  # [V]
        self.whole = recipe.everywhere != 0 or recipe.hits  # does the loss need P(v) of every code?

        buffers = 1 + self.whole + (recipe.dtype != exact)
        self.tokens = min(chunk_tokens(weight, recipe.mixtures, buffers), max(1, tokens))
        width_share = self.codes / (CONTEXT_SHARE * width)
        self.block_tokens = max(self.tokens, int(chunk_tokens(weight, recipe.mixtures, buffers) * width_share))
        shape = self.tokens * recipe.mixtures, row_stride(self.codes)
        self.logits = weight.new_full(shape, -torch.inf, dtype=exact)
        self.second = weight.new_empty(shape, dtype=exact) if self.whole else None
        self.low = weight.new_empty(shape, dtype=recipe.dtype) if recipe.dtype != exact else None

    def chunk(
        self,
        contexts: Tensor,
        log_prior: Tensor,
        targets: Tensor,
        scale: Tensor | None,
        d_contexts: Tensor | None,
        d_log_prior: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Loss [n], negative log-likelihood [n], hits [n]; fills the gradients given, adds to the shared."""
        contexts = contexts.reshape(-1, contexts.shape[-1])  # [nK, d]
        log_prior = log_prior.to(self.logits.dtype)  # [n, K]
        gold = targets[:, None].expand_as(log_prior).reshape(-1, 1)  # [nK, 1]
        logits = self._logits(contexts)  # [nK, stride]
        if self.whole:
            loss, nll, hits, slope, share, d_prior = self._whole(logits, log_prior, targets, gold)
        else:
            nll, slope, share, d_prior = self._gold_only(logits, log_prior, gold)
            loss, hits = nll, torch.zeros_like(targets, dtype=torch.bool)
        if scale is not None:
            counts, scale = scale != 0, scale.to(loss.dtype)
            # The loss of a token that does not count may be infinite, and 0 times that would be nan.
            loss = (loss * scale).where(counts, 0.0)
            share, d_prior = ((one * scale[:, None]).where(counts[:, None], 0.0) for one in (share, d_prior))
        if d_log_prior is not None:
            d_log_prior.copy_(d_prior)
        if d_contexts is not None or self.d_weight is not None or self.d_bias is not None:
            self._multiply(slope[:, : self.codes], contexts, share.reshape(-1, 1), d_contexts)
        return loss, nll, hits

    def _logits(self, contexts: Tensor) -> Tensor:
        """Fill the buffer: logits [nK, V], and -inf in the columns that only align it."""
        logits = self.logits[: len(contexts)]
        logits[:, self.codes :] = -torch.inf
        product = logits if self.low is None else self.low[: len(contexts)]
        out = product[:, : self.codes]
        if self.bias is None:
            torch.mm(contexts.to(out.dtype), self.weight.t(), out=out)
        else:
            torch.addmm(self.bias, contexts.to(out.dtype), self.weight.t(), out=out)
        if self.low is not None:
            logits[:, : self.codes] = out
        return logits

    def _gold_only(self, logits: Tensor, log_prior: Tensor, gold: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """-log P(y) [n]; its gradient by logits, rows [nK, V] times share [n, K]; its gradient by log-prior [n, K]."""
        at_gold = logits.gather(1, gold)[:, 0] - logits.amax(1)  # [nK]
        probs = _softmax(logits, 1, logits)
        log_probs = at_gold + probs.amax(1).log()  # [nK] log p_k(y): right where p_k(y) itself underflows
        joint = log_probs.view_as(log_prior) + log_prior
        log_likelihood = torch.logsumexp(joint, 1, keepdim=True)
        share = torch.exp(joint - log_likelihood)  # r_k(y)
        probs.scatter_add_(1, gold, probs.new_full((1, 1), -1.0).expand_as(gold))
        return -log_likelihood[:, 0], probs, share, -share

    def _whole(
        self, logits: Tensor, log_prior: Tensor, targets: Tensor, gold: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The same, and the loss [n] and hits [n], where every P(v) of the mixture is needed.

        d loss / d logits_k(u) = p_k(u) R_k - a(u) r_k(u) with R_k = sum_v a(v) r_k(v), and d loss / d log pi_k = -R_k.
        """
        assert self.second is not None
        n, mixtures = log_prior.shape
        everywhere, at_gold = self.recipe.everywhere, self.recipe.gold
        logits -= logits.amax(1, keepdim=True)  # or large ones would swallow the log-prior
        probs = _softmax(logits, 1, self.second[: len(logits)])
        log_top = probs.amax(1).log()  # [nK] log-probability of the code whose logit is now 0
        # A component of prior 0, or a code of bias -inf, stays below every other without turning 0 / 0 into nan.
        joint = logits.add_((log_prior.reshape(-1) + log_top)[:, None]).clamp_(min=-1e30)
        joint = joint.view(n, mixtures, -1)  # [n, K, stride] log pi_k p_k(v)
        log_probs, shares = _mix(joint)  # log P(v), r_k(v)
        log_probs = log_probs[:, : self.codes]  # [n, V]
        log_likelihood = log_probs.gather(1, targets[:, None])[:, 0]
        share = shares.view_as(logits).gather(1, gold).view(n, mixtures)  # r_k(y)
        hits = log_probs.argmax(1) == targets
        if everywhere == 0:
            probs.scatter_add_(1, gold, probs.new_full((1, 1), -1.0).expand_as(gold))
            return -log_likelihood, -log_likelihood, hits, probs, share, -share
        loss = -at_gold * log_likelihood - everywhere * log_probs.sum(1)
        total = at_gold * share + everywhere * shares[:, :, : self.codes].sum(2)  # [n, K] R_k
        slope = probs.mul_(total.reshape(-1, 1)).sub_(shares.view_as(probs), alpha=everywhere)
        slope.scatter_add_(1, gold, -at_gold * share.reshape(-1, 1))
        return loss, -log_likelihood, hits, slope, torch.ones_like(share), -total

    def _multiply(self, slope: Tensor, contexts: Tensor, share: Tensor, d_contexts: Tensor | None) -> None:
        """The products that take gradients by logits, slope [nK, V] times share [nK, 1], to contexts and embedding."""
        if self.d_bias is not None:
            self.d_bias.addmv_(slope.t(), share[:, 0])
        if self.low is not None and self.gradient_dtype == self.low.dtype:
            slope = self.low[: len(slope), : self.codes].copy_(slope)
        if d_contexts is not None:
            d_contexts.view_as(contexts).copy_(torch.mm(slope, self.gradient_weight).mul_(share))
        if self.d_weight is not None:
            small = (contexts * share).to(slope.dtype)  # [nK, d]
            if slope.dtype == self.d_weight.dtype:
                self.d_weight.addmm_(slope.t(), small)
            else:
                self.d_weight += torch.mm(slope.t(), small)


def _exact(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _unit(d_contexts: Tensor, d_log_prior: Tensor) -> Tensor:
    """The unit in which gradients pass through float16: sums over tokens are near 1, the log-prior's below 2^16."""
    sums = torch.linalg.vector_norm(d_contexts, 1, dim=0).amax()
    largest = torch.linalg.vector_norm(d_log_prior, torch.inf)
    return torch.maximum(sums, largest / 2**15).clamp(min=torch.finfo(sums.dtype).tiny)


def row_stride(codes: int) -> int:
    """Numbers from row to row of a buffer: aligned, but no multiple of a page, or rows would fight for cache lines."""
    stride = -(-codes // ALIGNMENT) * ALIGNMENT
    return stride + ALIGNMENT if stride % 1024 == 0 else stride


def _mix(joint: Tensor) -> tuple[Tensor, Tensor]:
    """Log-sum-exp [n, V] and softmax [n, K, V] over components; the softmax takes the place of `joint`."""
    if joint.shape[1] == 1:
        return joint[:, 0], joint.new_ones(1, 1, 1).expand_as(joint)
    best = joint.amax(1)
    shares = _softmax(joint, 1, joint)
    return best - shares.amax(1).log(), shares


def _softmax(logits: Tensor, dim: int, out: Tensor) -> Tensor:
    """A softmax written to `out`, which may be its own input on a CPU (kernels elsewhere do not promise that)."""
    if out is logits and not logits.is_cpu:
        return torch.softmax(logits, dim)
    return torch.softmax(logits, dim, out=out)


def chunk_tokens(weight: Tensor, mixtures: int, buffers: int) -> int:
    """Tokens whose logits fit into this many buffers together."""
    budget = BUFFER_BYTES.get(weight.device.type, BUFFER_BYTES["cpu"])
    size = 8 if weight.dtype == torch.float64 else 4
    return max(1, budget // (buffers * mixtures * row_stride(len(weight)) * size))


def slices(count: int, most: int) -> Iterator[slice]:
    """Cut `count` tokens into the fewest pieces of at most `most`, of nearly equal size."""
    size = -(-count // -(-count // most)) if count else 1
    for start in range(0, count, size):
        yield slice(start, min(count, start + size))


def _as_is(tensor: Tensor) -> Tensor:
    return tensor
