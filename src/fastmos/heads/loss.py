"""The exact mixture loss -log sum_k pi_k softmax(h_k W^T + b)[y]: the formula, and the fast way to the same numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from fastmos.heads import products
from fastmos.heads.compiled import compiled_loss
from fastmos.heads.fused import (
    FusedLoss,
    Kernel,
    Layer,
    Objective,
    Recipe,
    as_given,
    chunk_tokens,
    exact_dtype,
    row_stride,
    slices,
)

SmoothingKind = Literal["uniform", "others"]
Reduction = Literal["sum", "mean", "none"]
COUNTED_TOKENS = 256  # whose log-probabilities are alive at once while correct predictions are counted


@dataclass(frozen=True)
class HeadOutput:
    """What a head returns for targets."""

    loss: Tensor  # reduced as asked; [...] for reduction="none"
    nll: Tensor  # [...] un-smoothed negative log-likelihood of each token, 0 where ignored; carries no gradient
    tokens: Tensor  # [] how many targets were not ignored
    correct: Tensor | None = None  # [] how many of them were the most probable token, where asked for


@dataclass(frozen=True)
class LossOptions:
    """The keywords of a loss, checked; they mean what they mean to `torch.nn.functional.cross_entropy`.

    But a mean over no tokens is 0. Smoothing "uniform" puts label_smoothing / V on every token (as torch does),
    "others" label_smoothing / (V - 1) on every token but the target (as THUMT does). `z_loss` times (log Z)^2 is added,
    where Z normalizes a softmax (a mean over those of a mixture), to keep logits from drifting.
    """

    ignore_index: int = -100
    label_smoothing: float = 0.0
    label_smoothing_kind: SmoothingKind = "uniform"
    reduction: Reduction = "mean"
    count_correct: bool = False
    z_loss: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing <= 1:
            raise ValueError(f"label_smoothing is {self.label_smoothing}; it must lie between 0 and 1")
        if self.z_loss < 0:
            raise ValueError(f"z_loss is {self.z_loss}; it must be 0 or more")
        for name, kinds in (("label_smoothing_kind", SmoothingKind), ("reduction", Reduction)):
            if getattr(self, name) not in get_args(kinds):
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be one of {get_args(kinds)}")

    def objective(self, vocab_size: int, soft: bool = False) -> Objective:
        """What -log P of the target and of every token count."""
        if self.label_smoothing == 0:
            return Objective(z_loss=self.z_loss, soft=soft)
        if self.label_smoothing_kind == "uniform":
            uniform = self.label_smoothing / vocab_size
            return Objective(1 - self.label_smoothing, uniform, z_loss=self.z_loss, soft=soft)
        if vocab_size < 2:
            raise ValueError(f"label_smoothing_kind 'others' needs another token than the target; V is {vocab_size}")
        other = self.label_smoothing / (vocab_size - 1)
        return Objective(1 - self.label_smoothing - other, other, z_loss=self.z_loss, soft=soft)


DEFAULT = LossOptions()


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


def log_mixture(
    contexts: Tensor, log_prior: Tensor, weight: Tensor, bias: Tensor | None, softcap: float | None = None
) -> Tensor:
    """Log-probabilities [..., V] of the mixture (paper equations 1 and 2), in float32 or better."""
    logits = soft_capped(F.linear(contexts, weight, bias), softcap)  # [..., K, V]
    exact = exact_dtype(logits.dtype)
    return torch.logsumexp(F.log_softmax(logits, -1, dtype=exact) + log_prior.to(exact)[..., None], -2)


def soft_capped(logits: Tensor, softcap: float | None) -> Tensor:
    """Logits that stay between -softcap and softcap, if one is given."""
    return logits if softcap is None else softcap * torch.tanh(logits / softcap)


@torch.no_grad()
def log_probabilities(layer: Layer, rows: Sequence[Tensor]) -> Tensor:
    """The same [N, V] of a mixture's rows [N, ...], in chunks of tokens and without gradients."""
    weight, count, mixtures, exact = layer.weight, len(rows[0]), layer.mixtures, exact_dtype(rows[0].dtype)
    stride, tokens = row_stride(len(weight)), min(count, chunk_tokens(weight, mixtures, 1))
    result = weight.new_empty(count, stride, dtype=exact)  # what is returned is a view of it, without the rows' ends
    buffer = weight.new_empty(tokens * mixtures, stride, dtype=exact) if mixtures > 1 else result
    for here in slices(count, tokens):
        contexts, log_prior = layer.parts(*(row[here] for row in rows))
        contexts, log_prior = contexts.flatten(0, 1), log_prior.to(exact)  # [nK, d], [n, K]
        if mixtures == 1:  # its log-prior is 0, and it is made where it belongs
            logits = _fill(result[here], contexts, layer)
            normal = _log_softmax(logits)
            if normal is not logits:
                logits.copy_(normal)
        elif not _mix_probabilities(result[here], buffer, contexts, log_prior, layer):
            normal = _log_softmax(_fill(buffer, contexts, layer))
            normal = normal.view(-1, mixtures, stride).add_(log_prior[..., None])  # [n, K, stride]
            best = normal.amax(1, keepdim=True).clamp(
                min=torch.finfo(exact).min
            )  # or a token of bias -inf would be nan
            result[here] = normal.sub_(best).exp_().sum(1).log_().add_(best[:, 0])
    return result[:, : len(weight)]


