"""The table solvers beside scipy on generated costs, and beside each other on those that learning a table kept."""

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fastmos.checkpoints import read_tensors
from fastmos.errors import InputError
from fastmos.files import write_json
from fastmos.measure import extra_memory
from fastmos.provenance import provenance
from fastmos.tables.assignment import Assignment, Method, assign

SEED = 0
REPEATS = {5_000: 3}  # by words, else 1: the median of several where one takes no time
SIZES = {True: (5_000, 30_000), False: (5_000, 20_000, 30_000)}  # words, by `quick`
DENSE_TO = {True: 5_000, False: 20_000}  # words up to which scipy is asked: seconds, and minutes
DENSE_MEMORY_TO = 5_000  # words up to which scipy works a second time, for its memory


@dataclass(frozen=True)
class Row:
    """One method on one instance."""

    words: int
    rows: int
    columns: int
    method: Method
    cpu_seconds: float
    times_faster: float | None  # than scipy, where it ran
    extra_megabytes: float | None
    cost: float
    above_optimum_percent: float  # by the exact method's cost
    gap: float  # what is not proven of the cost


@dataclass(frozen=True)
class Solved:
    """The costs of one round of learning, assigned in several ways."""

    round: int
    words: int
    exact_seconds: float
    half_seconds: float
    half_above_percent: float  # what half costs more than exact


def instance(n: int, seed: int = SEED) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Costs R [n, d], Q [n, d] of n words in the smallest square table that holds them.

    Words follow Zipf's tail and lean on two of many hidden classes, each with its own taste in rows and columns; rare
    words are noisier; a word's cost is summed over its occurrences.
    """
    draw = np.random.default_rng(seed)
    side, classes = math.ceil(math.sqrt(n)), max(20, n // 150)
    counts = np.maximum(1, np.round(600 * (np.arange(n) / (0.003 * n) + 1) ** -1.05))
    share = draw.pareto(1.2, classes) + 0.3
    first, second = draw.choice(classes, (2, n), p=share / share.sum())
    leaning = draw.beta(5, 2, n)[:, None]
    noise = (0.15 + 0.8 / np.sqrt(counts))[:, None]
    order = draw.permutation(n)

    def costs() -> NDArray[np.float32]:
        taste = np.exp(draw.normal(0, 1.5, (classes, side)) + draw.normal(0, 0.7, side))
        taste /= taste.sum(1, keepdims=True)
        nll = -np.log(leaning * taste[first] + (1 - leaning) * taste[second])
        nll += noise * draw.normal(0, 1, (n, side))
        nll = np.maximum(nll, 0.01) * counts[:, None]
        return np.asarray(nll[order], np.float32)

    return costs(), costs()


def run(quick: bool, output: Path | None, dense_to: int | None = None) -> None:
    """Print a table of all sizes and methods, and write it to `output`; scipy runs up to `dense_to` words."""
    _compile()
    limit = DENSE_TO[quick] if dense_to is None else dense_to
    print(f"{'words':>7} {'method':7} {'CPU s':>8} {'faster':>8} {'extra MB':>9} {'above optimum':>14} {'gap':>8}")
    rows = []
    for n in SIZES[quick]:
        for row in compare(n, dense=n <= limit, dense_memory=not quick and n <= DENSE_MEMORY_TO):
            print(_line(row), flush=True)
            rows.append(row)
    if output is not None:
        write_json(output, {"provenance": provenance(SEED), "rows": [asdict(row) for row in rows]})


def run_on_costs(folder: Path, output: Path | None) -> None:
    """Print what each method makes of the costs kept in a folder of learning, and write it to `output`."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give one that learning a table kept costs in")
    solved = solve_kept(folder)
    if not solved:
        raise InputError(
            f"{folder}: keeps no costs; `fastmos bench tables --folder F` does, in F/learned-exact-0.learning"
        )
    print_solved(solved)
    if output is not None:
        write_json(output, {"provenance": provenance(SEED), "rounds": [asdict(one) for one in solved]})


def solve_kept(folder: Path) -> list[Solved]:
    """The costs of each round that the folder keeps, assigned by each method; none if it keeps none."""
    _compile()
    solved: list[Solved] = []
    for path in sorted(folder.glob("costs-[0-9]*.safetensors"), key=_round):
        tensors, _ = read_tensors(path)
        R, Q = tensors["R"], tensors["Q"]
        exact, exact_seconds = _timed(partial(assign, R, Q), 1)
        half, half_seconds = _timed(partial(assign, R, Q, "half"), 1)
        above = 100 * (half.cost / exact.cost - 1)
        solved.append(Solved(_round(path), len(R), exact_seconds, half_seconds, above))
    return solved


def print_solved(solved: list[Solved]) -> None:
    """A line for each round."""
    print(f"{'round':>5} {'words':>7} {'exact, CPU s':>13} {'half':>8} {'half above exact':>17}")
    for one in solved:
        times = f"{one.exact_seconds:>13.2f} {one.half_seconds:>8.2f}"
        print(f"{one.round:>5} {one.words:>7,} {times} {one.half_above_percent:>15.4f} %")


def _round(path: Path) -> int:
    return int(path.stem.removeprefix("costs-"))


def _compile() -> None:
    """So that compiling is not counted."""
    for method in ("exact", "half"):
        assign(*instance(50), method)


def compare(n: int, dense: bool, dense_memory: bool) -> list[Row]:
    """All methods on one instance, scipy if wished; its memory takes a second run."""
    R, Q = instance(n)
    exact, exact_seconds = _timed(lambda: assign(R, Q, "exact"), REPEATS.get(n, 1))
    half, half_seconds = _timed(lambda: assign(R, Q, "half"), REPEATS.get(n, 1))
    scipy_seconds = None
    results: list[tuple[Method, Assignment, float]] = [("exact", exact, exact_seconds), ("half", half, half_seconds)]
    if dense:
        scipy, scipy_seconds = _timed(lambda: assign(R, Q, "dense"), 1)
        results.append(("dense", scipy, scipy_seconds))
    return [
        Row(
            words=n,
            rows=R.shape[1],
            columns=Q.shape[1],
            method=method,
            cpu_seconds=seconds,
            times_faster=scipy_seconds / seconds if scipy_seconds else None,
            extra_megabytes=_extra_megabytes(n, method) if method != "dense" or dense_memory else None,
            cost=found.cost,
            above_optimum_percent=100 * (found.cost / exact.cost - 1),
            gap=found.gap,
        )
        for method, found, seconds in results
    ]


def _timed(solve: Callable[[], Assignment], repeats: int) -> tuple[Assignment, float]:
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        found = solve()
        seconds.append(time.process_time() - start)
    return found, statistics.median(seconds)


def _extra_megabytes(n: int, method: Method) -> float:
    return extra_memory(_prepared, n, method) / 1e6


def _prepared(n: int, method: Method) -> Callable[[], Assignment]:
    """In a process of its own: the instance, and the method loaded and compiled."""
    R, Q = instance(n)
    assign(*instance(50), method)
    return lambda: assign(R, Q, method)


def _line(row: Row) -> str:
    faster = "" if row.times_faster is None else f"{row.times_faster:,.0f} x"
    extra = "" if row.extra_megabytes is None else f"{row.extra_megabytes:,.0f}"
    gap = "scipy's" if row.method == "dense" else f"{row.gap:.1e}"
    return (
        f"{row.words:>7,} {row.method:7} {row.cpu_seconds:>8.2f} {faster:>8} {extra:>9}"
        f" {row.above_optimum_percent:>12.4f} % {gap:>8}"
    )
