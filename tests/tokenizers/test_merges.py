"""Learning BPE merges, and reading them from subword-nmt's files."""

import itertools
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastmos.errors import InputError
from fastmos.tokenizers.merges import VERSION_LINE, learn_merges, read_merges

small_words = st.text(alphabet="ab", min_size=1, max_size=7)


@given(st.dictionaries(small_words, st.integers(1, 9), min_size=1, max_size=12), st.integers(4, 12))
def test_merges_agree_with_their_definition(counts: dict[str, int], vocab_size: int) -> None:
    """Count all pairs before each merge; that is slow and plain."""
    vocab_size = max(vocab_size, 2 * len(set("".join(counts))))
    words = {word: [*word[:-1], word[-1] + "</w>"] for word in counts}
    found, merges = learn_merges(counts, vocab_size)
    for merge in merges:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, symbols in words.items():
            for pair in itertools.pairwise(symbols):
                pairs[pair] += counts[word]
        assert merge == max(pairs, key=lambda pair: (pairs[pair], pair))
        assert pairs[merge] >= 2
        for word, symbols in words.items():
            merged: list[str] = []
            while symbols:
                step = 2 if tuple(symbols[:2]) == merge else 1
                merged, symbols = [*merged, "".join(symbols[:step])], symbols[step:]
            words[word] = merged
    assert len(found) == len(set(found)) <= vocab_size


def test_white_space_and_control_characters_are_never_merged() -> None:
    _, merges = learn_merges({"a\u00a0b": 5, "\x00a\x85": 5, "a\u2028b": 5, "a\rb": 5, "ab": 5}, 50)
    assert merges == [("a", "b</w>")]


def test_no_piece_within_words_looks_like_the_end_of_one() -> None:
    """A text may have `</w>` itself."""
    pieces, merges = learn_merges({"a</w>b": 10, "</w>b": 5}, 40)
    inside = {"".join(merge) for merge in merges if not merge[1].endswith("</w>")}
    assert inside and not any(piece.endswith("</w>") for piece in inside)
    assert len(pieces) == len(set(pieces))


def test_too_small_a_vocabulary_is_refused() -> None:
    with pytest.raises(InputError, match="a vocab_size of 5 is too small: the 3 characters of the text"):
        learn_merges({"abc": 1}, 5)


def test_a_file_is_read_and_repeated_merges_count_once(tmp_path: Path) -> None:
    (tmp_path / "codes").write_text(f"{VERSION_LINE}\na b\nb c</w>\na b\n")
    assert read_merges(tmp_path / "codes") == [("a", "b"), ("b", "c</w>")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "not a subword-nmt codes file of version 0.2"),
        ("a b\n", "not a subword-nmt codes file of version 0.2"),
        ("#version: 0.1\na b\n", "not a subword-nmt codes file of version 0.2"),
        ("#version: 0.2\na b\na b c\n", "codes, line 3: a merge is two symbols"),
        ("#version: 0.2\na b\n\nc d\n", "codes, line 3: a merge is two symbols"),
    ],
)
def test_damaged_codes_file(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "codes").write_text(content)
    with pytest.raises(InputError, match=said):
        read_merges(tmp_path / "codes")
