"""How alike the words of a learned table's rows are, beside the same words dealt to the rows at random.

Words are alike that have the same neighbors in the training text: the similarity of a row is the mean cosine of all
pairs of its words' vectors.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastmos.config import data_path
from fastmos.reproduce.plans import Plan
from fastmos.reproduce.records import header
from fastmos.reproduce.scales import Scale
from fastmos.tables.neighbors import word_vectors
from fastmos.tables.words import WordText
from fastmos.tokenizers import TableTokenizer, load_tokenizer

Array = np.ndarray[Any, np.dtype[Any]]
FEWEST = 8  # words of a row that counts
DEALS = 20  # at random
SEED = 0


def coherence_record(plans: Sequence[Plan], scale: Scale, runs: Path) -> dict[str, Any]:
    """The rows of each plan's table by their similarity, the most alike first."""
    rows = []
    for one in plans:
        assert one.table is not None
        tokenizer = load_tokenizer(runs / one.table.path)
        assert isinstance(tokenizer, TableTokenizer)
        text = WordText.read([data_path(one.table.train, runs)], tokenizer, runs / "cache")
        vectors = word_vectors(text, len(tokenizer.table_words), SEED)
        rows.append({"name": one.name, "run": one.id, **similarities(vectors, tokenizer.cells // tokenizer.columns)})
    return {**header("coherence", scale.name, SEED), "fewest_words": FEWEST, "deals": DEALS, "rows": rows}


def similarities(vectors: Array, row_of: Array) -> dict[str, Any]:
    """Of the rows of words [n] with vectors [n, k], and of as long rows of the same words at random."""
    found = row_similarities(vectors, row_of)
    draw = np.random.default_rng(SEED)
    dealt = [list(row_similarities(vectors, draw.permutation(row_of)).values()) for _ in range(DEALS)]
    figures = {
        "mean": np.mean(list(found.values())),
        "random_mean": np.mean(dealt),
        "random_best": np.mean(np.max(dealt, 1)),
    }
    ordered = sorted(found.items(), key=lambda item: -item[1])
    rows = [[number, round(value, 4)] for number, value in ordered]
    return {**{name: round(float(value), 4) for name, value in figures.items()}, "rows": rows}


def row_similarities(vectors: Array, row_of: Array) -> dict[int, float]:
    """The similarity of each row that has enough words."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    count = np.bincount(row_of)
    sums = np.zeros((len(count), unit.shape[1]))
    np.add.at(sums, row_of, unit)
    pairs = np.maximum(count * (count - 1), 1)
    each = ((sums**2).sum(1) - np.bincount(row_of, (unit**2).sum(1))) / pairs
    return {int(row): float(each[row]) for row in np.flatnonzero(count >= FEWEST)}
