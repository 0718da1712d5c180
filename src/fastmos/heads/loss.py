"""The exact mixture loss -log sum_k pi_k softmax(h_k W^T + b)[y]: the formula, and the fast way to the same numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from fastmos.heads.fused import FusedLoss, Parts, Recipe, chunk_tokens, row_stride, slices

Smoothing = Literal["uniform", "others"]
Reduction = Literal["sum", "mean", "none"]


@dataclass(frozen=True)
class HeadOutput:
    """What a head says of its targets."""

    loss: Tensor  # reduced as asked; [...] for reduction="none"
    nll: Tensor  # [...] un-smoothed negative log-likelihood of each token, 0 where ignored; carries no gradient
    tokens: Tensor  # [] how many targets were not ignored
    correct: Tensor | None = None  # [] how many of them were predicted best, where asked for


@dataclass(frozen=True)
class LossOptions:
    """The keywords of a loss, checked; they mean what they mean to `torch.nn.functional.cross_entropy`."""

    ignore_index: int = -100
    label_smoothing: float = 0.0
    smoothing: Smoothing = "uniform"
    reduction: Reduction = "sum"
    count_correct: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing <= 1:
            raise ValueError(f"label_smoothing is {self.label_smoothing}; it must lie between 0 and 1")
        if self.smoothing not in get_args(Smoothing):
            raise ValueError(f"smoothing is {self.smoothing!r}; it must be one of {get_args(Smoothing)}")
        if self.reduction not in get_args(Reduction):
            raise ValueError(f"reduction is {self.reduction!r}; it must be one of {get_args(Reduction)}")

    def weights(self, codes: int) -> tuple[float, float]:
        """What -log P of the gold code counts beyond the others, and what that of every code counts."""
        if self.label_smoothing == 0:
            return 1.0, 0.0
        if self.smoothing == "others" and codes < 2:
            raise ValueError(f"smoothing 'others' needs another code than the gold, and codes is {codes}")
        everywhere = self.label_smoothing / (codes if self.smoothing == "uniform" else codes - 1)
        return 1 - self.label_smoothing - (everywhere if self.smoothing == "others" else 0), everywhere


def mixture_nll(
    contexts: Tensor,
    log_prior: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    smoothing: Smoothing = "uniform",
    reduction: Reduction = "sum",
    count_correct: bool = False,
) -> HeadOutput:
    """Loss of contexts [..., K, d], log-prior [..., K], shared embedding weight [V, d] and bias [V] at targets [...].

    Exact; beside inputs and gradients it needs a constant amount of memory. Arguments are named as in
    `torch.nn.functional.cross_entropy`, but a mean over no tokens is 0. Smoothing "uniform" puts label_smoothing / V on
    every code (as torch does), "others" label_smoothing / (V - 1) on every code but the gold (as THUMT does).
    """
    if contexts.ndim < 2 or log_prior.shape != contexts.shape[:-1]:
        raise ValueError(
            f"log_prior has shape {list(log_prior.shape)} and contexts have {list(contexts.shape)}; "
            "they must be [..., K] and [..., K, d]"
        )
    if weight.ndim != 2 or weight.shape[1] != contexts.shape[-1]:
        raise ValueError(
            f"weight has shape {list(weight.shape)}; for these contexts it must be [V, {contexts.shape[-1]}]"
        )
    if contexts.ndim != targets.ndim + 2:
        raise ValueError(f"targets have shape {list(targets.shape)}; they must be {list(contexts.shape[:-2])}")
    options = LossOptions(ignore_index, label_smoothing, smoothing, reduction, count_correct)
    return fused_nll(_given, [contexts, log_prior], [], contexts.shape[-2], weight, bias, targets, options)


def mixture_nll_reference(
    contexts: Tensor,
    log_prior: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    smoothing: Smoothing = "uniform",
    reduction: Reduction = "sum",
    count_correct: bool = False,
) -> HeadOutput:
    """The same by the plain formula, which holds [N, K, V] numbers: what `mixture_nll` is tested against."""
    log_probs = log_mixture(contexts, log_prior, weight, bias)  # [..., V]
    kept = targets != ignore_index
    nll = -log_probs.gather(-1, targets.where(kept, 0)[..., None])[..., 0]
    others = (-log_probs.sum(-1) - nll) / max(1, len(weight) - 1)
    rest = -log_probs.mean(-1) if smoothing == "uniform" else others
    loss = ((1 - label_smoothing) * nll + label_smoothing * rest if label_smoothing else nll).where(kept, 0.0)
    if reduction != "none":
        loss = loss.sum() / (kept.sum().clamp(min=1) if reduction == "mean" else 1)
    correct = ((log_probs.argmax(-1) == targets) & kept).sum() if count_correct else None
    return HeadOutput(loss, nll.detach().where(kept, 0.0), kept.sum(), correct)


def log_mixture(contexts: Tensor, log_prior: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Log-probabilities [..., V] of the mixture (paper equations 1 and 2), in float32 or better."""
    logits = F.linear(contexts, weight, bias)  # [..., K, V]
    exact = torch.float64 if logits.dtype == torch.float64 else torch.float32
    return torch.logsumexp(F.log_softmax(logits, -1, dtype=exact) + log_prior.to(exact)[..., None], -2)


