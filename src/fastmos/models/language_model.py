"""An LSTM language model, for sentences or for contiguous text whose state is carried from batch to batch."""

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from fastmos.data.batches import Batch
from fastmos.models.lstm import LSTM


class LSTMState(NamedTuple):
    """Where an LSTM stands in its text."""

    hidden: Tensor  # [layers, N, D]
    cell: Tensor  # [layers, N, D]


class LanguageModel(nn.Module):
    """Embedding, LSTM, dropout."""

    def __init__(
        self,
        vocab_size: int,
        *,
        hidden_size: int = 256,
        embedding_size: int = 0,
        num_layers: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        embedding_size = embedding_size or hidden_size
        self.hidden_size, self.num_layers, self.dropout = hidden_size, num_layers, dropout
        self.embedding = nn.Embedding(vocab_size, embedding_size)
        between = dropout if num_layers > 1 else 0.0
        self.lstm = LSTM(embedding_size, hidden_size, num_layers, batch_first=True, dropout=between)

    def forward(self, batch: Batch, state: LSTMState | None = None) -> tuple[Tensor, LSTMState]:
        hidden, after = self._read(batch.inputs, None if batch.fresh else state)
        return hidden, LSTMState(*(part.detach() for part in after))  # the gradient ends where the batch does

    def _read(self, tokens: Tensor, state: LSTMState | None) -> tuple[Tensor, LSTMState]:
        embedded = F.dropout(self.embedding(tokens), self.dropout, self.training)  # [B, T, E]
        hidden, after = self.lstm(embedded, state)  # [B, T, D]
        return F.dropout(hidden, self.dropout, self.training), LSTMState(*after)

    def start(self, batch: Batch) -> LSTMState:
        zeros = self.embedding.weight.new_zeros(self.num_layers, len(batch), self.hidden_size)
        return LSTMState(zeros, zeros)

    def step(self, tokens: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        hidden, state = self._read(tokens[:, None], state)  # [N, 1, D]
        return hidden[:, 0], state

    def reorder(self, state: LSTMState, rows: Tensor, sentences: Tensor | None = None) -> LSTMState:
        return LSTMState(*(part.index_select(1, rows) for part in state))
