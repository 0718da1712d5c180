"""Lines to words and back: plain spaces, lowercasing, Moses' rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastmos.errors import InputError
from fastmos.tokenizers import Pretokenizer
from fastmos.tokenizers.pretokenizer import batches, by_count


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        ("   ", []),
        (" a  b ", ["a", "b"]),
        ("a\u00a0b c", ["a\u00a0b", "c"]),  # a no-break space separates nothing
        ("a\tb c", ["a\tb", "c"]),
        ("a\u2028b \x00 c", ["a\u2028b", "\x00", "c"]),
        ("a\nb", ["a", "b"]),  # a line is one line
    ],
)
def test_only_spaces_separate_words(line: str, words: list[str]) -> None:
    assert list(Pretokenizer().split([line])) == [words]


@given(st.lists(st.text().filter(lambda word: word and " " not in word and "\n" not in word)))
def test_words_round_trip(words: list[str]) -> None:
    [line] = Pretokenizer().join([words])
    assert list(Pretokenizer().split([line])) == [words]


def test_lowercase() -> None:
    assert list(Pretokenizer(lowercase=True).split(["Straße ÄÖ İ"])) == [["straße", "äö", "İ".lower()]]


def test_a_language_means_moses_rules() -> None:
    pretokenizer = Pretokenizer("en", lowercase=True)
    assert list(pretokenizer.split(["Stop, now!"])) == [["stop", ",", "now", "!"]]
    assert pretokenizer.join([["stop", ",", "now", "!"]]) == ["stop, now!"]
    with pytest.raises(InputError, match="language 'xx' is unknown"):
        Pretokenizer("xx")


def test_counts_and_batches() -> None:
    counts = Pretokenizer().count_words(iter(["b a", "b c a", "d"]))
    assert counts == {"a": 2, "b": 2, "c": 1, "d": 1}
    assert by_count(counts) == ["a", "b", "c", "d"]
    assert list(batches(iter("abcde"), 2)) == [["a", "b"], ["c", "d"], ["e"]]


@pytest.mark.parametrize("lines", [[], [""], ["  ", ""]])
def test_text_without_words(lines: list[str]) -> None:
    with pytest.raises(InputError, match="the text has no words"):
        Pretokenizer().count_words(lines)
