"""As after `pip install`, outside a checkout: packaged configs by name, and nothing is looked for in the package."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the wheel holds: the package, and the configs inside it."""
    site = tmp_path_factory.mktemp("site-packages")
    shutil.copytree(ROOT / "src" / "fastmos", site / "fastmos", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "configs", site / "fastmos" / "configs")
    return site


def fastmos(site: Path, folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"}
    program = [sys.executable, "-m", "fastmos", *command.split()]
    return subprocess.run(program, capture_output=True, text=True, check=False, cwd=folder, env=environment)


def test_the_first_three_commands(site: Path, tmp_path: Path) -> None:
    before = sorted(path for path in site.rglob("*") if "__pycache__" not in path.parts)
    sizes = "--model.hidden_size 8 --training.max_epochs 1 --search.max_length 3"
    vocabulary = "--tokenizers.source.vocab_size 100 --tokenizers.target.vocab_size 100"
    for command in (
        "data sample runs/sample-data --pairs 60 --valid 2 --test 2",
        f"train sample {sizes} {vocabulary}",
        "translate runs/sample runs/sample-data/test.de",
        "evaluate runs/sample",
    ):
        done = fastmos(site, tmp_path, command)
        assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["sample", "sample-data"]
    assert sorted(path for path in site.rglob("*") if "__pycache__" not in path.parts) == before


def test_every_packaged_config_is_reachable_by_its_name(site: Path, tmp_path: Path) -> None:
    names = sorted(path.stem for path in (ROOT / "configs").glob("*.yaml"))
    program = f"""
from fastmos.cli import dispatch
from fastmos.errors import InputError
for name in {names!r}:
    try:
        dispatch(["train", name])
    except InputError as error:
        print(error)
"""
    environment = {**os.environ, "PYTHONPATH": str(site), "FASTMOS_DATA": "/none"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    refusals = done.stdout.splitlines()
    assert len(refusals) == len(names), done.stderr
    assert all(line.endswith(": no such file (named in the config)") for line in refusals), refusals
    assert str(site) not in done.stdout


def test_reproduce_finds_its_configs(site: Path, tmp_path: Path) -> None:
    done = fastmos(site, tmp_path, "reproduce overall --scale sample --list")
    assert done.returncode == 0, done.stderr
