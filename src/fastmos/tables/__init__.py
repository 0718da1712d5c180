"""Learning a table: what the places of words cost, and who sits where at the least cost."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastmos.tables.assignment import Assignment as Assignment
    from fastmos.tables.assignment import assign as assign
    from fastmos.tables.learning import LearntTable as LearntTable
    from fastmos.tables.learning import learn_table as learn_table
    from fastmos.tables.rounds import Learning as Learning
    from fastmos.tables.rounds import Round as Round

# Public names and their modules. Loaded on first use: an assignment has no need of language models.
_MODULES = {
    "Assignment": "assignment",
    "Learning": "rounds",
    "LearntTable": "learning",
    "Round": "rounds",
    "assign": "assignment",
    "learn_table": "learning",
}
__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"fastmos.tables.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'fastmos.tables' has no attribute '{name}'")
