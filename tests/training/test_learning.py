"""Real learning in seconds: numbers are copied and sorted, so a broken model, tokenizer or search cannot pass."""

import random
from pathlib import Path
from typing import Any

import pytest

from fastmos import load
from fastmos.config import parse_config
from fastmos.experiment import train

TOKENIZERS: dict[str, dict[str, Any]] = {
    "words": {"type": "words"},
    "bpe": {"type": "bpe", "vocab_size": 24},  # 20 characters, within words and at their ends, and four numbers
    "table": {"type": "table", "words": 16, "vocab_size": 12},  # 4 frequent words and a table of 4 x 4
}
MODELS: dict[str, dict[str, Any]] = {
    "lstm": {"model": {"hidden_size": 48, "dropout": 0.0, "init_range": 0.3}, "learning_rate": 1e-2},
    "transformer": {
        "model": {
            "type": "transformer",
            "hidden_size": 32,
            "ffn_size": 64,
            "num_heads": 2,
            "num_layers": 1,
            "dropout": 0.0,
        },
        "learning_rate": 5e-3,
    },
}
HEADS: dict[str, dict[str, Any]] = {
    "softmax": {"type": "softmax"},
    "mixture": {"mixtures": 3},
    "residual": {"mixtures": 3, "contexts": "residual"},
    "shortlist": {"type": "shortlist", "mixtures": 3},
    "mixtape": {"type": "mixtape", "shortlist": 8},
}


def write_numbers(folder: Path, task: str, numbers: list[str]) -> None:
    choose = random.Random(0)
    for split, count in (("train", 1500), ("valid", 20), ("test", 50)):
        sources = [choose.choices(numbers, k=choose.randint(1, 4)) for _ in range(count)]
        targets = [sorted(line) if task == "sort" else line for line in sources]
        for side, lines in (("a", sources), ("b", targets)):
            (folder / f"{split}.{side}").write_text("".join(f"{' '.join(line)}\n" for line in lines))


@pytest.mark.parametrize(
    ("task", "model", "head", "tokenizer"),
    [
        ("copy", "lstm", "softmax", "words"),
        ("sort", "lstm", "mixture", "bpe"),
        ("copy", "lstm", "mixture", "table"),
        ("sort", "lstm", "mixture", "table"),
        ("sort", "lstm", "shortlist", "bpe"),
        ("copy", "lstm", "residual", "words"),
        ("sort", "lstm", "mixtape", "words"),
        ("copy", "transformer", "shortlist", "table"),
        ("copy", "transformer", "softmax", "table"),
        ("copy", "transformer", "mixture", "bpe"),
        ("sort", "transformer", "mixture", "words"),
    ],
)
def test_learns(task: str, model: str, head: str, tokenizer: str, tmp_path: Path) -> None:
    write_numbers(tmp_path, task, [f"{number}" for number in range(5, 21)])
    config = {
        "data": {split: {"source": f"{split}.a", "target": f"{split}.b"} for split in ("train", "valid", "test")},
        "tokenizers": {"source": TOKENIZERS[tokenizer], "target": TOKENIZERS[tokenizer]},
        "model": MODELS[model]["model"],
        "head": HEADS[head],
        "training": {
            "batch_size": 32,
            "learning_rate": MODELS[model]["learning_rate"],
            "clip_grad_norm": 1.0,
            "lr_schedule": "linear",
            "max_steps": 600,
            "warmup_steps": 20,
            "max_epochs": 0,
            "log_every": 100,
            "validate_every": 600,
        },
        "search": {"beam_size": 3, "max_length": 20},
    }
    train(parse_config(config, "test"), tmp_path, tmp_path / "run")
    sources, targets = ((tmp_path / f"test.{side}").read_text().splitlines() for side in "ab")
    found = load(tmp_path / "run").translate(sources)
    right = sum(ours == theirs for ours, theirs in zip(found, targets, strict=True))
    assert right >= 0.9 * len(targets)
