"""Work on several cores: how many there are, and what our child processes find around them."""

import os
import sys


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def child_environment() -> dict[str, str]:
    """The environment of a child process, which finds all modules that we find.

    FASTMOS_WORKER tells it that the other cores are busy with its siblings.
    """
    path = os.pathsep.join(filter(None, sys.path))  # an empty one, the current folder, it has by itself
    return {**os.environ, "PYTHONPATH": path, "FASTMOS_WORKER": "1"}
