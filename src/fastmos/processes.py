"""The number of cores, and the environment of child processes."""

import os
import sys

WORKER = "FASTMOS_WORKER"  # set in the environment of our child processes


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def child_environment() -> dict[str, str]:
    """The environment of a child process: it imports from the same places, and `in_worker` is true in it."""
    path = os.pathsep.join(filter(None, sys.path))  # an empty entry is the current folder, which it has anyway
    return {**os.environ, "PYTHONPATH": path, WORKER: "1"}


def in_worker() -> bool:
    """Is this a child process with `child_environment`? Then its siblings use the other cores."""
    return WORKER in os.environ
