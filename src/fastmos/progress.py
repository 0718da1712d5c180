"""Long work shows how far it is: a bar with speed and ETA on a terminal if rich is installed, plain lines elsewhere."""

import importlib.util
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from fastmos.errors import printable

T = TypeVar("T")
LOG_EVERY_SECONDS = 30.0


def progress(items: Iterable[T], what: str, total: int | None = None, done: int = 0) -> Iterator[T]:
    """Pass the items through while showing, on standard error, how many of `total` are done (`done` of them before)."""
    if draws_bars():
        yield from _bar(items, what, total, done)
    else:
        yield from _log_lines(items, what, total, done)


def draws_bars() -> bool:
    """Is standard error a terminal, and rich installed?"""
    return sys.stderr.isatty() and importlib.util.find_spec("rich") is not None


def _bar(items: Iterable[T], what: str, total: int | None, done: int) -> Iterator[T]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
    )
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(printable(what), total=total, completed=done, rate="")
        start = time.monotonic()
        for count, item in enumerate(items, 1):
            yield item
            bar.update(task, completed=done + count, rate=f"{count / (time.monotonic() - start):,.1f}/s")


def _log_lines(items: Iterable[T], what: str, total: int | None, done: int) -> Iterator[T]:
    start = last = time.monotonic()
    for count, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - last >= LOG_EVERY_SECONDS:
            last = now
            rate = count / (now - start)
            left = f" of {total:,}, {(total - done - count) / rate:,.0f} s left" if total else ""
            print(f"{printable(what)}: {done + count:,}{left} ({rate:,.1f}/s)", file=sys.stderr, flush=True)
