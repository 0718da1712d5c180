"""Records to tables: our figures beside the paper's. The command line and the report show what this finds."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastmos.config import parse_config
from fastmos.errors import InputError
from fastmos.metrics.likelihood import perplexity
from fastmos.metrics.significance import bootstrap_bleu, bootstrap_mean
from fastmos.reproduce.measurements import COST, Measurement
from fastmos.reproduce.plans import Plan, group_id
from fastmos.reproduce.records import figure_at

Record = Mapping[str, Any]
Runs = Mapping[int, Record]  # records of runs that differ in the seed only, by seed
HOW_TO_READ = (
    "mean ± standard deviation over seeds, with their number in brackets; for times, median ± half the interquartile "
    "range. Stars: differs from the first row, * p < 0.05, ** p < 0.01, by a paired bootstrap over the lines of the "
    "text. It compares these trained models and says nothing about other seeds."
)


def percent(share: float) -> float:
    return 100 * share


SCORES: dict[str, tuple[str, Callable[[float], float]]] = {  # column -> key of a run's scores, and how it is shown
    "BLEU": ("bleu", float),
    "text BLEU": ("text_bleu", float),
    "compound BLEU": ("compound_bleu", float),
    "chrF": ("chrf", float),
    "NLL per word": ("nll_per_word", float),
    "perplexity": ("nll_per_word", perplexity),
    "BLEU-4": ("bleu_4", percent),
    "METEOR": ("meteor", percent),
    "CIDEr": ("cider", percent),
}
BOOTSTRAP: dict[str, Callable[..., float]] = {
    "BLEU": bootstrap_bleu,
    "CIDEr": bootstrap_mean,
}  # columns that have stars
DIGITS = {"rank": 0, "bound": 0, "parameters": 0, "OOV words": 0, "NLL per word": 3}
DIGITS |= dict.fromkeys((*COST.columns, "in use", "ms a sentence", "gradient, %", "through contexts, %"), 1)


@dataclass(frozen=True)
class Cell:
    """A figure of ours: over seeds where there are several."""

    mean: float | None = None
    spread: float | None = None  # sample standard deviation, or for times half the interquartile range
    count: int = 1  # seeds
    p: float | None = None  # of no difference from the baseline, by paired bootstrap
    text: str | None = None  # instead of a number


@dataclass(frozen=True)
class Line:
    """A line of a table."""

    name: str
    ours: dict[str, Cell] = field(default_factory=dict)  # by column
    paper: dict[str, str] = field(default_factory=dict)
    run: str = ""  # name of the run in its record; empty for words of the paper
    softmaxes: int = 0  # of that run


@dataclass(frozen=True)
class SuiteTable:
    """A table of the paper, reproduced at a scale."""

    suite: str
    title: str
    scale: str
    columns: list[str]
    lines: list[Line]
    differs: str  # from the paper's set-up, in one line
    missing: list[str]
    seeds: int = 1  # that its command trains by default
    curve: bool = False  # draw the first column over the number of softmaxes
    corpus: str = ""  # of our figures,
    paper_corpus: str = ""  # and of the paper's

    @property
    def sides(self) -> tuple[str, str]:
        """What our figures and the paper's are called: by their corpora too where those differ."""
        if not self.paper_corpus or self.corpus == self.paper_corpus:
            return "ours", "paper"
        return f"ours, {self.corpus}", f"paper, {self.paper_corpus}"


def shown(cell: Cell, column: str) -> str:
    """A cell as text: 28.79 ± 0.23, with the number of seeds where it is not one, and stars for significance."""
    if cell.text is not None or cell.mean is None:
        return cell.text or ""
    digits = DIGITS.get(column, 2)
    stars = "" if cell.p is None else "**" if cell.p < 0.01 else "*" if cell.p < 0.05 else ""
    spread = "" if cell.spread is None else f" ± {cell.spread:,.{digits}f}"
    seeds = f" ({cell.count})" if cell.count > 1 else ""
    return f"{cell.mean:,.{digits}f}{spread}{seeds}{stars}"


