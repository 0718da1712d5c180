"""What a run predicts at every position of a text: the rows of its log-probability matrix."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fastmos.data import EncodedText, SentenceBatches
from fastmos.training.run import Run

TOKENS = 1024  # whose log-probabilities are alive at once


@torch.no_grad()
def log_prob_batches(run: Run, sources: Sequence[str], targets: Sequence[str]) -> Iterator[Tensor]:
    """The log-probabilities [N, V] of a translation run at all positions of the target text, batch by batch."""
    assert run.source is not None, "only a translation run reads a source"
    target, source = (
        EncodedText.of(coding.encode_lines(lines)) for coding, lines in ((run.target, targets), (run.source, sources))
    )
    longest = max(int(text.lengths.max()) + 1 for text in (target, source))
    for batch in SentenceBatches(target, source, tokens=max(TOKENS, longest), shuffle=False).epoch(0):
        hidden, _ = run.model.body(batch.to(run.device))  # [B, T, D]
        yield run.model.head(hidden[batch.target.to(run.device) != run.target.pad])
