"""How benchmarks measure: time in interleaved rounds, memory in a process of its own."""

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

M_MMAP_THRESHOLD = -3  # of malloc.h


@dataclass(frozen=True)
class Timing:
    """Seconds of one contender over the rounds of a run."""

    seconds: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles: what other work on the machine adds or takes."""
        if len(self.seconds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return (high - low) / 2

    def ratio(self, base: "Timing") -> float:
        """The median over rounds of this time by the base's time in the same round, so that slow spells cancel."""
        return statistics.median(mine / its for mine, its in zip(self.seconds, base.seconds, strict=True))


def interleaved(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, Timing]:
    """Time every contender once a round, after one untimed call each; the order turns from round to round."""
    for run in contenders.values():
        run()
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        gc.collect()
        for name in names[first:] + names[:first]:
            start = time.perf_counter()
            contenders[name]()
            seconds[name].append(time.perf_counter() - start)
    return {name: Timing(taken) for name, taken in seconds.items()}


def extra_memory(prepare: Callable[..., Callable[[], object]], *arguments: Any) -> int:
    """Bytes a step adds at its peak to what was there before it, measured in a fresh process.

    `prepare(*arguments)`, a module-level function, runs in that process, allocates what the step needs anyway and
    returns the step.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as process:
        return process.submit(_peak_of_step, prepare, arguments).result()


def _peak_of_step(prepare: Callable[..., Callable[[], object]], arguments: tuple[Any, ...]) -> int:
    _give_back_at_once()
    step = prepare(*arguments)
    gc.collect()
    _give_back()
    _forget_peak()
    before = _memory_now()
    step()
    return max(0, _peak_memory() - before)


def _give_back_at_once() -> None:
    """Let malloc return every large block to the system as it is freed, and not keep some, at random, for later."""
    with suppress(OSError, AttributeError):  # glibc alone has it
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 2**20)


def _give_back() -> None:
    """Return what malloc keeps of freed memory to the system: a step would use it without being seen to."""
    with suppress(OSError, AttributeError):  # glibc alone has it
        ctypes.CDLL(None).malloc_trim(0)


def _forget_peak() -> None:
    """Let the peak start from here where Linux allows it; otherwise it counts from the start of the process."""
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
