"""A dataset: tokenized lines, what they belong to, and the batches they are read in."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fastmos.data.batches import FeaturesOf, SentenceBatches
from fastmos.data.tokenized import TokenizedText

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Dataset:
    """Target lines, and the source lines that they translate; a language model has no sources."""

    target: TokenizedText
    source: TokenizedText | None = None
    references: Sequence[str] = ()  # the target's text, where outputs are compared with it

    @property
    def texts(self) -> list[TokenizedText]:
        return [text for text in (self.source, self.target) if text is not None]

    @property
    def longest(self) -> int:
        """Tokens of the longest line, eos included."""
        return max(int(text.lengths.max()) + 1 for text in self.texts)

    @property
    def features(self) -> FeaturesOf | None:
        """What gives the features of a batch's images; None where there are none."""
        return None

    def batches(
        self,
        *,
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        shuffle: bool = True,
        max_length: int | None = None,
        keep_empty: bool = False,
        share: int | None = None,
    ) -> SentenceBatches:
        """The lines in batches of similar length."""
        return SentenceBatches(
            self.target,
            self.source,
            max_tokens=max_tokens,
            max_sentences=max_sentences,
            seed=seed,
            rank=rank,
            world=world,
            shuffle=shuffle,
            max_length=max_length,
            keep_empty=keep_empty,
            share=share,
            features=self.features,
        )

    def select(self, lines: range) -> Self:
        """Some of the lines, without references."""
        target = select_lines(self.target, lines)
        return type(self)(target, None if self.source is None else select_lines(self.source, lines))

    def fingerprint(self) -> str:
        """SHA-256 of the content, by which a resumed run knows its data."""
        return digest(array for text in self.texts for array in (text.offsets, text.tokens))


def select_lines(text: TokenizedText, lines: range) -> TokenizedText:
    return TokenizedText.of([text[line].tolist() for line in lines])


def digest(arrays: Any) -> str:
    """SHA-256 of the bytes of some arrays."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()
