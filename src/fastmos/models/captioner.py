"""The image captioner NIC (Vinyals et al. 2015): an LSTM whose first input is the image, which it sees but once."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fastmos.data.batches import Batch
from fastmos.heads.products import Linear
from fastmos.models.language_model import LSTMState
from fastmos.models.lstm import LSTM


class Captioner(nn.Module):
    """Projected features, then the embedded tokens, through an LSTM; g is its output, with dropout.

    The features' mean over the training images is taken off first. What all images share, such as a white ground or the
    positive mean of a rectifier's outputs, would else grow to shut the LSTM's gates, and the image would not be seen.
    """

    def __init__(
        self,
        vocab_size: int,
        feature_size: int,
        *,
        hidden_size: int = 512,
        embedding_size: int = 0,
        num_layers: int = 1,
        dropout: float = 0.5,
        embedding_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        embedding_size = embedding_size or hidden_size
        self.hidden_size, self.num_layers = hidden_size, num_layers
        self.dropout, self.embedding_dropout = dropout, embedding_dropout
        self.mean = nn.Parameter(torch.zeros(feature_size), requires_grad=False)  # saved with the weights, not learned
        self.image = Linear(feature_size, embedding_size)
        self.embedding = nn.Embedding(vocab_size, embedding_size)
        between = dropout if num_layers > 1 else 0.0
        self.lstm = LSTM(embedding_size, hidden_size, num_layers, batch_first=True, dropout=between)

    def forward(self, batch: Batch, state: None = None) -> tuple[Tensor, None]:
        inputs = torch.cat([self._image(batch), self._embed(batch.inputs)], 1)  # [B, 1 + T, E]
        hidden, _ = self.lstm(inputs)  # [B, 1 + T, D]
        return F.dropout(hidden[:, 1:], self.dropout, self.training), None

    def start(self, batch: Batch) -> LSTMState:
        """Look at the images."""
        _, state = self.lstm(self._image(batch))
        return LSTMState(*state)

    def step(self, tokens: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        hidden, after = self.lstm(self._embed(tokens[:, None]), state)  # [N, 1, D]
        return F.dropout(hidden[:, 0], self.dropout, self.training), LSTMState(*after)

    def reorder(self, state: LSTMState, rows: Tensor, sentences: Tensor | None = None) -> LSTMState:
        return LSTMState(*(part.index_select(1, rows) for part in state))

    def _image(self, batch: Batch) -> Tensor:
        assert batch.features is not None, "this model captions images: its batches need features"
        projected = self.image(batch.features - self.mean)[:, None]  # [B, 1, E]
        return F.dropout(projected, self.embedding_dropout, self.training)

    def _embed(self, tokens: Tensor) -> Tensor:
        return F.dropout(self.embedding(tokens), self.embedding_dropout, self.training)
