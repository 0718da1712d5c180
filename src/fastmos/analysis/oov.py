"""Output words that a word model could not say: replaced by unk, as the paper's OOV study does."""

from collections.abc import Collection, Sequence

from fastmos.codings.base import UNK_TEXT
from fastmos.codings.text import Text


def without_unknown(lines: Sequence[str], vocabulary: Collection[str], text: Text) -> tuple[list[str], int, int]:
    """The lines with all words outside the vocabulary as unk; how many those are, and how many words there are."""
    replaced = words = 0
    kept: list[list[str]] = []
    for line in text.split(lines):
        kept.append([word if word in vocabulary else UNK_TEXT for word in line])
        replaced += sum(word not in vocabulary for word in line)
        words += len(line)
    return text.join(kept), replaced, words
