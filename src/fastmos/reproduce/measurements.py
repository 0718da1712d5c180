"""What is measured of all rows of a table at once, beside what the record of each run holds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastmos.reproduce.plans import Plan
from fastmos.reproduce.scales import Scale


@dataclass(frozen=True)
class Measurement:
    """A kind of record with a row for each run. A suite has it measured by showing one of its columns."""

    kind: str  # of the record
    label: str
    columns: Mapping[str, tuple[str, ...]]  # of a table -> where the figure lies in a row of the record
    record: Callable[[Sequence[Plan], Scale, Path], dict[str, Any]]  # of plans, at a scale, in the runs folder
    needs_weights: bool = False  # so that the runs must be trained before
    all_suites: bool = False  # one record has the rows of all suites that show it, so that they can be compared


def _costs(plans: Sequence[Plan], scale: Scale, runs: Path) -> dict[str, Any]:
    from fastmos.reproduce.cost import cost_record

    return cost_record(plans, scale, runs)


def _ranks(plans: Sequence[Plan], scale: Scale, runs: Path) -> dict[str, Any]:
    from fastmos.reproduce.rank import rank_record

    return rank_record(plans, scale, runs)


def _decoding(plans: Sequence[Plan], scale: Scale, runs: Path) -> dict[str, Any]:
    from fastmos.reproduce.decoding import decoding_record

    return decoding_record(plans, scale, runs)


def _gradients(plans: Sequence[Plan], scale: Scale, runs: Path) -> dict[str, Any]:
    from fastmos.reproduce.gradient import gradient_record

    return gradient_record(plans, scale, runs)


def _coherence(plans: Sequence[Plan], scale: Scale, runs: Path) -> dict[str, Any]:
    from fastmos.reproduce.coherence import coherence_record

    return coherence_record(plans, scale, runs)


COST = Measurement(
    "cost",
    "time and memory",
    {
        "ms, plain": ("plain", "ms"),
        "ms, fused": ("fused", "ms"),
        "MB, plain": ("plain", "megabytes"),
        "MB, fused": ("fused", "megabytes"),
    },
    _costs,
    all_suites=True,
)
RANK = Measurement(
    "rank",
    "ranks",
    {"rank": ("rank",), "bound": ("bound",)},
    _ranks,
    needs_weights=True,
)
DECODING = Measurement("decoding", "decoding speed", {"ms a sentence": ("ms",)}, _decoding, needs_weights=True)
GRADIENT = Measurement(
    "gradient",
    "shares of the gradient",
    {"gradient, %": ("hidden", "percent"), "through contexts, %": ("contexts", "percent")},
    _gradients,
    needs_weights=True,
)
COHERENCE = Measurement("coherence", "similarity of words", {"similarity": ("mean",)}, _coherence)
MEASUREMENTS = (COST, RANK, DECODING, GRADIENT, COHERENCE)
