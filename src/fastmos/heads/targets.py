"""The keywords of a loss, and its targets: checked before any work, and flat."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from fastmos.heads.kernel import Objective

SmoothingKind = Literal["uniform", "others"]
Reduction = Literal["sum", "mean", "none"]


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
        if not self.z_loss >= 0:
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


class CheckedTargets(NamedTuple):
    """Targets of N positions, flat."""

    tokens: Tensor  # [N]; soft: [N, k], or [N, 0] where probabilities of all tokens are given
    probs: Tensor | None  # None; soft: [N, k], or [N, V]
    kept: Tensor  # [N] which positions count

    @property
    def soft(self) -> bool:
        """Are there probabilities?"""
        return self.probs is not None


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