def log_probabilities(parts: Parts, hidden: Tensor, mixtures: int, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Log-probabilities [..., V] of hidden states [..., D]; where no gradient is asked for, in chunks of tokens."""
    if torch.is_grad_enabled():
        return log_mixture(*parts(hidden), weight, bias)
    rows = hidden.reshape(-1, hidden.shape[-1])  # [N, D]
    codes, exact = len(weight), torch.float64 if hidden.dtype == torch.float64 else torch.float32
    stride, tokens = row_stride(codes), min(len(rows), chunk_tokens(weight, mixtures, 1))
    result = hidden.new_empty(len(rows), stride, dtype=exact)  # what is given is a view of it, without the rows' ends
    buffer = hidden.new_empty(tokens * mixtures, stride, dtype=exact) if mixtures > 1 else result
    for here in slices(len(rows), tokens):
        contexts, log_prior = parts(rows[here])
        joint = buffer[: log_prior.numel()] if mixtures > 1 else result[here]  # one softmax is made where it belongs
        _linear(contexts.flatten(0, 1), weight, bias, joint[:, :codes])
        joint[:, codes:] = -torch.inf
        normal = torch.log_softmax(joint, 1, out=joint if joint.is_cpu else None)
        if mixtures == 1:  # its log-prior is 0
            if normal is not joint:
                joint.copy_(normal)
            continue
        normal = normal.view(-1, mixtures, stride).add_(log_prior.to(exact)[..., None])  # [n, K, stride]
        best = normal.amax(1, keepdim=True).clamp(min=-1e30)  # a code of bias -inf keeps its log-probability of -inf
        result[here] = normal.sub_(best).exp_().sum(1).log_().add_(best[:, 0])
    return result[:, :codes].view(*hidden.shape[:-1], codes)


def _linear(contexts: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> None:
    """A linear layer written to `out`, in the precision the layer itself would have."""
    low = _product_dtype(contexts, weight) != out.dtype or weight.dtype != out.dtype
    if low:
        out.copy_(F.linear(contexts, weight, bias))
    elif bias is None:
        torch.mm(contexts, weight.t(), out=out)
    else:
        torch.addmm(bias, contexts, weight.t(), out=out)


def fused_nll(
    parts: Parts,
    rows: Sequence[Tensor],
    parameters: Sequence[Tensor],
    mixtures: int,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    options: LossOptions,
) -> HeadOutput:
    """The fast loss where `parts`, using `parameters`, makes contexts and log-prior of `rows` [*targets.shape, ...].

    Contexts then exist for one block of tokens at a time. A loss for each token comes with gradients that wait for the
    backward pass, which must not repeat `parts` (dropout): give contexts and log-prior themselves as rows there.
    """
    kept = _check_targets(targets, options.ignore_index, len(weight))
    _check_shapes(rows, targets, weight, bias)
    if torch.is_anomaly_enabled() and not rows[0].isfinite().all():
        raise ValueError("the hidden states hold nan or inf; look for what made them (anomaly detection is on)")
    gold, everywhere = options.weights(len(weight))
    recipe = Recipe(
        mixtures=mixtures,
        dtype=_product_dtype(rows[0], weight),
        parts=parts,
        gold=gold,
        everywhere=everywhere,
        hits=options.count_correct,
        each=options.reduction == "none",
        recording=torch.is_grad_enabled(),
    )
    flat = [row.reshape(targets.numel(), *row.shape[targets.ndim :]) for row in rows]
    fused = _fused
    if torch.compiler.is_compiling():  # a compiled model calls it as it is: the graph breaks here, and goes on behind
        fused = torch.compiler.disable(_fused)  # type: ignore[no-untyped-call]
    loss, nll, hits = fused(recipe, flat, parameters, weight, bias, targets.reshape(-1).long(), kept.reshape(-1))
    tokens = kept.sum()
    if options.reduction == "none":
        loss = loss.view(targets.shape)
    elif options.reduction == "mean":
        loss = loss / tokens.clamp(min=1)
    return HeadOutput(loss, nll.view(targets.shape), tokens, hits.sum() if options.count_correct else None)


def _fused(
    recipe: Recipe,
    rows: Sequence[Tensor],
    parameters: Sequence[Tensor],
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    kept: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, nll [N], hits [N] without the ignored tokens: left out on a CPU; elsewhere scaled by 0, to spare a wait."""

    def apply(rows: Sequence[Tensor], targets: Tensor, scale: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        return FusedLoss.apply(recipe, targets, scale, len(rows), weight, bias, *rows, *parameters)  # type: ignore[no-any-return,no-untyped-call]

    if not _picks(targets):  # rows of 0, for what stands in an ignored row may be nan, and so would 0 times it
        rows = [row.where(kept.view(-1, *[1] * (row.ndim - 1)), 0.0) for row in rows]
        loss, nll, hits = apply(rows, targets.where(kept, 0), kept)
        return loss, nll.where(kept, 0.0), hits & kept
    chosen = kept.nonzero()[:, 0]
    if len(chosen) == len(targets):
        return apply(rows, targets, None)

    def put_back(values: Tensor) -> Tensor:
        return values.new_zeros(len(targets)).index_copy(0, chosen, values)

    loss, nll, hits = apply([row[chosen] for row in rows], targets[chosen], None)
    return put_back(loss) if recipe.each else loss, put_back(nll), put_back(hits)


def _picks(targets: Tensor) -> bool:
    return targets.is_cpu


def _given(contexts: Tensor, log_prior: Tensor) -> tuple[Tensor, Tensor]:
    return contexts, log_prior


def _product_dtype(rows: Tensor, weight: Tensor) -> torch.dtype:
    """The dtype a linear layer would work in here; autocast leaves float64 alone."""
    dtype = torch.promote_types(rows.dtype, weight.dtype)
    kind = rows.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) and dtype != torch.float64 else dtype


def _check_shapes(rows: Sequence[Tensor], targets: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    for row in rows:
        if row.shape[: targets.ndim] != targets.shape:
            raise ValueError(
                f"targets have shape {list(targets.shape)}, which the shape {list(row.shape)} of what they belong to "
                "does not start with"
            )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias has shape {list(bias.shape)}; weight {list(weight.shape)} asks for [{len(weight)}]")


def _check_targets(targets: Tensor, ignore_index: int, codes: int) -> Tensor:
    """Which targets count, after making sure that each of them is a code; a GPU reports it later, without a wait."""
    if targets.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"targets have dtype {targets.dtype}; they must be codes, int64")
    kept = targets != ignore_index
    valid = ((targets >= 0) & (targets < codes)) | ~kept
    if not targets.is_cpu:
        torch._assert_async(valid.all(), f"a target is not a code below {codes}, nor ignore_index {ignore_index}")
    elif not valid.all():
        wrong = targets[~valid][0].item()
        raise IndexError(
            f"targets hold {wrong}; each must be a code from 0 to {codes - 1} or ignore_index {ignore_index}"
        )
    return kept
