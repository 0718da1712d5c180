"""Perplexity of a long text under a model that reads a limited number of tokens."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fastmos.errors import InputError


class Likelihood(NamedTuple):
    """What a model says of a text."""

    nll: float  # mean negative log-likelihood of a token
    tokens: int  # that were predicted

    @property
    def perplexity(self) -> float:
        return math.exp(self.nll)


@torch.no_grad()
def sliding_window(model: Any, tokens: Tensor, window: int, stride: int | None = None) -> Likelihood:
    """Likelihood of tokens [T] under a causal model, without logits: every token but the first counts once.

    The model reads `window` tokens at a time, and the next `window` begin `stride` tokens later (as late as they can
    unless given): with a small stride every token has a long context, at the price of window / stride as much work.
    It reads without dropout.
    """
    stride = window - 1 if stride is None else stride
    if tokens.ndim != 1 or len(tokens) < 2 or not 1 <= stride < window:
        raise InputError(
            f"a sliding window of {window} tokens that moves by {stride} was to read tokens {list(tokens.shape)}; "
            "it needs at least 2 tokens in one row, and a stride from 1 to window - 1"
        )
    total, count, predicted, training = 0.0, 0, 1, model.training  # tokens before `predicted` are done
    model.eval()
    for begin in range(0, len(tokens), stride):
        some = tokens[begin : begin + window][None].to(model.device)
        labels = some.clone()
        labels[:, : max(0, predicted - begin)] = -100
        new = min(begin + window, len(tokens)) - predicted
        total += float(model(input_ids=some, labels=labels).loss) * new
        count, predicted = count + new, predicted + new
        if predicted == len(tokens):
            break
    model.train(training)
    return Likelihood(total / count, count)
