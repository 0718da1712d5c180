"""WordTokenizer: which words make the vocabulary."""

from typing import Any

import pytest

from fastmos.errors import InputError
from fastmos.tokenizers import UNK, WordTokenizer

LINES = ["b b b a a a c c d", "e d"]


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({}, ["a", "b", "c", "d", "e"]),  # by count, ties by string
        ({"vocab_size": 3}, ["a", "b", "c"]),
        ({"vocab_size": 99}, ["a", "b", "c", "d", "e"]),  # at most
        ({"min_count": 2}, ["a", "b", "c", "d"]),
        ({"min_count": 3, "vocab_size": 3}, ["a", "b"]),
    ],
)
def test_vocabulary(choice: dict[str, Any], words: list[str]) -> None:
    tokenizer = WordTokenizer.learn(iter(LINES), **choice)
    assert tokenizer.words == words
    assert len(tokenizer) == len(words) + 4
    assert tokenizer.encode(" ".join([*words, "zz"])) == [*range(4, 4 + len(words)), UNK]


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"vocab_size": 0}, "a vocabulary of 0 words that occur 1 times"),
        ({"min_count": 0}, "words that occur 0 times"),
        ({"min_count": 9}, "no word of the text occurs 9 times"),
    ],
)
def test_impossible_vocabulary(choice: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        WordTokenizer.learn(LINES, **choice)


@pytest.mark.parametrize(("share", "left_out"), [(0.0, 0), (0.1, 2), (0.5, 10), (0.99, 19)])
def test_a_share_of_the_words_that_occur_once_become_unk(share: float, left_out: int) -> None:
    lines = ["often often twice twice", " ".join(f"once{number:02d}" for number in range(20))]
    tokenizer = WordTokenizer.learn(lines, unk_share=share)
    assert len(tokenizer.words) == 22 - left_out and tokenizer.words[:2] == ["often", "twice"]
    assert sum(token == tokenizer.unk for token in tokenizer.encode(lines[1])) == left_out
    with pytest.raises(InputError, match="unk_share is 1"):
        WordTokenizer.learn(lines, unk_share=1.0)
