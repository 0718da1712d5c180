"""Pretokenizer: splits a line into words and joins words into a line. Every tokenizer has one and saves it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from typing import Any, TypeVar

from fastmos.errors import InputError
from fastmos.progress import progress
from fastmos.tokenizers import moses

T = TypeVar("T")
LINES_AT_ONCE = 50_000


@dataclass(frozen=True)
class Pretokenizer:
    """Words by Moses' rules for a language; without a language the text is tokenized already, words between spaces."""

    language: str | None = None
    lowercase: bool = False

    def __post_init__(self) -> None:
        if self.language is not None:
            moses.check_language(self.language)

    def split(self, lines: Sequence[str]) -> Iterator[list[str]]:
        """The words of each line. Only a plain space separates words: a no-break space belongs to its word."""
        if self.language is not None:
            lines = moses.tokenize(lines, self.language)
        for line in lines:
            if "\n" in line:
                line = line.replace("\n", " ")
            if self.lowercase:
                line = line.lower()
            yield list(filter(None, line.split(" ")))

    def join(self, lines: Sequence[Sequence[str]]) -> list[str]:
        """A line for each list of words, detokenized if `split` tokenizes."""
        joined = [" ".join(words) for words in lines]
        return joined if self.language is None else moses.detokenize(joined, self.language)

    def count_words(self, lines: Iterable[str]) -> Counter[str]:
        """How often each word occurs; the lines are read in batches, so they need not fit into memory."""
        counts: Counter[str] = Counter()
        for batch in progress(batches(lines), f"counting words, batches of {LINES_AT_ONCE:,} lines"):
            counts.update(chain.from_iterable(self.split(batch)))
        if not counts:
            raise InputError("the text has no words; give a text that is not empty")
        return counts

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> "Pretokenizer":
        if not isinstance(value, dict) or set(value) != {"language", "lowercase"}:
            raise InputError("its field 'pretokenizer' is damaged")
        if not isinstance(value["lowercase"], bool) or not isinstance(value["language"], str | None):
            raise InputError("its field 'pretokenizer' is damaged")
        return cls(**value)


def batches(lines: Iterable[T], size: int = LINES_AT_ONCE) -> Iterator[list[T]]:
    """Lists of at most `size` lines from a stream of lines (of text, or of tokens)."""
    stream = iter(lines)
    while batch := list(islice(stream, size)):
        yield batch


def by_count(counts: Counter[str]) -> list[str]:
    """Words from the most to the least frequent, ties by string."""
    return sorted(counts, key=lambda word: (-counts[word], word))
