"""The rank of the log-probability matrix of trained runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fastmos.heads import Head, Mixtape, Rank, log_prob_rank
from fastmos.heads.shortlist import ShortlistHead
from fastmos.inference.contexts import log_prob_batches, some_states
from fastmos.inference.run import Run, load
from fastmos.progress import progress
from fastmos.reproduce.plans import Plan
from fastmos.reproduce.records import header
from fastmos.reproduce.scales import Scale
from fastmos.reproduce.weights import check_weights

LARGEST = 12_000  # tokens of a vocabulary whose matrix is taken at all positions; of larger ones,
POSITIONS = 4096  # so many, evenly spaced, as a matrix of all by all tokens does not fit into memory


def rank_record(plans: Sequence[Plan], scale: Scale, runs: Path) -> dict[str, Any]:
    """The rank of the matrix of positions of the validation text by all tokens, for each run."""
    check_weights(plans, runs)
    rows: list[dict[str, Any]] = []
    shape: dict[str, int] = {}
    for one in progress(plans, "ranks", len(plans)):
        run = load(runs / one.id)
        found = rank_of(run)
        head = run.model.head
        assert isinstance(head, Head)
        shape = {"contexts": found.rows, "vocab_size": len(run.target)}
        rows.append(
            {
                "name": one.name,
                "run": one.id,
                "mixtures": run.config.head.num_mixtures,
                "embedding_size": head.embedding_size,
                "parameters": sum(weight.numel() for weight in run.model.parameters()),
                "rank": found.rank,
                "threshold": found.threshold,
                "bound": min(*shape.values(), most(head)),
                "singular_values": _thinned(found.singular_values.tolist()),
            }
        )
    return {**header("rank", scale.name, 1), **shape, "embedding_size": rows[0]["embedding_size"], "rows": rows}


@torch.no_grad()
def rank_of(run: Run) -> Rank:
    """Of a run on its validation text."""
    text = run.task.evaluation_data("valid", None, None)
    if len(run.target) <= LARGEST:
        return log_prob_rank(log_prob_batches(run, text))
    states, _ = some_states(run, text, POSITIONS)
    log_probs: Tensor = run.model.head(states)  # [N, V]
    found = log_prob_rank(torch.split(log_probs.t(), LARGEST))  # a matrix has the rank of its transpose
    return Rank(found.singular_values, found.rank, found.threshold, len(states))


def most(head: Head) -> int:
    """The largest rank that a head can have with any number of positions.

    One softmax: d, its bias, its normalization. Two levels: each has that, and they share a constant. Where tokens of a
    shortlist are mixed, those are free, and the others have the rank of one softmax, whose logits share one constant.
    """
    one = head.embedding_size + 2
    if isinstance(head, ShortlistHead | Mixtape):
        return one + (one - 1 if head.mixtures == 1 else len(head.shortlist))
    return one if head.softmaxes == 1 else head.vocab_size


def _thinned(values: list[float], points: int = 400) -> list[list[float]]:
    """At most so many of the values as (number, value), the first and the last among them."""
    last = len(values) - 1
    places = range(len(values)) if len(values) <= points else [round(i * last / (points - 1)) for i in range(points)]
    return [[place + 1, float(f"{values[place]:.6g}")] for place in places]
