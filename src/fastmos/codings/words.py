"""WordCoding: one code for each word of a vocabulary."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from fastmos.codings.base import SPECIALS, UNK_TEXT, Coding, KnownWords, check_strings, field
from fastmos.codings.text import Text, by_count
from fastmos.errors import InputError


class WordCoding(Coding):
    """The words of a vocabulary, in its order; every other word is unk."""

    kind: ClassVar[str] = "words"

    def __init__(self, words: Sequence[str], text: Text | None = None) -> None:
        check_words(words)
        self.words = list(words)
        self.text = text or Text()
        self.ends_word = np.ones(len(self), dtype=bool)
        self._codes_of = KnownWords((word, (code,)) for code, word in enumerate(words, len(SPECIALS)))

    @classmethod
    def learn(
        cls,
        lines: Iterable[str],
        *,
        size: int | None = None,
        min_count: int = 1,
        unk_share: float = 0.0,
        text: Text | None = None,
    ) -> Self:
        """The `size` most frequent words (ties by string), or all, that occur at least `min_count` times.

        A vocabulary of all words never meets unk in its own text: so `unk_share` leaves out that share of the words
        that occur once.
        """
        text = text or Text()
        return cls(vocabulary(lines, text, size, min_count, unk_share), text)

    def __len__(self) -> int:
        return len(SPECIALS) + len(self.words)

    def token(self, code: int) -> str:
        return SPECIALS[code] if code < len(SPECIALS) else self.words[code - len(SPECIALS)]

    def _words(self, codes: list[int]) -> list[str]:
        return [self.token(code) for code in codes]

    def to_json(self) -> dict[str, Any]:
        return {**self._header(), "words": self.words}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        return cls(field(value, "words", str), Text.from_json(value.get("text")))


def vocabulary(lines: Iterable[str], text: Text, size: int | None, min_count: int, unk_share: float = 0.0) -> list[str]:
    """At most `size` words that occur at least `min_count` times, the most frequent first."""
    if not 0 <= unk_share < 1:
        raise InputError(f"the share {unk_share} of words that become unk must be at least 0 and below 1")
    if (size is not None and size < 1) or min_count < 1:
        raise InputError(f"size {size} and minimum count {min_count} must be at least 1")
    counts = text.count_words(lines)
    counts.pop(UNK_TEXT, None)
    once = sorted(word for word in counts if counts[word] == 1)
    for place, word in enumerate(once):  # evenly over the alphabet
        if int((place + 1) * unk_share) > int(place * unk_share):
            del counts[word]
    words = [word for word in by_count(counts)[:size] if counts[word] >= min_count]
    if not words:
        raise InputError(f"no word of the text occurs {min_count} times; ask for a lower minimum count")
    return words


def check_words(words: Sequence[str]) -> None:
    """A vocabulary holds each word once, and never the word that stands for all others."""
    if not words:
        raise InputError("a vocabulary needs at least one word")
    check_strings(words, "word")
    if UNK_TEXT in words:
        raise InputError(f"the word {UNK_TEXT} stands for unknown words and cannot be in a vocabulary")
