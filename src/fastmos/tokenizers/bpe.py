"""BPETokenizer: splits words into pieces by byte pair encoding (Sennrich et al., 2016), as subword-nmt does."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, pairwise
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from fastmos.errors import InputError
from fastmos.tokenizers.base import SPECIALS, UNK, UNK_TEXT, Marks, Tokenizer, check_strings, field
from fastmos.tokenizers.merges import (
    END,
    VERSION_LINE,
    Merge,
    character_pieces,
    learn_merges,
    merged_pieces,
    parse_merges,
)
from fastmos.tokenizers.pretokenizer import Pretokenizer

if TYPE_CHECKING:
    from tokenizers.models import BPE

T = TypeVar("T")
JOINER = "@@"  # subword-nmt's mark of a piece that does not end its word
WORDS_REMEMBERED = 1_000_000  # in the cache
LONGEST_REMEMBERED = 200  # characters; longer words are neither cached nor split with BPE dropout
UNSEEN = " "  # what the Rust model calls an unseen character; no piece has a space


class BPETokenizer(Tokenizer):
    """Pieces in the order of their tokens; a piece that ends a word carries `</w>`.

    The merges split a word; a piece outside the vocabulary is split further by undoing merges, as in subword-nmt.
    An unseen character becomes unk. unk ends its word: the rest of that word is lost, and the line keeps its number of
    words.
    """

    type: ClassVar[str] = "bpe"
    ends_word: Marks

    def __init__(
        self, pieces: Sequence[str], merges: Sequence[Merge], pretokenizer: Pretokenizer | None = None
    ) -> None:
        if not pieces:
            raise InputError("a BPE tokenizer needs at least one piece")
        check_strings(pieces, "piece")
        self.pieces, self.merges = list(pieces), list(merges)
        self.pretokenizer = pretokenizer or Pretokenizer()
        self.ends_word = np.array([True] * len(SPECIALS) + [piece.endswith(END) for piece in pieces])
        self._token = {piece: token for token, piece in enumerate(pieces, len(SPECIALS))}
        self._rank = {merge: rank for rank, merge in enumerate(self.merges)}
        self._halves = {"".join(merge): merge for merge in reversed(self.merges)}  # the first merge with that result
        self._model = _rust_model(self.pieces, self.merges)
        self._tokens_of = _WordCache(lambda word: self._tokens(word, self._split(word)))
        self._pieces_of = _WordCache(lambda word: _as_text(self._split(word)))

    @classmethod
    def learn(
        cls,
        lines: Iterable[str],
        *,
        vocab_size: int | None = None,
        merges: Sequence[Merge] | None = None,
        threshold: int = 0,
        pretokenizer: Pretokenizer | None = None,
    ) -> Self:
        """At most `vocab_size` pieces learned from the text, or the pieces of given `merges` and the text's characters.

        Pieces seen fewer than `threshold` times in the text are dropped. For two languages that share merges: learn
        from both texts, then from each text alone with these merges and a threshold.
        """
        if (vocab_size is None) == (merges is None):
            raise InputError("a BPE tokenizer needs a vocab_size or merges; give exactly one of the two")
        pretokenizer = pretokenizer or Pretokenizer()
        counts = pretokenizer.count_words(lines)
        counts.pop(UNK_TEXT, None)
        if merges is None:
            pieces, merges = learn_merges(counts, vocab_size or 0)
        else:
            pieces = list(dict.fromkeys([*character_pieces(counts), *merged_pieces(merges)]))
        tokenizer = cls(pieces, merges, pretokenizer)
        if threshold:
            seen = tokenizer._count_pieces(counts)
            tokenizer = cls([piece for piece in pieces if seen[piece] >= threshold], merges, pretokenizer)
        return tokenizer

    def __len__(self) -> int:
        return len(SPECIALS) + len(self.pieces)

    def id_to_token(self, token: int) -> str:
        if token < len(SPECIALS):
            return SPECIALS[token]
        piece = self.pieces[token - len(SPECIALS)]
        return piece.removesuffix(END) if piece.endswith(END) else piece + JOINER

    def encode_with_dropout(self, lines: Sequence[str], dropout: float, seed: int) -> list[list[int]]:
        """Tokens of each line for training, with BPE-dropout (Provilkov et al., 2020): every time a merge would be
        applied it is skipped with probability `dropout`."""
        if not 0 <= dropout <= 1:
            raise InputError(f"BPE dropout is {dropout}; it must lie between 0 and 1")
        random = Random(seed)
        return [
            list(chain.from_iterable(self._tokens(word, self._split(word, dropout, random)) for word in words))
            for words in self.pretokenizer.split(lines)
        ]

    def tokenize_lines(self, lines: Sequence[str]) -> list[list[str]]:
        """What subword-nmt writes: `@@` after each piece that does not end its word, unseen characters as they are."""
        return [
            list(chain.from_iterable(map(self._pieces_of.__getitem__, words)))
            for words in self.pretokenizer.split(lines)
        ]

    def detokenize_lines(self, lines: Sequence[Sequence[str]]) -> list[str]:
        """The text of subword-nmt's output."""
        joined = (" ".join(pieces).replace(JOINER + " ", "").removesuffix(JOINER) for pieces in lines)
        return self.pretokenizer.join([line.split(" ") for line in joined])

    def merges_lines(self) -> list[str]:
        """The lines of a subword-nmt codes file."""
        return [VERSION_LINE, *map(" ".join, self.merges)]

    def _words(self, tokens: list[int]) -> list[str]:
        words, word = [], ""
        for token in tokens:
            word += UNK_TEXT if token == UNK else self.pieces[token - len(SPECIALS)]
            if self.ends_word[token]:
                words.append(word.removesuffix(END) if token != UNK else word)
                word = ""
        return [*words, word] if word else words

    def _tokens(self, word: str, symbols: list[str]) -> tuple[int, ...]:
        """The tokens of a word split into symbols, up to the first unknown symbol."""
        if word == UNK_TEXT:
            return (UNK,)
        tokens = [self._token.get(symbol, UNK) for symbol in symbols]
        return tuple(tokens[: tokens.index(UNK) + 1] if UNK in tokens else tokens)

    def _split(self, word: str, dropout: float = 0.0, random: Random | None = None) -> list[str]:
        """A word's symbols, the last one with `</w>`."""
        if random is None or len(word) > LONGEST_REMEMBERED:
            symbols = self._split_in_rust(word)
        else:
            symbols = self._merge(word, dropout, random)
        return [part for symbol in symbols for part in self._known_parts(symbol)]

    def _split_in_rust(self, word: str) -> list[str]:
        symbols, position = [], 0
        try:
            parts = self._model.tokenize(word)
        except UnicodeEncodeError:
            raise InputError(f"{word!r} has half of a surrogate pair, which is not text; correct the text") from None
        for part in parts:
            symbol: str = part.value
            if symbol == UNSEEN:
                symbol = word[position] + (END if position == len(word) - 1 else "")
            symbols.append(symbol)
            position += len(symbol)
        return symbols

    def _merge(self, word: str, dropout: float, random: Random) -> list[str]:
        """The definition of BPE: apply the earliest merge that fits, everywhere, until none fits."""
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
        """The symbol, or if it is not in the vocabulary, the parts that were merged into it."""
        parts, rest = [], [symbol]
        while rest:
            part = rest.pop()
            if part in self._token or part not in self._halves:
                parts.append(part)
            else:
                rest.extend(reversed(self._halves[part]))
        return parts

    def _count_pieces(self, words: Counter[str]) -> Counter[str]:
        seen: Counter[str] = Counter()
        for word, count in words.items():
            for symbol in self._split(word):
                seen[symbol] += count
        return seen

    def summary(self) -> str:
        return f"{super().summary()}: {len(self.pieces):,} pieces, {len(self.merges):,} merges"

    def to_json(self) -> dict[str, Any]:
        return {**self._header(), "pieces": self.pieces, "merges": [" ".join(merge) for merge in self.merges]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        merges = parse_merges(field(value, "merges", str), "its merge")
        return cls(field(value, "pieces", str), merges, Pretokenizer.from_json(value.get("pretokenizer")))


class _WordCache(dict[str, tuple[T, ...]]):
    """The result for each word seen before: most words of a text are repeated."""

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
