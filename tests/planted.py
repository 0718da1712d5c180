"""A folder in which somebody planted modules with the names of Python's own."""

import os
import subprocess
import sys
from pathlib import Path

PLANTED = ("hashlib", "random", "tempfile", "json", "yaml", "numpy", "torch", "fastmos", "sitecustomize")


def plant(folder: Path) -> Path:
    """Modules that leave a mark when they are imported; returns the mark."""
    mark = folder / "executed"
    for name in PLANTED:
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write({name!r})\nraise SystemExit('planted')\n")
    return mark


def run_among_them(folder: Path, program: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """A Python program in that folder, started as the program `fastmos` is: without the folder in its path."""
    child = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=folder,
        env={**child, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