def _mix_probabilities(out: Tensor, buffer: Tensor, contexts: Tensor, log_prior: Tensor, layer: Layer) -> bool:
    """Log-probabilities by a sum of probabilities, at half the cost of a sum in log-space. False if some underflow.

    To know that, the program waits for the numbers, so this is for a CPU and for code that is not compiled.
    """
    if not out.is_cpu or torch.compiler.is_compiling():
        return False
    probs = _fill(buffer, contexts, layer)  # [nK, stride] logits, so far
    torch.softmax(probs, 1, out=probs)
    torch.bmm(log_prior.exp()[:, None], probs.view(*log_prior.shape, -1), out=out[:, None])
    limits = torch.finfo(out.dtype)
    underflow = out[:, : len(layer.weight)].amin(0) < limits.tiny / limits.eps  # [V]
    if layer.bias is not None and layer.softcap is None:
        underflow &= layer.bias != -torch.inf  # these are 0, and their logarithms right
    if underflow.any():
        return False
    out.log_()
    return True


def _fill(buffer: Tensor, contexts: Tensor, layer: Layer) -> Tensor:
    """Logits [n, V] of contexts [n, d] at the start of a buffer, and -inf in the columns that only align it."""
    logits, vocab_size = buffer[: len(contexts)], len(layer.weight)
    _linear(contexts, layer.weight, layer.bias, logits[:, :vocab_size])
    if layer.softcap is not None:
        logits.div_(layer.softcap).tanh_().mul_(layer.softcap)
    logits[:, vocab_size:] = -torch.inf
    return logits


def _log_softmax(logits: Tensor) -> Tensor:
    """Over the vocabulary; in place on a CPU (kernels elsewhere do not promise that)."""
    return torch.log_softmax(logits, 1, out=logits if logits.is_cpu else None)


