"""A tiny captioner of drawings."""

import shutil
from typing import Any

import pytest

from fastmos.config import Config, parse_config


def tiny_captioner(**training: Any) -> Config:
    splits = {split: {"source": f"{split}.txt", "target": "captions.txt"} for split in ("train", "valid", "test")}
    return parse_config(
        {
            "task": "captioning",
            "data": {**splits, "features": "f.safetensors"},
            "tokenizers": {"target": {"type": "words", "vocab_size": 60}},
            "model": {"hidden_size": 12, "dropout": 0.1},
            "head": {"mixtures": 2},
            "training": {
                "batch_size": 16,
                "max_epochs": 2,
                "early_stopping_metric": "nll",
                "log_every": 3,
                "learning_rate": 0.01,
                "keep_last": 2,
                **training,
            },
            "search": {"beam_size": 2, "max_length": 8},
        },
        "test",
    )


def without_java(patch: pytest.MonkeyPatch) -> None:
    """Starting Java takes a second, and most tests need no figure of captions."""
    which = shutil.which
    patch.setattr(shutil, "which", lambda name: None if name == "java" else which(name))
