"""What a model does inside for one sentence: the weights of its mixture, and where it looks."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from fastmos.data import Batch, EncodedText, SentenceBatches
from fastmos.heads import MixtureOfSoftmaxes
from fastmos.models import AttentionLSTM
from fastmos.training.decoding import search_lines
from fastmos.training.run import Run


@dataclass(frozen=True)
class Inside:
    """A translation, code by code."""

    source: list[str]  # [S] codes as text, eos included
    output: list[str]  # [T]
    weights: list[list[float]] | None  # [T, K] of the softmaxes; None for one softmax
    attention: list[list[float]] | None  # [T, S]; None where the model has no one attention

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@torch.no_grad()
def look_inside(run: Run, line: str) -> Inside:
    """Translate a line, and write down what the model did."""
    assert run.source is not None, "only a translation run reads a source"
    source = run.source.encode(line)
    best = search_lines(run.model, run.target, [source], run.config.search, run.device)[0][0]
    target = [code for code in best.codes if code != run.target.eos]
    pair = EncodedText.of([target]), EncodedText.of([source])
    batch = next(SentenceBatches(*pair, sentences=1, shuffle=False, keep_empty=True).epoch(0)).to(run.device)
    hidden, _ = run.model.body(batch)  # [1, T, D]
    head, body = run.model.head, run.model.body
    weights = None
    if isinstance(head, MixtureOfSoftmaxes):
        weights = head.prior(hidden[0]).double().softmax(-1)
    attention = None
    if isinstance(body, AttentionLSTM) and not body.input_feeding:
        attention = _attention(body, batch)[0]
    return Inside(
        [run.source.token(code) for code in [*source, run.source.eos]],
        [run.target.token(code) for code in [*target, run.target.eos]],
        None if weights is None else _rounded(weights),
        None if attention is None else _rounded(attention),
    )


def _attention(body: AttentionLSTM, batch: Batch) -> Tensor:
    """The weights [B, T, S] with which the decoder takes up the encoder's outputs."""
    start = body.start(batch)
    hidden, _ = body.decoder(body.embedding(batch.inputs), (start.hidden.contiguous(), start.cell.contiguous()))
    return torch.baddbmm(start.padding, hidden, start.memory.transpose(1, 2)).softmax(2)


def _rounded(matrix: Tensor) -> list[list[float]]:
    return [[round(value, 4) for value in row] for row in matrix.tolist()]
