"""`fastmos bench tables`: learnt tables beside those by frequency and at random, and exact assignment beside half.

Every table is judged alike: a new language model trains on its codes for the same number of epochs from the same seed,
and held-out text says how good it is. Everything lies in one folder, so an interrupted run goes on.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from fastmos.files import provenance, write_json
from fastmos.tables import Assignment, Learning, LearntTable, assign, learn_table
from fastmos.tables.assignment import Method
from fastmos.training.checkpoints import read_tensors

METHODS: tuple[Method, Method] = ("half", "exact")
TABLES = ("random", "frequency", "diagonal", "neighbours", "learnt, half", "learnt, exact")
QUICK = Learning(rounds=1, first_epochs=1, width=32, batch_tokens=500)
QUICK_LINES = 200


@dataclass(frozen=True)
class Sizes:
    """Of the tables, as `TableCoding.learn` takes them."""

    size: int | None = None
    words: int | None = None
    min_count: int | None = None


@dataclass(frozen=True)
class Judged:
    """A table, judged by a new language model."""

    table: str
    seed: int
    nats_per_word: float
    nats_per_known_word: float
    nats_per_table_word: float | None
    learning_seconds: dict[str, float]  # of all rounds, by part; empty if nothing was learnt


@dataclass(frozen=True)
class Solved:
    """The costs of one round, assigned in several ways."""

    round: int
    words: int
    exact_seconds: float
    warm_seconds: float | None  # exact, from the prices of the round before
    half_seconds: float
    half_above_percent: float  # what half costs more than exact


def run(
    quick: bool,
    output: Path | None,
    train: Sequence[Path] = (),
    valid: Sequence[Path] = (),
    sizes: Sizes | None = None,
    start: str = "neighbours",
    seeds: int = 3,
    rounds: int = Learning.rounds,
    epochs: int = 3,
    folder: Path | None = None,
) -> None:
    """Learn, judge and print; the figures go to `output` as JSON. Without text the embedded sample is taken."""
    learning, sizes = QUICK if quick else Learning(rounds=rounds), sizes or Sizes()
    if quick:
        seeds, epochs = 1, 1
    for method in METHODS:
        assign(torch.eye(2), torch.eye(2), method)  # compiles, so that it is not counted below
    with ExitStack() as stack:
        folder = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if not train:
            train, valid = _sample(folder, quick)
        judged = []
        for seed in range(seeds):
            for table in TABLES:
                judged.append(_judge(table, seed, train, valid, sizes, start, learning, epochs, folder))
        solved = _solve(folder / "learnt-exact-0.learning")
    _print(judged, solved)
    if output is not None:
        about: dict[str, Any] = {"train": list(map(str, train)), "valid": list(map(str, valid)), "sizes": asdict(sizes)}
        about |= {"start": start, "seeds": seeds, "epochs": epochs, "learning": asdict(learning)}
        results = {"judged": [asdict(one) for one in judged], "assignment": [asdict(one) for one in solved]}
        write_json(output, {"provenance": provenance(seeds - 1), **about, **results})


def _sample(folder: Path, quick: bool) -> tuple[list[Path], list[Path]]:
    from fastmos.data.sample import write_sample

    sample = folder / "sample"
    if not (sample / "test.en").exists():
        write_sample(sample, pairs=QUICK_LINES if quick else 20_000, valid=50 if quick else 500, test=1)
    return [sample / "train.en"], [sample / "valid.en"]


def _judge(
    table: str,
    seed: int,
    train: Sequence[Path],
    valid: Sequence[Path],
    sizes: Sizes,
    start: str,
    learning: Learning,
    epochs: int,
    folder: Path,
) -> Judged:
    """Make a table, and judge it by a new language model."""
    name = f"{table.replace(', ', '-')}-{seed}"
    judging = replace(learning, rounds=0, first_epochs=epochs, seed=seed)
    seconds: dict[str, float] = {}

    def made(output: str, setting: Learning, start: Any, given: dict[str, Any]) -> LearntTable:
        return learn_table(train, valid, folder / f"{output}.json", start=start, **given, learning=setting)

    if table.startswith("learnt"):
        setting = replace(learning, method=METHODS[table.endswith("exact")], seed=seed, keep_costs=seed == 0)
        found = made(name, setting, start, asdict(sizes))
        for one in found.rounds:
            seconds |= {part: seconds.get(part, 0.0) + value for part, value in one.seconds.items()}
        judged = made(f"{name}-judged", judging, found.coding, {})
    else:
        judged = made(f"{name}-judged", judging, table, asdict(sizes))
    after = judged.rounds[0].after_training
    assert after is not None
    return Judged(table, seed, **asdict(after), learning_seconds=seconds)


def _solve(folder: Path) -> list[Solved]:
    """What each method makes of the costs of each round."""
    solved: list[Solved] = []
    prices = None
    for path in sorted(folder.glob("costs-*.safetensors"), key=_round):
        tensors, _ = read_tensors(path)
        R, Q = tensors["R"], tensors["Q"]
        exact, exact_seconds = _timed(partial(assign, R, Q))
        half, half_seconds = _timed(partial(assign, R, Q, "half"))
        warm = None if prices is None else _timed(partial(assign, R, Q, prices=prices))[1]
        above = 100 * (half.cost / exact.cost - 1)
        solved.append(Solved(_round(path), len(R), exact_seconds, warm, half_seconds, above))
        prices = exact.prices
    return solved


def _round(path: Path) -> int:
    return int(path.stem.removeprefix("costs-"))


def _timed(solve: Callable[[], Assignment]) -> tuple[Assignment, float]:
    start = time.process_time()
    found = solve()
    return found, time.process_time() - start


def _print(judged: list[Judged], solved: list[Solved]) -> None:
    heads = ("nats per word", "per known word", "per table word", "learning", "assignment")
    print(f"{'table':14}" + "".join(f"{head:>19}" for head in heads))
    for table in TABLES:
        rows = [one for one in judged if one.table == table]
        cells = [
            _spread([one.nats_per_word for one in rows]),
            _spread([one.nats_per_known_word for one in rows]),
            _spread([one.nats_per_table_word for one in rows if one.nats_per_table_word is not None]),
        ]
        spent = sum(sum(one.learning_seconds.values()) for one in rows)
        if spent:
            assignment = sum(one.learning_seconds.get("assignment", 0.0) for one in rows)
            cells += [f"{spent / len(rows):,.0f} s", f"{assignment / spent:.1%} of it"]
        print(f"{table:14}" + "".join(f"{cell:>19}" for cell in cells))
    if solved:
        heads = ("words", "exact, CPU s", "from prices", "half", "half above exact")
        print(f"{'round':14}" + "".join(f"{head:>19}" for head in heads))
    for one in solved:
        warm = "" if one.warm_seconds is None else f"{one.warm_seconds:.2f}"
        cells = [f"{one.words:,}", f"{one.exact_seconds:.2f}", warm, f"{one.half_seconds:.2f}"]
        print(f"{one.round:<14}" + "".join(f"{cell:>19}" for cell in [*cells, f"{one.half_above_percent:.4f} %"]))


def _spread(values: list[float]) -> str:
    """Mean and sample standard deviation."""
    spread = f" +- {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.4f}{spread}" if values else "none"
