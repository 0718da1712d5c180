"""The layout by neighbors: words of the same contexts share a row, in a table of any shape."""

from pathlib import Path

import numpy as np
import pytest

from fastmos.tables.neighbors import by_neighbors
from fastmos.tables.words import WordText
from fastmos.tokenizers import TableTokenizer
from tests.tables.tiny import LINES


def test_words_with_the_same_neighbors_start_in_the_same_row(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    colors, animals = [f"color{i}" for i in range(4)], [f"animal{i}" for i in range(4)]
    lines = [f"the {draw.choice(colors)} {draw.choice(animals)} ran" for _ in range(200)]
    path = tmp_path / "text"
    path.write_text("\n".join(lines))
    tokenizer = TableTokenizer.learn(lines, frequent=2, rows=2, columns=5)
    text = WordText.read([path], tokenizer, tmp_path / "cache")
    started = by_neighbors(tokenizer, text, seed=0)
    groups = {frozenset(word for word in started.row_words(row) if word) for row in range(2)}
    assert groups == {frozenset(colors), frozenset(animals)}
    counts = dict(zip(tokenizer.table_words, text.counts(8).tolist(), strict=True))
    for row in range(2):  # from the most frequent down
        in_row = [counts[word] for word in started.row_words(row) if word]
        assert in_row == sorted(in_row, reverse=True)
    assert by_neighbors(tokenizer, text, seed=0).fingerprint() == started.fingerprint()


@pytest.mark.parametrize(("rows", "columns"), [(1, 8), (8, 1), (3, 7), (5, 2), (9, 9)])
def test_any_table_can_be_started(rows: int, columns: int, tmp_path: Path) -> None:
    tokenizer = TableTokenizer.learn(LINES, rows=rows, columns=max(columns, -(-8 // rows)), frequent=1)
    path = tmp_path / "text"
    path.write_text("\n".join(LINES))
    started = by_neighbors(tokenizer, WordText.read([path], tokenizer, tmp_path / "cache"), seed=0)
    assert sorted(started.table_words) == sorted(tokenizer.table_words)  # a bijection, which the tokenizer checks
    sizes = [sum(word is not None for word in started.row_words(row)) for row in range(rows)]
    assert max(sizes) - min(sizes) <= 2
