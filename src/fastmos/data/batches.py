"""Batches of padded tokens: sentences by a budget, or contiguous text in parallel streams.

A step is planned for all processes and its rows are dealt out to the ranks: two processes with a budget of 1,000 tokens
see together the steps that one process with 2,000 sees. The order of an epoch depends on (seed, epoch) alone, so an
epoch can be resumed at any step.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fastmos.data.tokenized import TokenizedText, check_pairs
from fastmos.errors import InputError
from fastmos.tokenizers import BOS, EOS, PAD

POOL_BATCHES = 100  # batches whose sentences are sorted by length together
POOL_SENTENCES = 4096  # sentences sorted together, at least

Array = np.ndarray[Any, np.dtype[Any]]
FeaturesOf = Callable[[Array], Tensor]  # the features [B, F] of the images of lines [B]


@dataclass
class Batch:
    """What a model sees in one step; rows are padded with PAD."""

    inputs: Tensor  # [B, T] bos + target without its last token
    target: Tensor  # [B, T] tokens + eos
    source: Tensor | None  # [B, S] tokens + eos
    index: Tensor  # [B] line numbers, on the host; -1: a filler row of an otherwise empty batch
    features: Tensor | None = None  # [B, F] of images
    fresh: bool = True  # False: a language model continues with the state of the previous batch
    num_tokens: int = -1  # targets that are not padding, counted on the host
    source_lengths: Tensor | None = None  # [B] with eos, on the host

    def __post_init__(self) -> None:
        if self.num_tokens < 0:
            self.num_tokens = int((self.target != PAD).sum())
        if self.source is not None and self.source_lengths is None:
            self.source_lengths = (self.source != PAD).sum(1).cpu()

    def __len__(self) -> int:
        return len(self.index)

    @property
    def sentences(self) -> int:
        """Rows without fillers, for losses normalized by sentences."""
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
    """Source lines to translate, without targets (T = 0); lines may be empty, and a language model ignores them."""
    text = TokenizedText.of(source)
    rows = np.arange(len(text))
    nothing = torch.empty(len(text), 0, dtype=torch.long)
    return Batch(nothing, nothing, _tensor(_padded(text, rows)), torch.from_numpy(rows), num_tokens=0)


class SentenceBatches:
    """Sentences, or pairs of them, in batches of similar length.

    With `max_tokens`, a step has as many pairs as fit: rows x width <= max_tokens x world, where width is the length of
    the longest side of all its pairs, with eos. So padding counts, only the longer side counts, and a rank's share
    exceeds `max_tokens` by one row at most. With `max_sentences`, a step has max_sentences x world pairs.

    Pairs with an empty side are dropped unless `keep_empty`, and so are pairs with a side of more than `max_length`
    tokens: `empty` and `overlong` say how many. `len(...)` is the number of pairs kept.
    A step has the pairs of `share` processes, `world` unless given, and is dealt out to `world` of them.
    `features` gives the features [B, F] of lines [B], for captions of images.
    """

    def __init__(
        self,
        target: TokenizedText,
        source: TokenizedText | None = None,
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
        features: FeaturesOf | None = None,
    ) -> None:
        if (max_tokens is None) == (max_sentences is None):
            raise InputError(f"max_tokens={max_tokens}, max_sentences={max_sentences}: give exactly one of the two")
        if (max_tokens or max_sentences or 0) < 1 or (max_length is not None and max_length < 1):
            given = f"max_tokens={max_tokens}, max_sentences={max_sentences}, max_length={max_length}"
            raise InputError(f"{given}: give positive numbers")
        if source is not None:
            check_pairs(source, target)
        self.target, self.source, self.features = target, source, features
        self.seed, self.rank, self.world, self.shuffle = seed, rank, world, shuffle
        self._share = share or world
        self._rows = (max_sentences or 0) * self._share  # of a step, or 0
        self._budget = (max_tokens or 0) * self._share  # of a step, or 0
        self._select(max_length or np.iinfo(np.int32).max, keep_empty)
        self._plan: _Plan | None = None

    def _select(self, max_length: int, keep_empty: bool) -> None:
        """Choose the lines to keep, and note their lengths with eos."""
        lengths = [text.lengths.astype(np.int32) for text in (self.target, self.source) if text is not None]
        shortest, longest = np.minimum.reduce(lengths), np.maximum.reduce(lengths)
        empty = shortest == 0 if self.source is not None and not keep_empty else np.zeros(len(shortest), bool)
        long = longest > max_length
        self.empty, self.overlong = int(empty.sum()), int((long & ~empty).sum())
        keep = ~(empty | long)
        self._lines = np.flatnonzero(keep).astype(np.int32)  # [L] numbers of the lines kept
        if not len(self._lines):
            raise InputError(f"{self.target.name}: all {len(keep):,} lines are empty or too long; give other text")
        self._lengths = [side[keep] + 1 for side in lengths]  # [L] each, the target's first
        widest, tokens = max(int(side.max()) for side in self._lengths), self._budget // self._share
        if tokens and widest > tokens:
            raise InputError(
                f"max_tokens={tokens:,} cannot hold the longest line of {self.target.name} or its partner ({widest:,} "
                "tokens with eos); raise it or set max_length"
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
        batch = self._pad(chosen) if len(chosen) else _filler(self.source is not None)  # fewer rows than ranks
        if self.features is not None:
            batch.features = self.features(batch.index.clamp(min=0).numpy())
        return batch

    def _pad(self, chosen: Array) -> Batch:
        rows = self._lines[chosen].astype(np.int64)
        target = _padded(self.target, rows)
        source = None if self.source is None else _tensor(_padded(self.source, rows))
        tokens = int(self._lengths[0][chosen].sum())
        return Batch(_tensor(_shifted(target)), _tensor(target), source, torch.from_numpy(rows), num_tokens=tokens)

    def _planned(self, epoch: int) -> "_Plan":
        """The plan of an epoch; the last one is cached."""
        if self._plan is None or self._plan.epoch != epoch:
            self._plan = None  # frees its memory before the next is made
            self._plan = self._make_plan(epoch)
        return self._plan

    def _make_plan(self, epoch: int) -> "_Plan":
        """Shuffle, cut into pools, sort each pool by length, cut it into batches, shuffle the batches.

        Sorting pools keeps most of the randomness that sorting everything would lose, and fits into the cache.
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
        """Sentences of a pool: whole batches if their size is known."""
        if not self.shuffle:
            return len(self)
        rows = self._rows or int(self._budget / max(side.mean() for side in self._lengths))
        return rows * max(POOL_BATCHES, -(-POOL_SENTENCES // rows))

    def _cuts(self, widths: Array) -> Array:
        """Where the batches of a sorted pool end, given the length of each row."""
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
    """The order of an epoch: batch b is order[bounds[b]:bounds[b + 1]], and `steps` is the order of batches."""

    epoch: int
    order: Array
    bounds: Array
    steps: Array


class ContiguousBatches:
    """Contiguous text for a language model: lines joined by eos, cut into parallel streams, `length` tokens a step.

    Each rank has `streams` of them, or its part of those of `share` ranks. No token is dropped: the last stream is
    padded. The input at the start of a line is bos, as in sentence batches.
    """

    def __init__(
        self,
        text: TokenizedText,
        *,
        streams: int,
        length: int,
        rank: int = 0,
        world: int = 1,
        share: int | None = None,
    ) -> None:
        if streams < 1 or length < 1:
            raise InputError(f"streams={streams}, length={length}: give positive numbers")
        if not len(text):
            raise InputError(f"{text.name}: no lines; give a file with text")
        self.text, self.streams, self.length = text, streams, length
        self._ends = text.offsets[1:] + np.arange(1, len(text) + 1)  # [L] where each line ends, eos included
        self._size = int(self._ends[-1])
        total = streams * (share or world)
        if total < world:
            raise InputError(f"{total} streams of text for {world} processes; start at most {total}")
        self._stride = -(-self._size // total)  # tokens of a stream
        self._begins = np.arange(rank, total, world)[:, None] * self._stride  # [B, 1]

    def steps(self, epoch: int) -> int:
        """Steps of an epoch, the same on all ranks."""
        return -(-self._stride // self.length)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """This rank's batches from step `start` on; all epochs are the same, as contiguous text has one order."""
        for step in range(start, self.steps(epoch)):
            first = step * self.length
            positions = self._begins + np.arange(first, min(first + self.length, self._stride))  # [B, T]
            target = self._tokens(positions)
            before = self._tokens(positions[:, :1] - 1)
            inputs = np.concatenate([before, target[:, :-1]], 1)
            inputs[inputs == EOS] = BOS
            index = torch.from_numpy(self._line(positions[:, 0]))
            yield Batch(_tensor(inputs), _tensor(target), None, index, fresh=step == 0)

    def _line(self, positions: Array) -> Array:
        return np.searchsorted(self._ends, positions, side="right").clip(max=len(self.text) - 1)

    def _tokens(self, positions: Array) -> Array:
        """The tokens at positions of the joined text, in which each line is followed by eos."""
        line = self._line(positions)
        ends = positions == self._ends[line] - 1
        inside = (positions >= 0) & (positions < self._size) & ~ends
        tokens = np.where(ends, EOS, PAD)
        tokens[inside] = self.text.tokens[(positions - line)[inside]]
        tokens[positions < 0] = BOS
        return tokens


def _padded(text: TokenizedText, rows: Array) -> Array:
    """These lines, each with eos, as one matrix [B, T] of int64."""
    begins = text.offsets[rows]
    lengths = text.offsets[rows + 1] - begins
    columns = np.arange(int(lengths.max(initial=0)) + 1)  # [T]
    inside = columns < lengths[:, None]  # [B, T]
    padded = np.full(inside.shape, PAD, np.int64)
    padded[inside] = text.tokens[(begins[:, None] + columns)[inside]]
    padded[np.arange(len(rows)), lengths] = EOS
    return padded


def _shifted(target: Array) -> Array:
    """A decoder's inputs: bos, then the target without eos."""
    inputs = np.empty_like(target)
    inputs[:, 0] = BOS
    inputs[:, 1:] = np.where(target[:, :-1] == EOS, PAD, target[:, :-1])
    return inputs


def _filler(pairs: bool) -> Batch:
    """One row without targets, for a rank that has no rows in this step."""
    source = _tensor(np.array([[EOS]])) if pairs else None
    return Batch(_tensor(np.array([[BOS]])), _tensor(np.array([[PAD]])), source, torch.tensor([-1]), num_tokens=0)


def _tensor(array: Array) -> Tensor:
    """Tokens on the host, in pinned memory if there is a GPU."""
    tensor = torch.from_numpy(array.astype(np.int64, copy=False))
    return tensor.pin_memory() if torch.cuda.is_available() else tensor
