"""Measuring time in interleaved rounds, and memory in a process of its own."""

import ctypes
import gc
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastmos.processes import safe_children

M_MMAP_THRESHOLD = -3  # of malloc.h
KEEP_PAGES = {  # glibc's environment variables
    "MALLOC_MMAP_THRESHOLD_": str(2**32),
    "MALLOC_TRIM_THRESHOLD_": str(2**34),
    "MALLOC_TOP_PAD_": str(2**28),
}


@dataclass(frozen=True)
class Timing:
    """Seconds of one contender over the rounds of a run."""

    seconds: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Half the interquartile range, which shows how much other work on the machine disturbs."""
        if len(self.seconds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return (high - low) / 2

    def ratio(self, base: "Timing") -> float:
        """The median over rounds of this time divided by the base's in the same round, so that slow rounds cancel."""
        return statistics.median(mine / its for mine, its in zip(self.seconds, base.seconds, strict=True))


def interleaved(
    contenders: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, Timing]:
    """Time every contender once a round, after one untimed call each; the order rotates from round to round.

    Work of one thread is best timed by `time.thread_time`, which stands still while another process has the core.
    A contender that gives a float has measured itself: these are its seconds.
    """
    for run in contenders.values():
        run()
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        gc.collect()
        for name in names[first:] + names[:first]:
            start = clock()
            own = contenders[name]()
            seconds[name].append(own if isinstance(own, float) else clock() - start)
    return {name: Timing(taken) for name, taken in seconds.items()}


def extra_memory(prepare: Callable[..., Callable[[], object]], *arguments: Any) -> int:
    """The peak memory of a step in bytes, less the memory in use before it, measured in a new process.

    `prepare(*arguments)`, a module-level function, runs in that process, allocates the inputs of the step and returns
    the step.
    """
    context = multiprocessing.get_context("spawn")
    with safe_children(), ProcessPoolExecutor(1, mp_context=context) as process:
        return process.submit(_peak_of_step, prepare, arguments).result()


def with_pages_kept(function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)` of a fresh process in which malloc keeps what is freed.

    By default glibc gives large blocks back to the system, and each new one is then paid for page by page.
    """
    context = multiprocessing.get_context("spawn")
    before = {name: os.environ.get(name) for name in KEEP_PAGES}
    os.environ.update(KEEP_PAGES)  # malloc reads them as the process starts
    try:
        with safe_children(), ProcessPoolExecutor(1, mp_context=context) as process:
            return process.submit(function, *arguments).result()
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _peak_of_step(prepare: Callable[..., Callable[[], object]], arguments: tuple[Any, ...]) -> int:
    _free_at_once()
    step = prepare(*arguments)
    gc.collect()
    _trim()
    _reset_peak()
    before = _memory_now()
    step()
    return max(0, _peak_memory() - before)


def _free_at_once() -> None:
    """Let malloc return every large block to the system when it is freed; else it keeps some, at random."""
    with suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 2**20)


def _trim() -> None:
    """Return the freed memory that malloc keeps to the system; else a step could use it unmeasured."""
    with suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


def _reset_peak() -> None:
    """Reset the peak memory (Linux); elsewhere it counts from the start of the process."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _memory_now() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _peak_memory() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) * 1024
