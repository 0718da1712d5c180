"""Whole models by fast products: the gradients of float64, to rounding."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from fastmos.heads import MixtureOfSoftmaxes, products
from fastmos.models import AttentionLSTM, Generator, Transformer

VOCAB_SIZE = 11


@pytest.mark.skipif(products._setting is None, reason="this torch cannot multiply by oneDNN")
@pytest.mark.parametrize(
    "body",
    [
        AttentionLSTM(VOCAB_SIZE, VOCAB_SIZE, hidden_size=8),
        Transformer(VOCAB_SIZE, VOCAB_SIZE, hidden_size=8, num_heads=2),
    ],
)
def test_gradients_are_those_of_float64(
    body: nn.Module, make_batch: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Generator(body, MixtureOfSoftmaxes(8, VOCAB_SIZE, 3)).eval()
    exact = copy.deepcopy(model).double()
    batch = make_batch([(3, 5), (6, 2), (4, 4), (5, 3), (2, 6)])
    monkeypatch.setattr(products, "_choice", products.Choice(100, 1e-6, 200, 1e-6))
    monkeypatch.setattr(products, "_enabled", True)
    monkeypatch.setattr(products, "SMALLEST", 0)
    for one in (model, exact):
        one(batch)[0].loss.backward()
    for mine, its in zip(model.parameters(), exact.parameters(), strict=True):
        assert mine.grad is not None and its.grad is not None
        torch.testing.assert_close(mine.grad.double(), its.grad, rtol=1e-4, atol=1e-4)
    assert products._setting.fp32_precision == "none"
    with torch.no_grad():
        tokens = torch.full((5,), 4)
        ours, exactly = (one.step(tokens, one.start(batch))[0].double() for one in (model, exact))
        torch.testing.assert_close(ours, exactly, rtol=1e-4, atol=1e-4)
