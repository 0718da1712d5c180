"""BPECoding: words spelt in pieces by byte pair encoding (Sennrich et al., 2016), compatible with subword-nmt."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from fastmos.codings.base import SPECIALS, UNK, UNK_TEXT, Coding, check_strings, field
from fastmos.codings.merges import (
    END,
    VERSION_LINE,
    Merge,
    character_pieces,
    learn_merges,
    merged_pieces,
    parse_merges,
)
from fastmos.codings.text import Text
from fastmos.errors import InputError
from fastmos.files import written_whole

if TYPE_CHECKING:
    from tokenizers.models import BPE

T = TypeVar("T")
JOINER = "@@"  # subword-nmt's mark of a piece that does not end its word
WORDS_REMEMBERED = 1_000_000
LONGEST_REMEMBERED = 200  # longer strings are no words: not remembered, and BPE dropout leaves them alone
UNSEEN = " "  # what the Rust model calls an unseen character; no piece holds a space


class BPECoding(Coding):
    """Pieces in the order of their codes; a piece that ends a word carries `</w>`.

    A word is cut by the merges, and a piece outside the vocabulary is cut further by undoing merges, as subword-nmt
    does. A character that cannot be spelt becomes unk. unk is one code and ends its word, so the rest of that word is
    lost with it, and a line keeps its number of words.
    """

    kind: ClassVar[str] = "bpe"

    def __init__(self, pieces: Sequence[str], merges: Sequence[Merge], text: Text | None = None) -> None:
        if not pieces:
            raise InputError("a BPE coding needs at least one piece")
        check_strings(pieces, "piece")
        self.pieces, self.merges = list(pieces), list(merges)
        self.text = text or Text()
        self.ends_word = np.array([True] * len(SPECIALS) + [piece.endswith(END) for piece in pieces])
        self._code = {piece: code for code, piece in enumerate(pieces, len(SPECIALS))}
        self._rank = {merge: rank for rank, merge in enumerate(self.merges)}
        self._halves = {"".join(merge): merge for merge in reversed(self.merges)}  # of equal results the first counts
        self._model = _rust_model(self.pieces, self.merges)
        self._codes_of = _Remembered(lambda word: self._codes(word, self._cut(word)))
        self._pieces_of = _Remembered(lambda word: _as_text(self._cut(word)))

    @classmethod
    def learn(
        cls,
        lines: Iterable[str],
        *,
        size: int | None = None,
        merges: Sequence[Merge] | None = None,
        threshold: int = 0,
        text: Text | None = None,
    ) -> Self:
        """At most `size` pieces learnt from the text, or those of given `merges` and of the text's characters.

        Pieces seen fewer than `threshold` times in the text are dropped. For two languages that share merges: learn
        from both texts, then from each text alone with these merges and a threshold.
        """
        if (size is None) == (merges is None):
            raise InputError("a BPE coding is learnt to a size or from merges; give one of the two")
        text = text or Text()
        counts = text.count_words(lines)
        counts.pop(UNK_TEXT, None)
        if merges is None:
            pieces, merges = learn_merges(counts, size or 0)
        else:
            pieces = list(dict.fromkeys([*character_pieces(counts), *merged_pieces(merges)]))
        coding = cls(pieces, merges, text)
        if threshold:
            seen = coding._count_pieces(counts)
            coding = cls([piece for piece in pieces if seen[piece] >= threshold], merges, text)
        return coding

    def __len__(self) -> int:
        return len(SPECIALS) + len(self.pieces)

    def token(self, code: int) -> str:
        if code < len(SPECIALS):
            return SPECIALS[code]
        piece = self.pieces[code - len(SPECIALS)]
        return piece.removesuffix(END) if piece.endswith(END) else piece + JOINER

    def sample_lines(self, lines: Sequence[str], dropout: float, seed: int) -> list[list[int]]:
        """Codes as a model in training may see them: each merge is left out with probability `dropout`, anew for each
        word (BPE-dropout, Provilkov et al., 2020)."""
        if not 0 <= dropout <= 1:
            raise InputError(f"BPE dropout is {dropout}; it must lie between 0 and 1")
        random = Random(seed)
        return [
            list(chain.from_iterable(self._codes(word, self._cut(word, dropout, random)) for word in words))
            for words in self.text.split(lines)
        ]

    def pieces_lines(self, lines: Sequence[str]) -> list[list[str]]:
        """subword-nmt's output: `@@` after each piece that does not end its word, unseen characters as they are."""
        return [list(chain.from_iterable(map(self._pieces_of.__getitem__, words))) for words in self.text.split(lines)]

    def join_pieces_lines(self, lines: Sequence[Sequence[str]]) -> list[str]:
        """The text of subword-nmt's output."""
        joined = (" ".join(pieces).replace(JOINER + " ", "").removesuffix(JOINER) for pieces in lines)
        return self.text.join([line.split(" ") for line in joined])

    def write_merges(self, path: Path | str) -> None:
        """Write a subword-nmt codes file."""
        with written_whole(path) as file:
            file.writelines(f"{line}\n" for line in self.merges_lines())

    def merges_lines(self) -> list[str]:
        """The lines of a subword-nmt codes file."""
        return [VERSION_LINE, *map(" ".join, self.merges)]

    def _words(self, codes: list[int]) -> list[str]:
        words, word = [], ""
        for code in codes:
            word += UNK_TEXT if code == UNK else self.pieces[code - len(SPECIALS)]
            if self.ends_word[code]:
                words.append(word.removesuffix(END) if code != UNK else word)
                word = ""
        return [*words, word] if word else words

    def _codes(self, word: str, symbols: list[str]) -> tuple[int, ...]:
        """The codes of a word cut into symbols, up to the first that has none."""
        if word == UNK_TEXT:
            return (UNK,)
        codes = [self._code.get(symbol, UNK) for symbol in symbols]
        return tuple(codes[: codes.index(UNK) + 1] if UNK in codes else codes)

    def _cut(self, word: str, dropout: float = 0.0, random: Random | None = None) -> list[str]:
        """A word's symbols, the last one with `</w>`."""
        if random is None or len(word) > LONGEST_REMEMBERED:
            symbols = self._cut_in_rust(word)
        else:
            symbols = self._merge(word, dropout, random)
        return [part for symbol in symbols for part in self._known_parts(symbol)]

    def _cut_in_rust(self, word: str) -> list[str]:
        symbols, position = [], 0
        try:
            tokens = self._model.tokenize(word)
        except UnicodeEncodeError:
            raise InputError(f"{word!r} holds half of a surrogate pair, which is not text; mend the text") from None
        for token in tokens:
            symbol: str = token.value
            if symbol == UNSEEN:
                symbol = word[position] + (END if position == len(word) - 1 else "")
            symbols.append(symbol)
            position += len(symbol)
        return symbols

    def _merge(self, word: str, dropout: float, random: Random) -> list[str]:
        """The definition: apply the first-learnt merge that fits, everywhere, until none does."""
        symbols = [*word[:-1], word[-1] + END]
        while len(symbols) > 1:
            pairs = list(pairwise(symbols))
            fits = [p for p, pair in enumerate(pairs) if pair in self._rank and random.random() >= dropout]
            if not fits:
                break
            best = min((pairs[position] for position in fits), key=self._rank.__getitem__)
            merged: list[str] = []
            at = {position for position in fits if pairs[position] == best}
            position = 0
            while position < len(symbols):
                step = 2 if position in at else 1
                merged.append("".join(symbols[position : position + step]))
                position += step
            symbols = merged
        return symbols

    def _known_parts(self, symbol: str) -> list[str]:
        """The symbol, or if it is not in the vocabulary, the parts that merges made it of."""
        parts, rest = [], [symbol]
        while rest:
            part = rest.pop()
            if part in self._code or part not in self._halves:
                parts.append(part)
            else:
                rest.extend(reversed(self._halves[part]))
        return parts

    def _count_pieces(self, words: Counter[str]) -> Counter[str]:
        seen: Counter[str] = Counter()
        for word, count in words.items():
            for symbol in self._cut(word):
                seen[symbol] += count
        return seen

    def to_json(self) -> dict[str, Any]:
        return {**self._header(), "pieces": self.pieces, "merges": [" ".join(merge) for merge in self.merges]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        merges = parse_merges(field(value, "merges", str), "its merge")
        return cls(field(value, "pieces", str), merges, Text.from_json(value.get("text")))


class _Remembered(dict[str, tuple[T, ...]]):
    """What was made of each word before: text repeats its words."""

    def __init__(self, make: Callable[[str], tuple[T, ...]]) -> None:
        self.make = make

    def __missing__(self, word: str) -> tuple[T, ...]:
        made = self.make(word)
        if len(word) <= LONGEST_REMEMBERED:
            if len(self) >= WORDS_REMEMBERED:
                self.clear()
            self[word] = made
        return made


def _as_text(symbols: list[str]) -> tuple[str, ...]:
    return (*(symbol + JOINER for symbol in symbols[:-1]), symbols[-1].removesuffix(END))


def _rust_model(pieces: list[str], merges: list[Merge]) -> "BPE":
    from tokenizers.models import BPE

    symbols = dict.fromkeys([UNSEEN, *pieces, *merged_pieces(merges)])
    vocabulary = {symbol: number for number, symbol in enumerate(symbols)}
    return BPE(vocab=vocabulary, merges=merges, unk_token=UNSEEN, end_of_word_suffix=END, fuse_unk=False)
