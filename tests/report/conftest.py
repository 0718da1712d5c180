"""Trained runs of a tiny task."""

from pathlib import Path

import pytest

from fastmos import experiment
from tests.training.tiny import tiny, tiny_language_model, write_digits


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run folders long and short, which translate, and lm, a language model."""
    folder = tmp_path_factory.mktemp("digits")
    write_digits(folder)
    for name, epochs in (("long", 8), ("short", 1)):
        config = tiny(training={"learning_rate": 0.03, "max_epochs": epochs})
        experiment.train(config, folder, folder / "runs" / name)
    experiment.train(tiny_language_model(max_epochs=2), folder, folder / "runs" / "lm")
    return folder / "runs"
