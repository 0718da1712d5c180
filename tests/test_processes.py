"""What our own processes know of the machine and of each other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastmos.processes import SAFE_PATH, child_environment, cores, import_path, safe_children
from tests.planted import plant, run_among_them


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


# What starts processes: Moses' rules, encoding of text, the check of autocast, memory of a step, the demo's trainings.
STARTERS = {
    "moses": """
from fastmos.tokenizers import moses
moses.cores = lambda: 2
moses.LINES_WORTH_A_PROCESS = 1
print(moses.tokenize(["Hello, world!", "Hello."], "en"))""",
    "encoding": """
from pathlib import Path
from fastmos.data import tokenized
from fastmos.tokenizers import WordTokenizer
tokenized.CHUNK = tokenized.POOL_FROM = 1
Path("text").write_text("a b\\nb\\n" * 4)
text = tokenized.encode_files(["text"], WordTokenizer.learn(["a b"]), "cache", processes=2)
print(len(text))""",
    "doctor": """
from fastmos import doctor
print(doctor._in_process_of_its_own("cpu", "float32", "uniform"))""",
    "memory": """
from fastmos.measure import extra_memory, with_pages_kept
import builtins
print(with_pages_kept(len, "four"))""",
    "demo": """
from pathlib import Path
from fastmos.demos.translation import _start
child = _start(Path("folder"), "softmax")
said = child.communicate()[1]
print(said, "folder/softmax.yaml: no such file" in said or 1 / 0)""",
    "command": """
import subprocess, sys, os
environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
done = subprocess.run([sys.executable, "-m", "fastmos", "train", "none.yaml"], env=environment, capture_output=True)
print(done.stderr, b"none.yaml: no such file" in done.stderr or 1 / 0)""",
}


@pytest.mark.parametrize("name", STARTERS)
def test_a_child_imports_nothing_from_the_current_folder(name: str, tmp_path: Path) -> None:
    mark = plant(tmp_path)
    if name == "command":  # Python itself finds the package fastmos there first: that is the user's own choice
        (tmp_path / "fastmos.py").unlink()
    done = run_among_them(tmp_path, STARTERS[name])
    assert done.returncode == 0, done.stderr
    assert not mark.exists(), mark.read_text()


def test_a_planted_module_would_be_imported_by_a_plain_child(tmp_path: Path) -> None:
    """The trap works."""
    mark = plant(tmp_path)
    run_among_them(tmp_path, "import os, subprocess, sys; subprocess.run([sys.executable, '-c', 'import hashlib'])")
    assert mark.exists()


def test_the_path_of_children_has_no_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", ".", str(tmp_path), "/elsewhere"])
    assert import_path() == ["/elsewhere"]
    monkeypatch.delenv(SAFE_PATH, raising=False)
    with safe_children():
        assert os.environ[SAFE_PATH] == "1"
    assert SAFE_PATH not in os.environ
