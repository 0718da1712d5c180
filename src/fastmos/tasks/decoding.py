"""A model at work on many lines: searching and scoring in batches, with results in the order of the lines."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from fastmos.config import Search
from fastmos.data.batches import Batch, ContiguousBatches, decoding_batch
from fastmos.data.tokenized import TokenizedText
from fastmos.models import Generator
from fastmos.search import Hypothesis, beam_search
from fastmos.tasks.dataset import Dataset
from fastmos.tokenizers import Tokenizer

Array = np.ndarray[Any, np.dtype[Any]]
Show = Callable[[Iterable[list[int]], int], Iterable[list[int]]]  # shows progress: (groups of rows, their number)

SENTENCES = 64  # searched at once,
SOURCE_TOKENS = 4096  # or as many as fit into so many source tokens
SCORED_TOKENS = 8192  # scored at once
STREAMS = 16  # of running text scored at once, at most,
WINDOWS = 50  # each of so many windows at least, as a stream begins without context


class Inputs(Protocol):
    """What outputs are searched for: source lines, or images."""

    def __len__(self) -> int: ...

    def groups(self) -> list[list[int]]:
        """Numbers of the inputs that are searched together; the output for those in no group is empty."""
        ...

    def batch(self, rows: list[int]) -> Batch: ...

    def max_length(self, rows: list[int], search: Search) -> int | torch.Tensor: ...


@dataclass(frozen=True)
class SourceLines:
    """Tokenized lines to translate, the longest first."""

    lines: Sequence[Sequence[int]]

    def __len__(self) -> int:
        return len(self.lines)

    def groups(self) -> list[list[int]]:
        rows = [row for row in range(len(self.lines)) if len(self.lines[row])]
        rows.sort(key=lambda row: -len(self.lines[row]))
        groups = []
        while rows:
            size = min(SENTENCES, max(1, SOURCE_TOKENS // len(self.lines[rows[0]])))
            groups.append(rows[:size])
            rows = rows[size:]
        return groups

    def batch(self, rows: list[int]) -> Batch:
        return decoding_batch([self.lines[row] for row in rows])

    def max_length(self, rows: list[int], search: Search) -> int | torch.Tensor:
        """Lower for short lines under a length penalty, which ends the search late."""
        if not search.length_penalty:
            return search.max_length
        return torch.tensor([min(search.max_length, 3 * len(self.lines[row]) + 20) for row in rows])


def no_progress(groups: Iterable[list[int]], count: int) -> Iterable[list[int]]:
    return groups


def search_outputs(
    model: Generator,
    tokenizer: Tokenizer,
    inputs: Inputs,
    search: Search,
    device: torch.device,
    *,
    nbest: int = 1,
    show: Show = no_progress,
) -> list[list[Hypothesis]]:
    """The best outputs for each input, best first."""
    model.eval()
    found: list[list[Hypothesis]] = [[Hypothesis([], 0.0, 0.0, True)] for _ in range(len(inputs))]
    groups = inputs.groups()
    for rows in show(groups, len(groups)):
        results = beam_search(
            model,
            tokenizer,
            inputs.batch(rows).to(device),
            beam_size=search.beam_size,
            nbest=nbest,
            length_penalty=search.length_penalty,
            max_length=inputs.max_length(rows, search),
        )
        for row, hypotheses in zip(rows, results, strict=True):
            found[row] = hypotheses
    return found


@torch.no_grad()
def score_lines(model: Generator, dataset: Dataset, device: torch.device) -> list[Array]:
    """Negative log-likelihoods of each line's tokens and its eos: float64 [length + 1] a line."""
    model.eval()
    if not len(dataset.target):
        return []
    lengths = dataset.target.lengths + 1
    batches = dataset.batches(max_tokens=max(SCORED_TOKENS, dataset.longest), shuffle=False, keep_empty=True)
    scores: list[Array] = [np.empty(0)] * len(dataset.target)
    for batch in batches.epoch(0):
        nll = model(batch.to(device))[0].nll.double().cpu().numpy()  # [B, T]
        for row, line in enumerate(batch.index.tolist()):
            scores[line] = nll[row, : lengths[line]]
    return scores


@torch.no_grad()
def score_running_text(model: Generator, text: TokenizedText, length: int, device: torch.device) -> Array:
    """Negative log-likelihoods of all tokens and eos, in the order of the text, each given those before it.

    A long text is cut into several streams, each of which begins without context.
    """
    model.eval()
    size = len(text.tokens) + len(text)
    streams = max(1, min(STREAMS, size // (WINDOWS * length)))
    parts, state = [], None
    for batch in ContiguousBatches(text, streams=streams, length=length).epoch(0):
        output, state = model(batch.to(device), state)
        parts.append(output.nll.double().cpu().numpy())  # [B, T]
    return np.concatenate(parts, 1).reshape(-1)[:size]
