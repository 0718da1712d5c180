"""The log of a run: what it writes, what it forgets after a kill, and what it shows."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fastmos.errors import InputError
from fastmos.training.run_log import RunLog

PROGRESS = {"epoch": 1, "loss": 2.5, "perplexity": 12.18, "tokens_per_second": 1234.5, "learning_rate": 0.001}


def make_log(folder: Path, step: int = 0, validated: int = 0, **options: Any) -> RunLog:
    return RunLog(folder, folder / "log.jsonl", step, validated, options.pop("total", None), **options)


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]


def test_a_record_is_a_line(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    written: list[dict[str, Any]] = [{"step": 1, "loss": 2.5}, {"step": 2, "note": "größer\nals"}]
    for record in written:
        log.write(record)
    log.close()
    assert records(tmp_path) == written


@pytest.mark.parametrize(
    ("step", "validated", "kept"),
    [(0, 0, [0]), (2, 0, [0, 2]), (4, 0, [0, 2, 4]), (4, 4, [0, 2, 4, 4.5]), (8, 8, [0, 2, 4, 4.5, 6, 8, 8.5])],
)
def test_what_a_killed_run_did_after_its_last_save_is_forgotten(
    step: int, validated: int, kept: list[float], tmp_path: Path
) -> None:
    """Steps up to the saved one stay, validations up to the last saved one; these are marked by a half below."""
    log = make_log(tmp_path)
    for number in (0, 2, 4, 6, 8):
        log.write({"step": number})
        if number in (4, 8):
            log.write({"step": number, "nll_per_word": 1.0})
    with open(tmp_path / "log.jsonl", "a") as file:
        file.write('{"step": 0, "lo')  # half a line
    make_log(tmp_path, step, validated)
    assert [record["step"] + ("nll_per_word" in record) / 2 for record in records(tmp_path)] == kept


@pytest.mark.parametrize(
    ("total", "shown"),
    [(None, "step 1,500: epoch 1"), (1500, "step 1,500 of 1,500, under a minute left: epoch 1")],
)
def test_progress_is_written_and_shown(
    total: int | None, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = make_log(tmp_path, total=total)
    log.progress({"step": 1500, **PROGRESS})
    said = capsys.readouterr().err
    assert said == f"{shown}, loss 2.500, perplexity 12.2, 1,234 tokens/s, learning rate 0.001\n"
    assert records(tmp_path) == [{"step": 1500, **PROGRESS}]


def test_a_silent_log_does_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = make_log(tmp_path, silent=True, log_to="wandb")
    log.say("a sentence")
    log.progress({"step": 1, **PROGRESS})
    log.advance(1)
    log.close()
    assert list(tmp_path.iterdir()) == []
    assert "a sentence" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("log_to", "module", "package"),
    [("tensorboard", "torch.utils.tensorboard", "tensorboard"), ("wandb", "wandb", "wandb")],
)
def test_a_missing_package_is_said_in_a_sentence(
    log_to: str, module: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError) as refused:
        make_log(tmp_path, log_to=log_to)
    assert str(refused.value) == f"training.log_to {log_to} needs the package {package}; pip install it"


def test_tensorboard_gets_the_numbers(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = make_log(tmp_path, log_to="tensorboard")
    for step in (1, 2):
        log.write({"step": step, "loss": 3.0 - step, "note": "text"})
    log.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("train/loss")] == [(1, 2.0), (2, 1.0)]
    assert set(events.Tags()["scalars"]) == {"train/step", "train/loss"}
