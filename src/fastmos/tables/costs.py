"""What each table word would cost in each row and each column, and what held-out text costs, by a language model."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from fastmos.codings import PAD, SPECIALS, UNK, TableCoding
from fastmos.data import Batch
from fastmos.models import Generator
from fastmos.training.distributed import World

BUFFER = 2**22  # log-probabilities at hand at once
CLOSE = 1e-4  # how near the objective and the loss must be: they are the same sum, by two ways in float32


@dataclass(frozen=True)
class TableCosts:
    """The costs of all table words: word i in (r, c) costs R[i, r] + Q[i, c]."""

    R: Tensor  # [n, d1] float64
    Q: Tensor  # [n, d2] float64
    objective: float  # of the present table; equal to the language model's loss at the table words


@torch.no_grad()
def table_costs(model: Generator, coding: TableCoding, batches: Iterable[Batch], world: World) -> TableCosts:
    """One pass over this process's batches, summed over all processes, without dropout.

    R[i, r] is the sum of -log P(r) over the places where word i begins, Q[i, c] that of -log P(c) where its present row
    has been read (Kong et al. 2019, equation 6, with its slip mended). Only table words pass the head.
    """
    device, step = world.device, max(1, BUFFER // len(coding))
    rows = _Sums(len(coding.table_words), coding.rows, len(SPECIALS) + len(coding.frequent), step, device)
    columns = _Sums(len(coding.table_words), coding.columns, rows.last, step, device)
    cells = torch.from_numpy(coding.cells).to(device)  # [n]
    word_at = torch.full((coding.rows * coding.columns,), -1, device=device)
    word_at[cells] = torch.arange(len(cells), device=device)
    model.eval()
    for batch in batches:
        batch = batch.to(device)
        hidden, _ = model.body(batch)  # [B, T, D]
        target = batch.target.flatten()
        begins = ((target >= rows.first) & (target < rows.last)).nonzero()[:, 0]  # [M] a column follows each
        row, column = target[begins] - rows.first, target[begins + 1] - columns.first
        words = word_at[row * coding.columns + column]  # [M]
        hidden = hidden.flatten(0, 1)
        rows.add(model, hidden[begins], words, row)
        columns.add(model, hidden[begins + 1], words, column)
    if world.size > 1:
        for part in (rows.sums, columns.sums):
            dist.all_reduce(part)
    (loss,) = world.sum([rows.loss + columns.loss])
    objective = _at(rows.sums, cells // coding.columns) + _at(columns.sums, cells % coding.columns)
    if not math.isclose(objective, loss, rel_tol=CLOSE, abs_tol=CLOSE):
        raise AssertionError(f"the table's objective is {objective}, but the loss at its words is {loss}")
    return TableCosts(rows.sums, columns.sums, objective)


class _Sums:
    """Sums of -log P over a range of codes, for each word; and the loss, by the way that training takes."""

    def __init__(self, words: int, codes: int, first: int, step: int, device: torch.device) -> None:
        self.first, self.last, self.step = first, first + codes, step
        self.sums = torch.zeros(words, codes, dtype=torch.float64, device=device)
        self.loss = 0.0

    def add(self, model: Generator, hidden: Tensor, words: Tensor, places: Tensor) -> None:
        """Hidden states [M, D] of the places [M], counted from the first code, of words [M]."""
        for begin in range(0, len(words), self.step):
            here = slice(begin, begin + self.step)
            log_probs = model.head(hidden[here])[:, self.first : self.last]
            self.sums.index_add_(0, words[here], log_probs.double(), alpha=-1.0)
            self.loss += float(model.head(hidden[here], places[here] + self.first).loss)


def _at(sums: Tensor, places: Tensor) -> float:
    return float(sums.gather(1, places[:, None]).sum())


@dataclass(frozen=True)
class HeldOut:
    """How well a language model on a table predicts text, in nats; eos counts as a word, as everywhere."""

    nats_per_word: float
    nats_per_table_word: float | None  # None: the text has no table words
    nats_per_known_word: float  # the words outside the vocabulary left out


@torch.no_grad()
def held_out(model: Generator, coding: TableCoding, batches: Iterable[Batch], world: World) -> HeldOut:
    """Judge this process's batches together with those of all others, without dropout."""
    first_row = len(SPECIALS) + len(coding.frequent)
    ends_word = torch.from_numpy(coding.ends_word).to(world.device)
    sums = torch.zeros(3, 2, dtype=torch.float64, device=world.device)  # nats and words of: all, table, unknown
    model.eval()
    for batch in batches:
        batch = batch.to(world.device)
        hidden, _ = model.body(batch)  # [B, T, D]
        nll = model.head(hidden, batch.target, ignore_index=PAD, reduction="none").nll.double()  # [B, T]
        kinds = batch.target != PAD, batch.target >= first_row, batch.target == UNK
        for kind, part in zip(kinds, sums, strict=True):
            part += torch.stack([nll.where(kind, 0).sum(), (kind & ends_word[batch.target]).sum()])
    nats, words, table_nats, table_words, unknown_nats, unknown = world.sum(sums.flatten().tolist())
    return HeldOut(
        nats_per_word=nats / words,
        nats_per_table_word=table_nats / table_words if table_words else None,
        nats_per_known_word=(nats - unknown_nats) / (words - unknown),
    )
