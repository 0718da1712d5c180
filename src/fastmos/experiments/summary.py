"""Results to tables: our figures beside the paper's. The command line and the report show what this finds."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fastmos.errors import InputError
from fastmos.experiments.plans import Plan, Row, group_id, plan
from fastmos.experiments.result_files import figure_at
from fastmos.experiments.scales import SCALES, Scale
from fastmos.experiments.suites import OOV_ROWS, PAPER_WORDS, SUITES, Suite
from fastmos.metrics.significance import bootstrap_bleu, bootstrap_mean
from fastmos.training.config import parse_config

Record = Mapping[str, Any]
Runs = Mapping[int, Record]  # by seed
HOW_TO_READ = (
    "mean ± standard deviation over seeds, with their number in brackets; for times, median ± half the interquartile "
    "range. Stars: differs from the first row, * p < 0.05, ** p < 0.01, by a paired bootstrap over the lines of the "
    "text, for these very models: it knows nothing of other seeds."
)
SHOWN_ROWS, SHOWN_WORDS = 10, 8  # of a learnt table
SCORES: dict[str, tuple[str, float]] = {  # column -> key of a run's scores, and a factor
    "BLEU": ("bleu", 1.0),
    "text BLEU": ("text_bleu", 1.0),
    "compound BLEU": ("compound_bleu", 1.0),
    "chrF": ("chrf", 1.0),
    "nats per word": ("nats_per_word", 1.0),
    "BLEU-4": ("bleu_4", 100.0),
    "METEOR": ("meteor", 100.0),
    "CIDEr": ("cider", 100.0),
}
COSTS = {  # column -> place in a row of costs
    "MB, plain": ("plain", "megabytes"),
    "MB, fused": ("fused", "megabytes"),
    "ms, plain": ("plain", "ms"),
    "ms, fused": ("fused", "ms"),
}
DIGITS = {"rank": 0, "bound": 0, "parameters": 0, "OOV words": 0, "nats per word": 3, "in use": 1} | dict.fromkeys(
    COSTS, 1
)


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
    run: str = ""  # what results call the run that it is of; none for words of the paper
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
    seeds: int = 1  # that its command trains by itself


def shown(cell: Cell, column: str) -> str:
    """A cell as text: 28.79 ± 0.23, with the number of seeds where it is not one, and stars for significance."""
    if cell.text is not None or cell.mean is None:
        return cell.text or ""
    digits = DIGITS.get(column, 2)
    stars = "" if cell.p is None else "**" if cell.p < 0.01 else "*" if cell.p < 0.05 else ""
    spread = "" if cell.spread is None else f" ± {cell.spread:,.{digits}f}"
    seeds = f" ({cell.count})" if cell.count > 1 else ""
    return f"{cell.mean:,.{digits}f}{spread}{seeds}{stars}"


def suite_tables(results: Sequence[Record]) -> list[SuiteTable]:
    """The tables of which there are results."""
    tables = []
    for scale in SCALES.values():
        records = [record for record in results if record.get("scale") == scale.name]
        suites = [suite for suite in SUITES.values() if suite.rows_at(scale)] if records else []
        for suite in suites:
            table = summarise(suite, scale, records)
            if any(line.run and line.ours.keys() - {"size"} for line in table.lines):
                tables.append(table)
    return tables


def summarise(suite: Suite, scale: Scale, results: Sequence[Record], seeds: int | None = None) -> SuiteTable:
    """One suite at one scale, from all results of that scale; `seeds` says how many runs a row should have."""
    found = _Found(results)
    rows = [(row, plan(row, scale)) for row in suite.rows_at(scale)]
    lines, missing = LINES.get(suite.name, _lines)(suite, scale, rows, found)
    usual = scale.seeds.get(suite.name, scale.usual_seeds)
    wanted = seeds or usual
    if suite.name != "words":
        for row, one in rows:
            have = len(found.runs(one))
            if have < wanted:
                missing.append(f"{row.name}: {have} of {wanted} seeds")
    where = "time and memory on a CPU, one thread" if set(suite.columns[scale.task]) & COSTS.keys() else ""
    differs = "; ".join(filter(None, [scale.differs, where, suite.about]))
    filled = {name for line in lines for name in (*line.ours, *line.paper)}
    columns = [name for name in suite.columns.get(scale.task, ()) if name in filled]
    return SuiteTable(suite.name, suite.title, scale.name, columns, lines, differs, missing, usual)


class _Found:
    """Results, by what they are of."""

    def __init__(self, results: Sequence[Record]) -> None:
        self.groups: dict[str, dict[int, Record]] = {}  # runs by seed
        self.rows: dict[tuple[str, str], Record] = {
            (str(record["kind"]), str(row.get("run"))): row
            for record in results
            if record["kind"] in ("cost", "rank")
            for row in record.get("rows") or []
        }
        self.tables = {str(record.get("id")): record for record in results if record["kind"] == "table"}
        for record in results:
            if record["kind"] == "run" and _is_whole(record):
                with suppress(InputError):  # of a version whose configs were others: no row comes to it
                    config = parse_config(record["config"], "a result")
                    self.groups.setdefault(group_id(config), {}).setdefault(config.training.seed, record)

    def runs(self, one: Plan) -> Runs:
        """The runs of a plan, by seed."""
        return dict(sorted(self.groups.get(one.group, {}).items()))

    def measured(self, kind: str, one: Plan) -> Record:
        """What was measured of a plan, for all rows at once: costs or ranks; empty if nothing was."""
        return self.rows.get((kind, one.id), {})


def _is_whole(run: Record) -> bool:
    """Has it what tables show?"""
    scores, curve = run.get("scores") or {}, run.get("curve") or []
    measures = ("bleu", "cider", "nats_per_word")
    return (
        bool(run.get("config"))
        and figure_at(run, "codes") is not None
        and all(scores.get(split) for split in ("valid", "test"))
        and any(figure_at(point, name) is not None for point in curve for name in measures)
    )


Found = tuple[list[Line], list[str]]
Rows = Sequence[tuple[Row, Plan]]


def _lines(suite: Suite, scale: Scale, rows: Rows, found: _Found) -> Found:
    """Scores, and costs where the suite has them."""
    lines, missing = [], []
    columns = suite.columns[scale.task]
    first = {row.base: found.runs(one) for row, one in reversed(rows)}  # what rows of the same base are compared with
    for row, one in rows:
        ours: dict[str, Cell] = {}
        runs, baseline = found.runs(one), first[row.base]
        cost = found.measured("cost", one)
        for column in columns:
            if column == "size" and runs:
                codes = figure_at(next(iter(runs.values())), "codes")
                ours[column] = Cell(text=f"{row.mixtures} x {codes:,.0f}")
            elif column in SCORES and runs:
                ours[column] = _score(column, suite.split, runs, {} if runs == baseline else baseline)
            elif column == "in use" and runs:
                ours[column] = _mean([_mixtures_in_use(run, one.config.training.measure) for run in runs.values()])
            elif column in COSTS:
                way, what = COSTS[column]
                if (mean := figure_at(cost, way, what)) is not None:
                    ours[column] = Cell(mean, figure_at(cost, way, "ms_spread") if what == "ms" else None)
        paper = row.translation if scale.task == "translation" else row.captioning
        lines.append(Line(row.name, ours, dict(paper), one.name, row.mixtures))
    if any(column in COSTS and column not in line.ours for column in columns for line in lines):
        missing.append("time and memory")
    return lines, missing


def _mixtures_in_use(run: Record, measure: str) -> float:
    """At the best validation of a translation run, whose weights were judged."""
    name, sign = ("nats_per_word", -1) if measure == "nats" else ("bleu", 1)
    points: list[Record] = [point for point in run["curve"] if figure_at(point, name) is not None]
    best = max(points, key=lambda point: sign * float(point[name]), default={})
    return figure_at(best, "mixtures_in_use") or 1.0


def _score(column: str, split: str, runs: Runs, baseline: Runs) -> Cell:
    key, factor = SCORES[column]
    values = [figure_at(run, "scores", split, key) for run in runs.values()]
    p = _difference(column, split, runs, baseline) if column in ("BLEU", "CIDEr") else None
    return _mean([factor * value for value in values if value is not None], p)


def _mean(values: Sequence[float], p: float | None = None) -> Cell:
    if not values:
        return Cell(None, None, 0)
    spread = statistics.stdev(values) if len(values) > 1 else None
    return Cell(statistics.fmean(values), spread, len(values), p)


def _difference(column: str, split: str, runs: Runs, baseline: Runs) -> float | None:
    """Significance over the seeds that both have: a line counts with what it is in all of them."""
    seeds = [seed for seed in runs if seed in baseline]
    try:
        before, after = (
            np.sum([side[seed]["statistics"][split] for seed in seeds], 0, dtype=float) for side in (baseline, runs)
        )
    except (KeyError, TypeError, ValueError):  # results without statistics, or of different texts
        return None
    if not seeds or before.shape != after.shape or not np.isfinite([before, after]).all():
        return None
    return bootstrap_bleu(before, after) if column == "BLEU" else bootstrap_mean(before, after)


def _oov_lines(suite: Suite, scale: Scale, rows: Rows, found: _Found) -> Found:
    best: dict[str, Record] = {}
    names = {str(row.coding): one.name for row, one in rows}
    for row, one in rows:
        runs = found.runs(one).values()
        best[str(row.coding)] = max(runs, key=lambda run: figure_at(run, "scores", "valid", "bleu") or 0.0, default={})
    lines = []
    for name, (coding, replaced, paper) in OOV_ROWS.items():
        bleu = figure_at(best[coding], "scores", "valid_without_oov" if replaced else "valid", "bleu")
        oov = figure_at(best[coding], "scores", "valid_without_oov", "replaced_words")
        ours = {} if bleu is None else {"BLEU": Cell(bleu)}
        if coding == "bpe" and oov is not None:
            ours["OOV words"] = Cell(0 if replaced else oov)
        lines.append(Line(name, ours, {"BLEU": paper}, names[coding]))
    return lines, []


def _word_lines(suite: Suite, scale: Scale, rows: Rows, found: _Found) -> Found:
    lines = [Line(f"paper, {name}", {"words": Cell(text=words)}) for name, words in PAPER_WORDS.items()]
    missing = []
    for _, one in rows:
        table = found.tables.get(one.table.id) if one.table else None
        if table is None:
            missing.append("the learnt table")
            continue
        shown = [(number, [word for word in words if word]) for number, words in enumerate(table["table"])]
        full = [item for item in shown if len(item[1]) >= SHOWN_WORDS] or shown
        step = max(1, math.ceil(len(full) / SHOWN_ROWS))
        lines += [
            Line(
                f"ours, row {number}",
                {"words": Cell(text=" ".join(words[:SHOWN_WORDS]))},
                run=str(table.get("name", "")),
            )
            for number, words in full[::step]
        ]
    return lines, missing


def _rank_lines(suite: Suite, scale: Scale, rows: Rows, found: _Found) -> Found:
    lines, _ = _lines(suite, scale, rows, found)
    with_ranks = []
    for line, (_, one) in zip(lines, rows, strict=True):
        measured = found.measured("rank", one)
        figures = {name: figure_at(measured, name) for name in ("rank", "bound", "parameters")}
        ranks = {name: Cell(figure) for name, figure in figures.items() if figure is not None}
        with_ranks.append(replace(line, ours={**ranks, **line.ours}))
    return with_ranks, [] if all("rank" in line.ours for line in with_ranks) else ["ranks"]


LINES: dict[str, Callable[[Suite, Scale, Rows, _Found], Found]] = {
    "oov": _oov_lines,
    "words": _word_lines,
    "rank": _rank_lines,
}
