"""What TRL's trainers ask of a model: log-probabilities of the labels, without logits.

`SFTTrainer` and `DPOTrainer` replace a model's `forward` by one that takes `fused_lm_head=True` and multiplies hidden
states with `lm_head.weight`. The models with a mixture know that argument themselves.
"""

from typing import Any

import torch
from torch import Tensor

from fastmos.heads import Head
from fastmos.heads.kernel import slices

IGNORED = -100
ARGUMENT = "fused_lm_head"
CHUNK = 256  # tokens whose log-probabilities are alive at once


def replaces_head(forward: Any) -> bool:
    """Is this TRL's forward?"""
    code = getattr(forward, "__code__", None)  # its signature is that of ours
    return code is not None and ARGUMENT in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def fused_output(
    head: Head, hidden: Tensor, labels: Tensor | None, shifted: Tensor | None, items: Tensor | int | None
) -> Any:
    """TRL's output for hidden states [B, T, D] and labels [B, T]; every field is 0 where a label is ignored."""
    from trl.trainer.utils import FusedCausalLMOutput

    if shifted is None:
        assert labels is not None
        hidden, shifted = hidden[:, :-1], labels[:, 1:]
    targets = shifted.to(hidden.device)
    mask = targets != IGNORED
    log_probs = -head(hidden, targets, ignore_index=IGNORED, reduction="none").loss
    loss = -log_probs.sum() / (mask.sum().clamp(min=1) if items is None else items)
    found = _statistics(head, hidden[mask], targets[mask])
    fields = {name: values.new_zeros(mask.shape).masked_scatter(mask, values) for name, values in found.items()}
    return FusedCausalLMOutput(loss=loss, log_probs=log_probs, label_mask=mask, **fields)


@torch.no_grad()
def _statistics(head: Head, hidden: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """What TRL logs of each token [N]; a mixture has log-probabilities in place of logits."""
    rows, right = [], []
    for here in slices(len(hidden), CHUNK):
        log_probs = head(hidden[here])  # [n, V]
        entropy = torch.special.entr(log_probs.exp()).sum(-1)
        rows.append(torch.stack([entropy, torch.logsumexp(2 * log_probs, -1), log_probs.mean(-1)]))
        right.append(log_probs.argmax(-1) == targets[here])
    found = dict(zip(("entropy", "log_sum_sq_probs", "mean_logits"), torch.cat(rows, 1), strict=True))
    return {**found, "is_top1": torch.cat(right)}
