"""The log of a run: log.jsonl, TensorBoard or Weights & Biases if asked for, a bar on a terminal, lines elsewhere."""

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from fastmos.errors import InputError, printable
from fastmos.files import read_json_lines, written_whole
from fastmos.progress import draws_bars


class RunLog:
    """The log of a run. A silent one, for processes other than the first, does nothing."""

    def __init__(
        self,
        folder: Path,
        log: Path,
        step: int,
        validated: int,
        total: int | None,
        log_to: str = "none",
        silent: bool = False,
    ) -> None:
        """Resume at `step`, the last validation having been at step `validated`."""
        self.log, self.total, self.silent = log, total, silent
        self.start, self.first = time.monotonic(), step
        self.board: Board | None = None
        self.bar: _Bar | None = None
        if silent:
            return
        _forget_after(log, step, validated)
        self.board = BOARDS[log_to](folder, step) if log_to != "none" else None
        self.bar = _Bar(step, total) if draws_bars() else None

    def say(self, sentence: str) -> None:
        """Some lines for the person who watches."""
        sentence = printable(sentence, keep="\n")
        if self.bar:
            self.bar.say(sentence)
        elif not self.silent:
            print(sentence, file=sys.stderr, flush=True)

    def write(self, record: Mapping[str, Any]) -> None:
        """One line for the log, and its numbers for TensorBoard or Weights & Biases."""
        if self.silent:
            return
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(_line(record))
        if self.board:
            kind = "valid" if "nll_per_word" in record else "train"
            numbers = {f"{kind}/{name}": one for name, one in record.items() if isinstance(one, int | float)}
            self.board.log(numbers, record["step"])

    def progress(self, record: Mapping[str, Any]) -> None:
        """A line of the log about some steps, shown with what is left to do."""
        self.write(record)
        step = record["step"]
        figures = "no step with a finite gradient"
        if record["loss"] is not None:
            figures = f"loss {record['loss']:.3f}, perplexity {record['perplexity']:.1f}"
        short = (
            f"epoch {record['epoch']}, {figures}, "
            f"{record['tokens_per_second']:,.0f} tokens/s, learning rate {record['learning_rate']:.3g}"
        )
        if self.bar:
            self.bar.describe(short)
            return
        total = ""
        if self.total:
            seconds = (time.monotonic() - self.start) / max(step - self.first, 1) * (self.total - step)
            total = f" of {self.total:,}, {_span(seconds)} left"
        self.say(f"step {step:,}{total}: {short}")

    def advance(self, step: int) -> None:
        if self.bar:
            self.bar.advance(step)

    def close(self) -> None:
        if self.bar:
            self.bar.close()
        if self.board:
            self.board.close()


class _Bar:
    """A bar with speed and ETA."""

    def __init__(self, step: int, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self.progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.progress.add_task("training", total=total, completed=step)
        self.progress.start()

    def say(self, sentence: str) -> None:
        self.progress.console.print(sentence, markup=False, highlight=False)

    def describe(self, text: str) -> None:
        self.progress.update(self.task, description=text)

    def advance(self, step: int) -> None:
        self.progress.update(self.task, completed=step)

    def close(self) -> None:
        self.progress.stop()


def _line(record: Mapping[str, Any]) -> str:
    """A record as strict JSON: there are no infinite numbers in it, and null stands for them."""
    finite = {name: None if isinstance(one, float) and not math.isfinite(one) else one for name, one in record.items()}
    return json.dumps(finite, ensure_ascii=False, allow_nan=False) + "\n"


def _span(seconds: float) -> str:
    minutes = round(seconds / 60)
    return (
        f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min" if minutes else "under a minute"
    )


def _forget_after(log: Path, step: int, validated: int) -> None:
    """Drop what a killed run logged after its last save, and a half-written last line."""
    if not log.exists():
        return
    kept = []
    for record in read_json_lines(log):
        if type(record.get("step")) is int and record["step"] <= (validated if "nll_per_word" in record else step):
            kept.append(_line(record))
    with written_whole(log) as file:
        file.write("".join(kept))


class Board(Protocol):
    """Where metrics are shown while a run trains."""

    def log(self, numbers: Mapping[str, float], step: int) -> None: ...
    def close(self) -> None: ...


class TensorBoard:
    """Event files in the run folder, for `tensorboard --logdir`."""

    def __init__(self, folder: Path, step: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise InputError("training.log_to tensorboard needs the package tensorboard; pip install it") from None
        self.writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        self.writer.close()


class WeightsAndBiases:
    """A run of the project `fastmos`, named as the run folder, which a resumed training continues."""

    def __init__(self, folder: Path, step: int) -> None:
        try:
            import wandb
        except ImportError:
            raise InputError("training.log_to wandb needs the package wandb; pip install it") from None
        name = folder.resolve().name
        self.run = wandb.init(project="fastmos", name=name, id=name, dir=str(folder), resume="allow")

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        self.run.log(dict(numbers), step=step)

    def close(self) -> None:
        self.run.finish()


BOARDS: dict[str, Callable[[Path, int], Board]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}
