"""Heads inside `torch.compile(fullgraph=True)` and `torch.export`: the same numbers as outside."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fastmos.heads import HEADS, Head, build_head, loss
from tests.heads.options import own

EVERY_HEAD = pytest.mark.parametrize("head_type", list(HEADS))
OPTIONS: dict[str, dict[str, Any]] = {
    "mean": {},
    "smoothed": {"reduction": "sum", "label_smoothing": 0.1},
    "each token": {"reduction": "none", "z_loss": 0.1},
}


def new_head(head_type: str, **options: Any) -> Head:
    return build_head(head_type, 6, 11, **own(head_type, mixtures=3, shortlist=[9, 2, 4]), **options).double()


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    torch.compiler.reset()
    return torch.compile(function, backend="aot_eager", fullgraph=True)


@EVERY_HEAD
@pytest.mark.parametrize("pick", [True, False], ids=["picked", "scaled"])
@pytest.mark.parametrize("options", list(OPTIONS))
def test_training(head_type: str, options: str, pick: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "_picks", lambda _: pick)
    head, body = new_head(head_type, softcap=5.0), nn.Linear(6, 6).double()
    x, targets = torch.randn(2, 5, 6, dtype=torch.float64), torch.arange(10).view(2, 5)
    targets[0, 3] = -100

    def step(x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        output = head(torch.relu(body(x)), targets, **OPTIONS[options])
        return output.loss.sin().sum(), output.nll

    inputs = [*body.parameters(), *head.parameters()]
    expected, found = step(x, targets), compiled(step)(x, targets)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found[0], inputs), torch.autograd.grad(expected[0], inputs))


@EVERY_HEAD
def test_soft_targets_and_entropy(head_type: str) -> None:
    head, hidden = new_head(head_type), torch.randn(4, 6, dtype=torch.float64)
    probs = torch.randn(4, 11, dtype=torch.float64).softmax(-1)

    def step(hidden: Tensor, probs: Tensor) -> Tensor:
        best = probs.topk(3)
        soft: Tensor = head(hidden, probs).loss + head(hidden, best.indices, target_probs=best.values).loss
        return soft + (head.entropy(hidden) * hidden[:, 0]).sum()

    inputs = [*head.parameters()]
    expected, found = step(hidden, probs), compiled(step)(hidden, probs)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs))


@EVERY_HEAD
def test_inference_and_frozen_parameters(head_type: str) -> None:
    head, hidden, targets = new_head(head_type), torch.randn(4, 6, dtype=torch.float64), torch.arange(4)
    expected, nll = head(hidden), head(hidden, targets).nll
    with torch.no_grad():
        torch.testing.assert_close(compiled(lambda hidden: head(hidden))(hidden), expected)
        torch.testing.assert_close(compiled(lambda hidden: head(hidden, targets).nll)(hidden), nll)
    head.weight.requires_grad_(False)
    compiled(lambda hidden: head(hidden, targets).loss)(hidden).backward()
    assert [one.grad is None for one in head.parameters()] == [one is head.weight for one in head.parameters()]


class Loss(nn.Module):
    """What `torch.export` takes."""

    def __init__(self, head: Head) -> None:
        super().__init__()
        self.head = head

    def forward(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return self.head(hidden, targets).loss  # type: ignore[no-any-return]


@EVERY_HEAD
def test_export_with_any_number_of_tokens(head_type: str) -> None:
    head = new_head(head_type)
    tokens = torch.export.Dim("tokens")
    hidden, targets = torch.randn(8, 6, dtype=torch.float64), torch.arange(8)
    log_probs = torch.export.export(head, (hidden,), dynamic_shapes=({0: tokens},)).module()
    exported = torch.export.export(Loss(head), (hidden, targets), dynamic_shapes=({0: tokens}, {0: tokens})).module()
    for count in (8, 5):
        torch.testing.assert_close(log_probs(hidden[:count]), head(hidden[:count]))
        torch.testing.assert_close(
            exported(hidden[:count], targets[:count]), head(hidden[:count], targets[:count]).loss
        )


def test_the_operator_keeps_the_rules_of_torch() -> None:
    contexts, log_prior = torch.randn(4, 3, 5), torch.randn(4, 3).log_softmax(-1)
    weight, kept = torch.randn(7, 5), torch.tensor([True, False, True, True])
    tensors = [one.requires_grad_() for one in (weight, contexts, log_prior)]
    for per_token, pick in [(False, True), (False, False), (True, True), (True, False)]:
        torch.library.opcheck(
            torch.ops.fastmos.fused_loss.default,
            (
                tensors,
                torch.arange(4),
                None,
                kept,
                None,
                [True] * 3,
                [True, False, True, True],
                "Kernel",
                [3, 2, 2],
                [0.9, 0.01, 0.0, 0.1],
                [False, False, per_token, pick],
                None,
                torch.float32,
            ),
        )
