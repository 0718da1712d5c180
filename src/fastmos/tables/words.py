"""Text as numbers of words, from which the tokens of any table over these words follow by one look-up.

The numbers are the tokens of a `WordTokenizer` of the frequent words, then the table words. So special tokens and
frequent words are numbered as in the table tokenizer, and a new table does not read the text again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastmos.data.tokenized import TokenizedText, encode_files
from fastmos.errors import InputError
from fastmos.tokenizers import SPECIALS, UNK, TableTokenizer, WordTokenizer

Array = np.ndarray[Any, np.dtype[Any]]
LONGEST_LINE = 10_000  # words, as a language model reads a line at once


@dataclass(frozen=True)
class WordText:
    """Lines of word numbers; those from `first` on are table words."""

    words: TokenizedText
    first: int

    @classmethod
    def read(cls, files: Sequence[Path], tokenizer: TableTokenizer, cache: Path) -> "WordText":
        """The words of the files as numbers, from the cache or into it."""
        known = WordTokenizer([*tokenizer.frequent, *tokenizer.table_words], tokenizer.pretokenizer)
        words = encode_files(files, known, cache)
        if not len(words.tokens):
            raise InputError(f"{words.name}: has no words; give a file with text")
        longest = int(words.lengths.max())
        if longest > LONGEST_LINE:
            raise InputError(
                f"{words.name}: a line has {longest:,} words, more than a language model can read at once "
                f"({LONGEST_LINE:,}); break the text into lines"
            )
        return cls(words, len(SPECIALS) + len(tokenizer.frequent))

    @property
    def running(self) -> int:
        """Words of the text."""
        return len(self.words.tokens)

    @property
    def unknown(self) -> int:
        return int((self.words.tokens == UNK).sum())

    def counts(self, words: int) -> Array:
        """How often each of the table words occurs, [n]."""
        return np.bincount(self.words.tokens, minlength=self.first + words)[self.first :]

    def tokens(self, tokenizer: TableTokenizer) -> TokenizedText:
        """The text in the tokens of a table over these words."""
        row, column = np.divmod(tokenizer.cells, tokenizer.columns)
        first = np.concatenate([np.arange(self.first), self.first + row])  # of each word's tokens
        last = np.concatenate([np.arange(self.first), self.first + tokenizer.rows + column])
        numbers = self.words.tokens
        in_table = numbers >= self.first
        ends = np.concatenate([[0], np.cumsum(1 + in_table)])  # where each word ends in tokens
        tokens = np.empty(ends[-1], np.uint32)
        tokens[ends[:-1]] = first[numbers]
        tokens[ends[1:] - 1] = last[numbers]
        return TokenizedText(tokens, ends[self.words.offsets], self.words.name)
