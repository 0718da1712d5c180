"""The state of a run: all of it comes back from its file, and it fits its data and processes alone."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from fastmos.checkpoints import write_tensors
from fastmos.errors import InputError
from fastmos.training.state import Carried, State, begun_with, load_state, noise_from, restore_state, save_state


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


def test_other_data_is_refused(tmp_path: Path) -> None:
    save_state(tmp_path / "state", STATE, *trained_part(1), [None, None])
    model, optimizer, scaler = trained_part(0)
    before = model.weight.clone()
    with pytest.raises(InputError) as refused:
        load_state(tmp_path / "state", State("other", 2), 0, model, optimizer, scaler)
    said = "the training or validation data has changed since this run began; use another folder"
    assert str(refused.value) == f"{tmp_path}: {said}"
    assert torch.equal(model.weight, before)


@pytest.mark.parametrize(("before", "now"), [(2, 1), (1, 3), (2, 3), (3, 2), (4, 2), (2, 2)])
def test_streams_are_dealt_out_to_another_number_of_processes(before: int, now: int, tmp_path: Path) -> None:
    """Stream s was with process s modulo their number, and is so again."""
    hidden = torch.arange(12.0)[None, :, None].expand(2, 12, 3)  # [layers, streams, D]
    carried: list[Carried] = [(hidden[:, rank::before], -hidden[:, rank::before]) for rank in range(before)]
    save_state(tmp_path / "state", State("data", before), *trained_part(1), carried)
    for rank in range(now):
        state, found = load_state(tmp_path / "state", State("data", now), rank, *trained_part(0))
        assert found is not None and state.processes == before
        assert torch.equal(found[0], hidden[:, rank::now]) and torch.equal(found[1], -found[0])
    assert begun_with(tmp_path / "state", 9) == before
    assert begun_with(tmp_path / "none", 9) == 9


def test_more_processes_than_streams_are_refused(tmp_path: Path) -> None:
    save_state(tmp_path / "state", State("data", 1), *trained_part(1), [(torch.ones(1, 2, 3),)])
    with pytest.raises(InputError, match="has 2 streams of text; start at most so many processes"):
        load_state(tmp_path / "state", State("data", 3), 0, *trained_part(0))


def test_a_damaged_state_falls_back_to_the_one_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "state"
    for step in (1, 2, 3):
        save_state(path, State("data", 1, step=step), *trained_part(step), [None])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["previous-state", "state"]
    assert load_state(path, State("data", 1), 0, *trained_part(0))[0].step == 3
    assert capsys.readouterr().err == ""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    for damaged in (bytes(content), content[:100], b""):
        path.write_bytes(damaged)
        assert load_state(path, State("data", 1), 0, *trained_part(0))[0].step == 2
        assert f"warning: {path}: damaged; resuming from previous-state" in capsys.readouterr().err
        assert begun_with(path, 9) == 1
    path.unlink()
    restore_state(path)
    assert load_state(path, State("data", 1), 0, *trained_part(0))[0].step == 2
    for file in tmp_path.iterdir():
        file.write_bytes(b"")
    with pytest.raises(InputError, match="state: damaged, and previous-state too; use another folder"):
        load_state(path, State("data", 1), 0, *trained_part(0))


def test_a_state_of_another_version_gets_a_sentence(tmp_path: Path) -> None:
    write_tensors(tmp_path / "state", {}, {"state": {"years": 3}})
    with pytest.raises(InputError, match="not a state of this version of fastmos"):
        load_state(tmp_path / "state", State("data", 1), 0, *trained_part(0))


def test_noise_depends_on_seed_step_and_rank() -> None:
    def drawn(*place: int) -> tuple[float, ...]:
        noise_from(*place)
        return tuple(torch.rand(4).tolist())

    places = [(1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1), (1, 11, 1), (11, 1, 1), (1, 1, 11)]
    assert len({drawn(*place) for place in places}) == len(places)
    assert drawn(1, 5, 0) == drawn(1, 5, 0)
