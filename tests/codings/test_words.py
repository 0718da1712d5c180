"""WordCoding: which words make the vocabulary."""

from typing import Any

import pytest

from fastmos.codings import UNK, WordCoding
from fastmos.errors import InputError

LINES = ["b b b a a a c c d", "e d"]


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({}, ["a", "b", "c", "d", "e"]),  # by count, ties by string
        ({"size": 3}, ["a", "b", "c"]),
        ({"size": 99}, ["a", "b", "c", "d", "e"]),  # at most
        ({"min_count": 2}, ["a", "b", "c", "d"]),
        ({"min_count": 3, "size": 3}, ["a", "b"]),
    ],
)
def test_vocabulary(choice: dict[str, Any], words: list[str]) -> None:
    coding = WordCoding.learn(iter(LINES), **choice)
    assert coding.words == words
    assert len(coding) == len(words) + 4
    assert coding.encode(" ".join([*words, "zz"])) == [*range(4, 4 + len(words)), UNK]
    assert coding.ends_word.all()


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"size": 0}, "size 0 and minimum count 1 must be at least 1"),
        ({"min_count": 0}, "minimum count 0 must be at least 1"),
        ({"min_count": 9}, "no word of the text occurs 9 times"),
    ],
)
def test_impossible_vocabulary(choice: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        WordCoding.learn(LINES, **choice)


@pytest.mark.parametrize(("share", "left_out"), [(0.0, 0), (0.1, 2), (0.5, 10), (0.99, 19)])
def test_a_share_of_the_words_that_occur_once_become_unk(share: float, left_out: int) -> None:
    lines = ["often often twice twice", " ".join(f"once{number:02d}" for number in range(20))]
    coding = WordCoding.learn(lines, unk_share=share)
    assert len(coding.words) == 22 - left_out and coding.words[:2] == ["often", "twice"]
    assert sum(code == coding.unk for code in coding.encode(lines[1])) == left_out
    with pytest.raises(InputError, match="share 1"):
        WordCoding.learn(lines, unk_share=1.0)
