"""Settings of all tests: one thread, repeatable random cases, tiny runs, and where real data lies."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from fastmos import experiment
from tests.tasks.captioner import tiny_captioner, without_java
from tests.training.tiny import tiny, tiny_language_model, write_digits

torch.set_num_threads(1)
settings.register_profile(  # the same cases on every machine, however slow it is
    "repeatable", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """A folder with the tiny task of sorting digits."""
    write_digits(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the digits, a translation run that can sort some of them, and a language model."""
    base = tmp_path_factory.mktemp("trained")
    write_digits(base, lines=400)
    training = {"learning_rate": 2e-2, "max_epochs": 8, "keep_last": 3, "save_every": 0}
    sections = {
        "model": {"hidden_size": 32, "dropout": 0.0, "init_range": 0.3},
        "data": {**tiny().data.model_dump(), "max_length": 12},
    }
    experiment.train(tiny(training=training, **sections), base, base / "run")
    experiment.train(tiny_language_model(max_epochs=1), base, base / "lm")
    return base


@pytest.fixture(scope="session")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with drawings, their captions, and their features."""
    from fastmos.samples.scenes import write_scenes
    from fastmos.vision.backbones import load_backbone
    from fastmos.vision.extraction import extract

    folder = tmp_path_factory.mktemp("scenes")
    write_scenes(folder, train=16, valid=4, test=3)
    extract(folder / "images", folder / "f.safetensors", load_backbone("color-grid"))
    return folder


@pytest.fixture(scope="session")
def captioner(scenes: Path) -> Path:
    """A captioner of the drawings, trained for two epochs."""
    with pytest.MonkeyPatch.context() as patch:
        without_java(patch)
        experiment.train(tiny_captioner(), scenes, scenes / "run")
    return scenes / "run"


@pytest.fixture
def real_data() -> Path:
    """The folder of real corpora, for the tests that need one; they are skipped without it."""
    folder = os.environ.get("FASTMOS_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("FASTMOS_DATA names no folder")
    return Path(folder)
