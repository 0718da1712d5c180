"""What every model is: a body that turns tokens into hidden states, and a head that turns those into probabilities.

Training sees whole batches: `generator(batch)` is the loss. Search sees one token at a time, through three functions:

    state = model.start(batch)                      one row a sentence, before its first token
    log_probs, state = model.step(tokens, state)     the rows read one token each; what may come next [N, V]
    state = model.reorder(state, rows, sentences)   keep, drop or repeat rows

The rows of a state are grouped by sentence, equally many each, so that what belongs to a sentence (the encoded source)
is kept once and not once a row. `rows` [M] picks rows; `sentences` [B'] says which sentences they belong to, where some
have left (None: all are still there). A state is used up by `step` and `reorder`: caches change in place.
A head may put off some of the log-probabilities (`fastmos.heads.PartialLogProbs`) until search asks for them.
"""

from typing import Any

import torch
from torch import Tensor, nn

from fastmos.data.batches import Batch
from fastmos.errors import InputError
from fastmos.heads import HeadOutput, SmoothingKind
from fastmos.heads.packed import packed_copy, packed_head
from fastmos.heads.products import can_pack
from fastmos.tokenizers import PAD


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
        label_smoothing_kind: SmoothingKind = "uniform",
    ) -> tuple[HeadOutput, Any]:
        """The loss summed over the batch's targets, padding left out; and the state a language model carries on."""
        hidden, state = self.body(batch, state)  # [B, T, D]
        output = self.head(
            hidden,
            batch.target,
            ignore_index=PAD,
            label_smoothing=label_smoothing,
            label_smoothing_kind=label_smoothing_kind,
            reduction="sum",
        )
        return output, state

    def start(self, batch: Batch) -> Any:
        return self.body.start(batch)  # type: ignore[operator]

    def step(self, tokens: Tensor, state: Any) -> tuple[Any, Any]:
        hidden, state = self.body.step(tokens, state)  # type: ignore[operator]
        return getattr(self.head, "partial_log_probs", self.head)(hidden), state  # [N, V], perhaps partial

    def reorder(self, state: Any, rows: Tensor, sentences: Tensor | None = None) -> Any:
        return self.body.reorder(state, rows, sentences)  # type: ignore[operator]


def packed(model: Generator, int8: bool = False) -> Generator:
    """The model for search on a CPU: a copy whose weights are laid out for their kernels, or rounded to 8 bits.

    Its hypotheses are those of the model as it is now, in float32 to rounding. Packing takes as long as some steps.
    """
    weights = [parameter for parameter in model.parameters() if parameter.is_floating_point()]
    if can_pack() and all(one.is_cpu and one.dtype == torch.float32 for one in weights):
        return Generator(packed_copy(model.body, int8), packed_head(model.head, int8)).eval()
    if int8:
        raise InputError("int8 is for models of float32 on a CPU whose torch has oneDNN; leave it out here")
    return model


MEANT = {"scale", "tail_bias"}  # parameters of heads that start at values with a meaning, and keep them


@torch.no_grad()
def uniform_(module: nn.Module, bound: float = 0.1) -> None:
    """Draw every trainable parameter, biases too, from U(-bound, bound), as the paper's LSTM models start."""
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and name.rpartition(".")[2] not in MEANT:
            parameter.uniform_(-bound, bound)
