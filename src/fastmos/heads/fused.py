"""The fused loss: loss and gradients in one walk over the tokens, in which [N, K, V] numbers never live together.

Blocks of tokens make contexts, chunks of a block make logits, loss and gradients (`kernel.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from fastmos.heads.kernel import Kernel, Parts, Recipe, exact_dtype, slices


@dataclass(frozen=True)
class Layer:
    """How rows (one for each token) become contexts, and contexts become logits over a vocabulary."""

    parts: Parts
    parameters: Sequence[Tensor]  # that `parts` uses
    vocabulary: Sequence[Tensor | None]  # output embedding [V, d], bias [V], and what else the kernel reads
    mixtures: int
    kernel: "type[Kernel]"
    softcap: float | None = None  # logits are softcap tanh(logits / softcap)

    @property
    def weight(self) -> Tensor:
        """The output embedding [V, d]."""
        weight = self.vocabulary[0]
        assert weight is not None
        return weight

    @property
    def bias(self) -> Tensor | None:
        """The bias [V]."""
        return self.vocabulary[1]


class FusedLoss(torch.autograd.Function):
    """Tensors of the vocabulary, rows (N tokens each) and parameters -> loss, nll [N].

    Targets are tokens [N]; or, soft, tokens [N, k] with probs [N, k], or tokens [N, 0] with probs [N, V] of all.
    """

    @staticmethod
    def forward(
        ctx: Any,
        recipe: Recipe,
        targets: Tensor,
        probs: Tensor | None,
        scale: Tensor | None,
        *tensors: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        needs = [recipe.grad_enabled and need for need in ctx.needs_input_grad[4:]]
        ctx.recipe, ctx.needs = recipe, needs
        sweep = Sweep(recipe, tensors, [need and not recipe.per_token for need in needs])
        loss, nll = sweep.run(targets, probs, scale)
        ctx.mark_non_differentiable(nll)
        if recipe.per_token:
            ctx.save_for_backward(targets, probs, scale, *tensors)
            return loss, nll
        ctx.save_for_backward(*sweep.gradients)
        return loss.sum(), nll

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("the fused loss has no second derivative; call backward without create_graph=True")
        if not ctx.recipe.per_token:
            return None, None, None, None, *(None if one is None else one * upstream for one in ctx.saved_tensors)
        targets, probs, scale, *tensors = ctx.saved_tensors
        sweep = Sweep(ctx.recipe, tensors, ctx.needs)
        sweep.run(targets, probs, upstream if scale is None else upstream * scale)
        return None, None, None, None, *sweep.gradients


class Sweep:
    """One walk over the tokens: blocks make contexts, chunks of a block make logits. Gradients where they are needed.

    Gradients add up in float32 (or float64), whatever the inputs are: small ones would vanish in lower precision.
    """

    def __init__(self, recipe: Recipe, tensors: Sequence[Tensor | None], needs: Sequence[bool]) -> None:
        self.recipe = recipe
        self.gradients = [
            torch.zeros_like(one, dtype=exact_dtype(recipe.dtype), memory_format=torch.contiguous_format)
            if need and one is not None
            else None
            for one, need in zip(tensors, needs, strict=True)
        ]
        first, last = recipe.vocabulary, recipe.vocabulary + recipe.rows
        self.vocabulary, self.d_vocabulary = tensors[:first], self.gradients[:first]
        self.rows, self.d_rows = [one for one in tensors[first:last] if one is not None], self.gradients[first:last]
        self.parameters, self.d_parameters = [one for one in tensors[last:] if one is not None], self.gradients[last:]
        self.through = any(one is not None for one in [*self.d_rows, *self.d_parameters])  # on to what makes contexts?

    def run(self, targets: Tensor, probs: Tensor | None, scale: Tensor | None) -> tuple[Tensor, Tensor]:
        """Loss [N] of the tokens times their scale [N], negative log-likelihood [N]."""
        exact = exact_dtype(self.recipe.dtype)
        kernel = self.recipe.kernel(self.recipe, self.vocabulary, self.d_vocabulary, len(targets))
        loss, nll = targets.new_empty(len(targets), dtype=exact), targets.new_empty(len(targets), dtype=exact)
        for block in slices(len(targets), kernel.block_tokens):
            leaves = [row[block].detach() for row in self.rows]
            made = self._parts(leaves)  # contexts [n, K, d], log-prior [n, K]
            wide = exact if made[0].dtype == torch.float16 else None
            d_made = [
                torch.empty_like(one, dtype=wide, memory_format=torch.contiguous_format) if self.through else None
                for one in made
            ]
            with torch.no_grad(), torch.autocast(targets.device.type, enabled=False):
                for chunk in slices(len(made[0]), kernel.tokens):
                    here = slice(block.start + chunk.start, block.start + chunk.stop)
                    loss[here], nll[here] = kernel.chunk(
                        [one[chunk] for one in made],
                        targets[here],
                        None if probs is None else probs[here],
                        None if scale is None else scale[here],
                        [None if one is None else one[chunk] for one in d_made],
                    )
            if self.through:
                self._backpropagate(block, leaves, made, [one for one in d_made if one is not None])
        return loss, nll

    def _parts(self, leaves: list[Tensor]) -> tuple[Tensor, ...]:
        """The contexts of a block, recorded by autograd on their own, apart from any hooks on the graph outside."""
        if not self.through:
            return self.recipe.parts(*leaves)
        for leaf, gradient in zip(leaves, self.d_rows, strict=True):
            leaf.requires_grad_(gradient is not None)
        with torch.enable_grad(), saved_tensors_hooks(_as_is, _as_is):
            return self.recipe.parts(*leaves)

    def _backpropagate(
        self, block: slice, leaves: list[Tensor], outputs: Sequence[Tensor], upstream: list[Tensor]
    ) -> None:
        """Take the gradients of a block's contexts and log-prior on to the inputs these were made from.

        Through float16 they go rescaled, or small ones would vanish where no GradScaler has seen them.
        """
        factor = _rescaling(upstream) if self.recipe.dtype == torch.float16 else None
        if factor is not None:
            upstream = [gradient / factor for gradient in upstream]
        sums = [None if gradient is None else gradient[block] for gradient in self.d_rows] + self.d_parameters
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
                sum_ += gradient if factor is None else gradient.to(sum_.dtype) * factor


def _rescaling(gradients: Sequence[Tensor]) -> Tensor:
    """What gradients [n, ...] are divided by on their way through float16.

    Sums over tokens are then near 1, and single gradients below 2^16.
    """
    sums = torch.linalg.vector_norm(gradients[0], 1, dim=0).amax()
    largest = torch.stack([torch.linalg.vector_norm(one, torch.inf) for one in gradients[1:]]).amax()
    return torch.maximum(sums, largest / 2**15).clamp(min=torch.finfo(sums.dtype).tiny)


def _as_is(tensor: Tensor) -> Tensor:
    return tensor
