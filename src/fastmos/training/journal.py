"""What a run says while it trains: log.jsonl, TensorBoard where installed, a bar on a terminal and lines elsewhere."""

import json
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastmos.files import written_whole


class Journal:
    """The log of a run. A silent one, for processes other than the first, does nothing."""

    def __init__(
        self, folder: Path, log: Path, step: int, validated: int, total: int | None, silent: bool = False
    ) -> None:
        """Go on at `step`, the last validation having been at step `validated`."""
        self.log, self.total, self.silent = log, total, silent
        self.start, self.first = time.monotonic(), step
        self.board = self.bar = None
        if silent:
            return
        _forget_after(log, step, validated)
        self.board = _board(folder, step)
        self.bar = _Bar(step, total) if sys.stderr.isatty() else None

    def say(self, sentence: str) -> None:
        """One line for the person who watches."""
        if self.bar:
            self.bar.say(sentence)
        elif not self.silent:
            print(sentence, file=sys.stderr, flush=True)

    def write(self, record: Mapping[str, Any]) -> None:
        """One line for the log, and its numbers for TensorBoard."""
        if self.silent:
            return
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
        if self.board:
            for name, value in record.items():
                if isinstance(value, int | float) and name not in ("step", "epoch"):
                    self.board.add_scalar(name, value, record["step"])

    def progress(self, record: Mapping[str, Any]) -> None:
        """A line of the log about some steps, shown with what is left to do."""
        self.write(record)
        step = record["step"]
        short = (
            f"epoch {record['epoch']}, loss {record['loss']:.3f} a token, {record['tokens_per_second']:,.0f} tokens/s, "
            f"rate {record['rate']:.3g}"
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
    """A bar with rate and ETA."""

    def __init__(self, step: int, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
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
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(json.JSONDecodeError):
            record = json.loads(line)
            if record["step"] <= (validated if "nats_per_word" in record else step):
                kept.append(line + "\n")
    with written_whole(log) as file:
        file.write("".join(kept))


def _board(folder: Path, step: int) -> Any:
    """TensorBoard's writer, if it is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
