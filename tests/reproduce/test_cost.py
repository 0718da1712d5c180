"""What is measured by the plain formula and fused is the same loss."""

from typing import Any

import pytest
import torch

from fastmos.heads import build_head
from fastmos.reproduce.cost import plain_loss
from fastmos.tokenizers import PAD


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("softmax", {}),
        ("mos", {"mixtures": 3}),
        ("moc", {"mixtures": 3}),
        ("shortlist", {"mixtures": 3, "shortlist": 4}),
        ("shared-tail", {"mixtures": 3, "shortlist": 4}),
        ("mixtape", {"shortlist": 4}),
    ],
)
def test_plain_and_fused_are_one_loss(kind: str, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    head = build_head(kind, 8, 11, **options).double()
    hidden = torch.randn(2, 5, 8, dtype=torch.float64)
    targets = torch.tensor([[1, 2, 3, 4, 5], [6, 10, PAD, PAD, PAD]])
    plain, fused = plain_loss(head, hidden, targets), head(hidden, targets, ignore_index=PAD).loss
    assert plain.item() == pytest.approx(fused.item(), rel=1e-6)  # the public formula adds 1e-8
