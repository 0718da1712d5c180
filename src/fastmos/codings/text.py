"""Text: how a line becomes words and words become a line again. Every coding holds one and says so in its file."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from typing import Any, TypeVar

from fastmos.codings import moses
from fastmos.errors import InputError
from fastmos.progress import progress

T = TypeVar("T")
TOKENISE = ("none", "moses")
LINES_AT_ONCE = 50_000


@dataclass(frozen=True)
class Text:
    """Words are what stands between spaces (`none`: already tokenised) or what Moses' rules say, lowercased or not."""

    tokenise: str = "none"
    language: str | None = None
    lowercase: bool = False

    def __post_init__(self) -> None:
        if self.tokenise not in TOKENISE:
            raise InputError(f"tokenise is '{self.tokenise}'; it must be one of {', '.join(TOKENISE)}")
        if self.tokenise == "moses":
            moses.check_language(self.language)
        elif self.language is not None:
            raise InputError(f"language '{self.language}' is used by Moses' rules only; add tokenise moses or drop it")

    def split(self, lines: Sequence[str]) -> Iterator[list[str]]:
        """The words of each line. Only a plain space parts words: a no-break space belongs to its word."""
        if self.tokenise == "moses":
            lines = moses.tokenise(lines, self.language or "")
        for line in lines:
            if "\n" in line:
                line = line.replace("\n", " ")
            if self.lowercase:
                line = line.lower()
            yield list(filter(None, line.split(" ")))

    def join(self, lines: Sequence[Sequence[str]]) -> list[str]:
        """A line for each list of words, detokenised if it was tokenised here."""
        joined = [" ".join(words) for words in lines]
        return moses.detokenise(joined, self.language or "") if self.tokenise == "moses" else joined

    def count_words(self, lines: Iterable[str]) -> Counter[str]:
        """How often each word occurs; the lines are read in batches, so they need not fit into memory."""
        counts: Counter[str] = Counter()
        for batch in progress(batches(lines), f"counting words, batches of {LINES_AT_ONCE:,} lines"):
            counts.update(chain.from_iterable(self.split(batch)))
        if not counts:
            raise InputError("the text holds no words; give a text that is not empty")
        return counts

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> "Text":
        if not isinstance(value, dict) or set(value) != {"tokenise", "language", "lowercase"}:
            raise InputError("its field 'text' is damaged")
        if not isinstance(value["lowercase"], bool) or not isinstance(value["language"], str | None):
            raise InputError("its field 'text' is damaged")
        return cls(value["tokenise"], value["language"], value["lowercase"])


def batches(lines: Iterable[T], size: int = LINES_AT_ONCE) -> Iterator[list[T]]:
    """Cut a stream of lines, or of lines of codes, into lists of at most `size`."""
    stream = iter(lines)
    while batch := list(islice(stream, size)):
        yield batch


def by_count(counts: Counter[str]) -> list[str]:
    """Words from the most to the least frequent, ties by string."""
    return sorted(counts, key=lambda word: (-counts[word], word))
