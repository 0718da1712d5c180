"""The exact mixture loss: -log sum_k pi_k softmax(h_k W^T + b)[y]."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Smoothing = Literal["uniform", "others"]
Reduction = Literal["sum", "mean", "none"]


@dataclass(frozen=True)
class HeadOutput:
    """What a head says of its targets."""

    loss: Tensor  # reduced as asked; [...] for reduction="none"
    nll: Tensor  # [...] un-smoothed negative log-likelihood of each token, 0 where ignored; carries no gradient
    tokens: Tensor  # [] how many targets were not ignored
    correct: Tensor | None = None  # [] how many of them were predicted best, where asked for


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
    """Loss of contexts [N, K, d], log-prior [N, K], shared embedding weight [V, d] and bias [V] at targets [N]."""
    logits = F.linear(contexts.float(), weight.float(), None if bias is None else bias.float())  # [N, K, V]
    log_probs = torch.logsumexp(F.log_softmax(logits, -1) + log_prior.float()[..., None], 1)  # [N, V]
    kept = targets != ignore_index
    safe = torch.where(kept, targets, 0)
    nll = torch.where(kept, -log_probs.gather(1, safe[:, None])[:, 0], 0.0)
    loss = nll
    if label_smoothing:
        total = -log_probs.sum(1)
        others = total / log_probs.shape[1] if smoothing == "uniform" else (total - nll) / (log_probs.shape[1] - 1)
        loss = torch.where(kept, (1 - label_smoothing) * nll + label_smoothing * others, 0.0)
    tokens = kept.sum()
    if reduction != "none":
        loss = loss.sum() / (tokens if reduction == "mean" else 1)
    correct = ((log_probs.argmax(1) == targets) & kept).sum() if count_correct else None
    return HeadOutput(loss, nll.detach(), tokens, correct)
