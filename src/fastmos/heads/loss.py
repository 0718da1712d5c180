"""The exact mixture loss -log sum_k pi_k softmax(h_k W^T + b)[y]: the formula, and the fast way to the same numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fastmos.heads.compiled import compiled_loss
from fastmos.heads.fused import FusedLoss, Layer
from fastmos.heads.kernel import Kernel, Objective, Recipe, as_given, slices
from fastmos.heads.log_probs import log_mixture, log_probabilities, product_dtype
from fastmos.heads.targets import DEFAULT, CheckedTargets, LossOptions, check_targets

COUNTED_TOKENS = 256  # whose log-probabilities are alive at once while correct predictions are counted


@dataclass(frozen=True)
class HeadOutput:
    """What a head returns for targets."""

    loss: Tensor  # reduced as asked; [...] for reduction="none"
    nll: Tensor  # [...] un-smoothed negative log-likelihood of each token, 0 where ignored; carries no gradient
    tokens: Tensor  # [] how many targets were not ignored
    correct: Tensor | None = None  # [] how many of them were the most probable token, where asked for


def mixture_nll(
    contexts: Tensor,
    log_prior: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    options: LossOptions = DEFAULT,
    target_probs: Tensor | None = None,
) -> HeadOutput:
    """Loss of contexts [..., K, d], log-prior [..., K], output embedding weight [V, d] and bias [V] at targets [...].

    Exact; beside inputs and gradients it needs a constant amount of memory. Soft targets are probabilities [..., V], or
    tokens [..., k] with `target_probs` [..., k].
    """
    _check_shapes(contexts, log_prior, weight, bias)
    checked = check_targets(targets, target_probs, contexts.shape[:-2], len(weight), options)
    rows = [contexts.reshape(-1, *contexts.shape[-2:]), log_prior.reshape(-1, log_prior.shape[-1])]
    layer = Layer(as_given, [], [weight, bias], contexts.shape[-2], Kernel)
    loss, nll = fused(layer, rows, checked, options.objective(len(weight), checked.soft), options.reduction == "none")
    return head_output(
        loss,
        nll,
        checked,
        options,
        contexts.shape[:-2],
        lambda: best_tokens(lambda *some: log_probabilities(layer, some), rows),
    )


def mixture_nll_reference(
    contexts: Tensor,
    log_prior: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    options: LossOptions = DEFAULT,
) -> HeadOutput:
    """The same by the plain formula, which holds [N, K, V] numbers: what `mixture_nll` is tested against."""
    return nll_reference(log_mixture(contexts, log_prior, weight, bias), targets, options)


def nll_reference(
    log_probs: Tensor, targets: Tensor, options: LossOptions = DEFAULT, target_probs: Tensor | None = None
) -> HeadOutput:
    """The loss of log-probabilities [..., V] at targets, by its definition: what every head is tested against.

    (Without the z-loss, which log-probabilities do not show.)
    """
    tokens, probs, kept = check_targets(targets, target_probs, log_probs.shape[:-1], log_probs.shape[-1], options)
    kept = kept.view(log_probs.shape[:-1])
    if probs is None:
        nll = -log_probs.gather(-1, tokens.view(*kept.shape, 1))[..., 0]
    elif target_probs is None:
        nll = -(targets * log_probs).sum(-1)
    else:
        nll = -(target_probs * log_probs.gather(-1, tokens.view(targets.shape))).sum(-1)
    objective = options.objective(log_probs.shape[-1])
    loss = objective.target * nll - objective.uniform * log_probs.sum(-1) if objective.uniform else nll
    loss = loss.where(kept, 0.0)
    if options.reduction != "none":
        loss = loss.sum() / (kept.sum().clamp(min=1) if options.reduction == "mean" else 1)
    correct = ((log_probs.argmax(-1) == targets) & kept).sum() if options.count_correct else None
    return HeadOutput(loss, nll.detach().where(kept, 0.0), kept.sum(), correct)


def layer_entropy(layer: Layer, rows: Sequence[Tensor]) -> Tensor:
    """The entropy [N] of a layer's distribution for rows [N, ...], with gradients."""
    everyone = rows[0].new_ones(rows[0].shape[0], dtype=torch.bool)
    return fused(layer, rows, CheckedTargets(everyone.long(), None, everyone), Objective(entropy=True), True)[0]


