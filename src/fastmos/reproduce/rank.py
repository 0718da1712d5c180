"""The rank of the log-probability matrix of trained runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastmos.errors import InputError
from fastmos.heads import log_prob_rank
from fastmos.inference.contexts import log_prob_batches
from fastmos.inference.run import load
from fastmos.progress import progress
from fastmos.reproduce.plans import Plan
from fastmos.reproduce.records import header
from fastmos.reproduce.scales import Scale
from fastmos.run_folder import RunFolder


def rank_record(plans: Sequence[Plan], scale: Scale, runs: Path) -> dict[str, Any]:
    """The rank of the matrix of all positions of the validation text by all tokens, for each run."""
    if gone := [one for one in plans if not RunFolder(runs / one.id).model.exists()]:
        names = "; ".join(f"{one.name} ({one.id}.json)" for one in gone)
        raise InputError(f"ranks need weights that are not in {runs}: delete these results to train again: {names}")
    rows: list[dict[str, Any]] = []
    shape: dict[str, int] = {}
    for one in progress(plans, "ranks", len(plans)):
        run = load(runs / one.id)
        found = log_prob_rank(log_prob_batches(run, run.task.evaluation_data("valid", None, None)))
        head, embedding_size = run.config.head, run.model.head.embedding_size
        assert isinstance(embedding_size, int)
        shape = {"contexts": found.rows, "vocab_size": len(run.target)}
        bound = min(shape.values()) if head.type == "mos" else min(*shape.values(), embedding_size + 2)
        rows.append(
            {
                "name": one.name,
                "run": one.id,
                "mixtures": head.num_mixtures,
                "embedding_size": embedding_size,
                "parameters": sum(weight.numel() for weight in run.model.parameters()),
                "rank": found.rank,
                "threshold": found.threshold,
                "bound": bound,
                "singular_values": _thinned(found.singular_values.tolist()),
            }
        )
    return {**header("rank", scale.name, 1), **shape, "embedding_size": rows[0]["embedding_size"], "rows": rows}


def _thinned(values: list[float], points: int = 400) -> list[list[float]]:
    """At most so many of the values as (number, value), the first and the last among them."""
    last = len(values) - 1
    places = range(len(values)) if len(values) <= points else [round(i * last / (points - 1)) for i in range(points)]
    return [[place + 1, float(f"{values[place]:.6g}")] for place in places]
