"""What a model does inside, token by token: the weights of its mixture, what each softmax would say, its attention."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from fastmos.data.batches import Batch, SentenceBatches
from fastmos.data.tokenized import TokenizedText
from fastmos.heads import Head
from fastmos.inference.run import Run
from fastmos.models import AttentionLSTM, Transformer
from fastmos.tokenizers import Tokenizer

TOP = 5  # tokens shown of a distribution
TOKENS = 16  # whose distributions are in memory at once, one of each softmax
Guess = tuple[str, float]  # a token and its probability


@dataclass(frozen=True)
class Inside:
    """A translation, token by token."""

    source: list[str]  # [S] tokens as text, eos included
    output: list[str]  # [T]
    weights: list[list[float]] | None  # [T, K] of the mixture; None for one softmax
    attention: list[list[float]] | None  # [T, S]; None where the model has none

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Choice:
    """A token of an output, and what the mixture and each of its softmaxes would say in its place."""

    token: str
    ends_word: bool
    log_prob: float
    prior: list[float]  # [K] of the softmaxes, before the token is known
    responsibility: list[float]  # [K] the share that each softmax has in the token's probability
    mixture: list[Guess]  # the likeliest tokens
    softmaxes: list[list[Guess]]  # [K] the same of each softmax; empty where there is but one


@dataclass(frozen=True)
class Explanation:
    """How an output came about."""

    source: list[str]  # [S] tokens as text, eos included; empty without a source
    choices: list[Choice]  # [T] the last one is eos: what it shows may follow the output
    attention: list[list[float]] | None  # [T, S]; None where the model has none


@torch.no_grad()
def look_inside(run: Run, line: str) -> Inside:
    """Translate a line, and record what the model did."""
    best = run.translate([line], nbest=1)[0][0]
    source = _source(run, line)
    batch = next(_batches(run, [best.tokens], source, None)).to(run.device)
    hidden, attention = _read(run, batch)
    head = run.model.head
    assert isinstance(head, Head) and source is not None
    weights = head.mixture_weights(hidden[0]).double() if head.mixtures > 1 else None
    return Inside(
        _shown(source, run.task.tokenizers[0]),
        _shown(best.tokens, run.target),
        None if weights is None else _rounded(weights),
        None if attention is None else _rounded(attention[0]),
    )


@torch.no_grad()
def explain(
    run: Run, outputs: Sequence[Sequence[int]], *, line: str | None = None, features: Tensor | None = None
) -> list[Explanation]:
    """How a run came, or would come, to each of these outputs (tokens without eos) for a line, an image, or nothing.

    Features [F] are those that the run's backbone made of the image.
    """
    source = None if line is None else _source(run, line)
    found: dict[int, Explanation] = {}
    head = run.model.head
    assert isinstance(head, Head)
    for batch in _batches(run, outputs, source, features):
        hidden, attention = _read(run, batch.to(run.device))
        for row, number in enumerate(batch.index.tolist()):
            tokens = [*outputs[number], run.target.eos]
            weights = None if attention is None else _rounded(attention[row, : len(tokens), : len(source or ()) + 1])
            choices = _choices(head, hidden[row, : len(tokens)], tokens, run.target)
            shown = [] if source is None else _shown(source, run.task.tokenizers[0])
            found[number] = Explanation(shown, choices, weights)
    return [found[number] for number in range(len(outputs))]


def _choices(head: Head, hidden: Tensor, tokens: list[int], tokenizer: Tokenizer) -> list[Choice]:
    """Of hidden states [T, D] and the tokens that follow them."""
    starts = tokenizer.word_starts(torch.tensor([tokens]))[0].tolist()
    ends = [*starts[1:], True]
    choices: list[Choice] = []
    for begin in range(0, len(tokens), TOKENS):
        here = slice(begin, begin + TOKENS)
        choices += _choices_at(head, hidden[here], tokens[here], ends[here], tokenizer)
    return choices


def _choices_at(head: Head, hidden: Tensor, tokens: list[int], ends: list[bool], tokenizer: Tokenizer) -> list[Choice]:
    log_prior, components = head.component_log_probs(hidden)  # [n, K], [n, K, V]
    whole = (log_prior[..., None] + components).logsumexp(1)  # [n, V]
    chosen = torch.tensor(tokens, device=hidden.device)[:, None]  # [n, 1]
    log_probs, count = whole.gather(1, chosen), components.shape[1]  # [n, 1]
    joint = log_prior + components.gather(2, chosen[..., None].expand(-1, count, 1))[..., 0]  # [n, K]
    each = zip(
        map(tokenizer.id_to_token, tokens),
        ends,
        log_probs[:, 0].tolist(),
        _rounded(log_prior.exp()),
        _rounded((joint - log_probs).exp().nan_to_num()),  # a token that all exclude
        _top(whole, tokenizer),
        strict=True,
    )
    apart = _top(components.flatten(0, 1), tokenizer) if count > 1 else []
    return [
        Choice(token, end, log_prob, prior, share, top, apart[row * count : (row + 1) * count])
        for row, (token, end, log_prob, prior, share, top) in enumerate(each)
    ]


def _top(log_probs: Tensor, tokenizer: Tokenizer) -> list[list[Guess]]:
    """The likeliest tokens of distributions [N, V]."""
    best, tokens = log_probs.topk(min(TOP, log_probs.shape[1]))
    return [
        [(tokenizer.id_to_token(token), round(prob, 4)) for token, prob in zip(row, probs, strict=True)]
        for row, probs in zip(tokens.tolist(), best.exp().tolist(), strict=True)
    ]


def _source(run: Run, line: str) -> list[int]:
    """The tokens of a source line that the model sees."""
    return run.task.tokenizers[0].encode(line)[: run.config.data.max_length]


def _batches(
    run: Run, outputs: Sequence[Sequence[int]], source: list[int] | None, features: Tensor | None
) -> Iterator[Batch]:
    """The outputs as targets, with one source or image for all."""
    sources = None if source is None else TokenizedText.of([source] * len(outputs))

    def repeated(rows: Any) -> Tensor:
        assert features is not None
        return features.expand(len(rows), -1)

    given = None if features is None else repeated
    batches = SentenceBatches(
        TokenizedText.of(outputs),
        sources,
        max_sentences=max(1, len(outputs)),
        shuffle=False,
        keep_empty=True,
        features=given,
    )
    return batches.epoch(0)


def _shown(tokens: Sequence[int], tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.id_to_token(token) for token in [*tokens, tokenizer.eos]]


def _read(run: Run, batch: Batch) -> tuple[Tensor, Tensor | None]:
    """The hidden states [B, T, D] of a batch, and the weights [B, T, S] with which the decoder reads the source."""
    body = run.model.body
    hidden: Tensor = body(batch)[0]
    if isinstance(body, AttentionLSTM):
        return hidden, _lstm_attention(body, batch)
    return hidden, _transformer_attention(body, batch) if isinstance(body, Transformer) else None


def _lstm_attention(body: AttentionLSTM, batch: Batch) -> Tensor:
    """Step by step, as an LSTM that is fed its last output has to go."""
    state, queries = body.start(batch), []
    for tokens in batch.inputs.unbind(1):
        _, state = body.step(tokens, state)
        queries.append(state.hidden[-1])  # [B, D]
    return torch.baddbmm(state.padding, torch.stack(queries, 1), state.memory.transpose(1, 2)).softmax(2)


def _transformer_attention(body: Transformer, batch: Batch) -> Tensor:
    """Of the last layer, the mean over its heads: its queries and keys, as in its forward pass."""
    memory, mask = body._encode(batch)  # [B, S, D], [B, 1, 1, S]
    *before, last = body._decoder()
    x = body._embed(body.embedding, batch.inputs)  # [B, T, D]
    for layer in before:
        x = layer(x, layer.source.keys_values(memory), mask)
    queries, keys_values = last.own.of_one_text(last.before(x, 0))
    x = last.after(x, last.own(queries, keys_values, causal=True), 0)
    queries = last.source.queries(last.before(x, 1))  # [B, H, T, D/H]
    keys, _ = last.source.keys_values(memory)  # [B, H, S, D/H]
    scores = queries @ keys.transpose(2, 3) / queries.shape[3] ** 0.5  # [B, H, T, S]
    weights: Tensor = scores.masked_fill(~mask, -torch.inf).softmax(3).mean(1)
    return weights


def _rounded(matrix: Tensor) -> list[list[float]]:
    return [[round(value, 4) for value in row] for row in matrix.tolist()]