def table_text(table: SuiteTable) -> str:
    """A table for the terminal: for each row ours, and under it the paper's."""
    rows = [row for line in table.lines for row in _text_rows(line, table)]
    parts = [f"\n{table.title} ({table.suite}, {table.scale})", *aligned([["", "", *table.columns], *rows])]
    parts.append(f"differs: {table.differs}")
    if any(cell.p is not None for line in table.lines for cell in line.ours.values()):
        parts.append(HOW_TO_READ)
    if table.missing:
        parts.append(f"missing: {'; '.join(table.missing)}")
    return "\n".join(parts)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines of text, with all columns flush left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _text_rows(line: Line, table: SuiteTable) -> list[list[str]]:
    ours_side, paper_side = table.sides
    ours = [shown(line.ours[name], name) if name in line.ours else "" for name in table.columns]
    paper = [line.paper.get(name, "") for name in table.columns]
    rows = [[line.name, ours_side if line.paper else "", *ours]] if any(ours) or not any(paper) else []
    return rows + ([["" if rows else line.name, paper_side, *paper]] if any(paper) else [])


class Records:
    """The records of a scale, found by what they are of."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.groups: dict[str, dict[int, Record]] = {}  # runs by seed
        self.rows: dict[tuple[str, str], Record] = {
            (str(record["kind"]), str(row.get("run"))): row
            for record in records
            if record["kind"] not in ("run", "table")
            for row in record.get("rows") or []
        }
        self.tables = {str(record.get("id")): record for record in records if record["kind"] == "table"}
        for record in records:
            if record["kind"] == "run" and _is_complete(record):
                with suppress(InputError):  # of a version with other config keys: no row has this config
                    config = parse_config(record["config"], "a result")
                    self.groups.setdefault(group_id(config), {}).setdefault(config.training.seed, record)

    def runs(self, one: Plan) -> Runs:
        """The runs of a plan, by seed."""
        return dict(sorted(self.groups.get(one.group, {}).items()))

    def table(self, one: Plan) -> Record | None:
        """The learned table of a plan."""
        return self.tables.get(one.table.id) if one.table else None

    def measured(self, measurement: Measurement, column: str, one: Plan) -> Cell | None:
        """The figure of a column that was measured of a plan."""
        row, path = self.rows.get((measurement.kind, one.id), {}), measurement.columns[column]
        mean = figure_at(row, *path)
        return None if mean is None else Cell(mean, figure_at(row, *path[:-1], f"{path[-1]}_spread"))


def _is_complete(run: Record) -> bool:
    """Whether a record has all that tables show."""
    scores, curve = run.get("scores") or {}, run.get("curve") or []
    return (
        bool(run.get("config"))
        and figure_at(run, "vocab_size") is not None
        and all(scores.get(split) for split in ("valid", "test"))
        and any(figure_at(point, name) is not None for point in curve for name in ("bleu", "cider", "nll_per_word"))
    )


def score_cell(column: str, split: str, runs: Runs, baseline: Runs) -> Cell:
    """A score of some runs, with the significance of its difference from the baseline's."""
    key, shown_as = SCORES[column]
    found = (figure_at(run, "scores", split, key) for run in runs.values())
    values = [shown_as(value) for value in found if value is not None]
    return mean_cell(values, _p_value(column, split, runs, baseline))


def mean_cell(values: Sequence[float], p: float | None = None) -> Cell:
    """Mean and sample standard deviation."""
    if not values:
        return Cell(None, None, 0)
    spread = statistics.stdev(values) if len(values) > 1 else None
    return Cell(statistics.fmean(values), spread, len(values), p)


def _p_value(column: str, split: str, runs: Runs, baseline: Runs) -> float | None:
    """By the seeds that both have: statistics of a line are summed over them."""
    seeds = [seed for seed in runs if seed in baseline]
    if column not in BOOTSTRAP or not seeds:
        return None
    try:
        before, after = (
            np.sum([side[seed]["statistics"][split] for seed in seeds], 0, dtype=float) for side in (baseline, runs)
        )
    except (KeyError, TypeError, ValueError):  # records without statistics, or of different texts
        return None
    if before.shape != after.shape or not np.isfinite([before, after]).all():
        return None
    return BOOTSTRAP[column](before, after)


def mixtures_in_use(run: Record, metric: str) -> float:
    """At the best validation of a translation run, whose weights were evaluated."""
    name, sign = ("nll_per_word", -1) if metric == "nll" else ("bleu", 1)
    points: list[Record] = [point for point in run["curve"] if figure_at(point, name) is not None]
    best = max(points, key=lambda point: sign * float(point[name]), default={})
    return figure_at(best, "effective_mixtures") or 1.0
