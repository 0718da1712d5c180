"""Models packed for search: the log-probabilities and hypotheses of the model itself; with int8, nearly."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fastmos.data.batches import decoding_batch
from fastmos.errors import InputError
from fastmos.heads import (
    Mixtape,
    MixtureOfContexts,
    MixtureOfSoftmaxes,
    PartialLogProbs,
    SharedTailMixture,
    ShortlistMixture,
    Softmax,
    products,
)
from fastmos.models import AttentionLSTM, Captioner, Generator, LanguageModel, Transformer, packed, transformer
from fastmos.search import beam_search, sample
from fastmos.tokenizers import WordTokenizer

V, D = 83, 128  # of no round size; wide enough that every weight is packed
BODIES: dict[str, Callable[[], nn.Module]] = {
    "lstm": lambda: AttentionLSTM(V, V, hidden_size=D, num_layers=2, input_feeding=True),
    "transformer": lambda: Transformer(V, V, hidden_size=D, ffn_size=2 * D, num_heads=4, num_layers=2),
    "pre-norm": lambda: Transformer(V, V, hidden_size=D, ffn_size=2 * D, num_heads=4, num_layers=2, norm="pre"),
    "language model": lambda: LanguageModel(V, hidden_size=D, num_layers=2),
    "captioner": lambda: Captioner(V, 12, hidden_size=D, embedding_size=D // 2),
}
HEADS: dict[str, Callable[[], nn.Module]] = {
    "softmax": lambda: Softmax(D, V),
    "softmax without bias": lambda: Softmax(D, V, bias=False, embedding_size=D // 2, softcap=5.0),
    "mixture": lambda: MixtureOfSoftmaxes(D, V, 3, contexts="residual"),
    "capped mixture": lambda: MixtureOfSoftmaxes(D, V, 3, softcap=5.0),
    "contexts": lambda: MixtureOfContexts(D, V, 3),
    "shortlist": lambda: ShortlistMixture(D, V, 3, 20),
    "shortlist of ids": lambda: ShortlistMixture(D, V, 3, list(range(1, 60, 2)), bias=False),
    "shared tail": lambda: SharedTailMixture(D, V, 3, 20),
    "mixtape": lambda: Mixtape(D, V),
}
WORDS = WordTokenizer([f"w{rank}" for rank in range(V - 4)])


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where oneDNN is the faster one."""
    monkeypatch.setattr(products, "_choice", products.Choice(100, 1e-6, 200, 1e-6))
    monkeypatch.setattr(products, "_enabled", True)


def make(body: str, head: str) -> Generator:
    model = Generator(BODIES[body](), HEADS[head]()).eval()
    with torch.no_grad():
        for name, parameter in model.head.named_parameters():
            if name == "weight":
                parameter.mul_(4)  # sharper, so that rounding decides nothing
            elif name == "bias":
                parameter.normal_()
    return model


def batch_for(body: str) -> Any:
    lines = torch.randint(4, V, (4, 7)).tolist()
    batch = decoding_batch([line[: 2 + index] for index, line in enumerate(lines)])
    batch.features = torch.randn(4, 12) if body == "captioner" else None
    return batch


def whole(given: Tensor | PartialLogProbs) -> Tensor:
    if isinstance(given, PartialLogProbs):
        given.complete(torch.arange(len(given.known)))
        return given.known
    return given


@torch.inference_mode()
def steps(model: Generator, batch: Any) -> Tensor:
    """Log-probabilities of three steps, in which beams of two change places and a sentence leaves."""
    state, found = model.start(batch), []
    state = model.reorder(state, torch.arange(4).repeat_interleave(2))
    for time, rows in enumerate((torch.tensor([1, 0, 2, 2, 5, 4, 7, 7]), torch.arange(6), torch.arange(6))):
        tokens = (torch.arange(8 if time == 0 else 6) * 7 + 5 * time) % (V - 4) + 4
        log_probs, state = model.step(tokens, state)
        found.append(whole(log_probs))
        state = (
            model.reorder(state, rows, torch.arange(3) if time == 1 else None)
            if time
            else model.reorder(state, rows[:6], torch.arange(3))
        )
    return torch.cat(found)


@pytest.mark.parametrize("head", list(HEADS))
@pytest.mark.parametrize("body", list(BODIES))
def test_log_probs_are_those_of_the_model(body: str, head: str) -> None:
    model, batch = make(body, head), batch_for(body)
    expected = steps(model, batch)
    torch.testing.assert_close(steps(packed(model), batch), expected, rtol=1e-4, atol=1e-4)
    rounded = steps(packed(model, int8=True), batch)
    assert 0 < (rounded.exp() - expected.exp()).abs().sum(1).mean() < 0.1  # of at most 2
    torch.testing.assert_close(steps(model, batch), expected)  # it stays as it was


