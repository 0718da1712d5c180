"""Real learning in seconds: numbers are copied and sorted, so a broken model, coding or search cannot pass."""

import random
from pathlib import Path
from typing import Any

import pytest

from fastmos import load
from fastmos.training.config import parse_config
from fastmos.training.experiment import train

CODINGS: dict[str, dict[str, Any]] = {
    "words": {"kind": "words"},
    "bpe": {"kind": "bpe", "codes": 24},  # 20 characters, within words and at their ends, and four numbers
    "table": {"kind": "table", "words": 16, "codes": 12},  # 4 frequent words and a table of 4 x 4
}
MODELS: dict[str, dict[str, Any]] = {
    "lstm": {"model": {"width": 48, "dropout": 0.0, "init": 0.3}, "rate": 1e-2},
    "transformer": {
        "model": {"kind": "transformer", "width": 32, "inner": 64, "heads": 2, "layers": 1, "dropout": 0.0},
        "rate": 5e-3,
    },
}
HEADS: dict[str, dict[str, Any]] = {"softmax": {"kind": "softmax", "mixtures": 1}, "mixture": {"mixtures": 3}}


def write_numbers(folder: Path, task: str, numbers: list[str]) -> None:
    choose = random.Random(0)
    for split, count in (("train", 1500), ("valid", 20), ("test", 50)):
        sources = [choose.choices(numbers, k=choose.randint(1, 4)) for _ in range(count)]
        targets = [sorted(line) if task == "sort" else line for line in sources]
        for side, lines in (("a", sources), ("b", targets)):
            (folder / f"{split}.{side}").write_text("".join(f"{' '.join(line)}\n" for line in lines))


@pytest.mark.parametrize(
    ("task", "model", "head", "coding"),
    [
        ("copy", "lstm", "softmax", "words"),
        ("sort", "lstm", "mixture", "bpe"),
        ("copy", "lstm", "mixture", "table"),
        ("sort", "lstm", "mixture", "table"),
        ("copy", "transformer", "softmax", "table"),
        ("copy", "transformer", "mixture", "bpe"),
        ("sort", "transformer", "mixture", "words"),
    ],
)
def test_learns(task: str, model: str, head: str, coding: str, tmp_path: Path) -> None:
    write_numbers(tmp_path, task, [f"{number}" for number in range(5, 21)])
    config = {
        "data": {split: {"source": f"{split}.a", "target": f"{split}.b"} for split in ("train", "valid", "test")},
        "codings": {"source": CODINGS[coding], "target": CODINGS[coding]},
        "model": MODELS[model]["model"],
        "head": HEADS[head],
        "training": {
            "batch_sentences": 32,
            "rate": MODELS[model]["rate"],
            "clip": 1.0,
            "schedule": "linear",
            "steps": 600,
            "warmup": 20,
            "epochs": 0,
            "log_every": 100,
            "validate_every": 600,
        },
        "search": {"beam": 3, "max_length": 20},
    }
    train(parse_config(config, "test"), tmp_path, tmp_path / "run")
    sources, targets = ((tmp_path / f"test.{side}").read_text().splitlines() for side in "ab")
    found = load(tmp_path / "run").translate(sources)
    right = sum(ours == theirs for ours, theirs in zip(found, targets, strict=True))
    assert right >= 0.9 * len(targets)
