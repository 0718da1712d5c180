"""Work on several cores: how many there are, and what our child processes find around them."""

import os
import sys

WORKER = "FASTMOS_WORKER"  # set in the environment of our child processes


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def child_environment() -> dict[str, str]:
    """The environment of a child process, which finds all modules that we find and knows what it is."""
    path = os.pathsep.join(filter(None, sys.path))  # an empty one, the current folder, it has by itself
    return {**os.environ, "PYTHONPATH": path, WORKER: "1"}


def in_worker() -> bool:
    """Is this such a child? Then the other cores are busy with its siblings, and it sees each line once."""
    return WORKER in os.environ
