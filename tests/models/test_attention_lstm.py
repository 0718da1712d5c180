"""The LSTM model against its equations, written out."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fastmos.errors import InputError
from fastmos.models import AttentionLSTM, uniform_


@torch.no_grad()
def test_equations(make_batch: Callable[..., Any]) -> None:
    model = AttentionLSTM(11, 11, hidden_size=8, embedding_size=5).double().eval()
    uniform_(model, 0.5)
    batch = make_batch([(4, 3)])
    encoder = model.encoder

    def read(tokens: list[int], suffix: str) -> tuple[list[torch.Tensor], torch.Tensor]:
        weights = [getattr(encoder, f"{name}_l0{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        hidden = cell = torch.zeros(1, 4, dtype=torch.float64)
        outputs = []
        for token in tokens:
            hidden, cell = torch.lstm_cell(model.source_embedding.weight[token][None], (hidden, cell), *weights)
            outputs.append(hidden)
        return outputs, cell

    source = batch.source[0].tolist()
    forward, forward_cell = read(source, "")
    backward, backward_cell = read(source[::-1], "_reverse")
    memory = torch.cat([torch.cat(forward), torch.cat(backward[::-1])], 1)  # [S, D]
    hidden = torch.cat([forward[-1], backward[-1]], 1)
    cell = torch.cat([forward_cell, backward_cell], 1)
    weights = [getattr(model.decoder, f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    expected = []
    for token in batch.inputs[0]:
        hidden, cell = torch.lstm_cell(model.embedding.weight[token][None], (hidden, cell), *weights)
        context = (memory @ hidden[0]).softmax(0) @ memory
        expected.append(torch.tanh(model.combine.weight @ torch.cat([hidden[0], context])))
    torch.testing.assert_close(model(batch)[0][0], torch.stack(expected))


def test_dropout_acts_on_g_only(make_batch: Callable[..., Any]) -> None:
    model, batch = AttentionLSTM(11, 11, hidden_size=64, dropout=0.5), make_batch([(4, 30)])
    kept = model.eval()(batch)[0]
    dropped = model.train()(batch)[0]
    assert 0.3 < (dropped == 0).float().mean() < 0.7
    torch.testing.assert_close(dropped[dropped != 0], 2 * kept[dropped != 0])


def test_odd_width_is_refused() -> None:
    with pytest.raises(InputError, match="hidden_size is 7; it must be even"):
        AttentionLSTM(11, 11, hidden_size=7)
