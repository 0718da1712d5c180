"""The loop: what a step divides by, what it does with numbers that are not finite, when it validates and ends."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fastmos.data import Batch, EncodedText
from fastmos.errors import InputError
from fastmos.heads import Usage
from fastmos.heads.modules import MixtureOfSoftmaxes
from fastmos.training import loop
from fastmos.training.build import build_model, encode, learn_codings, load_codings, training_batches
from fastmos.training.config import Config, Training
from fastmos.training.decoding import score_running_text
from fastmos.training.distributed import World
from fastmos.training.experiment import train
from fastmos.training.folder import RunFolder
from fastmos.training.loop import HOPELESS, Trainer, reason_to_end, validation_due
from fastmos.training.run import load
from fastmos.training.state import State
from tests.training.tiny import tiny, tiny_language_model


def make_trainer(config: Config, base: Path) -> tuple[Trainer, list[Batch]]:
    """A trainer without a validator, and the batches of its first epoch."""
    folder = RunFolder(base / "run")
    learn_codings(config, base, folder)
    source, target = load_codings(folder)
    pair = encode(config, config.data.train, source, target, base, folder)
    batches = training_batches(config, pair, 0, 1)
    world = World(0, 1, torch.device("cpu"))
    trainer = Trainer(config, folder, world, build_model(config, source, target), batches, None)  # type: ignore[arg-type]
    return trainer, list(batches.epoch(0))


@pytest.mark.parametrize(("normalise", "count"), [("tokens", "tokens"), ("sentences", "sentences")])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_accumulated_gradients_are_those_of_the_whole(
    normalise: str, count: str, smoothing: float, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradient of a step is that of its summed loss over its count of tokens or sentences, however it is cut."""
    training = {"normalise": normalise, "smoothing": smoothing, "clip": 0.0, "optimiser": "sgd"}
    config = tiny(training=training, model={"dropout": 0.0}, head={"dropout": 0.0})
    trainer, batches = make_trainer(config, digits)
    group = batches[:3]
    loss = torch.zeros(())
    for batch in group:
        loss = loss + trainer.model(batch, label_smoothing=smoothing)[0].loss
    total = sum(getattr(batch, count) for batch in group)
    expected = torch.autograd.grad(loss / total, list(trainer.model.parameters()))

    found: list[Tensor] = []

    def norm(parameters: Any, clip: float) -> Tensor:
        found.extend(parameter.grad.clone() for parameter in parameters)
        return torch.zeros(())

    monkeypatch.setattr(loop, "gradient_norm", norm)
    monkeypatch.setattr(trainer, "_log", lambda *arguments: None)
    trainer.state, trainer.group, trainer.groups = State("", 1), group, iter([batches[3:]])
    assert trainer._step()
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-7)


def spoil(monkeypatch: pytest.MonkeyPatch, steps: Callable[[int], bool]) -> None:
    """Make the loss of some steps nan."""
    backward = Trainer._backward

    def spoilt(self: Trainer, group: list[Batch], count: float) -> Tensor:
        return backward(self, group, float("nan") if steps(self.state.step + 1) else count)

    monkeypatch.setattr(Trainer, "_backward", spoilt)


