"""LSTM encoder and decoder with dot-product attention: the translation model of the paper's IWSLT experiments."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from fastmos.data.batches import Batch
from fastmos.errors import InputError
from fastmos.heads.products import Linear, both_passes
from fastmos.models.lstm import LSTM
from fastmos.tokenizers import PAD


class AttentionState(NamedTuple):
    """The encoded sentences, and where the decoder stands in each row."""

    memory: Tensor  # [B, S, D] encoder outputs, once a sentence
    padding: Tensor  # [B, 1, S] 0 at source tokens, -inf at padding: added to the attention scores
    hidden: Tensor  # [layers, N, D]
    cell: Tensor  # [layers, N, D]
    fed: Tensor | None  # [N, D] the last g, for input feeding


class AttentionLSTM(nn.Module):
    """g = tanh(W [hidden; context]), the context being the encoder outputs weighted by softmax(hidden . outputs)."""

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        hidden_size: int = 256,
        embedding_size: int = 0,
        num_layers: int = 1,
        dropout: float = 0.3,
        embedding_dropout: float = 0.0,
        input_feeding: bool = False,
    ) -> None:
        super().__init__()
        if hidden_size % 2:
            raise InputError(f"hidden_size is {hidden_size}; it must be even, half of it for each encoder direction")
        embedding_size = embedding_size or hidden_size
        between = dropout if num_layers > 1 else 0.0
        self.hidden_size, self.dropout, self.embedding_dropout = hidden_size, dropout, embedding_dropout
        self.input_feeding = input_feeding
        self.source_embedding = nn.Embedding(source_vocab_size, embedding_size)
        self.encoder = nn.LSTM(
            embedding_size, hidden_size // 2, num_layers, batch_first=True, dropout=between, bidirectional=True
        )
        self.embedding = nn.Embedding(target_vocab_size, embedding_size)
        fed = hidden_size if input_feeding else 0
        self.decoder = LSTM(embedding_size + fed, hidden_size, num_layers, batch_first=True, dropout=between)
        self.combine = Linear(2 * hidden_size, hidden_size, bias=False)

    def forward(self, batch: Batch, state: None = None) -> tuple[Tensor, None]:
        start = self.start(batch)
        embedded = self._embed(self.embedding, batch.inputs)  # [B, T, E]
        if not self.input_feeding:
            return self._decode(embedded, start)[0], None
        steps = []
        for time in range(embedded.shape[1]):
            g, start = self._decode(embedded[:, time : time + 1], start)  # [B, 1, D]
            steps.append(g)
        return torch.cat(steps, 1), None  # [B, T, D]

    def start(self, batch: Batch) -> AttentionState:
        """Encode the sources; the encoder's final states, both directions side by side, start the decoder."""
        assert batch.source is not None and batch.source_lengths is not None, (
            "this model translates: its batches need a source"
        )
        real = batch.source != PAD  # [B, S]
        embedded = self._embed(self.source_embedding, batch.source)
        # Packed, because the backward direction must start at each sentence's last token, not in its padding.
        packed = pack_padded_sequence(embedded, batch.source_lengths, batch_first=True, enforce_sorted=False)

        def encode(tokens: Tensor) -> tuple[Tensor, ...]:
            outputs, final = self.encoder(packed._replace(data=tokens))
            return outputs.data, *final

        outputs, *final = both_passes(encode, [packed.data], list(self.encoder.parameters()), rows=len(real))
        memory, _ = pad_packed_sequence(packed._replace(data=outputs), batch_first=True, total_length=real.shape[1])
        padding = memory.new_zeros(real.shape).masked_fill_(~real, -torch.inf)[:, None]
        hidden, cell = (part.view(-1, 2, *part.shape[1:]).transpose(1, 2).flatten(2) for part in final)  # [L, B, D]
        return AttentionState(
            memory, padding, hidden, cell, torch.zeros_like(hidden[0]) if self.input_feeding else None
        )

    def step(self, tokens: Tensor, state: AttentionState) -> tuple[Tensor, AttentionState]:
        g, state = self._decode(self._embed(self.embedding, tokens[:, None]), state)  # [N, 1, D]
        return g[:, 0], state

    def _decode(self, embedded: Tensor, state: AttentionState) -> tuple[Tensor, AttentionState]:
        """Read embedded tokens [N, T, E] from a state on (one at a time with input feeding, T = 1)."""
        if state.fed is not None:
            embedded = torch.cat([embedded, state.fed[:, None]], 2)
        hidden, (last, cell) = self.decoder(embedded, (state.hidden.contiguous(), state.cell.contiguous()))  # [N, T, D]
        query = hidden.reshape(
            len(state.memory), -1, self.hidden_size
        )  # [B, N/B T, D] the rows of a sentence share a memory
        scores = torch.baddbmm(state.padding, query, state.memory.transpose(1, 2))  # [B, N/B T, S]
        context = torch.bmm(scores.softmax(2), state.memory).view_as(hidden)  # [N, T, D]
        g = torch.tanh(self.combine(torch.cat([hidden, context], 2)))
        g = F.dropout(g, self.dropout, self.training)  # [N, T, D]
        fed = None if state.fed is None else g[:, -1]
        return g, AttentionState(state.memory, state.padding, last, cell, fed)

    def _embed(self, embedding: nn.Module, tokens: Tensor) -> Tensor:
        return F.dropout(embedding(tokens), self.embedding_dropout, self.training)

    def reorder(self, state: AttentionState, rows: Tensor, sentences: Tensor | None = None) -> AttentionState:
        memory, padding = state.memory, state.padding
        if sentences is not None:
            memory, padding = memory.index_select(0, sentences), padding.index_select(0, sentences)
        hidden, cell = state.hidden.index_select(1, rows), state.cell.index_select(1, rows)
        return AttentionState(memory, padding, hidden, cell, None if state.fed is None else state.fed[rows])
