"""What a translation model does inside for one sentence: the weights of its mixture, and its attention."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from fastmos.data.batches import Batch
from fastmos.data.tokenized import TokenizedText
from fastmos.heads import Head
from fastmos.inference.run import Run
from fastmos.models import AttentionLSTM
from fastmos.tasks.dataset import Dataset
from fastmos.tokenizers import Tokenizer


@dataclass(frozen=True)
class Inside:
    """A translation, token by token."""

    source: list[str]  # [S] tokens as text, eos included
    output: list[str]  # [T]
    weights: list[list[float]] | None  # [T, K] of the softmaxes; None for one softmax
    attention: list[list[float]] | None  # [T, S]; None where the model has no single attention

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@torch.no_grad()
def look_inside(run: Run, line: str) -> Inside:
    """Translate a line, and record what the model did."""
    source_tokenizer, target_tokenizer = run.task.tokenizers
    source = source_tokenizer.encode(line)[: run.config.data.max_length]
    best = run.task.translate(run.model, [line], run.config.search, 1, "cut")[0][0]
    target = [token for token in best.tokens if token != target_tokenizer.eos]
    pair = Dataset(TokenizedText.of([target]), TokenizedText.of([source]))
    batch = next(pair.batches(max_sentences=1, shuffle=False, keep_empty=True).epoch(0)).to(run.device)
    hidden, _ = run.model.body(batch)  # [1, T, D]
    head, body = run.model.head, run.model.body
    assert isinstance(head, Head)
    weights = head.mixture_weights(hidden[0]).double() if head.mixtures > 1 else None
    attention = _attention(body, batch)[0] if isinstance(body, AttentionLSTM) and not body.input_feeding else None
    return Inside(
        _shown(source, source_tokenizer),
        _shown(target, target_tokenizer),
        None if weights is None else _rounded(weights),
        None if attention is None else _rounded(attention),
    )


def _shown(tokens: list[int], tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.id_to_token(token) for token in [*tokens, tokenizer.eos]]


def _attention(body: AttentionLSTM, batch: Batch) -> Tensor:
    """The weights [B, T, S] with which the decoder reads the encoder's outputs."""
    start = body.start(batch)
    hidden, _ = body.decoder(body.embedding(batch.inputs), (start.hidden.contiguous(), start.cell.contiguous()))
    return torch.baddbmm(start.padding, hidden, start.memory.transpose(1, 2)).softmax(2)


def _rounded(matrix: Tensor) -> list[list[float]]:
    return [[round(value, 4) for value in row] for row in matrix.tolist()]
