"""What a run predicts at every position of a text: the rows of its log-probability matrix."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from fastmos.data.batches import ContiguousBatches
from fastmos.inference.run import Run
from fastmos.tasks.dataset import Dataset

TOKENS = 1024  # whose log-probabilities are in memory at once
STREAMS = 16  # of running text read at once


def log_prob_batches(run: Run, dataset: Dataset) -> Iterator[Tensor]:
    """The log-probabilities [N, V] at all positions of the target text, batch by batch."""
    for hidden, _ in state_batches(run, dataset):
        with torch.no_grad():
            log_probs: Tensor = run.model.head(hidden)
        yield log_probs


def some_states(run: Run, dataset: Dataset, count: int) -> tuple[Tensor, Tensor]:
    """Hidden states [N, D] and targets [N] of at most so many positions, evenly spaced over the text."""
    states, targets = (torch.cat(part) for part in zip(*state_batches(run, dataset), strict=True))
    chosen = np.unique(np.linspace(0, len(targets) - 1, count).round().astype(int))
    return states[chosen], targets[chosen]


@torch.no_grad()
def state_batches(run: Run, dataset: Dataset) -> Iterator[tuple[Tensor, Tensor]]:
    """Hidden states [N, D] and targets [N] at all positions; running text is read as in training."""
    length, state = run.config.training.bptt_length, None
    if length:
        batches = ContiguousBatches(dataset.target, streams=STREAMS, length=length).epoch(0)
    else:
        batches = dataset.batches(max_tokens=max(TOKENS, dataset.longest), shuffle=False).epoch(0)
    for batch in batches:
        on_device = batch.to(run.device)
        hidden, state = run.model.body(on_device, state)  # [B, T, D]
        kept = on_device.target != run.target.pad
        yield hidden[kept], on_device.target[kept]
