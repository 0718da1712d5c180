"""The share of the gradient by log-probabilities that the heads of trained runs let through."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastmos.heads import Head
from fastmos.heads.gradient import GradientShare, Through, gradient_share
from fastmos.inference.contexts import some_states
from fastmos.inference.run import load
from fastmos.progress import progress
from fastmos.reproduce.plans import Plan
from fastmos.reproduce.records import header
from fastmos.reproduce.scales import Scale
from fastmos.reproduce.weights import check_weights

POSITIONS: dict[Through, int] = {"hidden": 128, "contexts": 32}  # of the validation text; more directions take longer


def gradient_record(plans: Sequence[Plan], scale: Scale, runs: Path) -> dict[str, Any]:
    """For each run the share through the hidden state, and through all contexts."""
    check_weights(plans, runs)
    rows: list[dict[str, Any]] = []
    for one in progress(plans, "shares of the gradient", len(plans)):
        run = load(runs / one.id)
        text = run.task.evaluation_data("valid", None, None)
        head = run.model.head
        assert isinstance(head, Head)
        row: dict[str, Any] = {"name": one.name, "run": one.id}
        for through, count in POSITIONS.items():
            row[through] = _figures(gradient_share(head, *some_states(run, text, count), through))
        rows.append(row)
    return {**header("gradient", scale.name, 1), "positions": POSITIONS, "rows": rows}


def _figures(found: GradientShare) -> dict[str, float]:
    """In percent, with the standard error over positions."""
    ratio, count = found.share, len(found.total)
    rest = (found.reached - ratio * found.total) / found.total.mean()  # of a ratio of means, by its linear part
    error = float(rest.std() / count**0.5) if count > 1 else 0.0
    figures = {"percent": 100 * ratio, "percent_spread": 100 * error, "directions": found.directions}
    return {name: round(value, 4) for name, value in figures.items()}
