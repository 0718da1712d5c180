"""`fastmos bench tables`: learned tables beside those by frequency and at random, and exact assignment beside half.

Every table is evaluated alike: a new language model trains on its tokens for the same number of epochs from the same
seed, and is evaluated on held-out text. Everything lies in one folder, so an interrupted benchmark resumes.
"""

import math
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from fastmos.bench.assignment import print_solved, solve_kept
from fastmos.errors import InputError
from fastmos.files import write_json
from fastmos.processes import whole_number
from fastmos.provenance import provenance
from fastmos.samples.grammar import write_sample
from fastmos.tables.assignment import Method
from fastmos.tables.learning import LearnedTable, learn_table
from fastmos.tables.rounds import TableLearning

Table = Literal["random", "frequency", "diagonal", "neighbors", "learned-half", "learned-exact"]
TABLES: tuple[Table, ...] = get_args(Table)
QUICK = TableLearning(rounds=1, first_epochs=1, hidden_size=32, batch_tokens=500)
QUICK_LINES = 200


@dataclass(frozen=True)
class Sizes:
    """Of the tables, as `TableTokenizer.learn` takes them."""

    vocab_size: int | None = None
    words: int | None = None
    min_count: int | None = None


@dataclass(frozen=True)
class Evaluated:
    """A table, evaluated by a new language model on it."""

    table: str
    seed: int
    nll_per_word: float
    nll_per_known_word: float
    nll_per_table_word: float | None
    learning_seconds: dict[str, float]  # of all rounds, by part; empty if nothing was learned


def run(
    quick: bool,
    output: Path | None,
    train: Sequence[Path] = (),
    valid: Sequence[Path] = (),
    sizes: Sizes | None = None,
    layout: str = "neighbors",
    seeds: int = 3,
    rounds: int = 8,
    epochs: int = 3,
    folder: Path | None = None,
    tables: Sequence[Table] = TABLES,
) -> None:
    """Learn, evaluate and print; the figures go to `output` as JSON. Without text the embedded sample is taken."""
    learning, sizes = QUICK if quick else TableLearning(rounds=rounds), sizes or Sizes()
    if quick:
        seeds, epochs = 1, 1
    if seeds < 1:
        raise InputError(f"{seeds} seeds evaluate nothing; give at least 1")
    if output is not None and (output.is_dir() or output.parent.is_file()):
        raise InputError(f"{output}: cannot be written; give the name of a file in a folder")
    if whole_number("WORLD_SIZE", 1) > 1:
        raise InputError("fastmos bench tables measures one process; start it without torchrun")
    with ExitStack() as stack:
        folder = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if not train:
            train, valid = _sample(folder, quick)
        rows = [
            _evaluate(table, seed, train, valid, sizes, layout, learning, epochs, folder)
            for seed in range(seeds)
            for table in tables
        ]
        solved = solve_kept(folder / "learned-exact-0.learning") if "learned-exact" in tables else []
    _print(rows)
    if solved:
        print_solved(solved)
    if output is not None:
        about: dict[str, Any] = {"train": list(map(str, train)), "valid": list(map(str, valid)), "sizes": asdict(sizes)}
        about |= {"layout": layout, "seeds": seeds, "epochs": epochs}  # a table's name says its method
        about["learning"] = learning.model_dump(mode="json", exclude={"method"})
        results = {"tables": [asdict(one) for one in rows], "assignment": [asdict(one) for one in solved]}
        write_json(output, {"provenance": provenance(seeds - 1), **about, **results})


def _sample(folder: Path, quick: bool) -> tuple[list[Path], list[Path]]:
    pairs = QUICK_LINES if quick else 20_000
    sample = folder / f"sample-{pairs}"
    if not (sample / "test.en").exists():
        write_sample(sample, pairs=pairs, valid=50 if quick else 500, test=1)
    return [sample / "train.en"], [sample / "valid.en"]


def _evaluate(
    table: Table,
    seed: int,
    train: Sequence[Path],
    valid: Sequence[Path],
    sizes: Sizes,
    layout: str,
    learning: TableLearning,
    epochs: int,
    folder: Path,
) -> Evaluated:
    """Make a table, and train and evaluate a new language model on it."""
    name = f"{table}-{seed}"
    evaluation = learning.model_copy(update={"rounds": 0, "first_epochs": epochs, "seed": seed})
    seconds: dict[str, float] = {}

    def made(output: str, setting: TableLearning, layout: Any, given: dict[str, Any]) -> LearnedTable:
        return learn_table(train, valid, folder / f"{output}.json", layout=layout, **given, learning=setting)

    if table.startswith("learned"):
        method: Method = "exact" if table == "learned-exact" else "half"
        setting = learning.model_copy(update={"method": method, "seed": seed, "keep_costs": seed == 0})
        found = made(name, setting, layout, asdict(sizes))
        for one in found.rounds:
            seconds |= {part: seconds.get(part, 0.0) + value for part, value in one.seconds.items()}
        evaluated = made(f"{name}-evaluated", evaluation, found.tokenizer, {})
    else:
        evaluated = made(f"{name}-evaluated", evaluation, table, asdict(sizes))
    after = evaluated.rounds[0].after_training
    assert after is not None
    figures = after.nll_per_word, after.nll_per_known_word, after.nll_per_table_word
    return Evaluated(table, seed, *figures, learning_seconds=seconds)


def _print(every: list[Evaluated]) -> None:
    heads = ("NLL per word", "perplexity", "NLL, known words", "NLL, table words", "learning", "assignment")
    print(f"{'table':14}" + "".join(f"{head:>19}" for head in heads))
    for table in dict.fromkeys(one.table for one in every):
        rows = [one for one in every if one.table == table]
        cells = [
            _spread([one.nll_per_word for one in rows]),
            _spread([math.exp(one.nll_per_word) for one in rows], 2),
            _spread([one.nll_per_known_word for one in rows]),
            _spread([one.nll_per_table_word for one in rows if one.nll_per_table_word is not None]),
        ]
        spent = sum(sum(one.learning_seconds.values()) for one in rows)
        if spent:
            assignment = sum(one.learning_seconds.get("assignment", 0.0) for one in rows)
            cells += [f"{spent / len(rows):,.0f} s", f"{assignment / spent:.1%} of it"]
        print(f"{table:14}" + "".join(f"{cell:>19}" for cell in cells))


def _spread(values: list[float], digits: int = 4) -> str:
    """Mean and sample standard deviation."""
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{spread}" if values else "none"
