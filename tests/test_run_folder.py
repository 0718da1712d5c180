"""The run folder: whom it lets in, and what it refuses."""

import signal
from pathlib import Path
from typing import Any

import pytest

from fastmos.config import Config, changed
from fastmos.errors import InputError
from fastmos.inference.run import average
from fastmos.run_folder import BusyError, RunFolder
from tests.training.tiny import in_child, tiny


def begun(root: Path, config: Config) -> RunFolder:
    """A folder in which a training has saved its state."""
    folder = RunFolder(root)
    folder.begin(config, Path("/base"))
    folder.state.touch()
    return folder


def test_a_folder_tells_what_it_was_made_for(tmp_path: Path) -> None:
    config = tiny()
    assert begun(tmp_path / "run", config).read() == (config, Path("/base"))


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(InputError, match=r"no such folder; give the folder that fastmos train made$"):
        folder.read()
    folder.root.mkdir()
    with pytest.raises(InputError, match=r"not a run folder \(it has no run\.json\)$"):
        folder.read()


def test_a_config_that_was_cut_between_lines_is_refused_wherever(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run", tiny())
    lines = folder.config.read_text().splitlines(keepends=True)
    for kept in range(len(lines)):
        folder.config.write_text("".join(lines[:kept]))
        with pytest.raises(InputError, match=r"config\.yaml: "):
            folder.read()
    cut = "".join(lines[: lines.index("search:\n")])
    folder.config.write_text(cut)
    with pytest.raises(InputError, match=r"is cut off \(it has no search\.max_length\); get the whole folder again$"):
        folder.read()
    folder.config.write_text(f"{cut}search: {{beam_size: 2, max_length: 7}}\n")  # as a user may edit it
    assert folder.read()[0].search.max_length == 7


def test_other_peoples_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(InputError, match=r"not a run folder, and not empty; give another --folder$"):
        RunFolder(tmp_path).begin(tiny(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with folder.lock():
        folder.begin(tiny(), tmp_path)
    assert folder.read()[0] == tiny()


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({}, ""),
        ({"training": {"max_epochs": 9}}, ""),
        ({"training": {"early_stopping_patience": 3}}, ""),
        ({"training": {"log_to": "tensorboard"}}, ""),
        ({"training": {"max_steps": 9}}, ""),
        ({"data": {"train": {"source": "/elsewhere/train.a"}}}, ""),
        ({"data": {"cache": "elsewhere"}}, ""),
        ({"data": {"max_length": 9}}, "data.max_length 256, not 9"),
        ({"model": {"hidden_size": 6}}, "model.hidden_size 8, not 6"),
        ({"model": {"type": "transformer", "num_heads": 2}}, "model."),
        ({"head": {"type": "softmax"}}, "head."),
        ({"training": {"seed": 2}}, "training.seed 1, not 2"),
    ],
)
def test_a_run_may_be_made_longer_but_not_changed(changes: dict[str, Any], refused: str, tmp_path: Path) -> None:
    folder = begun(tmp_path / "run", tiny())
    before = folder.config.read_bytes()
    config = changed(tiny(), changes)
    if refused:
        with pytest.raises(InputError) as error:
            folder.begin(config, Path("/base"))
        assert str(error.value).startswith(f"{folder.root}: was trained with {refused}")
        assert str(error.value).endswith("; give another --folder")
    else:
        folder.begin(config, Path("/base"))
    assert folder.config.read_bytes() == before  # until the data is known to be the same


def test_steps_may_not_be_added_if_the_rate_counts_down_to_the_last(tmp_path: Path) -> None:
    config = tiny(training={"max_steps": 3, "lr_schedule": "linear"})
    with pytest.raises(InputError, match=r"was trained with training\.max_steps 3, not 5"):
        begun(tmp_path / "run", config).begin(changed(config, {"training": {"max_steps": 5}}), tmp_path)


def test_a_run_without_state_begins_anew(tmp_path: Path) -> None:
    folder, other = RunFolder(tmp_path / "run"), changed(tiny(), {"model": {"hidden_size": 6}})
    folder.begin(tiny(), tmp_path)
    folder.begin(other, tmp_path)
    assert folder.read()[0] == other


def test_averaged_weights_are_not_trained_over(trained: Path, tmp_path: Path) -> None:
    average(trained / "run", tmp_path / "mean", last=1)
    folder = RunFolder(tmp_path / "mean")
    before = {file.name: file.read_bytes() for file in folder.root.iterdir()}
    with pytest.raises(InputError, match=r"holds averaged weights, which are not trained on; give another --folder$"):
        folder.begin(*folder.read())
    assert {file.name: file.read_bytes() for file in folder.root.iterdir()} == before


def test_one_training_at_a_time(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")

    def enter() -> None:
        with RunFolder(tmp_path / "run").lock():
            pass

    with folder.lock(), pytest.raises(BusyError, match=r"another process trains in this folder; wait for it$"):
        enter()
    enter()  # the first has left


def test_a_killed_training_leaves_no_lock_and_its_rests_are_cleared(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")

    def killed() -> None:
        with folder.lock():
            (folder.root / ".state.safetensors.1.tmp").touch()
            (folder.root / ".averaged.1.tmp").mkdir()
            signal.raise_signal(signal.SIGKILL)

    assert in_child(killed) == -signal.SIGKILL
    assert list(folder.root.glob(".*.tmp"))
    with folder.lock():
        assert not list(folder.root.glob(".*.tmp"))
