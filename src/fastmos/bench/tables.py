"""`fastmos bench tables`: learnt tables beside those by frequency and at random, and exact assignment beside half.

Every table is judged alike: a new language model trains on its codes for the same number of epochs from the same seed,
and held-out text says how good it is. Everything lies in one folder, so an interrupted run goes on.
"""

import os
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from fastmos.bench.assignment import print_solved, solve_kept
from fastmos.errors import InputError
from fastmos.files import provenance, write_json
from fastmos.tables import Learning, LearntTable, learn_table
from fastmos.tables.assignment import Method

Table = Literal["random", "frequency", "diagonal", "neighbours", "learnt-half", "learnt-exact"]
TABLES: tuple[Table, ...] = get_args(Table)
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
    tables: Sequence[Table] = TABLES,
) -> None:
    """Learn, judge and print; the figures go to `output` as JSON. Without text the embedded sample is taken."""
    learning, sizes = QUICK if quick else Learning(rounds=rounds), sizes or Sizes()
    if quick:
        seeds, epochs = 1, 1
    if seeds < 1:
        raise InputError(f"{seeds} seeds judge nothing; give at least 1")
    if output is not None and (output.is_dir() or output.parent.is_file()):
        raise InputError(f"{output}: cannot be written; give the name of a file in a folder")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("fastmos bench tables measures one process; start it without torchrun")
    with ExitStack() as stack:
        folder = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if not train:
            train, valid = _sample(folder, quick)
        judged = []
        for seed in range(seeds):
            for table in tables:
                judged.append(_judge(table, seed, train, valid, sizes, start, learning, epochs, folder))
        solved = solve_kept(folder / "learnt-exact-0.learning") if "learnt-exact" in tables else []
    _print(judged)
    if solved:
        print_solved(solved)
    if output is not None:
        about: dict[str, Any] = {"train": list(map(str, train)), "valid": list(map(str, valid)), "sizes": asdict(sizes)}
        about |= {"start": start, "seeds": seeds, "epochs": epochs, "learning": asdict(learning)}
        results = {"judged": [asdict(one) for one in judged], "assignment": [asdict(one) for one in solved]}
        write_json(output, {"provenance": provenance(seeds - 1), **about, **results})


def _sample(folder: Path, quick: bool) -> tuple[list[Path], list[Path]]:
    from fastmos.data.sample import write_sample

    pairs = QUICK_LINES if quick else 20_000
    sample = folder / f"sample-{pairs}"
    if not (sample / "test.en").exists():
        write_sample(sample, pairs=pairs, valid=50 if quick else 500, test=1)
    return [sample / "train.en"], [sample / "valid.en"]


def _judge(
    table: Table,
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
    name = f"{table}-{seed}"
    judging = replace(learning, rounds=0, first_epochs=epochs, seed=seed)
    seconds: dict[str, float] = {}

    def made(output: str, setting: Learning, start: Any, given: dict[str, Any]) -> LearntTable:
        return learn_table(train, valid, folder / f"{output}.json", start=start, **given, learning=setting)

    if table.startswith("learnt"):
        method: Method = "exact" if table == "learnt-exact" else "half"
        setting = replace(learning, method=method, seed=seed, keep_costs=seed == 0)
        found = made(name, setting, start, asdict(sizes))
        for one in found.rounds:
            seconds |= {part: seconds.get(part, 0.0) + value for part, value in one.seconds.items()}
        judged = made(f"{name}-judged", judging, found.coding, {})
    else:
        judged = made(f"{name}-judged", judging, table, asdict(sizes))
    after = judged.rounds[0].after_training
    assert after is not None
    return Judged(table, seed, **asdict(after), learning_seconds=seconds)


def _print(judged: list[Judged]) -> None:
    heads = ("nats per word", "per known word", "per table word", "learning", "assignment")
    print(f"{'table':14}" + "".join(f"{head:>19}" for head in heads))
    for table in dict.fromkeys(one.table for one in judged):
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


def _spread(values: list[float]) -> str:
    """Mean and sample standard deviation."""
    spread = f" +- {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.4f}{spread}" if values else "none"
