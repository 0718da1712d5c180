"""Learning rates as functions of step and history; optimizers that come back as they were."""

import math

import pytest
import torch
from torch.nn import Parameter

from fastmos.config import Training
from fastmos.training.optimizers import (
    best_of,
    build_optimizer,
    learning_rate_at,
    optimizer_tensors,
    restore_optimizer,
    validations_since_best,
    validations_without_best,
)


def history(*values: float) -> list[tuple[int, float]]:
    return [(10 * number, value) for number, value in enumerate(values, 1)]


@pytest.mark.parametrize(
    ("values", "cuts", "waited", "best"),
    [
        ([], 0, 0, None),
        ([1.0], 0, 0, 0),
        ([1.0, 2.0, 3.0], 0, 0, 2),
        ([1.0, 1.0], 1, 1, 0),  # as good is not better
        ([1.0, 0.0, 2.0, 1.0, 1.5], 3, 2, 2),
        ([-math.inf, -math.inf], 1, 1, 0),
        ([-math.inf, 1.0], 0, 0, 1),
    ],
)
def test_history(values: list[float], cuts: int, waited: int, best: int | None) -> None:
    assert validations_without_best(history(*values)) == cuts
    assert validations_since_best(history(*values)) == waited
    if best is not None:
        assert best_of(history(*values)) == best


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"lr_schedule": "constant"}, {1: 1.0, 1000: 1.0}),
        ({"lr_schedule": "constant", "warmup_steps": 4}, {1: 0.25, 4: 1.0, 5: 1.0}),
        ({"lr_schedule": "inverse-sqrt", "warmup_steps": 100}, {1: 0.01, 50: 0.5, 100: 1.0, 400: 0.5, 10_000: 0.1}),
        ({"lr_schedule": "linear", "max_steps": 10}, {1: 1.0, 6: 0.5, 10: 0.1, 11: 0.0}),
        ({"lr_schedule": "linear", "max_steps": 14, "warmup_steps": 4}, {2: 0.5, 5: 1.0, 10: 0.5, 14: 0.1}),
    ],
)
def test_rates(settings: dict[str, object], expected: dict[int, float]) -> None:
    training = Training(learning_rate=1.0, **settings)  # type: ignore[arg-type]
    assert {step: learning_rate_at(training, step, []) for step in expected} == pytest.approx(expected)


def test_the_transformer_rate_is_that_of_its_paper() -> None:
    training = Training(learning_rate=(512 * 4000) ** -0.5, lr_schedule="inverse-sqrt", warmup_steps=4000)
    for step in (1, 3999, 4000, 4001, 100_000):
        assert learning_rate_at(training, step, []) == pytest.approx(512**-0.5 * min(step**-0.5, step * 4000**-1.5))


def test_plateau_cuts_the_rate_a_limited_number_of_times() -> None:
    training = Training(learning_rate=0.6, lr_schedule="plateau", lr_decay=0.5, max_lr_decays=2)
    rates = [learning_rate_at(training, 1, history(*[3.0, 4.0, *[1.0] * waited])) for waited in range(5)]
    assert rates == pytest.approx([0.6, 0.3, 0.15, 0.15, 0.15])


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_an_optimizer_resumes_as_if_nothing_happened(optimizer: str) -> None:
    training = Training(optimizer=optimizer)  # type: ignore[arg-type]

    def steps(parameters: list[Parameter], rule: torch.optim.Optimizer, count: int) -> None:
        for _ in range(count):
            for parameter in parameters:
                parameter.grad = parameter.detach().sin()
            rule.step()

    straight = [Parameter(torch.randn(3, 2)), Parameter(torch.randn(5))]
    halved = [Parameter(parameter.detach().clone()) for parameter in straight]
    steps(straight, build_optimizer(training, straight), 6)
    first = build_optimizer(training, halved)
    steps(halved, first, 3)
    second = build_optimizer(training, halved)
    restore_optimizer(second, {name: tensor.clone() for name, tensor in optimizer_tensors(first).items()})
    steps(halved, second, 3)
    assert all(torch.equal(*pair) for pair in zip(straight, halved, strict=True))
