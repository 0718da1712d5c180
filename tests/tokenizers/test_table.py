"""TableTokenizer: sizes, bijection, what may follow what, and what broken tokens mean."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fastmos.errors import InputError
from fastmos.tokenizers import EOS, UNK, UNK_TEXT, TableTokenizer
from fastmos.tokenizers.table import LAYOUTS, table_sizes


def lines_of(words: int) -> list[str]:
    """A text of that many words, each more frequent than the next."""
    return [" ".join(f"w{number}" for number in range(last)) for last in range(1, words + 1)]


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ((30_000, 10_000, None, None, None), (9_652, 174, 174)),  # the paper's numbers
        ((10_000, 3_000, None, None, None), (2_800, 100, 100)),
        ((30_000, None, None, None, None), (0, 174, 174)),  # LightRNN
        ((30_000, 348, None, None, None), (0, 174, 174)),
        ((30_000, None, 500, None, None), (500, 174, 174)),
        ((30_000, 10_000, None, 300, 100), (9_600, 300, 100)),
        ((30_000, 10_000, 9_600, 300, 100), (9_600, 300, 100)),
        ((1, None, None, None, None), (0, 1, 1)),
        ((10**12 + 1, None, None, None, None), (0, 10**6 + 1, 10**6 + 1)),
    ],
)
def test_sizes(given: tuple[Any, ...], sizes: tuple[int, int, int]) -> None:
    assert table_sizes(*given) == sizes


@given(words=st.integers(2, 40), frequent=st.integers(0, 20), layout=st.sampled_from(LAYOUTS))
def test_each_word_has_one_place(words: int, frequent: int, layout: str) -> None:
    frequent = min(frequent, words - 1)
    tokenizer = TableTokenizer.learn(lines_of(words), frequent=frequent, layout=layout)
    assert tokenizer.frequent == [f"w{number}" for number in range(frequent)]
    assert tokenizer.table_words == [f"w{number}" for number in range(frequent, words)]
    tokens = [tuple(tokenizer.encode(f"w{number}")) for number in range(words)]
    assert len(set(tokens)) == words
    assert [len(its) for its in tokens] == [1] * frequent + [2] * (words - frequent)  # two tokens at most
    assert len(tokenizer) == 4 + frequent + tokenizer.rows + tokenizer.columns


def test_frequency_table_is_filled_row_by_row() -> None:
    tokenizer = TableTokenizer.learn(lines_of(9), vocab_size=8, rows=2, columns=4)
    assert (tokenizer.frequent, tokenizer.cells.tolist()) == (["w0", "w1"], list(range(7)))
    assert tokenizer.row_words(0) == ["w2", "w3", "w4", "w5"]
    assert tokenizer.row_words(1) == ["w6", "w7", "w8", None]
    assert tokenizer.encode("w0 w2 w8") == [4, 6, 8, 7, 10]
    assert [tokenizer.id_to_token(token) for token in (4, 6, 8)] == ["w0", "⟨row0⟩", "⟨column0⟩"]
    assert tokenizer.ends_word.tolist() == [True] * 6 + [False] * 2 + [True] * 4


def test_random_table_follows_its_seed() -> None:
    tables = [TableTokenizer.learn(lines_of(50), layout="random", seed=seed).cells.tolist() for seed in (0, 0, 1)]
    assert tables[0] == tables[1] != tables[2]
    assert sorted(tables[0]) != tables[0]


def test_other_cells() -> None:
    tokenizer = TableTokenizer.learn(lines_of(9), vocab_size=8, rows=2, columns=4)
    turned = tokenizer.with_cells(tokenizer.cells[::-1].copy())
    assert turned.table_words == tokenizer.table_words
    assert turned.row_words(0) == ["w8", "w7", "w6", "w5"]
    assert turned.decode(turned.encode("w3 w0 w8")) == "w3 w0 w8"
    assert turned.fingerprint() != tokenizer.fingerprint()
    assert turned.with_cells(tokenizer.cells).fingerprint() == tokenizer.fingerprint()


BROKEN = [
    ("a row without a column", [6], [UNK_TEXT]),
    ("two rows", [6, 7, 8], [UNK_TEXT, "w6"]),
    ("a stray column", [8], [UNK_TEXT]),
    ("a column after a word", [4, 8, 5], ["w0", UNK_TEXT, "w1"]),
    ("a row, then a word", [6, 4], [UNK_TEXT, "w0"]),
    ("a row, then unk", [6, UNK], [UNK_TEXT, UNK_TEXT]),
    ("a row, then the end", [4, 6, EOS, 8], ["w0", UNK_TEXT]),
    ("an empty cell", [7, 11], [UNK_TEXT]),
    ("unk", [UNK, 4], [UNK_TEXT, "w0"]),
]


@pytest.mark.parametrize(("tokens", "words"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_broken_codes(tokens: list[int], words: list[str]) -> None:
    tokenizer = TableTokenizer.learn(lines_of(9), vocab_size=8, rows=2, columns=4)
    assert tokenizer.decode(tokens).split(" ") == words


@given(data=st.data())
def test_allowed_agrees_with_its_definition(data: st.DataObject) -> None:
    rows, columns = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    cells = data.draw(st.lists(st.integers(0, rows * columns - 1), unique=True, min_size=1))
    frequent = [f"f{number}" for number in range(data.draw(st.integers(0, 3)))]
    tokenizer = TableTokenizer(frequent, [f"t{number}" for number in range(len(cells))], cells, rows, columns)
    tokens = torch.arange(len(tokenizer))
    allowed = tokenizer.allowed(tokens)
    assert allowed.shape == (len(tokenizer), len(tokenizer))
    first_row = 4 + len(frequent)
    first_column = first_row + rows
    for token in range(len(tokenizer)):
        for follower in range(len(tokenizer)):
            if first_row <= token < first_column:
                right = (token - first_row) * columns + follower - first_column in cells and follower >= first_column
            elif first_row <= follower < first_column:  # a row with a word in it
                right = any(cell // columns == follower - first_row for cell in cells)
            else:
                right = follower >= EOS and follower < first_row
            assert bool(allowed[token, follower]) == right, (token, follower)
    for word in [*frequent, *tokenizer.table_words]:  # whatever is encoded is allowed
        path = [tokenizer.bos, *tokenizer.encode(word), tokenizer.eos]
        assert all(allowed[before, after] for before, after in pairwise(path))
    assert tokenizer.allowed(tokens[:0]).shape == (0, len(tokenizer))


IMPOSSIBLE = [
    ("few words", {"vocab_size": 40, "words": 16}, "the text has 9 words, too few for 32 frequent ones and a table"),
    ("just frequent", {"frequent": 9}, "the text has 9 words, too few for 9 frequent ones"),
    ("small table", {"rows": 2, "columns": 3}, "9 words do not fit into 2 x 3 cells"),
    ("few tokens", {"vocab_size": 5}, "a vocab_size of 5 is too small for 3 rows and 3 columns; give at least 6"),
    ("sizes disagree", {"vocab_size": 8, "frequent": 3}, "3 frequent words and a 3 x 3 table make 9 tokens, not 8"),
    ("filling", {"layout": "learned"}, "layout is 'learned'; it must be one of frequency, diagonal, random"),
    ("negative", {"frequent": -1}, "-1 frequent words"),
    ("no rows", {"rows": 0, "columns": 3}, "0 rows"),
    ("no words", {"words": 0}, "a vocabulary of 0 words"),
]


@pytest.mark.parametrize(("choice", "said"), [case[1:] for case in IMPOSSIBLE], ids=[case[0] for case in IMPOSSIBLE])
def test_impossible_table(choice: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        TableTokenizer.learn(lines_of(9), **choice)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([0, 1, 1], "two words share a cell"),
        ([0, 1, 4], "a cell lies outside the table of 2 x 2"),
        ([0, 1, -1], "a cell lies outside the table of 2 x 2"),
        ([0, 1], "3 table words need as many cells"),
        (np.zeros((3, 1), dtype=np.int64), "3 table words need as many cells"),
    ],
)
def test_table_that_is_no_bijection(cells: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        TableTokenizer(["a"], ["b", "c", "d"], cells, 2, 2)


def test_a_diagonal_table_spreads_frequent_words_over_rows_and_columns() -> None:
    tokenizer = TableTokenizer.learn(lines_of(50), layout="diagonal", rows=7, columns=9)
    row, column = np.divmod(tokenizer.cells, tokenizer.columns)
    for band in range(50 // 7):  # of words about as frequent as each other
        here = slice(7 * band, 7 * (band + 1))
        assert sorted(row[here]) == list(range(7)) and len(set(column[here])) == 7
