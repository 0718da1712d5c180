"""The state of a run: all of it comes back from its file, and it fits its data and processes alone."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from fastmos.errors import InputError
from fastmos.training.state import Carried, State, load_state, noise_from, save_state


def trained_part(steps: int) -> tuple[nn.Linear, torch.optim.Optimizer, torch.amp.GradScaler]:
    torch.manual_seed(steps)
    model = nn.Linear(3, 2)
    optimizer, scaler = torch.optim.Adam(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", enabled=True)
    for step in range(steps):
        advance(model, optimizer, scaler, step)
    return model, optimizer, scaler


def advance(model: nn.Module, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler, step: int) -> None:
    noise_from(1, step, 0)
    loss: Tensor = scaler.scale(model(torch.randn(4, 3)).square().sum())
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    scaler.step(optimizer)
    scaler.update()


STATE = State("data", 2, step=3, epoch=1, batch=2, skipped=4, streak=1, history=[(2, 0.5), (3, float("-inf"))])


@pytest.mark.parametrize("rank", [0, 1])
def test_everything_comes_back(rank: int, tmp_path: Path) -> None:
    parts, fresh = trained_part(3), trained_part(0)
    carried: list[Carried] = [(torch.ones(2, 3), torch.zeros(1)), (torch.full((2, 3), 2.0), torch.ones(1))]
    save_state(tmp_path / "state", STATE, *parts, carried)
    state, found = load_state(tmp_path / "state", State("data", 2), rank, *fresh)
    assert state == STATE
    assert found is not None
    for ours, theirs in zip(found, carried[rank] or (), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    for model, optimizer, scaler in (parts, fresh):
        advance(model, optimizer, scaler, 3)
    for before, after in zip(parts[0].parameters(), fresh[0].parameters(), strict=True):
        assert torch.equal(before, after)
    assert parts[2].state_dict() == fresh[2].state_dict()


def test_nothing_carried_comes_back_as_nothing(tmp_path: Path) -> None:
    save_state(tmp_path / "state", State("data", 1), *trained_part(1), [None])
    assert load_state(tmp_path / "state", State("data", 1), 0, *trained_part(0))[1] is None


@pytest.mark.parametrize(
    ("fresh", "said"),
    [
        (State("other", 2), "the training or validation data has changed since this run began; use another folder"),
        (State("data", 3), "was trained by 2 processes, not 3; start as many"),
    ],
)
def test_other_data_and_processes_are_refused(fresh: State, said: str, tmp_path: Path) -> None:
    save_state(tmp_path / "state", STATE, *trained_part(1), [None, None])
    model, optimizer, scaler = trained_part(0)
    before = model.weight.clone()
    with pytest.raises(InputError) as refused:
        load_state(tmp_path / "state", fresh, 0, model, optimizer, scaler)
    assert str(refused.value) == f"{tmp_path}: {said}"
    assert torch.equal(model.weight, before)


def test_noise_depends_on_seed_step_and_rank() -> None:
    def drawn(*place: int) -> tuple[float, ...]:
        noise_from(*place)
        return tuple(torch.rand(4).tolist())

    places = [(1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1), (1, 11, 1), (11, 1, 1), (1, 1, 11)]
    assert len({drawn(*place) for place in places}) == len(places)
    assert drawn(1, 5, 0) == drawn(1, 5, 0)
