"""What a language model says of a table: the cost of each word in each row and column, and the NLL of held-out text."""

import math
from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from fastmos.data.batches import Batch
from fastmos.data.tokenized import TokenizedText
from fastmos.distributed import World
from fastmos.metrics import Likelihood, LikelihoodReport
from fastmos.models import Generator
from fastmos.tasks.dataset import Dataset
from fastmos.tasks.decoding import score_lines
from fastmos.tasks.evaluation import Interruptible, likelihood_of
from fastmos.tokenizers import SPECIALS, TableTokenizer

BUFFER = 2**22  # log-probabilities at hand at once
CLOSE = 1e-4  # relative: objective and loss are one sum, computed in two ways in float32


@dataclass(frozen=True)
class TableCosts:
    """The costs of all table words: word i in (r, c) costs R[i, r] + Q[i, c]."""

    R: Tensor  # [n, d1] float64
    Q: Tensor  # [n, d2] float64
    objective: float  # of the present table; equal to the language model's loss at the table words


@torch.no_grad()
def table_costs(model: Generator, tokenizer: TableTokenizer, batches: Iterable[Batch], world: World) -> TableCosts:
    """One pass over this process's batches, summed over all processes, without dropout.

    R[i, r] is the sum of -log P(r) over the places where word i begins, Q[i, c] that of -log P(c) where its present row
    has been read (Kong et al. 2019, equation 6, with its slip mended). Only table words pass the head.
    """
    device, step = world.device, max(1, BUFFER // len(tokenizer))
    rows = _Sums(len(tokenizer.table_words), tokenizer.rows, len(SPECIALS) + len(tokenizer.frequent), step, device)
    columns = _Sums(len(tokenizer.table_words), tokenizer.columns, rows.last, step, device)
    cells = torch.from_numpy(tokenizer.cells).to(device)  # [n]
    word_at = torch.full((tokenizer.rows * tokenizer.columns,), -1, device=device)
    word_at[cells] = torch.arange(len(cells), device=device)
    model.eval()
    for batch in batches:
        batch = batch.to(device)
        hidden, _ = model.body(batch)  # [B, T, D]
        target = batch.target.flatten()
        begins = ((target >= rows.first) & (target < rows.last)).nonzero()[:, 0]  # [M] a column follows each
        row, column = target[begins] - rows.first, target[begins + 1] - columns.first
        words = word_at[row * tokenizer.columns + column]  # [M]
        hidden = hidden.flatten(0, 1)
        rows.add(model, hidden[begins], words, row)
        columns.add(model, hidden[begins + 1], words, column)
    if world.size > 1:
        for part in (rows.sums, columns.sums):
            dist.all_reduce(part)
    (loss,) = world.sum([rows.loss + columns.loss])
    objective = _at(rows.sums, cells // tokenizer.columns) + _at(columns.sums, cells % tokenizer.columns)
    if not math.isclose(objective, loss, rel_tol=CLOSE, abs_tol=CLOSE):
        raise AssertionError(f"the table's objective is {objective}, but the loss at its words is {loss}")
    return TableCosts(rows.sums, columns.sums, objective)


class _Sums:
    """Sums of -log P over a range of tokens, for each word; and the loss of these tokens, computed as in training."""

    def __init__(self, words: int, tokens: int, first: int, step: int, device: torch.device) -> None:
        self.first, self.last, self.step = first, first + tokens, step
        self.sums = torch.zeros(words, tokens, dtype=torch.float64, device=device)
        self.loss = 0.0

    def add(self, model: Generator, hidden: Tensor, words: Tensor, places: Tensor) -> None:
        """Add hidden states [M, D] before the codes `places` [M], counted from the first, of words [M]."""
        for begin in range(0, len(words), self.step):
            here = slice(begin, begin + self.step)
            log_probs = model.head(hidden[here])[:, self.first : self.last]
            self.sums.index_add_(0, words[here], log_probs.double(), alpha=-1.0)
            self.loss += float(model.head(hidden[here], places[here] + self.first, reduction="sum").loss)


def _at(sums: Tensor, places: Tensor) -> float:
    return float(sums.gather(1, places[:, None]).sum())


@dataclass(frozen=True)
class HeldOut(LikelihoodReport):
    """How well a language model predicts held-out text in the tokens of a table."""

    nll_per_table_word: float | None  # None: the text has no table words


def held_out(
    model: Generator, tokenizer: TableTokenizer, text: TokenizedText, world: World, interruptible: Interruptible
) -> HeldOut:
    """Evaluate the language model on a text, each process on its share of the lines."""
    mine = Dataset(text).select(range(world.rank, len(text), world.size))
    nll = np.concatenate([np.empty(0), *interruptible(lambda: score_lines(model, mine, world.device))])
    tokens = np.insert(mine.target.tokens.astype(np.int64), mine.target.offsets[1:], tokenizer.eos)
    first_row = len(SPECIALS) + len(tokenizer.frequent)
    table = nll[tokens >= first_row].sum(), (tokens >= first_row + tokenizer.rows).sum()  # NLL and number of words
    likelihood = likelihood_of(nll, mine.target, tokenizer)
    table_nll, table_words, sum_nll, known_nll, *counts = world.sum([*map(float, table), *astuple(likelihood)])
    report = Likelihood(sum_nll, known_nll, *map(int, counts)).report()
    return HeldOut(**asdict(report), nll_per_table_word=table_nll / table_words if table_words else None)
