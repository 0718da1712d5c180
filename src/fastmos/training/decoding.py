"""A model at work on lines of codes: searching and scoring, batched by length, results in the order of the lines."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from fastmos.codings import Coding
from fastmos.data import ContiguousBatches, EncodedText, SentenceBatches, decoding_batch
from fastmos.data.captions import CaptionBatches, Pictures, picture_batch
from fastmos.models import Generator
from fastmos.search import Hypothesis, beam_search
from fastmos.training.config import Search

Lines = Sequence[Sequence[int]]
Array = np.ndarray[Any, np.dtype[Any]]
Watch = Callable[[Iterable[list[int]], int], Iterable[list[int]]]  # shows how far it is: (groups, how many of them)

SENTENCES = 64  # searched at once,
CODES = 4096  # or as many as fit into so many source codes
SCORED = 8192  # codes scored at once
STREAMS = 16  # of running text scored at once, at most,
WINDOWS = 50  # each of so many windows at least, as a stream begins without context


def search_lines(
    model: Generator,
    coding: Coding,
    sources: Lines,
    search: Search,
    device: torch.device,
    *,
    nbest: int = 1,
    watch: Watch = lambda groups, count: groups,
) -> list[list[Hypothesis]]:
    """The best translations of each line; of an empty line the empty one, without asking the model."""
    model.eval()
    found: list[list[Hypothesis]] = [[Hypothesis([], 0.0, 0.0, True)] for _ in sources]
    groups = list(_by_length(sources))
    for rows in watch(groups, len(groups)):
        batch = decoding_batch([sources[row] for row in rows]).to(device)
        results = beam_search(
            model,
            coding,
            batch,
            beam=search.beam,
            nbest=nbest,
            normalise=search.normalise,
            alpha=search.alpha,
            max_length=_limits([len(sources[row]) for row in rows], search),
        )
        for row, hypotheses in zip(rows, results, strict=True):
            found[row] = hypotheses
    return found


def search_pictures(
    model: Generator,
    coding: Coding,
    pictures: torch.Tensor,
    search: Search,
    device: torch.device,
    *,
    nbest: int = 1,
) -> list[list[Hypothesis]]:
    """The best captions of each image, given its features [I, F]."""
    model.eval()
    found: list[list[Hypothesis]] = []
    for begin in range(0, len(pictures), SENTENCES):
        found += beam_search(
            model,
            coding,
            picture_batch(pictures[begin : begin + SENTENCES]).to(device),
            beam=search.beam,
            nbest=nbest,
            normalise=search.normalise,
            alpha=search.alpha,
            max_length=search.max_length,
        )
    return found


def _limits(lengths: list[int], search: Search) -> int | torch.Tensor:
    """The most codes for each line: lower for short ones where scores, being normalised, end the search late."""
    if search.normalise == "none":
        return search.max_length
    return torch.tensor([min(search.max_length, 3 * length + 20) for length in lengths])


def _by_length(sources: Lines) -> Iterator[list[int]]:
    """Numbers of the lines that are not empty, longest first, in groups."""
    order = sorted((row for row in range(len(sources)) if len(sources[row])), key=lambda row: -len(sources[row]))
    while order:
        size = min(SENTENCES, max(1, CODES // len(sources[order[0]])))
        yield order[:size]
        order = order[size:]


@torch.no_grad()
def score_lines(
    model: Generator,
    target: EncodedText,
    source: EncodedText | None,
    device: torch.device,
    pictures: Pictures | None = None,
) -> list[Array]:
    """Negative log-likelihoods of each line's codes and its eos, in nats: float64 [length + 1] a line."""
    model.eval()
    lengths = target.lengths + 1
    longest = max(int(side.lengths.max()) + 1 for side in (target, source) if side is not None)
    tokens = max(SCORED, longest)
    if pictures is not None:
        batches: SentenceBatches = CaptionBatches(target, pictures, tokens=tokens, shuffle=False)
    else:
        batches = SentenceBatches(target, source, tokens=tokens, shuffle=False, keep_empty=True)
    scores: list[Array] = [np.empty(0)] * len(target)
    for batch in batches.epoch(0):
        nll = model(batch.to(device))[0].nll.double().cpu().numpy()  # [B, T]
        for row, line in enumerate(batch.index.tolist()):
            scores[line] = nll[row, : lengths[line]]
    return scores


@torch.no_grad()
def score_running_text(model: Generator, text: EncodedText, window: int, device: torch.device) -> Array:
    """Negative log-likelihoods of all codes and eos, in the order of the text, each given what stood before it.

    A long text is cut into several streams, each of which begins without what stood before.
    """
    model.eval()
    size = len(text.codes) + len(text)
    streams = max(1, min(STREAMS, size // (WINDOWS * window)))
    parts, state = [], None
    for batch in ContiguousBatches(text, streams=streams, length=window).epoch(0):
        output, state = model(batch.to(device), state)
        parts.append(output.nll.double().cpu().numpy())  # [B, T]
    return np.concatenate(parts, 1).reshape(-1)[:size]
