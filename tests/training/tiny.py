"""A tiny task that trains in a second, and children that may be killed."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastmos.config import Config, parse_config

Sabotage = Callable[[], None]


def write_digits(folder: Path, lines: int = 48, seed: int = 0) -> None:
    """Pairs of digits and the same digits sorted: train, valid and test."""
    choose = random.Random(seed)
    for split, count in (("train", lines), ("valid", 8), ("test", 8)):
        sources = [" ".join(choose.choices("0123456789", k=choose.randint(1, 5))) for _ in range(count)]
        (folder / f"{split}.a").write_text("".join(f"{line}\n" for line in sources))
        (folder / f"{split}.b").write_text("".join(f"{' '.join(sorted(line.split()))}\n" for line in sources))


def tiny(**sections: dict[str, Any]) -> Config:
    """A config for those digits, with some values of its sections replaced."""
    values: dict[str, dict[str, Any]] = {
        "data": {split: {"source": f"{split}.a", "target": f"{split}.b"} for split in ("train", "valid", "test")},
        "tokenizers": {"source": {"type": "words"}, "target": {"type": "words"}},
        "model": {"hidden_size": 8, "dropout": 0.2},
        "head": {"mixtures": 2, "dropout": 0.1},
        "training": {
            "batch_size": 8,
            "max_epochs": 5,
            "save_every": 2,
            "log_every": 3,
            "keep_best": 2,
            "keep_last": 2,
        },
        "search": {"beam_size": 2, "max_length": 8},
    }
    for name, section in sections.items():
        values[name] = {**values[name], **section}
    return parse_config(values, "test")


def tiny_language_model(**training: Any) -> Config:
    """A config for a language model of the sorted digits."""
    values: dict[str, Any] = {
        "task": "language-modeling",
        "data": {split: {"target": f"{split}.b"} for split in ("train", "valid", "test")},
        "tokenizers": {"target": {"type": "words"}},
        "model": {"hidden_size": 8, "dropout": 0.2},
        "head": {"mixtures": 2},
        "training": {
            "batch_size": 4,
            "bptt_length": 5,
            "max_epochs": 4,
            "save_every": 2,
            "early_stopping_metric": "nll",
            **training,
        },
    }
    return parse_config(values, "test")


def in_child(work: Callable[[], None], sabotage: Sabotage = lambda: None) -> int:
    """Do the work in a forked process, spoilt in some way; how it ended, as a shell would say."""
    child = start_child(work, sabotage)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def start_child(work: Callable[[], None], sabotage: Sabotage = lambda: None) -> int:
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        sabotage()
        work()
        code = 0
    except (Exception, KeyboardInterrupt) as error:
        code = 2 if isinstance(error, OSError) else 3
    finally:
        os._exit(code)
