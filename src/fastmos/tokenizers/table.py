"""TableTokenizer: a frequent word is one token; any other word is two, the row code and the column code of its cell.

Kong et al. (2019), section "Encoding Words for Efficient MoS". A word has at most two tokens: d rows and d columns are
enough for d * d words, so a third code would lengthen every line and save few tokens.
"""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from fastmos.errors import InputError
from fastmos.tokenizers.base import SPECIALS, UNK_TEXT, KnownWords, Marks, Tokenizer, field
from fastmos.tokenizers.pretokenizer import Pretokenizer
from fastmos.tokenizers.words import check_words, vocabulary

if TYPE_CHECKING:
    import torch

Cells = np.ndarray[Any, np.dtype[np.int64]]
LAYOUTS = ("frequency", "diagonal", "random")
LONGEST_SIDE = 10_000_000


class TableTokenizer(Tokenizer):
    """Tokens in this order: specials, frequent words, rows, columns. Word i of `table_words` has the cell
    `cells[i] = row * columns + column`. Without frequent words this is LightRNN (Li et al., 2016).

    Words outside the vocabulary are unk. Empty cells, and rows or columns without the other, are decoded as unk.
    """

    type: ClassVar[str] = "table"
    ends_word: Marks

    def __init__(
        self,
        frequent: Sequence[str],
        table_words: Sequence[str],
        cells: Sequence[int] | Cells,
        rows: int,
        columns: int,
        pretokenizer: Pretokenizer | None = None,
    ) -> None:
        self.frequent, self.table_words = list(frequent), list(table_words)
        self.rows, self.columns = rows, columns
        self.cells: Cells = np.array(cells, dtype=np.int64)  # [n]
        self.pretokenizer = pretokenizer or Pretokenizer()
        self._check_bijection()
        self._first_row = len(SPECIALS) + len(self.frequent)
        self._first_column = self._first_row + rows
        self.ends_word = np.ones(len(self), dtype=bool)
        self.ends_word[self._first_row : self._first_column] = False
        self._word_at = dict(zip(self.cells.tolist(), self.table_words, strict=True))
        self._tokens_of = KnownWords((word, (token,)) for token, word in enumerate(self.frequent, len(SPECIALS)))
        for cell, word in self._word_at.items():
            self._tokens_of[word] = (self._first_row + cell // columns, self._first_column + cell % columns)
        self._masks: dict[torch.device, tuple[torch.Tensor, torch.Tensor]] = {}

    @classmethod
    def learn(
        cls,
        lines: Iterable[str],
        *,
        vocab_size: int | None = None,
        words: int | None = None,
        min_count: int = 1,
        frequent: int | None = None,
        rows: int | None = None,
        columns: int | None = None,
        layout: str = "frequency",
        seed: int = 0,
        unk_share: float = 0.0,
        pretokenizer: Pretokenizer | None = None,
    ) -> Self:
        """A static table over the `words` most frequent words that occur at least `min_count` times.

        Rows and columns are ceil(sqrt(words)) unless given. The number of frequent words is `vocab_size` less rows and
        columns, or `frequent`, or none. The layout says how words are put into cells, most frequent first: row by row
        (`frequency`), along diagonals so that all rows and columns get their share of frequent words (`diagonal`), or
        shuffled by `seed` (`random`). `unk_share` is that of `WordTokenizer.learn`.
        """
        pretokenizer = pretokenizer or Pretokenizer()
        if layout not in LAYOUTS:
            raise InputError(f"layout is '{layout}'; it must be one of {', '.join(LAYOUTS)}")
        known = vocabulary(lines, pretokenizer, words, min_count, unk_share)
        frequent, rows, columns = table_sizes(words or len(known), vocab_size, frequent, rows, columns)
        if len(known) <= frequent:
            raise InputError(
                f"the text has {len(known):,} words, too few for {frequent:,} frequent ones and a table; "
                "ask for fewer tokens or give more text"
            )
        table_words = known[frequent:]
        if len(table_words) > rows * columns:
            raise InputError(
                f"{len(table_words):,} words do not fit into {rows} x {columns} cells; "
                "ask for fewer words or a larger table"
            )
        cells = np.arange(rows * columns)
        if layout == "diagonal":
            band, row = divmod(cells, rows)  # each band has one word per row; band n is the diagonal moved by n columns
            cells = row * columns + (row + band) % columns
        elif layout == "random":
            np.random.default_rng(seed).shuffle(cells)
        return cls(known[:frequent], table_words, cells[: len(table_words)], rows, columns, pretokenizer)

    def with_cells(self, cells: Sequence[int] | Cells) -> Self:
        """The same words and tokens with the table words in other cells."""
        return type(self)(self.frequent, self.table_words, cells, self.rows, self.columns, self.pretokenizer)

    def __len__(self) -> int:
        return len(SPECIALS) + len(self.frequent) + self.rows + self.columns

    def id_to_token(self, token: int) -> str:
        if token < len(SPECIALS):
            return SPECIALS[token]
        if token < self._first_row:
            return self.frequent[token - len(SPECIALS)]
        if token < self._first_column:
            return f"⟨row{token - self._first_row}⟩"
        return f"⟨column{token - self._first_column}⟩"

    def row_words(self, row: int) -> list[str | None]:
        """The words of one row, column by column; None for an empty cell."""
        start = row * self.columns
        return [self._word_at.get(cell) for cell in range(start, start + self.columns)]

    def _words(self, tokens: list[int]) -> list[str]:
        words = []
        row: int | None = None  # a row code whose column code comes next
        for token in tokens:
            is_column = token >= self._first_column
            if is_column and row is not None:
                words.append(self._word_at.get(row * self.columns + token - self._first_column, UNK_TEXT))
                row = None
                continue
            if row is not None:
                words.append(UNK_TEXT)
            row = token - self._first_row if self._first_row <= token < self._first_column else None
            if row is None:
                words.append(UNK_TEXT if is_column else self.id_to_token(token))
        return words if row is None else [*words, UNK_TEXT]

    def allowed(self, tokens: "torch.Tensor") -> "torch.Tensor":
        """After a row: the columns of its filled cells. Elsewhere a word starts: frequent words, rows, unk and eos."""
        import torch

        starts, filled = self._masks_on(tokens.device)
        row = tokens - self._first_row  # [N]
        is_row = (row >= 0) & (row < self.rows)
        allowed = starts & ~is_row[:, None]  # [N, V]
        allowed[:, self._first_column :] = filled[torch.where(is_row, row, self.rows)]
        return allowed

    def _masks_on(self, device: "torch.device") -> "tuple[torch.Tensor, torch.Tensor]":
        """Which tokens may start a word [V]; which cells are filled [rows + 1, columns], the last row empty. Cached."""
        import torch

        if device not in self._masks:
            filled = torch.zeros(self.rows * self.columns, dtype=torch.bool)
            filled[torch.from_numpy(self.cells)] = True
            filled = filled.view(self.rows, self.columns)
            starts = torch.ones(len(self), dtype=torch.bool)
            starts[[self.pad, self.bos]] = False
            starts[self._first_row : self._first_column] = filled.any(dim=1)  # else no column could follow
            starts[self._first_column :] = False
            filled = torch.cat([filled, torch.zeros(1, self.columns, dtype=torch.bool)])
            self._masks[device] = starts.to(device), filled.to(device)
        return self._masks[device]

    def _check_bijection(self) -> None:
        """Refuse a table in which a word has no cell or two, or a cell two words."""
        _check_sides(self.rows, self.columns)
        check_words([*self.frequent, *self.table_words])
        if self.cells.shape != (len(self.table_words),):
            raise InputError(f"{len(self.table_words):,} table words need as many cells; given: {self.cells.shape}")
        if len(self.cells) and not (self.cells.min() >= 0 and self.cells.max() < self.rows * self.columns):
            raise InputError(f"a cell lies outside the table of {self.rows} x {self.columns}")
        if len(np.unique(self.cells)) != len(self.cells):
            raise InputError("two words share a cell of the table; a table must be a bijection")

    def summary(self) -> str:
        return (
            f"{super().summary()}: {len(self.frequent):,} frequent words, {self.rows:,} rows, {self.columns:,} columns"
            f"; {len(self.table_words):,} words in {self.rows * self.columns:,} cells"
        )

    def to_json(self) -> dict[str, Any]:
        rows, columns = np.divmod(self.cells, self.columns)
        places = zip(self.table_words, rows.tolist(), columns.tolist(), strict=True)
        return {
            **self._header(),
            "rows": self.rows,
            "columns": self.columns,
            "frequent": self.frequent,
            "table": [list(place) for place in places],  # word, row, column
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        rows, columns, places = field(value, "rows", int), field(value, "columns", int), field(value, "table", list)
        _check_sides(rows, columns)
        for place in places:
            if [type(item) for item in place] != [str, int, int] or not (
                0 <= place[1] < rows and 0 <= place[2] < columns
            ):
                raise InputError(f"its field 'table' is damaged at {place}")
        words, cells = [place[0] for place in places], [place[1] * columns + place[2] for place in places]
        frequent, pretokenizer = field(value, "frequent", str), Pretokenizer.from_json(value.get("pretokenizer"))
        return cls(frequent, words, cells, rows, columns, pretokenizer)


def _check_sides(rows: int, columns: int) -> None:
    if not (1 <= rows <= LONGEST_SIDE and 1 <= columns <= LONGEST_SIDE):
        limits = f"rows and columns must be between 1 and {LONGEST_SIDE:,}"
        raise InputError(f"a table of {rows} x {columns} cells; {limits}")


def table_sizes(
    words: int, vocab_size: int | None, frequent: int | None, rows: int | None, columns: int | None
) -> tuple[int, int, int]:
    """Frequent words, rows and columns for a vocabulary of `words`: those given, and the default of the others."""
    side = math.isqrt(words - 1) + 1  # ceil(sqrt(words)), exactly
    rows, columns = side if rows is None else rows, side if columns is None else columns
    if rows < 1 or columns < 1 or (frequent or 0) < 0:
        raise InputError(
            f"{frequent or 0} frequent words, {rows} rows and {columns} columns make no table; give positive numbers"
        )
    if vocab_size is not None and frequent is not None and vocab_size != frequent + rows + columns:
        raise InputError(
            f"{frequent} frequent words and a {rows} x {columns} table make {frequent + rows + columns} tokens, "
            f"not {vocab_size}; give one of the two"
        )
    if frequent is None:
        frequent = 0 if vocab_size is None else vocab_size - rows - columns
    if frequent < 0:
        raise InputError(
            f"a vocab_size of {vocab_size} is too small for {rows} rows and {columns} columns; "
            f"give at least {rows + columns}"
        )
    return frequent, rows, columns
