"""The number of cores, and child processes that import from the same places as this one, never from the folder they
are started in: a `hashlib.py` that lies there is text, not code."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fastmos.errors import InputError

WORKER = "FASTMOS_WORKER"  # set in the environment of our child processes
SAFE_PATH = "PYTHONSAFEPATH"  # Python then leaves the current folder out of the places that it imports from


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def child_command(*words: str) -> list[str]:
    """The command of a child process that runs Python with these words; start it with `child_environment`."""
    return [sys.executable, "-P", *words]


def child_environment() -> dict[str, str]:
    """The environment of a child process: it imports from the same places, and `in_worker` is true in it."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(import_path()), SAFE_PATH: "1", WORKER: "1"}


@contextmanager
def safe_children() -> Iterator[None]:
    """Around the start of processes by somebody else, such as `multiprocessing`."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        os.environ.pop(SAFE_PATH, None)
        if before is not None:
            os.environ[SAFE_PATH] = before


def import_path() -> list[str]:
    """The places that this process imports from, without the current folder unless fastmos itself lies there."""
    here, ours = Path.cwd(), Path(__file__).resolve().parents[1]
    return [entry for entry in sys.path if entry and (Path(entry).resolve() != here.resolve() or here == ours)]


def in_worker() -> bool:
    """Is this a child process with `child_environment`? Then its siblings use the other cores."""
    return WORKER in os.environ


def whole_number(name: str, default: int) -> int:
    """A variable of the environment that is a whole number; one that is empty counts as not set."""
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InputError(
            f"the environment has {name}={text[:40]}; it must be a whole number: unset it, or use torchrun"
        )
    return int(text)
