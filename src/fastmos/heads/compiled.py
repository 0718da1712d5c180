"""The fused loss as one operator of torch, so that `torch.compile(fullgraph=True)` and `torch.export` can contain it.

A compiled graph does not look into the operator, so contexts are made outside of it, for all tokens, and its arguments
are plain: tensors and numbers in place of a recipe.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fastmos.heads.fused import Sweep
from fastmos.heads.kernel import Kernel, Objective, Recipe, as_given, exact_dtype


def compiled_loss(
    recipe: Recipe, tensors: Sequence[Tensor | None], targets: Tensor, probs: Tensor | None, kept: Tensor, pick: bool
) -> tuple[Tensor, Tensor]:
    """Loss (the sum, or [N]) and nll [N] of tensors as `FusedLoss` takes them, but without parameters."""
    objective, given = recipe.objective, [one for one in tensors if one is not None]
    loss, nll, *_ = torch.ops.fastmos.fused_loss(
        given,
        targets,
        probs,
        kept,
        None,
        [recipe.grad_enabled and one.requires_grad for one in given],
        [one is not None for one in tensors],
        recipe.kernel.__name__,
        [recipe.mixtures, recipe.vocabulary, recipe.rows],
        [objective.target, objective.uniform, objective.last, objective.z_loss],
        [objective.soft, objective.entropy, recipe.per_token, pick],
        recipe.softcap,
        recipe.dtype,
    )
    return loss, nll.detach()


@torch.library.custom_op("fastmos::fused_loss", mutates_args=())
def fused_loss(
    tensors: Sequence[Tensor],
    targets: Tensor,
    probs: Tensor | None,
    kept: Tensor,
    upstream: Tensor | None,
    needs: Sequence[bool],
    present: Sequence[bool],
    kernel: str,
    sizes: Sequence[int],
    weights: Sequence[float],
    flags: Sequence[bool],
    softcap: float | None,
    dtype: torch.dtype,
) -> list[Tensor]:
    """Loss (the sum, or [N]), nll [N], and the gradients of those tensors that need one.

    A loss for each token has no gradients yet: they come from a second call, with its upstream gradient [N].
    """
    (mixtures, vocabulary, rows), (soft, entropy, per_token, pick) = sizes, flags
    target, uniform, last, z_loss = weights
    objective, kernels = (
        Objective(target, uniform, last, z_loss, soft, entropy),
        {one.__name__: one for one in _kernels()},
    )
    recipe = Recipe(as_given, mixtures, kernels[kernel], vocabulary, rows, objective, softcap, dtype, per_token, True)
    chosen = kept.nonzero()[:, 0] if pick else None
    split = len(tensors) - rows
    given = [*tensors[:split], *(_counted(row, kept, chosen) for row in tensors[split:])]
    inputs, wanted = iter(given), iter(needs)
    now = upstream is not None or not per_token
    sweep = Sweep(
        recipe,
        [next(inputs) if here else None for here in present],
        [now and next(wanted) if here else False for here in present],
    )
    if chosen is None:
        loss, nll = sweep.run(targets, probs, kept if upstream is None else upstream * kept)
        nll = nll.where(kept, 0.0)
        gradients = sweep.gradients
    else:
        picked, scale = (None if one is None else one[chosen] for one in (probs, upstream))
        loss, nll = sweep.run(targets[chosen], picked, scale)
        loss, nll = (_put_back(one, kept, chosen) for one in (loss, nll))
        of_rows = (None if one is None else _put_back(one, kept, chosen) for one in sweep.d_rows)
        gradients = [*sweep.d_vocabulary, *of_rows]
    return [loss if per_token else loss.sum(), nll, *(one for one in gradients if one is not None)]


def _kernels() -> list[type[Kernel]]:
    return [Kernel, *Kernel.__subclasses__()]


def _counted(row: Tensor, kept: Tensor, chosen: Tensor | None) -> Tensor:
    """The rows that count; or all, with 0 for the others, in which nan may stand."""
    return row.where(kept.view(-1, *[1] * (row.ndim - 1)), 0.0) if chosen is None else row[chosen]


def _put_back(values: Tensor, kept: Tensor, chosen: Tensor) -> Tensor:
    """Values of the chosen tokens among 0 for the others."""
    return values.new_zeros(len(kept), *values.shape[1:]).index_copy_(0, chosen, values)


@fused_loss.register_fake
def _fake(
    tensors: Sequence[Tensor],
    targets: Tensor,
    probs: Tensor | None,
    kept: Tensor,
    upstream: Tensor | None,
    needs: Sequence[bool],
    present: Sequence[bool],
    kernel: str,
    sizes: Sequence[int],
    weights: Sequence[float],
    flags: Sequence[bool],
    softcap: float | None,
    dtype: torch.dtype,
) -> list[Tensor]:
    per_token, exact = flags[2], exact_dtype(dtype)
    nll = torch.empty_like(kept, dtype=exact)
    gradients = [
        torch.empty_like(one, dtype=exact, memory_format=torch.contiguous_format)
        for one, need in zip(tensors, needs, strict=True)
        if need and (upstream is not None or not per_token)
    ]
    return [torch.empty_like(nll) if per_token else nll.new_empty(()), nll, *gradients]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    tensors, targets, probs, kept, _, *settings = inputs
    ctx.settings, ctx.per_token = settings, settings[5][2]
    if ctx.per_token:
        ctx.save_for_backward(targets, probs, kept, *tensors)
    else:
        ctx.save_for_backward(*output[2:])


def _backward(ctx: Any, upstream: list[Tensor]) -> tuple[Any, ...]:
    if ctx.per_token:
        targets, probs, kept, *tensors = ctx.saved_tensors
        found = torch.ops.fastmos.fused_loss(tensors, targets, probs, kept, upstream[0], *ctx.settings)[2:]
    else:
        found = [one * upstream[0] for one in ctx.saved_tensors]
    gradients = iter(found)
    return [next(gradients) if need else None for need in ctx.settings[0]], *[None] * 12


fused_loss.register_autograd(_backward, setup_context=_setup)
