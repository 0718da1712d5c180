"""Settings of all tests: one thread, repeatable random cases, and where real data lies."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)
settings.register_profile(  # the same cases on every machine, however slow it is
    "repeatable", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def real_data() -> Path:
    """The folder of real corpora, for the tests that need one; they are skipped without it."""
    folder = os.environ.get("FASTMOS_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("FASTMOS_DATA names no folder")
    return Path(folder)
