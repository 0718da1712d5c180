"""What a run predicts at every position of a text: the rows of its log-probability matrix."""

from collections.abc import Iterator

import torch
from torch import Tensor

from fastmos.inference.run import Run
from fastmos.tasks.dataset import Dataset

TOKENS = 1024  # whose log-probabilities are in memory at once


@torch.no_grad()
def log_prob_batches(run: Run, dataset: Dataset) -> Iterator[Tensor]:
    """The log-probabilities [N, V] at all positions of the target text, batch by batch."""
    for batch in dataset.batches(max_tokens=max(TOKENS, dataset.longest), shuffle=False).epoch(0):
        hidden, _ = run.model.body(batch.to(run.device))  # [B, T, D]
        yield run.model.head(hidden[batch.target.to(run.device) != run.target.pad])
