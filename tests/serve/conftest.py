"""Tiny trained runs behind a server: in a thread of this process, or in a process of its own."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fastmos import experiment
from fastmos.config import changed
from fastmos.serve.limits import Limits
from fastmos.serve.models import Served, load_served
from tests.serve.running import Running
from tests.training.tiny import tiny

NAMES = ("mixture", "softmax", "lm", "captioner")


@pytest.fixture(scope="session")
def folders(trained: Path, captioner: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Run folders: a mixture and one softmax that sort digits, a language model, a captioner of drawings."""
    base = tmp_path_factory.mktemp("served")
    shutil.copytree(trained / "run", base / "mixture")
    shutil.copytree(trained / "lm", base / "lm")
    config = changed(tiny(training={"max_epochs": 2}), {"head": {"type": "softmax"}})
    experiment.train(config, trained, base / "softmax")
    shutil.copytree(captioner, base / "captioner")
    return [base / name for name in NAMES]


@pytest.fixture(scope="session")
def served(folders: list[Path]) -> list[Served]:
    return load_served(folders, "cpu", examples=True)


@pytest.fixture(scope="session")
def server(served: list[Served]) -> Iterator[Running]:
    """A server of all of them with the usual limits."""
    with Running(served, Limits()) as running:
        yield running


@pytest.fixture
def small_limits() -> Limits:
    return replace(Limits(), lines=4, characters=20, queue=6, seconds=5.0, image_megabytes=0.02, megapixels=0.02)
