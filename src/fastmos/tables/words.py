"""Text as numbers of words, from which the codes of any table follow by one look-up.

Words are numbered as a `WordCoding` of frequent words, then table words would: so the specials and the frequent words
have the codes of the table coding already, and a new table does not read the text again. A table moves no code: it has
as many codes, at the same positions, as every other table over the same words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastmos.codings import SPECIALS, UNK, TableCoding, WordCoding
from fastmos.data import EncodedText, encode_files
from fastmos.errors import InputError

Array = np.ndarray[Any, np.dtype[Any]]
LONGEST_LINE = 10_000  # words: a language model reads a line at once


@dataclass(frozen=True)
class WordText:
    """Lines of word numbers; those from `first` on are table words."""

    words: EncodedText
    first: int

    @classmethod
    def read(cls, files: Sequence[Path], coding: TableCoding, cache: Path) -> "WordText":
        """Number the words of the files, or find them numbered in the cache."""
        known = WordCoding([*coding.frequent, *coding.table_words], coding.text)
        words = encode_files(files, known, cache)
        if not len(words.codes):
            raise InputError(f"{words.name}: has no words; give a file with text")
        longest = int(words.lengths.max())
        if longest > LONGEST_LINE:
            raise InputError(
                f"{words.name}: a line has {longest:,} words, more than a language model can read at once "
                f"({LONGEST_LINE:,}); break the text into lines"
            )
        return cls(words, len(SPECIALS) + len(coding.frequent))

    @property
    def running(self) -> int:
        """Words of the text."""
        return len(self.words.codes)

    @property
    def unknown(self) -> int:
        return int((self.words.codes == UNK).sum())

    def counts(self, words: int) -> Array:
        """How often each of the table words occurs, [n]."""
        return np.bincount(self.words.codes, minlength=self.first + words)[self.first :]

    def codes(self, coding: TableCoding) -> EncodedText:
        """The text in the codes of a table over these words."""
        row, column = np.divmod(coding.cells, coding.columns)
        first = np.concatenate([np.arange(self.first), self.first + row])  # of each word's codes
        last = np.concatenate([np.arange(self.first), self.first + coding.rows + column])
        numbers = self.words.codes
        in_table = numbers >= self.first
        ends = np.concatenate([[0], np.cumsum(1 + in_table)])  # where each word ends in codes
        codes = np.empty(ends[-1], np.uint32)
        codes[ends[:-1]] = first[numbers]
        codes[ends[1:] - 1] = last[numbers]
        return EncodedText(codes, ends[self.words.offsets], self.words.name)
