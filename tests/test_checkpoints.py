"""Files of weights: read back exactly, refused when damaged, kept as long as needed."""

import errno
import os
from pathlib import Path

import pytest
import torch
from torch import nn

from fastmos.checkpoints import (
    Checkpoints,
    average_weights,
    load_weights,
    read_tensors,
    weights,
    write_tensors,
)
from fastmos.errors import InputError


def some_tensors() -> dict[str, torch.Tensor]:
    return {
        "a": torch.randn(3, 4),
        "b": torch.arange(5),
        "c": torch.randn(2).bfloat16(),
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(1.5),
        "transposed": torch.randn(3, 4).t(),
    }


def test_tensors_and_notes_come_back(tmp_path: Path) -> None:
    tensors, notes = some_tensors(), {"step": 3, "value": 0.1 + 0.2, "worst": float("-inf"), "name": "ä"}
    write_tensors(tmp_path / "x", tensors, notes)
    found, told = read_tensors(tmp_path / "x")
    assert told == notes
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) and found[name].dtype == tensors[name].dtype for name in found)


def test_equal_contents_make_equal_files(tmp_path: Path) -> None:
    tensors = some_tensors()
    for name in ("x", "y"):
        write_tensors(tmp_path / name, tensors, {"b": 1, "a": 2})
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


@pytest.mark.parametrize("place", [0, 4, 9, 40, 200, -1, -30])
def test_a_changed_byte_is_refused(place: int, tmp_path: Path) -> None:
    write_tensors(tmp_path / "x", some_tensors(), {"step": 3})
    damaged = bytearray((tmp_path / "x").read_bytes())
    damaged[place] ^= 1
    (tmp_path / "x").write_bytes(damaged)
    with pytest.raises(InputError, match=f"^{tmp_path}/x: "):
        read_tensors(tmp_path / "x")


@pytest.mark.parametrize("size", [0, 1, 8, 100, -1])
def test_a_truncated_file_is_refused(size: int, tmp_path: Path) -> None:
    write_tensors(tmp_path / "x", some_tensors(), {"step": 3})
    (tmp_path / "x").write_bytes((tmp_path / "x").read_bytes()[:size])
    with pytest.raises(InputError, match="damaged"):
        read_tensors(tmp_path / "x")
    with pytest.raises(InputError, match="no such file"):
        read_tensors(tmp_path / "y")


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tensors(tmp_path / "x", some_tensors(), {"step": 1})
    before = (tmp_path / "x").read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_tensors(tmp_path / "x", some_tensors(), {"step": 2})
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("x", before)]


def test_tied_weights_are_written_once_and_come_back() -> None:
    first, second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
    second.weight = first.weight
    model = nn.Sequential(first, second)
    assert list(weights(model)) == ["0.weight"]
    load_weights(model, {"0.weight": torch.ones(3, 3)}, Path("x"))
    assert torch.equal(second.weight, torch.ones(3, 3))


def test_weights_of_another_model_are_refused() -> None:
    model = nn.Linear(3, 2)
    with pytest.raises(InputError, match=r"x: does not fit the model of its config \(weight 'bias'\)"):
        load_weights(model, {"weight": torch.ones(2, 3)}, Path("x"))
    with pytest.raises(InputError, match=r"weight 'weight' is \[3, 3\], not \[2, 3\]"):
        load_weights(model, {"weight": torch.ones(3, 3), "bias": torch.ones(2)}, Path("x"))


def test_average_is_the_mean(tmp_path: Path) -> None:
    parts = [{"a": torch.randn(7), "b": torch.randn(2, 2)} for _ in range(3)]
    for number, part in enumerate(parts):
        write_tensors(tmp_path / f"{number}", part, {})
    mean = average_weights([tmp_path / f"{number}" for number in range(3)])
    for name in ("a", "b"):
        expected = torch.stack([part[name].double() for part in parts]).mean(0).float()
        assert torch.equal(mean[name], expected)
    write_tensors(tmp_path / "other", {"a": torch.randn(7)}, {})
    with pytest.raises(InputError, match="has other weights than"):
        average_weights([tmp_path / "0", tmp_path / "other"])


@pytest.mark.parametrize(
    ("values", "best", "last", "stay"),
    [
        ([1.0, 5.0, 3.0, 4.0, 2.0], 2, 2, [20, 40, 50]),
        ([1.0, 5.0, 3.0, 4.0, 2.0], 1, 0, [20]),
        ([1.0, 1.0, 1.0], 1, 1, [10, 30]),  # of equals the first is best
        ([1.0, 2.0], 5, 5, [10, 20]),
        ([1.0, 2.0], 0, 0, []),
    ],
)
def test_the_best_and_the_last_stay(values: list[float], best: int, last: int, stay: list[int], tmp_path: Path) -> None:
    folder = Checkpoints(tmp_path)
    history = [(10 * number, value) for number, value in enumerate(values, 1)]
    for step, _ in history:
        folder.path(step).touch()
    folder.prune(history, best, last)
    assert folder.steps() == stay
