"""What every model is: a body that turns codes into hidden states, and a head that turns those into probabilities.

Training sees whole batches: `generator(batch)` is the loss. Search sees one code at a time, through three functions:

    state = model.start(batch)                      one row a sentence, before its first code
    log_probs, state = model.step(codes, state)     the rows read one code each; what may come next [N, V]
    state = model.reorder(state, rows, sentences)   keep, drop or repeat rows

The rows of a state are grouped by sentence, equally many each, so that what belongs to a sentence (the encoded source)
is kept once and not once a row. `rows` [M] picks rows; `sentences` [B'] says which sentences they belong to, where some
have left (None: all are still there). A state is used up by `step` and `reorder`: caches change in place.
"""

from typing import Any

import torch
from torch import Tensor, nn

from fastmos.codings import PAD
from fastmos.data.batches import Batch
from fastmos.heads import HeadOutput
from fastmos.heads.loss import Smoothing


class Generator(nn.Module):
    """A body and its head."""

    def __init__(self, body: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.body, self.head = body, head

    def forward(
        self,
        batch: Batch,
        state: Any = None,
        *,
        label_smoothing: float = 0.0,
        smoothing: Smoothing = "uniform",
    ) -> tuple[HeadOutput, Any]:
        """The loss summed over the batch's targets, padding left out; and the state a language model carries on."""
        hidden, state = self.body(batch, state)  # [B, T, D]
        output = self.head(
            hidden,
            batch.target,
            ignore_index=PAD,
            label_smoothing=label_smoothing,
            smoothing=smoothing,
        )
        return output, state

    def start(self, batch: Batch) -> Any:
        return self.body.start(batch)  # type: ignore[operator]

    def step(self, codes: Tensor, state: Any) -> tuple[Tensor, Any]:
        hidden, state = self.body.step(codes, state)  # type: ignore[operator]
        return self.head(hidden), state  # [N, V]

    def reorder(self, state: Any, rows: Tensor, sentences: Tensor | None = None) -> Any:
        return self.body.reorder(state, rows, sentences)  # type: ignore[operator]


@torch.no_grad()
def uniform_(module: nn.Module, bound: float = 0.1) -> None:
    """Draw every parameter that is learnt, biases too, from U(-bound, bound), as the paper's LSTM models start."""
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.uniform_(-bound, bound)