@pytest.mark.parametrize("head", ["softmax", "mixture", "shortlist"])
@pytest.mark.parametrize("body", ["lstm", "transformer"])
def test_searches_find_the_same(body: str, head: str) -> None:
    model, batch = make(body, head), batch_for(body)
    twin = packed(model)
    for found in (
        [beam_search(one, WORDS, batch, beam_size=3, nbest=2, max_length=12) for one in (model, twin)],
        [sample(one, WORDS, batch, seed=3, max_length=12) for one in (model, twin)],
    ):
        ours, theirs = ([hypothesis for line in lines for hypothesis in line] for lines in found)
        assert [one.tokens for one in ours] == [one.tokens for one in theirs]
        assert [one.log_prob for one in ours] == pytest.approx([one.log_prob for one in theirs], abs=1e-3)


def test_a_line_of_int8_does_not_depend_on_its_batch_mates() -> None:
    weight, bias, rows = torch.randn(V, D), torch.randn(V), torch.randn(6, D)
    product = products.PackedProduct(weight, bias, int8=True)
    rows[3] *= 1000
    rows[4] = 0
    together = product(rows)
    assert torch.equal(together, torch.cat([product(row[None]) for row in rows]))
    assert torch.equal(together[4], bias)
    exact = rows @ weight.t() + bias
    error = (together - exact).abs().amax(1) / exact.abs().amax(1)
    assert 0 < error.max() < 0.02


def test_probabilities_that_underflow_are_summed_in_log_space() -> None:
    head = MixtureOfSoftmaxes(D, V, 3)
    assert head.bias is not None
    with torch.no_grad():
        head.bias[5], head.bias[6] = -300.0, -torch.inf
    hidden = torch.randn(4, D)
    model = Generator(BODIES["lstm"](), head).eval()
    with torch.no_grad():
        ours, expected = packed(model).head(hidden), head(hidden)
    assert torch.isfinite(expected[:, 5]).all() and (expected[:, 6] == -torch.inf).all()
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("head", [MixtureOfSoftmaxes, ShortlistMixture, SharedTailMixture])
def test_a_model_packed_in_training_has_no_dropout(head: Callable[..., nn.Module]) -> None:
    listed = () if head is MixtureOfSoftmaxes else (20,)
    model, hidden = Generator(BODIES["lstm"](), head(D, V, 3, *listed, dropout=0.5)), torch.randn(4, D)
    assert model.training
    twin = packed(model)
    first, second = (whole(twin.head(hidden)) for _ in range(2))
    assert torch.equal(first, second) and model.head.training


def test_a_long_search_leaves_the_model_as_it_is() -> None:
    model, batch = make("transformer", "softmax"), batch_for("transformer")
    with torch.no_grad():
        model.head.bias[WORDS.eos] = -1e9  # type: ignore[operator]
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    beam_search(packed(model), WORDS, batch, beam_size=1, max_length=transformer.POSITIONS + 2)
    after = dict(model.named_buffers())
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    assert not any(buffer.is_inference() for buffer in after.values())


def test_what_cannot_be_packed_stays_as_it_is() -> None:
    model = make("lstm", "softmax").double()
    assert packed(model) is model
    with pytest.raises(InputError, match="int8 is for models of float32 on a CPU"):
        packed(model, int8=True)


def test_a_full_cache_drops_what_no_row_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = make("transformer", "softmax"), batch_for("transformer")
    sizes = []
    with_room = transformer._with_room

    def spy(state: Any, rows: int) -> Any:
        after = with_room(state, rows)
        sizes.append((state.used, after.used, after.cache.shape[4]))
        return after

    expected = beam_search(model, WORDS, batch, beam_size=3, nbest=3, max_length=30)
    monkeypatch.setattr(transformer, "FIRST_SLOTS", 32)
    monkeypatch.setattr(transformer, "_with_room", spy)
    found = beam_search(model, WORDS, batch, beam_size=3, nbest=3, max_length=30)
    assert [[one.tokens for one in line] for line in found] == [[one.tokens for one in line] for line in expected]
    assert any(after < before for before, after, _ in sizes)  # slots were dropped
    assert max(size for *_, size in sizes) <= 64  # of the 3 * 31 that were filled
