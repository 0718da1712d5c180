"""The trained weights that some measurements need, beside the records of their runs."""

from collections.abc import Sequence
from pathlib import Path

from fastmos.errors import InputError
from fastmos.reproduce.plans import Plan
from fastmos.run_folder import RunFolder


def check_weights(plans: Sequence[Plan], runs: Path) -> None:
    """Refuse plans whose run folders are gone."""
    if gone := [one for one in plans if not RunFolder(runs / one.id).model.exists()]:
        names = "; ".join(f"{one.name} ({one.id}.json)" for one in gone)
        raise InputError(f"this needs weights that are not in {runs}: delete these results to train again: {names}")
