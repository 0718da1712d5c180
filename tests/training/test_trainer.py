"""The loop: what a step divides by, what it does with numbers that are not finite, when it validates and ends."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import fastmos
from fastmos.config import Config, Training
from fastmos.data.batches import Batch
from fastmos.distributed import World
from fastmos.errors import InputError
from fastmos.experiment import begin, train
from fastmos.heads import Usage
from fastmos.heads.modules import MixtureOfSoftmaxes
from fastmos.run_folder import RunFolder
from fastmos.tasks import build_task
from fastmos.tasks.evaluation import Evaluation
from fastmos.training import trainer as loop
from fastmos.training.state import State
from fastmos.training.trainer import HOPELESS, Trainer, reason_to_end, validation_due
from tests.training.tiny import tiny, tiny_language_model


def make_trainer(config: Config, base: Path) -> tuple[Trainer, list[Batch]]:
    """A trainer without a validator, and the batches of its first epoch."""
    task = build_task(config, base, RunFolder(base / "run"))
    begin(task)
    batches = task.training_batches(task.dataset("train"), 0, 1)
    world = World(0, 1, torch.device("cpu"))
    trainer = Trainer(config.training, task.folder, world, task.build_model(), batches, None)  # type: ignore[arg-type]
    return trainer, list(batches.epoch(0))


@pytest.mark.parametrize(("normalize", "count"), [("tokens", "num_tokens"), ("sentences", "sentences")])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_accumulated_gradients_are_those_of_the_whole(
    normalize: str, count: str, smoothing: float, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradient of a step is that of its summed loss over its count of tokens or sentences, however it is cut."""
    training = {
        "loss_normalization": normalize,
        "label_smoothing": smoothing,
        "clip_grad_norm": 0.0,
        "optimizer": "sgd",
    }
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

    monkeypatch.setattr(loop, "clip_gradients", norm)
    monkeypatch.setattr(trainer, "_log", lambda *arguments: None)
    trainer.state, trainer.group, trainer.groups = State("", 1), group, iter([batches[3:]])
    assert trainer.step()
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-7)


def spoil(monkeypatch: pytest.MonkeyPatch, steps: Callable[[int], bool]) -> None:
    """Make the loss of some steps nan."""
    backward = Trainer._backward

    def spoilt(self: Trainer, group: list[Batch], count: float) -> tuple[Tensor, Tensor]:
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
    train(tiny(training={"max_epochs": 2, "autocast": autocast}), digits, digits / "run")
    assert [record["skipped"] for record in records(digits / "run") if "skipped" in record] == [2, 2, 3, 3]


def test_a_run_that_stays_without_finite_steps_stops(digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, lambda step: step > 4)
    with pytest.raises(InputError, match=f"not finite for {HOPELESS} steps in a row, up to step {HOPELESS + 4}; lower"):
        train(tiny(), digits, digits / "run")


