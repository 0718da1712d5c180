"""Tiny texts, and tables learned from them in a second."""

import json
import random
from pathlib import Path
from typing import Any

import torch

from fastmos.checkpoints import read_tensors
from fastmos.tables.learning import LearnedTable, learn_table
from fastmos.tables.rounds import TableLearning
from fastmos.tables.words import WordText
from fastmos.tokenizers import TableTokenizer

QUICK = TableLearning(rounds=2, first_epochs=1, hidden_size=4, batch_tokens=80, learning_rate=0.05, save_every=3)
CLASSES = {"d": 3, "a": 6, "n": 9, "v": 6}  # words of each part of speech
LINES = ["the cat sat on the mat", "", "a dog sat", "the dog ran on", "a cat ran", "the mat ran and ran", "cat"]


def small_table(
    folder: Path, lines: list[str], frequent: int = 2, layout: str = "random"
) -> tuple[TableTokenizer, WordText]:
    """A table of 3 x 4 cells over the words of LINES, and other lines in its words."""
    path = folder / "text"
    path.write_text("".join(f"{line}\n" for line in lines))
    tokenizer = TableTokenizer.learn(LINES, frequent=frequent, rows=3, columns=4, layout=layout, seed=1)
    return tokenizer, WordText.read([path], tokenizer, folder / "cache")


def write_texts(folder: Path, lines: int = 40, words: int = 1, seed: int = 0) -> tuple[Path, Path]:
    """Sentences of a tiny grammar: which class of word comes next is clear, and which word of it is not."""
    choose = random.Random(seed)
    files = folder / "train", folder / "valid"
    for file, count in zip(files, (lines, 12), strict=True):
        orders = [choose.choice(["dnvdn", "danv", "dnv", "dnvdan"]) for _ in range(count)]
        file.write_text(
            "".join(" ".join(f"{c}{choose.randrange(words * CLASSES[c])}" for c in order) + "\n" for order in orders)
        )
    return files


def quick(**changes: Any) -> TableLearning:
    """The quick setting with some values replaced."""
    return TableLearning(**{**QUICK.model_dump(), **changes})


def learned(folder: Path, name: str = "table", setting: TableLearning = QUICK, **options: Any) -> LearnedTable:
    """A table of the texts in the folder, with three frequent words unless told otherwise."""
    sides = {"frequent": 3, **options}
    return learn_table([folder / "train"], [folder / "valid"], folder / f"{name}.json", **sides, learning=setting)


def figures(folder: Path, name: str) -> Any:
    """What learning recorded, without times."""
    found = json.loads((folder / f"{name}.learning/rounds.json").read_text())
    for one in found["rounds"]:
        one.pop("seconds")
    del found["provenance"]
    return found


def assert_same(folder: Path, first: str, second: str) -> None:
    """Two tables were learned alike, to the last bit."""
    assert (folder / f"{first}.json").read_bytes() == (folder / f"{second}.json").read_bytes()
    assert figures(folder, first) == figures(folder, second)
    states = [read_tensors(folder / f"{name}.learning/state.safetensors")[0] for name in (first, second)]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
