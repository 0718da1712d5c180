"""The language model carries its state over contiguous text, and only there."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fastmos.models import LanguageModel


@pytest.mark.parametrize("fresh", [False, True])
def test_state_is_carried_unless_a_batch_is_fresh(fresh: bool, make_batch: Callable[..., Any]) -> None:
    model = LanguageModel(11, hidden_size=8, num_layers=2).double()
    whole = make_batch([(0, 9), (0, 9)])
    expected, _ = model(whole)  # [2, 10, 8]
    first, second = make_batch([(0, 3)]), make_batch([(0, 5)])
    first.inputs, second.inputs, second.fresh = whole.inputs[:, :4], whole.inputs[:, 4:], fresh
    start, state = model(first)
    assert not any(part.requires_grad for part in state)
    rest, _ = model(second, state)
    assert torch.allclose(torch.cat([start, rest], 1), expected) != fresh
