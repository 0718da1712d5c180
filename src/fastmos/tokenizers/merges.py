"""Learning BPE merges (Sennrich et al., 2016) from word counts, and reading them from subword-nmt's files.

The merges are those of subword-nmt: always the most frequent pair of neighboring symbols, ties by the greatest pair of
strings. So the result depends on the counts alone. The pairs are kept in a heap, which makes learning fast.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from unicodedata import category

from fastmos.errors import InputError
from fastmos.files import read_lines
from fastmos.progress import progress

END = "</w>"  # marks the symbol that ends a word
VERSION_LINE = "#version: 0.2"
Merge = tuple[str, str]


def learn_merges(counts: Mapping[str, int], vocab_size: int) -> tuple[list[str], list[Merge]]:
    """At most `vocab_size` pieces, the two forms of each character first, and the merges that make the others.

    Learning ends early when no pair occurs twice.
    """
    pieces = character_pieces(counts)
    if vocab_size < len(pieces):
        raise InputError(
            f"a vocab_size of {vocab_size:,} is too small: the {len(pieces) // 2:,} characters of the text, within "
            f"words and at their ends, need {len(pieces):,}"
        )
    known, merges = set(pieces), []
    if vocab_size > len(known):
        for merge in progress(_Pairs(counts).merge_all(), "learning merges", vocab_size - len(known)):
            merges.append(merge)
            made = "".join(merge)
            if made not in known:  # two merges may make the same piece
                known.add(made)
                pieces.append(made)
            if len(pieces) == vocab_size:
                break
    return pieces, merges


def merged_pieces(merges: Iterable[Merge]) -> list[str]:
    """Every piece that takes part in a merge or comes out of one."""
    return list(dict.fromkeys(piece for first, second in merges for piece in (first, second, first + second)))


def character_pieces(words: Iterable[str]) -> list[str]:
    """Every character within a word and at its end, so that any word of known characters can be encoded."""
    characters = sorted(set().union(*words))
    return [piece for character in characters for piece in (character, character + END)]


class _Pairs:
    """Words as lists of symbols, and how often each pair of adjacent symbols occurs in them."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.symbols: list[str] = []
        self.order: list[tuple[int, ...]] = []  # sort key: from the greatest string to the least
        self.alone: list[bool] = []  # is it white space or a control character?
        self.number: dict[str, int] = {}
        self.frequency = list(counts.values())
        self.words = [[self._number(c) for c in word[:-1]] + [self._number(word[-1] + END)] for word in counts]
        self.count: defaultdict[tuple[int, int], int] = defaultdict(int)
        self.where: defaultdict[tuple[int, int], set[int]] = defaultdict(set)  # words that may have the pair
        for index, word in enumerate(self.words):
            for pair in pairwise(word):
                self.count[pair] += self.frequency[index]
                self.where[pair].add(index)
        self.heap = [self._entry(pair) for pair in self.count if self._may_merge(pair)]
        heapq.heapify(self.heap)

    def merge_all(self) -> Iterator[Merge]:
        """Merge the most frequent pair everywhere, again and again until no pair occurs twice."""
        while self.heap:
            entry = heapq.heappop(self.heap)
            pair, count = entry[-1], self.count[entry[-1]]
            if count == -entry[0] > 1:
                self._merge(pair)
                yield self.symbols[pair[0]], self.symbols[pair[1]]
            elif 1 < count < -entry[0]:  # it fell since; if it had risen, there would be a newer entry
                heapq.heappush(self.heap, self._entry(pair))

    def _merge(self, pair: tuple[int, int]) -> None:
        first, second = pair
        made = self._number(self.symbols[first] + self.symbols[second])
        change: defaultdict[tuple[int, int], int] = defaultdict(int)
        for index in self.where.pop(pair):
            old, new = self.words[index], []
            position, last = 0, len(self.words[index]) - 1
            while position <= last:
                if old[position] == first and position < last and old[position + 1] == second:
                    new.append(made)
                    position += 2
                else:
                    new.append(old[position])
                    position += 1
            if len(new) == len(old):
                continue
            for neighbors in pairwise(old):
                change[neighbors] -= self.frequency[index]
            for neighbors in pairwise(new):
                change[neighbors] += self.frequency[index]
                self.where[neighbors].add(index)
            self.words[index] = new
        for neighbors, difference in change.items():
            self.count[neighbors] += difference
            if difference > 0 and self._may_merge(neighbors):
                heapq.heappush(self.heap, self._entry(neighbors))

    def _entry(self, pair: tuple[int, int]) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, int]]:
        return -self.count[pair], self.order[pair[0]], self.order[pair[1]], pair

    def _may_merge(self, pair: tuple[int, int]) -> bool:
        """White space and control characters are never merged, so that line-based tools can read the merges; and no
        piece within words may look like one that ends a word."""
        if self.alone[pair[0]] or self.alone[pair[1]]:
            return False
        first, second = self.symbols[pair[0]], self.symbols[pair[1]]
        return second.endswith(END) or not (first + second).endswith(END)

    def _number(self, symbol: str) -> int:
        if symbol not in self.number:
            self.number[symbol] = len(self.symbols)
            self.symbols.append(symbol)
            self.order.append((*(-ord(character) for character in symbol), 1))
            self.alone.append(any(c.isspace() or category(c) == "Cc" for c in symbol))
        return self.number[symbol]


def read_merges(path: Path | str) -> list[Merge]:
    """The merges of a subword-nmt codes file."""
    lines = list(read_lines(path))
    if not lines or lines[0].strip() != VERSION_LINE:
        raise InputError(
            f"{path}: not a subword-nmt codes file of version 0.2 (its first line must be '{VERSION_LINE}')"
        )
    return parse_merges(lines[1:], f"{path}, line", 2)


def parse_merges(lines: list[str], place: str, first: int = 1) -> list[Merge]:
    """Merges from lines of two symbols each; a repeated merge counts once, where it comes first."""
    merges: dict[Merge, None] = {}
    for number, line in enumerate(lines, first):
        symbols = line.strip(" ").split(" ")
        if len(symbols) != 2 or not all(symbols):
            raise InputError(f"{place} {number}: a merge is two symbols with a space between; got {line!r}")
        merges[symbols[0], symbols[1]] = None
    return list(merges)
