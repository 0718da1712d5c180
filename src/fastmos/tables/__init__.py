"""Learning a table: who sits where at the least cost."""

from fastmos.tables.assignment import Assignment, assign

__all__ = ["Assignment", "assign"]
