"""Perplexity by a sliding window: every token but the first counts once, with the context that the window gives it."""

import math

import pytest
import torch

pytest.importorskip("transformers")
from fastmos.errors import InputError
from fastmos.integrations.huggingface import sliding_window
from tests.integrations.tiny_models import V, build, mixture

LENGTH = 23


@pytest.mark.parametrize(
    ("window", "stride"), [(8, 7), (8, 3), (8, 1), (12, None), (32, 4), (LENGTH, 5), (22, 21), (2, 1)]
)
@pytest.mark.parametrize("plain", [False, True])
def test_every_token_counts_once(window: int, stride: int | None, plain: bool) -> None:
    model = mixture("gpt2")
    if plain:
        model_class, config = build("gpt2")
        model = model_class(config).eval()
    tokens = torch.randint(V, (LENGTH,))
    found = sliding_window(model, tokens, window, stride)
    expected, begin, step = [], 0, stride or window - 1
    for token in range(1, LENGTH):  # the first window that holds it
        while begin + window <= token:
            begin += step
        log_probs = model(tokens[None, begin:token]).logits.log_softmax(-1)[0, -1]
        expected.append(-float(log_probs[tokens[token]]))
    assert found.tokens == len(expected) == LENGTH - 1
    assert found.nll == pytest.approx(sum(expected) / len(expected), rel=1e-5)
    assert found.perplexity == pytest.approx(math.exp(found.nll))


def test_an_untrained_model_is_as_good_as_chance() -> None:
    model = mixture("gpt2")
    torch.nn.init.zeros_(model.lm_head.weight)
    assert sliding_window(model, torch.randint(V, (50,)), 16, 8).perplexity == pytest.approx(V)


def test_a_model_in_training_is_read_without_dropout_and_trains_on() -> None:
    model, tokens = mixture("gpt2"), torch.randint(V, (50,))
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.5
    exact = sliding_window(model.eval(), tokens, 16).nll
    assert sliding_window(model.train(), tokens, 16).nll == exact
    assert model.training


@pytest.mark.parametrize(
    ("tokens", "window", "stride"), [((1,), 4, 2), ((2, 4), 4, 2), ((9,), 1, 1), ((9,), 4, 4), ((9,), 4, 0)]
)
def test_what_cannot_slide_is_refused(tokens: tuple[int, ...], window: int, stride: int) -> None:
    with pytest.raises(InputError, match=f"a sliding window of {window} tokens that moves by {stride}"):
        sliding_window(mixture("gpt2"), torch.zeros(tokens, dtype=torch.long), window, stride)