def head_output(
    loss: Tensor,
    nll: Tensor,
    targets: CheckedTargets,
    options: LossOptions,
    shape: torch.Size,
    best: Callable[[], Tensor],
) -> HeadOutput:
    """The loss, summed or of each token [N], reduced as asked; `best` finds the most probable tokens [N]."""
    count = targets.kept.sum()
    if options.reduction == "none":
        loss = loss.view(shape)
    elif options.reduction == "mean":
        loss = loss / count.clamp(min=1)
    correct = ((best() == targets.tokens) & targets.kept).sum() if options.count_correct else None
    return HeadOutput(loss, nll.view(shape), count, correct)


@torch.no_grad()
def best_tokens(log_probs: Callable[..., Tensor], rows: Sequence[Tensor]) -> Tensor:
    """The most probable tokens [N] by `log_probs` of rows [N, ...]."""
    pieces = slices(len(rows[0]), COUNTED_TOKENS)
    best = [log_probs(*(row[here] for row in rows)).argmax(-1) for here in pieces]
    return torch.cat(best) if best else rows[0].new_empty(0, dtype=torch.long)


def fused(
    layer: Layer,
    rows: Sequence[Tensor],
    targets: CheckedTargets,
    objective: Objective,
    per_token: bool,
    pick: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Loss (the sum, or [N] for each token) and nll [N] of rows [N, ...].

    Contexts exist for one block of tokens at a time. The gradients of a loss for each token wait for the backward
    pass, which must not repeat `parts` (dropout): there contexts and log-prior themselves become the rows.
    Tokens that do not count are left out (`pick`), which waits for a GPU; unless told, there they are scaled by 0.
    """
    compiling = torch.compiler.is_compiling()
    if (compiling or (per_token and torch.is_grad_enabled())) and layer.parts is not as_given:
        rows, layer = given_parts(layer, rows)
    if not compiling and torch.is_anomaly_enabled() and not rows[0].isfinite().all():
        raise ValueError("the hidden states hold nan or inf; look for what made them (anomaly detection is on)")
    recipe = Recipe(
        parts=layer.parts,
        mixtures=layer.mixtures,
        kernel=layer.kernel,
        vocabulary=len(layer.vocabulary),
        rows=len(rows),
        objective=objective,
        softcap=layer.softcap,
        dtype=product_dtype(rows[0], layer.weight),
        per_token=per_token,
        grad_enabled=torch.is_grad_enabled(),
    )
    pick = _picks(targets.tokens) if pick is None else pick
    if compiling:
        return compiled_loss(recipe, [*layer.vocabulary, *rows], *targets, pick)
    return _fused(recipe, layer, rows, targets, pick)


def _fused(
    recipe: Recipe, layer: Layer, rows: Sequence[Tensor], targets: CheckedTargets, pick: bool
) -> tuple[Tensor, Tensor]:
    tokens, probs, kept = targets

    def apply(
        tokens: Tensor, probs: Tensor | None, scale: Tensor | None, rows: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor]:
        return FusedLoss.apply(recipe, tokens, probs, scale, *layer.vocabulary, *rows, *layer.parameters)  # type: ignore[no-any-return,no-untyped-call]

    if not pick:  # rows of 0, for what stands in an ignored row may be nan, and so would 0 times it
        rows = [row.where(kept.view(-1, *[1] * (row.ndim - 1)), 0.0) for row in rows]
        loss, nll = apply(tokens, probs, kept, rows)
        return loss, nll.where(kept, 0.0)
    chosen = kept.nonzero()[:, 0]
    if len(chosen) == len(kept):
        return apply(tokens, probs, None, rows)

    def put_back(values: Tensor) -> Tensor:
        return values.new_zeros(len(kept)).index_copy(0, chosen, values)

    loss, nll = apply(tokens[chosen], None if probs is None else probs[chosen], None, [row[chosen] for row in rows])
    return put_back(loss) if recipe.per_token else loss, put_back(nll)


def given_parts(layer: Layer, rows: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], Layer]:
    """Contexts and what else the layer makes of these rows, and the layer that takes them as they are."""
    return layer.parts(*rows), replace(layer, parts=as_given, parameters=[])


def _picks(targets: Tensor) -> bool:
    return targets.is_cpu


def _check_shapes(contexts: Tensor, log_prior: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    if contexts.ndim < 2 or log_prior.shape != contexts.shape[:-1]:
        raise ValueError(
            f"log_prior has shape {list(log_prior.shape)} and contexts have {list(contexts.shape)}; "
            "they must be [..., K] and [..., K, d]"
        )
    if weight.ndim != 2 or weight.shape[1] != contexts.shape[-1]:
        raise ValueError(
            f"weight has shape {list(weight.shape)}; for these contexts it must be [V, {contexts.shape[-1]}]"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias has shape {list(bias.shape)}; for this weight it must be [{len(weight)}]")