def records(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("autocast", ["none", "fp16"])
def test_steps_that_are_not_finite_are_skipped_and_counted(
    autocast: str, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch, lambda step: step in (2, 3, 7))
    if autocast == "fp16":  # the scaler alone: some processors have no matrix products in half precision
        monkeypatch.setattr(torch, "autocast", lambda *arguments, **options: nullcontext())
    train(tiny(training={"epochs": 2, "autocast": autocast}), digits, digits / "run")
    assert [record["skipped"] for record in records(digits / "run") if "skipped" in record] == [2, 2, 3, 3]


def test_a_run_that_stays_without_finite_steps_stops(digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, lambda step: step > 4)
    with pytest.raises(InputError, match=f"not finite for {HOPELESS} steps in a row, up to step {HOPELESS + 4}; lower"):
        train(tiny(), digits, digits / "run")


def test_a_collapsed_mixture_is_said(
    digits: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(MixtureOfSoftmaxes, "usage", lambda self, hidden: Usage(1.05, 0.05, [0.99, 0.01]))
    train(tiny(training={"epochs": 1}), digits, digits / "run")
    assert "warning: the mixture has collapsed: 1.05 of its 2 softmaxes are in use" in capsys.readouterr().err
    assert [record["effective_mixtures"] for record in records(digits / "run") if "bleu" in record] == [1.05]


@pytest.mark.parametrize(("line", "said"), [("1 2 3", False), ("1 x 3", True)])
def test_unknown_words_that_come_too_late_are_said(
    line: str, said: bool, digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (digits / "valid.b").write_text(f"{line}\n" * 8)
    train(tiny(training={"epochs": 1}), digits, digits / "run")
    assert ("valid.b: 8 unknown words, but none to learn from" in capsys.readouterr().err) == said


@pytest.mark.parametrize(
    ("training", "state", "due"),
    [
        ({}, {"step": 0}, False),
        ({}, {"step": 6, "epoch": 1, "batch": 0}, True),  # an epoch has ended
        ({}, {"step": 5, "batch": 5}, False),
        ({}, {"step": 6, "epoch": 1, "batch": 0, "history": [(6, 1.0)]}, False),  # done
        ({"validate_every": 4}, {"step": 8, "batch": 2}, True),
        ({"validate_every": 4}, {"step": 6, "epoch": 1, "batch": 0}, False),
        ({"validate_every": 4, "steps": 9}, {"step": 9, "batch": 3}, True),  # the end
        ({"validate_every": 4, "epochs": 1}, {"step": 6, "epoch": 1, "batch": 0}, True),
    ],
)
def test_when_to_validate(training: dict[str, Any], state: dict[str, Any], due: bool) -> None:
    assert validation_due(Training(**training), State("", 1, **state)) is due


@pytest.mark.parametrize(
    ("training", "state", "reason"),
    [
        ({}, {"step": 6, "epoch": 1, "history": [(6, 1.0)]}, ""),
        ({"epochs": 1}, {"step": 6, "epoch": 1}, ""),  # not validated yet
        ({"epochs": 1}, {"step": 6, "epoch": 1, "history": [(6, 1.0)]}, "all steps done"),
        ({"steps": 6}, {"step": 6, "batch": 2, "history": [(6, 1.0)]}, "all steps done"),
        ({"patience": 2}, {"step": 6, "history": [(2, 1.0), (4, 0.5), (6, 0.9)]}, "no new best in 2 validations"),
        ({"patience": 2}, {"step": 6, "history": [(2, 1.0), (4, 0.5), (6, 1.1)]}, ""),
        ({"patience": 2}, {"step": 7, "history": [(2, 1.0), (4, 0.5), (6, 0.9)]}, ""),  # cannot be
    ],
)
def test_when_to_end(training: dict[str, Any], state: dict[str, Any], reason: str) -> None:
    assert reason_to_end(Training(**training), State("", 1, **state)) == reason


def test_a_log_and_events_are_kept(digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # TensorBoard, this time
    train(tiny_language_model(epochs=2, log_every=4), digits, digits / "run")
    log = records(digits / "run")
    steps = [record["step"] for record in log if "loss" in record]
    ends = [record["step"] for record in log if "nats_per_word" in record]
    assert steps == sorted({*range(4, ends[-1] + 1, 4), *ends})  # no step goes missing before a validation
    assert [record["epoch"] for record in log if "nats_per_word" in record] == [1, 2]
    assert log[0]["about"]["seed"] == 1
    assert all(1 < record["effective_mixtures"] <= 2 for record in log if "nats_per_word" in record)
    pytest.importorskip("tensorboard")
    assert list((digits / "run" / "tensorboard").glob("events.*"))


def test_validation_judges_what_evaluation_judges(digits: Path) -> None:
    """Also where sources are longer than training allowed, and are cut."""
    train(tiny(data={"max_length": 3}), digits, digits / "run")
    run = load(digits / "run", "cpu")
    sources, references = ((digits / f"valid.{side}").read_text().splitlines() for side in "ab")
    assert max(len(line.split()) for line in sources) > 3
    with pytest.warns(UserWarning, match="were cut to 3 codes"):
        found = run.evaluate(sources, references)
    assert found.bleu is not None
    best = max(record["bleu"] for record in records(digits / "run") if "bleu" in record)
    assert found.bleu.value == pytest.approx(best, abs=1e-9)


def test_short_running_text_is_one_stream(digits: Path) -> None:
    """Cut into several, most of its words would be judged without what stood before them."""
    train(tiny_language_model(), digits, digits / "run")
    run = load(digits / "run", "cpu")
    text = EncodedText.of(run.target.encode_lines((digits / "valid.b").read_text().splitlines()))
    by_windows, at_once = (score_running_text(run.model, text, window, run.device) for window in (5, 1000))
    assert len(by_windows) == len(text.codes) + len(text) > 16
    np.testing.assert_allclose(by_windows, at_once, rtol=1e-5)


def test_steps_may_be_added_unless_the_rate_counts_down_to_the_last(digits: Path) -> None:
    for schedule in ("constant", "linear"):
        folder = digits / schedule
        train(tiny(training={"steps": 3, "schedule": schedule}), digits, folder)
        longer = tiny(training={"steps": 5, "schedule": schedule})
        if schedule == "linear":
            with pytest.raises(InputError, match=r"was trained with training\.steps 3, not 5"):
                train(longer, digits, folder)
        else:
            train(longer, digits, folder)
            assert records(folder)[-1]["step"] == 5


# Matrix products in bfloat16 die on some processors unless the library is told which instructions to use.
BFLOAT16 = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from fastmos.training import journal
from fastmos.training.experiment import train
from tests.training.tiny import tiny
journal._board = lambda folder, step: None
base = Path(sys.argv[1])
train(tiny(training={"epochs": 2, "autocast": "bf16"}), base, base / "run")
"""


def test_trains_in_bfloat16(digits: Path) -> None:
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", BFLOAT16, str(digits)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    losses = [record["loss"] for record in records(digits / "run") if "loss" in record]
    assert losses[-1] < losses[0]
