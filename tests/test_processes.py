"""What our own processes know of the machine and of each other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastmos.processes import child_environment, cores


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores of Linux")
def test_only_cores_that_we_may_use_count() -> None:
    program = "import os; from fastmos.processes import cores; os.sched_setaffinity(0, {FIRST}); print(cores())"
    program = program.replace("FIRST", str(min(os.sched_getaffinity(0))))
    done = subprocess.run([sys.executable, "-c", program], env=child_environment(), capture_output=True, check=True)
    assert done.stdout.strip() == b"1" and cores() == len(os.sched_getaffinity(0))


def test_where_there_is_no_affinity_all_cores_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    for count, expected in ((3, 3), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        assert cores() == expected


def test_children_find_our_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_here.py").write_text("print('found')")
    monkeypatch.setattr(sys, "path", ["", *sys.path, str(tmp_path)])
    environment = child_environment()
    assert "" not in environment["PYTHONPATH"].split(os.pathsep)
    program = [sys.executable, "-c", "import fastmos.errors, only_here"]
    assert subprocess.run(program, env=environment, capture_output=True, check=True).stdout == b"found\n"