def test_a_collapsed_mixture_is_said(
    digits: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(MixtureOfSoftmaxes, "usage", lambda self, hidden: Usage(1.05, 0.05, [0.99, 0.01]))
    train(tiny(training={"max_epochs": 1}), digits, digits / "run")
    assert "warning: the mixture has collapsed: 1.05 of its 2 softmaxes are in use" in capsys.readouterr().err
    assert [record["effective_mixtures"] for record in records(digits / "run") if "bleu" in record] == [1.05]


@pytest.mark.parametrize(("line", "said"), [("1 2 3", False), ("1 x 3", True)])
def test_unknown_words_that_come_too_late_are_said(
    line: str, said: bool, digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (digits / "valid.b").write_text(f"{line}\n" * 8)
    train(tiny(training={"max_epochs": 1}), digits, digits / "run")
    assert ("valid.b: 8 unknown words, but none in training" in capsys.readouterr().err) == said


@pytest.mark.parametrize(
    ("training", "state", "due"),
    [
        ({}, {"step": 0}, False),
        ({}, {"step": 6, "epoch": 1, "batch": 0}, True),  # an epoch has ended
        ({}, {"step": 5, "batch": 5}, False),
        ({}, {"step": 6, "epoch": 1, "batch": 0, "history": [(6, 1.0)]}, False),  # done
        ({"validate_every": 4}, {"step": 8, "batch": 2}, True),
        ({"validate_every": 4}, {"step": 6, "epoch": 1, "batch": 0}, False),
        ({"validate_every": 4, "max_steps": 9}, {"step": 9, "batch": 3}, True),  # the end
        ({"validate_every": 4, "max_epochs": 1}, {"step": 6, "epoch": 1, "batch": 0}, True),
    ],
)
def test_when_to_validate(training: dict[str, Any], state: dict[str, Any], due: bool) -> None:
    assert validation_due(Training(**training), State("", 1, **state)) is due


@pytest.mark.parametrize(
    ("training", "state", "reason"),
    [
        ({}, {"step": 6, "epoch": 1, "history": [(6, 1.0)]}, ""),
        ({"max_epochs": 1}, {"step": 6, "epoch": 1}, ""),  # not validated yet
        ({"max_epochs": 1}, {"step": 6, "epoch": 1, "history": [(6, 1.0)]}, "all steps done"),
        ({"max_steps": 6}, {"step": 6, "batch": 2, "history": [(6, 1.0)]}, "all steps done"),
        (
            {"early_stopping_patience": 2},
            {"step": 6, "history": [(2, 1.0), (4, 0.5), (6, 0.9)]},
            "no new best in 2 validations",
        ),
        ({"early_stopping_patience": 2}, {"step": 6, "history": [(2, 1.0), (4, 0.5), (6, 1.1)]}, ""),
        ({"early_stopping_patience": 2}, {"step": 7, "history": [(2, 1.0), (4, 0.5), (6, 0.9)]}, ""),  # cannot be
    ],
)
def test_when_to_end(training: dict[str, Any], state: dict[str, Any], reason: str) -> None:
    assert reason_to_end(Training(**training), State("", 1, **state)) == reason


def test_a_log_and_events_are_kept(digits: Path) -> None:
    pytest.importorskip("tensorboard")
    train(tiny_language_model(max_epochs=2, log_every=4, log_to="tensorboard"), digits, digits / "run")
    log = records(digits / "run")
    steps = [record["step"] for record in log if "loss" in record]
    ends = [record["step"] for record in log if "nll_per_word" in record]
    assert steps == sorted({*range(4, ends[-1] + 1, 4), *ends})  # no step goes missing before a validation
    assert [record["epoch"] for record in log if "nll_per_word" in record] == [1, 2]
    assert log[0]["about"]["seed"] == 1
    assert all(1 < record["effective_mixtures"] <= 2 for record in log if "nll_per_word" in record)
    assert list((digits / "run" / "tensorboard").glob("events.*"))


# Matrix products in bfloat16 die on some processors unless the library is told which instructions to use.
BFLOAT16 = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from fastmos.experiment import begin, train
from tests.training.tiny import tiny
base = Path(sys.argv[1])
train(tiny(training={"max_epochs": 2, "autocast": "bf16"}), base, base / "run")
"""


def test_trains_in_bfloat16(digits: Path) -> None:
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", BFLOAT16, str(digits)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    losses = [record["loss"] for record in records(digits / "run") if "loss" in record]
    assert losses[-1] < losses[0]


def test_the_log_is_strict_json(digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that were all skipped have no loss, and a norm that is not finite is none."""
    spoil(monkeypatch, lambda step: step <= 3)
    train(tiny(training={"max_epochs": 1}), digits, digits / "run")
    lines = (digits / "run" / "log.jsonl").read_text().splitlines()
    found = [json.loads(line, parse_constant=lambda text: pytest.fail(text)) for line in lines]
    losses = [(record["loss"], record["grad_norm"] is None) for record in found if "loss" in record]
    assert losses[0] == (None, True) and losses[1][0] > 0


@pytest.mark.parametrize("when", ["in training", "in validation"])
def test_a_run_that_diverges_stops_and_names_the_weights_that_it_keeps(
    when: str, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if when == "in training":
        backward = Trainer._backward

        def worse(self: Trainer, group: list[Batch], count: float) -> tuple[Tensor, Tensor]:
            loss, nll = backward(self, group, count)
            return loss, nll * (1e7 if self.state.step > 14 else 1)

        monkeypatch.setattr(Trainer, "_backward", worse)
    else:
        evaluate = Trainer._evaluate

        def bad(self: Trainer) -> Evaluation:
            found = evaluate(self)
            likelihood = replace(found.likelihood, nll_per_word=2e7 if self.state.step > 12 else 1.0)
            return replace(found, likelihood=likelihood)

        monkeypatch.setattr(Trainer, "_evaluate", bad)
    with pytest.raises(InputError, match=r"^training has diverged: NLL \S+ at step 1[58]; the best weights, of step "):
        train(tiny(training={"early_stopping_metric": "nll"}), digits, digits / "run")
    assert fastmos.load(digits / "run").translate(["1 2"])
    assert max(RunFolder(digits / "run").checkpoints.steps()) == 12


def test_an_lstm_in_half_precision_is_refused_where_there_is_none(
    digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*arguments: Any) -> None:
        raise RuntimeError("could not create a primitive descriptor for the LSTM forward propagation primitive")

    monkeypatch.setattr(torch.nn.LSTM, "forward", none)
    with pytest.raises(InputError, match=r"^training\.autocast fp16 has no LSTM on this cpu; use bf16 or none$"):
        train(tiny(training={"autocast": "fp16"}), digits, digits / "run")
