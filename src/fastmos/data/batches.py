"""Batches of padded codes: sentences by a budget, or contiguous text in parallel streams.

What a step holds is settled for the whole job and then dealt to the ranks, row by row: two processes with a budget of
1,000 tokens see, together, the steps that one process with 2,000 sees. Every epoch's order follows from (seed, epoch)
alone, so any step can be had without those before it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from fastmos.codings import BOS, EOS, PAD
from fastmos.data.encoded import EncodedText, check_pairs
from fastmos.errors import InputError

POOL_BATCHES = 100  # batches that are sorted by length together
POOL_SENTENCES = 4096  # and at least so many sentences

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Batch:
    """What a model sees in one step; rows are padded with PAD."""

    inputs: Tensor  # [B, T] bos + target without its last code
    target: Tensor  # [B, T] codes + eos
    source: Tensor | None  # [B, S] codes + eos
    index: Tensor  # [B] line numbers, on the host; -1 marks a row that only fills an otherwise empty batch
    features: Tensor | None = None  # [B, F] of images
    fresh: bool = True  # False: a language model carries its state on from the batch before
    tokens: int = -1  # targets that are not padding, counted on the host
    source_lengths: Tensor | None = None  # [B] with eos, on the host

    def __post_init__(self) -> None:
        if self.tokens < 0:
            self.tokens = int((self.target != PAD).sum())
        if self.source is not None and self.source_lengths is None:
            self.source_lengths = (self.source != PAD).sum(1).cpu()

    def __len__(self) -> int:
        return len(self.index)

    @property
    def sentences(self) -> int:
        """Rows that count, for losses normalised by sentences."""
        return int((self.index >= 0).sum())

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "Batch":
        """The batch on a device; `index` and `source_lengths` stay on the host."""

        def moved(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.to(device, non_blocking=non_blocking)

        return replace(
            self,
            inputs=self.inputs.to(device, non_blocking=non_blocking),
            target=self.target.to(device, non_blocking=non_blocking),
            source=moved(self.source),
            features=moved(self.features),
        )


def decoding_batch(source: Sequence[Sequence[int]]) -> Batch:
    """Source lines to translate, without targets (T = 0); empty lines are legal, and a language model ignores them."""
    text = EncodedText.of(source)
    rows = np.arange(len(text))
    nothing = torch.empty(len(text), 0, dtype=torch.long)
    return Batch(nothing, nothing, _tensor(_padded(text, rows)), torch.from_numpy(rows), tokens=0)


class SentenceBatches:
    """Sentences, or pairs of them, in batches of similar length.

    A step by `tokens` holds as many pairs as fit: rows x width <= tokens x world, where width is the longest side of
    all its pairs with eos. So padding counts, only the longer side counts, and a rank's share is at most one row over
    `tokens`. A step by `sentences` holds sentences x world pairs (the last one what is left).

    Pairs with an empty side are dropped unless `keep_empty`; sides of more than `max_length` codes are cut ("truncate",
    perhaps inside a word) or their pairs dropped ("drop"). `len(...)` is the number of pairs kept, `left_out` of
    those dropped; `empty` and `overlong` count what was found.
    """

    def __init__(
        self,
        target: EncodedText,
        source: EncodedText | None = None,
        *,
        tokens: int | None = None,
        sentences: int | None = None,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        shuffle: bool = True,
        max_length: int | None = None,
        overlong: Literal["drop", "truncate"] = "drop",
        keep_empty: bool = False,
    ) -> None:
        if (tokens is None) == (sentences is None):
            raise InputError(f"tokens={tokens}, sentences={sentences}: give exactly one of the two")
        if (tokens or sentences or 0) < 1 or (max_length is not None and max_length < 1):
            raise InputError(f"tokens={tokens}, sentences={sentences}, max_length={max_length}: give positive numbers")
        if source is not None:
            check_pairs(source, target)
        self.target, self.source, self.max_length = target, source, max_length
        self.seed, self.rank, self.world, self.shuffle = seed, rank, world, shuffle
        self._rows = (sentences or 0) * world  # of a step, or
        self._budget = (tokens or 0) * world
        self._select(overlong, keep_empty)
        self._plan: _Plan | None = None

    def _select(self, overlong: str, keep_empty: bool) -> None:
        """Settle which lines take part, and how long they are with their eos."""
        lengths = [text.lengths.astype(np.int32) for text in (self.target, self.source) if text is not None]
        shortest, longest = np.minimum.reduce(lengths), np.maximum.reduce(lengths)
        empty = shortest == 0 if self.source is not None and not keep_empty else np.zeros(len(shortest), bool)
        long = longest > (self.max_length or np.iinfo(np.int32).max)
        self.empty, self.overlong = int(empty.sum()), int((long & ~empty).sum())
        keep = ~empty if overlong == "truncate" else ~(empty | long)
        self._lines = np.flatnonzero(keep).astype(np.int32)  # [L] line numbers that take part
        self.left_out = len(keep) - len(self._lines)
        if not len(self._lines):
            raise InputError(f"{self.target.name}: no line is left of {len(keep):,} (empty or too long)")
        limit = self.max_length or np.iinfo(np.int32).max - 1
        self._lengths = [np.minimum(side[keep], limit) + 1 for side in lengths]  # [L] each, the target's first
        widest, tokens = max(int(side.max()) for side in self._lengths), self._budget // self.world
        if tokens and widest > tokens:
            raise InputError(
                f"tokens={tokens:,} cannot hold the longest line of {self.target.name} or its partner ({widest:,} "
                "codes with eos); raise it or set max_length"
            )

    def __len__(self) -> int:
        return len(self._lines)

    def steps(self, epoch: int) -> int:
        """Steps of an epoch, the same on all ranks."""
        return len(self._planned(epoch).steps)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """This rank's batches of an epoch from step `start` on."""
        plan = self._planned(epoch)
        for step in plan.steps[start:]:
            yield self._batch(plan.order[plan.bounds[step] : plan.bounds[step + 1]][self.rank :: self.world])

    def _batch(self, chosen: Array) -> Batch:
        rows = self._lines[chosen].astype(np.int64)
        if not len(rows):  # fewer rows than ranks: something to compute, nothing to learn
            return _filler(self.source is not None)
        target = _padded(self.target, rows, self.max_length)
        source = None if self.source is None else _tensor(_padded(self.source, rows, self.max_length))
        tokens = int(self._lengths[0][chosen].sum())
        return Batch(_tensor(_shifted(target)), _tensor(target), source, torch.from_numpy(rows), tokens=tokens)

    def _planned(self, epoch: int) -> "_Plan":
        """The plan of an epoch; the last one asked for is kept."""
        if self._plan is None or self._plan.epoch != epoch:
            self._plan = None  # free it before the next is made
            self._plan = self._make_plan(epoch)
        return self._plan

    def _make_plan(self, epoch: int) -> "_Plan":
        """Shuffle, cut into pools, sort each by length, cut it into batches, shuffle those.

        A pool keeps most of the randomness that sorting everything would lose, and sorts in the processor's cache.
        """
        random = np.random.default_rng([self.seed, epoch])
        order = np.arange(len(self), dtype=np.int32)
        if self.shuffle:
            random.shuffle(order)
        bounds = [np.zeros(1, np.int64)]
        size = self._pool()
        for begin in range(0, len(order), size):
            pool = order[begin : begin + size]  # a view: sorted in place
            sides = [side[pool] for side in self._lengths]
            widths = np.maximum.reduce(sides)
            sort = np.lexsort([*sides[::-1], widths])  # by the width, then by target and source; ties stay shuffled
            pool[:] = pool[sort]
            bounds.append(begin + self._cuts(widths[sort]))
        joined = np.concatenate(bounds)
        steps = np.arange(len(joined) - 1)
        if self.shuffle:
            random.shuffle(steps)
        return _Plan(epoch, order, joined, steps)

    def _pool(self) -> int:
        """Sentences of a pool: whole batches where their size is known."""
        if not self.shuffle:
            return len(self)
        rows = self._rows or int(self._budget / max(side.mean() for side in self._lengths))
        return rows * max(POOL_BATCHES, -(-POOL_SENTENCES // rows))

    def _cuts(self, widths: Array) -> Array:
        """Where the batches of a sorted pool end, given the width of each row."""
        if self._rows:
            return np.append(np.arange(self._rows, len(widths), self._rows), len(widths))
        begin, cuts = 0, []
        while begin < len(widths):
            window = widths[begin : begin + self._budget // int(widths[begin])]
            cost = window * np.arange(1, len(window) + 1)  # rises, as the rows are sorted
            begin += int(np.searchsorted(cost, self._budget, side="right"))
            cuts.append(begin)
        return np.array(cuts)


@dataclass(frozen=True)
class _Plan:
    """The order of an epoch: batch b is order[bounds[b]:bounds[b + 1]], and `steps` says when its turn comes."""

    epoch: int
    order: Array
    bounds: Array
    steps: Array


class ContiguousBatches:
    """Running text for a language model: lines joined by eos and cut into parallel streams, `length` codes a step.

    Each rank has `streams` of them. Nothing is lost: the last stream is padded. The input at a line's beginning is bos,
    as in sentence batches, whatever stood before it.
    """

    def __init__(self, text: EncodedText, *, streams: int, length: int, rank: int = 0, world: int = 1) -> None:
        if streams < 1 or length < 1:
            raise InputError(f"streams={streams}, length={length}: give positive numbers")
        if not len(text):
            raise InputError(f"{text.name}: no lines; give a file with text")
        self.text, self.streams, self.length = text, streams, length
        self._ends = text.offsets[1:] + np.arange(1, len(text) + 1)  # [L] where each line ends, eos included
        self._size = int(self._ends[-1])
        self._stride = -(-self._size // (streams * world))  # codes of a stream
        self._begins = np.arange(rank, streams * world, world)[:, None] * self._stride  # [B, 1]

    def steps(self, epoch: int) -> int:
        """Steps of an epoch, the same on all ranks."""
        return -(-self._stride // self.length)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """This rank's batches from step `start` on; all epochs are alike, as running text has one order."""
        for step in range(start, self.steps(epoch)):
            first = step * self.length
            positions = self._begins + np.arange(first, min(first + self.length, self._stride))  # [B, T]
            target = self._codes(positions)
            before = self._codes(positions[:, :1] - 1)
            inputs = np.concatenate([before, target[:, :-1]], 1)
            inputs[inputs == EOS] = BOS
            index = torch.from_numpy(self._line(positions[:, 0]))
            yield Batch(_tensor(inputs), _tensor(target), None, index, fresh=step == 0)

    def _line(self, positions: Array) -> Array:
        return np.searchsorted(self._ends, positions, side="right").clip(max=len(self.text) - 1)

    def _codes(self, positions: Array) -> Array:
        """The codes at positions of the joined text: every line before has moved them by one eos."""
        line = self._line(positions)
        ends = positions == self._ends[line] - 1
        inside = (positions >= 0) & (positions < self._size) & ~ends
        codes = np.where(ends, EOS, PAD)
        codes[inside] = self.text.codes[(positions - line)[inside]]
        codes[positions < 0] = BOS
        return codes


def _padded(text: EncodedText, rows: Array, max_length: int | None = None) -> Array:
    """Those lines, each cut to `max_length` and ended by eos, as one matrix [B, T] of int64."""
    begins = text.offsets[rows]
    lengths = text.offsets[rows + 1] - begins
    if max_length is not None:
        lengths = np.minimum(lengths, max_length)
    columns = np.arange(int(lengths.max(initial=0)) + 1)  # [T]
    inside = columns < lengths[:, None]  # [B, T]
    padded = np.full(inside.shape, PAD, np.int64)
    padded[inside] = text.codes[(begins[:, None] + columns)[inside]]
    padded[np.arange(len(rows)), lengths] = EOS
    return padded


def _shifted(target: Array) -> Array:
    """A decoder's inputs: bos first, then what it should have said, without the eos."""
    inputs = np.empty_like(target)
    inputs[:, 0] = BOS
    inputs[:, 1:] = np.where(target[:, :-1] == EOS, PAD, target[:, :-1])
    return inputs


def _filler(pairs: bool) -> Batch:
    """A row without targets, for a rank that has none in this step."""
    source = _tensor(np.array([[EOS]])) if pairs else None
    return Batch(_tensor(np.array([[BOS]])), _tensor(np.array([[PAD]])), source, torch.tensor([-1]), tokens=0)


def _tensor(array: Array) -> Tensor:
    """A tensor of codes on the host, pinned if there is a GPU to copy it to."""
    tensor = torch.from_numpy(array.astype(np.int64, copy=False))
    return tensor.pin_memory() if torch.cuda.is_available() else tensor
