"""Runs side by side: scores on the same text, and whether they differ by more than the choice of its lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastmos.errors import InputError
from fastmos.files import read_lines
from fastmos.inference.run import Run, load
from fastmos.report.runs import unique_names
from fastmos.reproduce.evaluation import Split, line_statistics
from fastmos.reproduce.summary import BOOTSTRAP, SCORES, aligned

SAMPLES = 1000  # of the bootstrap
COLUMNS = ("BLEU", "CIDEr", "BLEU-4", "METEOR", "chrF", "NLL per word", "perplexity")


@dataclass(frozen=True)
class Compared:
    """What is kept of a run once it is evaluated."""

    name: str
    task: str
    text: list[str]  # that it was evaluated on
    signature: str  # of its main score; scores of different signatures do not compare
    scores: dict[str, float]  # by column
    statistics: Any  # of each line or image


def compare(folders: Sequence[Path], split: Split = "test") -> str:
    """A table of the runs' scores on their test (or validation) text, with p-values against the first run."""
    if len(folders) < 2:
        raise InputError(f"{len(folders)} run given; give at least two to compare")
    runs: list[Compared] = []
    for folder, name in zip(folders, unique_names(folders), strict=True):
        runs.append(_evaluated(load(folder), name, split))
        _check_alike(runs[0], runs[-1], split)
    main = next((column for column in BOOTSTRAP if column in runs[0].scores), None)
    columns = [column for column in COLUMNS if column in runs[0].scores]
    rows = [["run", *(part for column in columns for part in ([column, "p"] if column == main else [column]))]]
    for run in runs:
        cells = [run.name]
        for column in columns:
            digits = 4 if column == "NLL per word" else 2
            cells.append(f"{run.scores[column]:,.{digits}f}" if column in run.scores else "")
            cells += [_p_value(column, runs[0], run)] if column == main else []
        rows.append(cells)
    note = f"\n{split} text of {len(runs[0].text):,} lines."
    if main:
        note += (
            f" p: paired bootstrap of {main} against {runs[0].name} with {SAMPLES:,} samples of the text's lines. It "
            "compares these trained models and says nothing about other seeds."
        )
    return "\n".join([*aligned(rows), note])


def _evaluated(run: Run, name: str, split: Split) -> Compared:
    files = getattr(run.config.data, split)
    if not files.target:
        raise InputError(f"{name}: its config names no {split} text (data.{split}.target)")
    found = run.evaluate(split)
    record = found.record()
    scores = {label: shown_as(record[key]) for label, (key, shown_as) in SCORES.items() if record.get(key) is not None}
    text = list(read_lines(run.task.path(files.source or files.target)))
    signature = str(record.get("bleu_signature") or record.get("caption_signature") or "")
    return Compared(name, run.config.task, text, signature, scores, line_statistics(run, split, found))


def _check_alike(first: Compared, other: Compared, split: str) -> None:
    """Refuse runs whose scores do not compare."""
    if other.task != first.task:
        raise InputError(f"{first.name} does {first.task} and {other.name} {other.task}; compare runs of one task")
    if other.text != first.text:
        raise InputError(f"{first.name} and {other.name} name different {split} text; compare runs on the same text")
    if other.signature != first.signature:
        raise InputError(
            f"scores of {first.name} ({first.signature}) and {other.name} ({other.signature}) do not compare: their "
            "tokenizers treat case or words differently"
        )


def _p_value(column: str, baseline: Compared, run: Compared) -> str:
    if run is baseline or run.statistics is None or baseline.statistics is None:
        return ""
    before, after = (np.asarray(one.statistics, float) for one in (baseline, run))
    return f"{BOOTSTRAP[column](before, after, SAMPLES):.3f}"
