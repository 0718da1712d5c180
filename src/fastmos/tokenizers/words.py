"""WordTokenizer: one token for each word of a vocabulary."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from fastmos.errors import InputError
from fastmos.tokenizers.base import SPECIALS, UNK_TEXT, KnownWords, Tokenizer, check_strings, field
from fastmos.tokenizers.pretokenizer import Pretokenizer, by_count


class WordTokenizer(Tokenizer):
    """The words of a vocabulary, in its order; every other word is unk."""

    type: ClassVar[str] = "words"

    def __init__(self, words: Sequence[str], pretokenizer: Pretokenizer | None = None) -> None:
        check_words(words)
        self.words = list(words)
        self.pretokenizer = pretokenizer or Pretokenizer()
        self.ends_word = np.ones(len(self), dtype=bool)
        self._tokens_of = KnownWords((word, (token,)) for token, word in enumerate(words, len(SPECIALS)))

    @classmethod
    def learn(
        cls,
        lines: Iterable[str],
        *,
        vocab_size: int | None = None,
        min_count: int = 1,
        unk_share: float = 0.0,
        pretokenizer: Pretokenizer | None = None,
    ) -> Self:
        """The `vocab_size` most frequent words (ties by string), or all, that occur at least `min_count` times.

        With a vocabulary of all words, unk never occurs in the text it was learned from, and a model does not learn it:
        `unk_share` leaves out that share of the words that occur once.
        """
        pretokenizer = pretokenizer or Pretokenizer()
        return cls(vocabulary(lines, pretokenizer, vocab_size, min_count, unk_share), pretokenizer)

    def __len__(self) -> int:
        return len(SPECIALS) + len(self.words)

    def id_to_token(self, token: int) -> str:
        return SPECIALS[token] if token < len(SPECIALS) else self.words[token - len(SPECIALS)]

    def _words(self, tokens: list[int]) -> list[str]:
        return [self.id_to_token(token) for token in tokens]

    def to_json(self) -> dict[str, Any]:
        return {**self._header(), "words": self.words}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        return cls(field(value, "words", str), Pretokenizer.from_json(value.get("pretokenizer")))


def vocabulary(
    lines: Iterable[str], pretokenizer: Pretokenizer, vocab_size: int | None, min_count: int, unk_share: float
) -> list[str]:
    """At most `vocab_size` words that occur at least `min_count` times, the most frequent first."""
    if not 0 <= unk_share < 1:
        raise InputError(f"unk_share is {unk_share}; it must be at least 0 and below 1")
    if (vocab_size is not None and vocab_size < 1) or min_count < 1:
        raise InputError(f"a vocabulary of {vocab_size} words that occur {min_count} times; give numbers of at least 1")
    counts = pretokenizer.count_words(lines)
    counts.pop(UNK_TEXT, None)
    once = sorted(word for word in counts if counts[word] == 1)
    for place, word in enumerate(once):  # spread evenly over the alphabet
        if int((place + 1) * unk_share) > int(place * unk_share):
            del counts[word]
    words = [word for word in by_count(counts)[:vocab_size] if counts[word] >= min_count]
    if not words:
        raise InputError(f"no word of the text occurs {min_count} times; lower min_count")
    return words


def check_words(words: Sequence[str]) -> None:
    """Refuse a vocabulary that is empty, has a word twice, or has the word for unk."""
    if not words:
        raise InputError("a vocabulary needs at least one word")
    check_strings(words, "word")
    if UNK_TEXT in words:
        raise InputError(f"the word {UNK_TEXT} stands for unknown words; leave it out of the vocabulary")
