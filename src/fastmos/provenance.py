"""How a result was made: command, date, machine, versions, commit, seed."""

import datetime
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any


def provenance(seed: int) -> dict[str, Any]:
    """What is written beside every result."""
    import numpy
    import torch

    from fastmos.heads import products

    preloaded = os.environ.get("LD_PRELOAD", "").replace(":", " ").split()  # such as other matrix kernels
    return {
        "command": " ".join([_program(), *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": _machine(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "preload": " ".join(Path(name).name for name in preloaded),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "products": products.describe(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "commit": _commit(),
        "seed": seed,
    }


def _program() -> str:
    """The name of the program; for `python -m fastmos` it is fastmos."""
    path = Path(sys.argv[0])
    return path.parent.name if path.name == "__main__.py" else path.name


def _machine() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _commit() -> str:
    """The commit of the source tree, with `+` if it has uncommitted changes; empty if there is none."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists() or shutil.which("git") is None:
        return ""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "--no-optional-locks", "-C", str(root), *words], capture_output=True, text=True, check=False
        ).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