def _linear(contexts: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> None:
    """A linear layer written to `out`, in the precision the layer itself would have."""
    low = product_dtype(contexts, weight) != out.dtype or weight.dtype != out.dtype
    if low:
        out.copy_(F.linear(contexts, weight, bias))
    else:
        products.logits(contexts, weight, bias, out)


def layer_log_probs(layer: Layer, hidden: Tensor) -> Tensor:
    """Log-probabilities [..., V] of a layer that reads hidden states [..., D] alone."""
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        contexts, log_prior = layer.parts(hidden)
        return log_mixture(contexts, log_prior, layer.weight, layer.bias, layer.softcap)
    log_probs = log_probabilities(layer, [hidden.reshape(-1, hidden.shape[-1])])
    return log_probs.view(*hidden.shape[:-1], log_probs.shape[-1])


def layer_entropy(layer: Layer, rows: Sequence[Tensor]) -> Tensor:
    """The entropy [N] of a layer's distribution for rows [N, ...], with gradients."""
    everyone = rows[0].new_ones(rows[0].shape[0], dtype=torch.bool)
    return fused(layer, rows, CheckedTargets(everyone.long(), None, everyone), Objective(entropy=True), True)[0]


class CheckedTargets(NamedTuple):
    """Targets of N positions, flat."""

    tokens: Tensor  # [N]; soft: [N, k], or [N, 0] where probabilities of all tokens are given
    probs: Tensor | None  # None; soft: [N, k], or [N, V]
    kept: Tensor  # [N] which positions count

    @property
    def soft(self) -> bool:
        """Are there probabilities?"""
        return self.probs is not None


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


def product_dtype(rows: Tensor, weight: Tensor) -> torch.dtype:
    """The dtype a linear layer would work in here; autocast leaves float64 alone."""
    dtype = torch.promote_types(rows.dtype, weight.dtype)
    kind = rows.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) and dtype != torch.float64 else dtype


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


def check_targets(
    targets: Tensor, target_probs: Tensor | None, shape: torch.Size, vocab_size: int, options: LossOptions
) -> CheckedTargets:
    """The targets of positions [*shape], flat, after a check of their shapes and tokens.

    A position whose (first) target is `ignore_index` does not count. Tokens there become 0.
    """
    if options.count_correct and (targets.is_floating_point() or target_probs is not None):
        raise ValueError(
            "count_correct is set and targets are soft; only tokens [...] as targets can be predicted right"
        )
    if targets.is_floating_point() and target_probs is None and targets.shape == (*shape, vocab_size):
        probs = targets.detach().reshape(-1, vocab_size)
        return CheckedTargets(probs[:, :0].long(), probs, torch.ones_like(probs[:, 0], dtype=torch.bool))
    if targets.dtype not in (torch.int64, torch.int32):
        raise TypeError(
            f"targets have dtype {targets.dtype} and shape {list(targets.shape)}; they must be tokens, int64, or "
            f"probabilities {[*shape, vocab_size]}"
        )
    if targets.shape != (shape if target_probs is None else (*shape, *target_probs.shape[-1:])):
        raise ValueError(f"targets have shape {list(targets.shape)}; they must be {list(shape)}, or have target_probs")
    tokens = targets.long().reshape(-1, 1 if target_probs is None else targets.shape[-1])
    kept = tokens[:, :1] != options.ignore_index  # [N, 1]
    tokens = tokens.where(kept, 0)
    _check_tokens(tokens, vocab_size, options.ignore_index)
    if target_probs is None:
        return CheckedTargets(tokens[:, 0], None, kept[:, 0])
    if target_probs.shape != targets.shape:
        raise ValueError(
            f"target_probs have shape {list(target_probs.shape)}; for these targets it must be {list(targets.shape)}"
        )
    return CheckedTargets(tokens, target_probs.detach().reshape(tokens.shape), kept[:, 0])


def _check_tokens(tokens: Tensor, vocab_size: int, ignore_index: int) -> None:
    """A GPU reports it later, without a wait."""
    valid = (tokens >= 0) & (tokens < vocab_size)
    if not tokens.is_cpu or torch.compiler.is_compiling():
        torch._assert_async(valid.all(), f"a target is not a token below {vocab_size}, nor ignore_index {ignore_index}")
    elif not valid.all():
        wrong = tokens[~valid][0].item()
        raise IndexError(
            f"targets hold {wrong}; each must be a token from 0 to {vocab_size - 1} or ignore_index {ignore_index}"
        )
