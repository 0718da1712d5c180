"""The heads: equations, interface, tying, dropout, and life inside DDP, torch.compile and autocast."""

import copy
import itertools
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fastmos.heads import (
    HEADS,
    Head,
    HeadOutput,
    LossOptions,
    Mixtape,
    MixtureOfContexts,
    MixtureOfSoftmaxes,
    SharedTailMixture,
    ShortlistMixture,
    Softmax,
    build_head,
    kernel,
    loss,
    nll_reference,
)
from fastmos.heads.mixtape import mixtape_logits
from fastmos.heads.modules import Contexts
from tests.heads.options import own

CASES: dict[str, dict[str, Any]] = {
    **{head_type: {"head_type": head_type} for head_type in HEADS},
    "mos, residual": {"head_type": "mos", "contexts": "residual"},
    "shortlist, residual": {"head_type": "shortlist", "contexts": "residual"},
    "shared-tail, residual": {"head_type": "shared-tail", "contexts": "residual"},
    **{f"{head_type}, capped": {"head_type": head_type, "softcap": 0.7} for head_type in HEADS},
}
EVERY_HEAD = pytest.mark.parametrize("case", list(CASES))
ROOT = Path(__file__).parents[2]


def new_head(case: str, hidden_size: int, vocab_size: int, **options: Any) -> Head:
    """A head of this case that is not at its start."""
    given = CASES[case] | own(CASES[case]["head_type"], mixtures=3, shortlist=[9, 2, 4]) | options
    head = build_head(hidden_size=hidden_size, vocab_size=vocab_size, **given)
    for one in head.parameters():
        if not one.any():
            nn.init.normal_(one)
    return head


def capped(head: Head, logits: Tensor) -> Tensor:
    return logits if head.softcap is None else head.softcap * torch.tanh(logits / head.softcap)


def softmax(head: Head, context: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return capped(head, F.linear(context, weight, bias)).softmax(-1)


def equation(head: Head, g: Tensor) -> Tensor:
    """The probabilities [..., V] by the definition of each head, one component after the other."""
    if isinstance(head, Softmax):
        context = g if head.latent is None else head.latent(g)
        return softmax(head, context, head.weight, head.bias)
    if isinstance(head, Mixtape):
        return mixtape_equation(head, g)
    assert isinstance(head, MixtureOfSoftmaxes)
    pi = (g @ head.prior.weight.t()).softmax(-1)
    h = [torch.tanh(g @ w.t() + b) for w, b in chunks(head.latent)]
    if head.latent.scale is not None:
        base = g if head.latent.base is None else head.latent.base(g)
        h = [base + scale * each for scale, each in zip(head.latent.scale, h, strict=True)]
    if isinstance(head, ShortlistMixture):
        return shortlist_equation(head, g, pi, h)
    if isinstance(head, SharedTailMixture):
        return shared_tail_equation(head, g, pi, h)
    if isinstance(head, MixtureOfContexts):
        mean = sum((pi[..., k : k + 1] * h[k] for k in range(head.mixtures)), torch.zeros_like(h[0]))
        return softmax(head, mean, head.weight, head.bias)
    each = [pi[..., k : k + 1] * softmax(head, h[k], head.weight, head.bias) for k in range(head.mixtures)]
    return torch.stack(each).sum(0)


def mixtape_equation(head: Mixtape, g: Tensor) -> Tensor:
    """Token by token, with gates of its own where it is listed."""
    h = [torch.tanh(g @ w.t() + b) for w, b in chunks(head.latent)]
    q = [torch.tanh(g @ w.t() + b) for w, b in chunks(head.gates)]
    shared, listed = head.shared_gates(g), head.shortlist.ids.tolist()
    logits = []
    for token in range(head.vocab_size):
        gate = [shared[..., j] for j in range(3)]
        if token in listed:
            place = listed.index(token)
            gate = [gate[j] + q[j] @ head.gate_weight[place] + head.gate_bias[j, place] for j in range(3)]
        y1, y2, y3 = (torch.sigmoid(one) for one in gate)
        pi = [y1 * y2, y1 * (1 - y2), (1 - y1) * y3, (1 - y1) * (1 - y3)]
        logits.append(sum((pi[k] * (h[k] @ head.weight[token]) for k in range(4)), torch.zeros(()).to(g)))
    return capped(head, torch.stack(logits, -1) + (0 if head.bias is None else head.bias)).softmax(-1)


def chunks(contexts: Contexts) -> list[tuple[Tensor, Tensor]]:
    """W_k and b_k of every component."""
    count = contexts.mixtures
    return list(zip(contexts.weight.chunk(count), contexts.bias.chunk(count), strict=True))


def shortlist_equation(head: ShortlistMixture, g: Tensor, pi: Tensor, h: list[Tensor]) -> Tensor:
    """Token by token: from the mixture where it is listed, else as a part of the tail."""
    listed = head.shortlist.ids.tolist()
    others = [token for token in range(head.vocab_size) if token not in listed]
    bias = torch.zeros(head.vocab_size).to(g) if head.bias is None else head.bias
    tail_bias = torch.zeros(1).to(g) if head.tail_bias is None else head.tail_bias
    weight, short_bias = torch.cat([head.weight[listed], head.tail_weight]), torch.cat([bias[listed], tail_bias])
    mixture = sum(
        (pi[..., k : k + 1] * softmax(head, h[k], weight, short_bias) for k in range(head.mixtures)),
        torch.zeros(()).to(g),
    )
    rest = softmax(head, tail_context(head.tail_latent, g), head.weight[others], bias[others])
    columns: list[Tensor] = [torch.empty(0)] * head.vocab_size
    for place, token in enumerate(listed):
        columns[token] = mixture[..., place]
    for place, token in enumerate(others):
        columns[token] = mixture[..., -1] * rest[..., place]
    return torch.stack(columns, -1)


def tail_context(latent: Contexts, g: Tensor) -> Tensor:
    context = torch.tanh(F.linear(g, latent.weight, latent.bias))
    return context if latent.scale is None else (g if latent.base is None else latent.base(g)) + latent.scale * context


def shared_tail_equation(head: SharedTailMixture, g: Tensor, pi: Tensor, h: list[Tensor]) -> Tensor:
    """Component by component: a softmax over all tokens, with the logits of h_0 where a token is not listed."""
    bias = torch.zeros(head.vocab_size).to(g) if head.bias is None else head.bias
    others = capped(head, F.linear(tail_context(head.tail_latent, g), head.weight, bias))
    in_tail = torch.ones(head.vocab_size, dtype=torch.bool).index_fill(0, head.shortlist.ids, False)
    each = [others.where(in_tail, capped(head, F.linear(context, head.weight, bias))).softmax(-1) for context in h]
    return (pi[..., None] * torch.stack(each, -2)).sum(-2)


@EVERY_HEAD
@pytest.mark.parametrize("embedding_size", [None, 5])
@pytest.mark.parametrize("bias", [True, False])
def test_log_probabilities_follow_the_equations(case: str, embedding_size: int | None, bias: bool) -> None:
    head = new_head(case, 6, 11, embedding_size=embedding_size, bias=bias).double()
    hidden = torch.randn(2, 4, 6, dtype=torch.float64)
    expected = equation(head, hidden).log()
    torch.testing.assert_close(head(hidden), expected)
    with torch.no_grad():
        torch.testing.assert_close(head(hidden), expected)
        assert head(hidden[:0]).shape == (0, 4, 11)
        assert head(hidden[0, 0]).shape == (11,)


@EVERY_HEAD
@pytest.mark.parametrize("reduction", ["sum", "mean", "none"])
@pytest.mark.parametrize("budget", [1, 2000, 2**25])
def test_loss_is_that_of_the_log_probabilities(
    case: str, reduction: Any, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(kernel.BUFFER_BYTES, "cpu", budget)
    head = new_head(case, 6, 11, embedding_size=5).double()
    hidden = torch.randn(3, 4, 6, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(11, (3, 4))
    targets[1, 2:] = 0
    options: dict[str, Any] = {"ignore_index": 0, "label_smoothing": 0.1, "reduction": reduction}
    output = head(hidden, targets, count_correct=True, **options)
    plain = nll_reference(equation(head, hidden).log(), targets, LossOptions(count_correct=True, **options))
    torch.testing.assert_close(output.loss, plain.loss)
    torch.testing.assert_close(output.nll, plain.nll)
    assert (output.tokens, output.correct) == (plain.tokens, plain.correct)
    inputs = [hidden, *head.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(output.loss.sin().sum(), inputs), torch.autograd.grad(plain.loss.sin().sum(), inputs)
    )
    with torch.inference_mode():
        torch.testing.assert_close(head(hidden, targets, **options).loss, plain.loss)


@EVERY_HEAD
def test_the_softmaxes_by_themselves_mix_to_the_whole(case: str) -> None:
    head = new_head(case, 6, 11, embedding_size=5).double()
    hidden = torch.randn(2, 4, 6, dtype=torch.float64)
    log_prior, log_probs = head.component_log_probs(hidden)
    assert log_probs.shape == (2, 4, head.softmaxes if type(head) is not Mixtape else 1, 11)
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones_like(log_prior))
    torch.testing.assert_close((log_prior[..., None] + log_probs).logsumexp(-2), head(hidden))
    if log_prior.shape[-1] > 1:
        torch.testing.assert_close(log_prior.exp(), head.mixture_weights(hidden))
        assert (log_probs[..., 0, :] - log_probs[..., 1, :]).abs().max() > 1e-3  # they differ


@pytest.fixture(params=[True, False], ids=["picked", "scaled"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignored tokens left out, as on a CPU, and scaled by 0, as elsewhere."""
    monkeypatch.setattr(loss, "_picks", lambda _: request.param)


@EVERY_HEAD
@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("reduction", ["sum", "mean", "none"])
@pytest.mark.parametrize("budget", [1, 2**25])
def test_soft_targets(case: str, reduction: Any, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(kernel.BUFFER_BYTES, "cpu", budget)
    head = new_head(case, 6, 11).double()
    hidden = torch.randn(3, 4, 6, dtype=torch.float64, requires_grad=True)
    inputs = [hidden, *head.parameters()]
    every = torch.randn(3, 4, 11, dtype=torch.float64).softmax(-1)
    some, tokens = torch.rand(3, 4, 3, dtype=torch.float64), torch.randint(11, (3, 4, 3))
    tokens[1, 2:] = -100
    for (targets, probs), amount in itertools.product([(every, None), (tokens, some)], [0.0, 0.1]):
        options = LossOptions(label_smoothing=amount, reduction=reduction)
        output = head.loss(hidden, targets, options, probs)
        plain = nll_reference(equation(head, hidden).log(), targets, options, probs)
        torch.testing.assert_close((output.loss, output.nll, output.tokens), (plain.loss, plain.nll, plain.tokens))
        torch.testing.assert_close(
            torch.autograd.grad(output.loss.sin().sum(), inputs), torch.autograd.grad(plain.loss.sin().sum(), inputs)
        )


def test_soft_targets_are_those_of_torch() -> None:
    head, hidden, probs = Softmax(6, 11), torch.randn(5, 6), torch.randn(5, 11).softmax(-1)
    logits = F.linear(hidden, head.weight, head.bias)
    torch.testing.assert_close(
        head(hidden, probs, label_smoothing=0.1).loss, F.cross_entropy(logits, probs, label_smoothing=0.1)
    )
    best = probs.topk(11)
    torch.testing.assert_close(head(hidden, best.indices, target_probs=best.values).loss, head(hidden, probs).loss)


@EVERY_HEAD
@pytest.mark.parametrize("budget", [1, 2**25])
def test_entropy(case: str, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(kernel.BUFFER_BYTES, "cpu", budget)
    head = new_head(case, 6, 11).double()
    hidden = torch.randn(3, 4, 6, dtype=torch.float64, requires_grad=True)
    inputs = [hidden, *head.parameters()]
    entropy, plain = head.entropy(hidden), torch.special.entr(equation(head, hidden)).sum(-1)
    torch.testing.assert_close(entropy, plain)
    torch.testing.assert_close(
        torch.autograd.grad(entropy.sin().sum(), inputs), torch.autograd.grad(plain.sin().sum(), inputs)
    )
    with torch.no_grad():
        torch.testing.assert_close(head.entropy(hidden[0, 0]), plain[0, 0])


def log_z_squared(head: Head, hidden: Tensor, targets: Tensor, everywhere: bool) -> Tensor:
    """The mean over components of (log Z)^2 [N]; of a tail too, where it is computed."""

    def squared(contexts: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return capped(head, F.linear(contexts, weight, bias)).logsumexp(-1).square().mean(-1)

    if isinstance(head, Mixtape):
        logits = mixtape_logits(*head.parts(hidden), *head._layer().vocabulary)
        return capped(head, logits).logsumexp(-1).square()
    if isinstance(head, ShortlistMixture):
        ids, rest = head.shortlist.ids, head.shortlist.rest
        assert head.bias is not None and head.tail_bias is not None
        weight, bias = torch.cat([head.weight[ids], head.tail_weight]), torch.cat([head.bias[ids], head.tail_bias])
        tail = squared(head.tail_parts(hidden)[0], head.weight[rest], head.bias[rest])
        counted = torch.isin(targets, rest) | everywhere
        return squared(head.parts(hidden)[0], weight, bias) + tail.where(counted, 0.0)
    if isinstance(head, SharedTailMixture):
        contexts, _, context = head.all_parts(hidden)
        logits, others = (capped(head, F.linear(one, head.weight, head.bias)) for one in (contexts, context))
        in_tail = torch.isin(torch.arange(head.vocab_size), head.shortlist.rest)
        return others.where(in_tail, logits).logsumexp(-1).square().mean(-1)
    return squared(head.parts(hidden)[0], head.weight, head.bias)


@EVERY_HEAD
@pytest.mark.parametrize("amount", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_z_loss(case: str, amount: float, reduction: Any) -> None:
    head = new_head(case, 6, 11).double()
    hidden, targets = torch.randn(9, 6, dtype=torch.float64, requires_grad=True), torch.arange(2, 11)
    targets[3] = -100
    inputs = [hidden, *head.parameters()]
    output = head(hidden, targets, z_loss=0.3, label_smoothing=amount, reduction=reduction)
    penalty = log_z_squared(head, hidden, targets, everywhere=amount > 0).where(targets >= 0, 0.0)
    plain = head(hidden, targets, label_smoothing=amount, reduction="none").loss + 0.3 * penalty
    expected = plain if reduction == "none" else plain.sum()
    torch.testing.assert_close(output.loss, expected)
    torch.testing.assert_close(output.nll, head(hidden, targets).nll)
    torch.testing.assert_close(
        torch.autograd.grad(output.loss.sin().sum(), inputs), torch.autograd.grad(expected.sin().sum(), inputs)
    )


@EVERY_HEAD
@pytest.mark.parametrize(
    "vocab_size", [11, 16, 1024]
)  # rows of the result that lie apart, close together, and apart again
def test_chunks_of_log_probabilities_make_no_difference(
    case: str, vocab_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, hidden = new_head(case, 6, vocab_size), torch.randn(7, 6)
    expected = equation(head, hidden).log()
    with torch.no_grad():
        for budget in (2**25, 100 * vocab_size, 1):
            monkeypatch.setitem(kernel.BUFFER_BYTES, "cpu", budget)
            torch.testing.assert_close(head(hidden.view(7, 1, 6)).view(7, vocab_size), expected)


@pytest.mark.parametrize("forbidden", [False, True])
@pytest.mark.parametrize("lowest", [-5.0, -400.0])
def test_log_probabilities_are_right_where_probabilities_underflow(lowest: float, forbidden: bool) -> None:
    head = MixtureOfSoftmaxes(6, 50, 3)
    assert head.bias is not None
    with torch.no_grad():
        head.bias.copy_(torch.linspace(0, lowest, 50))
        if forbidden:
            head.bias[7] = -torch.inf
        hidden = torch.randn(4, 6)
        expected = copy.deepcopy(head).double()(hidden.double())
        torch.testing.assert_close(head(hidden).double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", [case for case in CASES if "capped" not in case])
def test_a_token_of_bias_minus_infinity_is_impossible(case: str) -> None:
    head, hidden = new_head(case, 6, 11), torch.randn(7, 6)
    with torch.no_grad():
        assert head.bias is not None
        head.bias[4] = -torch.inf
        log_probs = head(hidden)
    torch.testing.assert_close(log_probs, head(hidden).detach())
    assert log_probs[:, 4].isneginf().all()
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(7))


@EVERY_HEAD
@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_dropout_of_forward_and_gradient_agree(case: str, reduction: Any) -> None:
    """The derivative along a direction, by differences under the same random masks, is what backward gives."""
    head = new_head(case, 6, 11, dropout=0.5).double()
    hidden = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
    targets, step = torch.randint(11, (5,)), 1e-6 * torch.randn(5, 6, dtype=torch.float64)

    def loss(hidden: Tensor) -> Tensor:
        torch.manual_seed(3)
        output: HeadOutput = head(hidden, targets, reduction=reduction)
        return output.loss.sum()

    (gradient,) = torch.autograd.grad(loss(hidden), hidden)
    with torch.enable_grad():
        difference = loss(hidden + step) - loss(hidden - step)
    torch.testing.assert_close(difference / 2e-6, (gradient * step).sum() / 1e-6, rtol=1e-5, atol=1e-7)
    torch.manual_seed(4)
    assert head(hidden, targets).loss != loss(hidden).sum()
    head.eval()
    assert head(hidden, targets).loss == head(hidden, targets).loss


@EVERY_HEAD
def test_tied_embedding_gathers_both_gradients(case: str) -> None:
    embedding = nn.Embedding(11, 5).double()
    head = new_head(case, 6, 11, embedding_size=5, embedding=embedding, bias=False).double()
    body = nn.Linear(5, 6).double()
    assert head.weight is embedding.weight
    tokens, targets = torch.randint(11, (4,)), torch.randint(11, (4,))
    head(body(embedding(tokens)), targets).loss.backward()
    fast, embedding.weight.grad = embedding.weight.grad, None
    hidden = body(embedding(tokens))
    nll_reference(equation(head, hidden).log(), targets).loss.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(fast, embedding.weight.grad)
    assert head.to(torch.float32).weight is embedding.weight


@EVERY_HEAD
def test_frozen_parts_get_no_gradients(case: str) -> None:
    head = new_head(case, 6, 11, embedding_size=5)
    for name, parameter in head.named_parameters():
        head.requires_grad_(True).zero_grad()
        parameter.requires_grad_(False)
        head(torch.randn(4, 6), torch.arange(4)).loss.backward()
        for other, one in head.named_parameters():
            assert (one.grad is None) == (other == name), (other, name)


@EVERY_HEAD
def test_repr_shows_the_sizes(case: str) -> None:
    head = new_head(case, 6, 11, embedding_size=5, bias=False)
    sizes = f"hidden_size=6, vocab_size=11, mixtures={head.mixtures}, embedding_size=5, bias=False"
    assert f"{type(head).__name__}(\n  {sizes}" in repr(head)


def test_one_mixture_is_not_a_softmax() -> None:
    head, softmax = MixtureOfSoftmaxes(4, 7, 1), Softmax(4, 7)
    softmax.weight = head.weight
    hidden = 3 * torch.randn(5, 4)
    assert not torch.allclose(head(hidden), softmax(hidden))
    torch.testing.assert_close(
        head(hidden), softmax(torch.tanh(F.linear(hidden, head.latent.weight, head.latent.bias)))
    )


def test_usage_tells_a_collapsed_mixture_from_a_live_one() -> None:
    head = MixtureOfSoftmaxes(4, 7, 3)
    with torch.no_grad():
        head.prior.weight.zero_()
        even = head.usage(torch.randn(2, 5, 4))
        head.prior.weight[1] = 1000
        one = head.usage(torch.rand(10, 4) + 1)
        head.prior.weight.copy_(1000 * torch.eye(3, 4))
        taking_turns = head.usage(torch.eye(3, 4))
    assert even.share == pytest.approx([1 / 3] * 3) and even.effective == pytest.approx(3)
    assert even.entropy == pytest.approx(torch.tensor(3.0).log().item())
    assert (
        one.share == pytest.approx([0, 1, 0]) and one.effective == pytest.approx(1) and one.entropy == pytest.approx(0)
    )
    assert taking_turns.effective == pytest.approx(3) and taking_turns.entropy == pytest.approx(0)
    assert MixtureOfContexts(4, 7, 3).usage(torch.randn(5, 4)).effective > 1
    assert sum(head.usage(torch.randn(4)).share) == pytest.approx(1)  # a single hidden state


@EVERY_HEAD
def test_state_survives_saving_and_copying(case: str, tmp_path: Path) -> None:
    head, other, hidden = (
        new_head(case, 6, 11),
        new_head(case, 6, 11),
        torch.randn(4, 6),
    )
    torch.save(head.state_dict(), tmp_path / "head.pt")
    other.load_state_dict(torch.load(tmp_path / "head.pt", weights_only=True))
    torch.testing.assert_close(other(hidden), head(hidden))
    torch.testing.assert_close(copy.deepcopy(head)(hidden), head(hidden))


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: MixtureOfSoftmaxes(4, 7, 0), "mixtures is 0; it must be an integer and at least 1"),
        (lambda: MixtureOfSoftmaxes(4, 7, 2.5), r"mixtures is 2\.5; it must be an integer and at least 1"),  # type: ignore[arg-type]
        (lambda: MixtureOfContexts(4, 7, -2), "mixtures is -2"),
        (lambda: MixtureOfSoftmaxes(4, 7, 2, contexts="relu"), r"contexts is 'relu'; it must be one of \('tanh'"),  # type: ignore[arg-type]
        (lambda: Softmax(0, 7), "hidden_size is 0"),
        (lambda: Softmax(4, 0), "vocab_size is 0"),
        (lambda: Softmax(4, 7, embedding_size=0), "embedding_size is 0"),
        (lambda: Softmax(4, 7, dropout=1.5), "dropout"),
        (lambda: Softmax(4, 7, softcap=0.0), "softcap is 0.0; it must be above 0 and finite, or None"),
        (lambda: MixtureOfSoftmaxes(4, 7, 2, softcap=math.inf), "softcap is inf; it must be above 0 and finite"),
        (lambda: Mixtape(4, 7, softcap=math.nan), "softcap is nan; it must be above 0 and finite, or None"),
        (lambda: Softmax(4, 7)(torch.zeros(3, 4), torch.zeros(3).long(), z_loss=-1.0), "z_loss is -1.0"),
        (lambda: Mixtape(4, 7, gate_size=0), "gate_size is 0; it must be at least 1"),
        (lambda: Softmax(4, 7)(torch.zeros(3, 4), target_probs=torch.ones(3, 2)), "target_probs are given without"),
        (lambda: Softmax(4, 7)(torch.zeros(3, 4), torch.ones(3, 7), count_correct=True), "count_correct is set and"),
        (
            lambda: Softmax(4, 7)(torch.zeros(3, 4), torch.ones(3, 2).long(), target_probs=torch.ones(4, 2)),
            r"target_probs have shape \[4, 2\]; for these targets it must be \[3, 2\]",
        ),
        (
            lambda: Softmax(4, 7, embedding=nn.Embedding(7, 5)),
            r"nn.Embedding\(7, 5\); it must be nn.Embedding\(7, 4\)",
        ),
        (
            lambda: MixtureOfSoftmaxes(4, 7, 2, embedding=nn.Embedding(8, 4)),
            r"nn.Embedding\(8, 4\); it must be nn.Embedding\(7, 4\)",
        ),
        (lambda: build_head("mix", 4, 7), "head_type is 'mix'; it must be one of softmax, mos, moc"),
        (lambda: build_head("softmax", 4, 7, mixtures=3), "mixtures is given, but the head 'softmax' has no such"),
        (lambda: build_head("mos", 4, 7, mixtures=3, shortlist=3), "shortlist is given, but the head 'mos' has no"),
        (lambda: build_head("softmax", 4, 7, contexts="tanh"), "contexts is given, but the head 'softmax' has no"),
        (lambda: build_head("mixtape", 4, 7, mixtures=4), "mixtures is given, but the head 'mixtape' has no"),
        (lambda: build_head("shortlist", 4, 7, mixtures=3), "shortlist is not given, but the head 'shortlist' needs"),
        (lambda: MixtureOfSoftmaxes(4, 7, 2).usage(torch.zeros(3, 5)), r"hidden has shape \[3, 5\]"),
        (lambda: Softmax(4, 7)(torch.zeros(3, 5)), r"hidden has shape \[3, 5\]; its last dimension must be 4"),
        (lambda: Softmax(4, 7)(torch.zeros(3, 4), torch.zeros(4, dtype=torch.long)), r"targets have shape \[4\]"),
        (
            lambda: Softmax(4, 1)(
                torch.zeros(1, 4), torch.zeros(1).long(), label_smoothing=0.1, label_smoothing_kind="others"
            ),
            "others",
        ),
    ],
)
def test_bad_input_is_named(build: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        build()


def test_a_matrix_is_no_embedding() -> None:
    with pytest.raises(TypeError, match=r"embedding is a Tensor; it must be an nn\.Embedding"):
        Softmax(4, 7, embedding=torch.zeros(7, 4))  # type: ignore[arg-type]


def run_script(name: str, **environment: str) -> None:
    command, environment = [sys.executable, "-m", f"tests.heads.{name}"], {"OMP_NUM_THREADS": "1", **environment}
    done = subprocess.run(
        command, env={**os.environ, **environment}, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_autocast_is_no_worse_than_the_formula() -> None:
    run_script("autocast_script", ONEDNN_MAX_CPU_ISA="AVX512_CORE_BF16")


def test_two_ddp_processes_get_the_gradients_of_one(tmp_path: Path) -> None:
    run_script("ddp_script", FASTMOS_RENDEZVOUS=str(tmp_path / "rendezvous"))


@pytest.mark.parametrize("embedding_size", [6, 5])
def test_residual_contexts_start_as_the_softmax(embedding_size: int) -> None:
    head = MixtureOfSoftmaxes(6, 11, 3, contexts="residual", embedding_size=embedding_size)
    softmax = Softmax(6, 11, embedding_size=embedding_size)
    softmax.weight = head.weight
    if softmax.latent is not None and head.latent.base is not None:
        softmax.latent.load_state_dict(head.latent.base.state_dict())
    hidden, targets = torch.randn(5, 6), torch.arange(5)
    torch.testing.assert_close(head.near_softmax_()(hidden), softmax(hidden))
    head(hidden, targets).loss.backward()
    assert head.latent.scale is not None and head.latent.scale.grad is not None
    assert len({tuple(row) for row in head.latent.scale.grad.tolist()}) == 3  # components part at the first step


def test_a_start_near_the_softmax() -> None:
    """Without noise every component is the softmax over tanh(g); with noise they differ, and little."""
    torch.manual_seed(0)
    head, hidden = MixtureOfSoftmaxes(16, 40, 3), torch.randn(20, 16)
    softmax = torch.log_softmax(F.linear(torch.tanh(hidden), head.weight, head.bias), -1)
    torch.nn.init.zeros_(head.latent.bias)
    drawn = (head(hidden) - softmax).abs().max()
    near = (head.near_softmax_()(hidden) - softmax).abs().max()
    assert 0 < near < drawn / 2
    torch.nn.init.zeros_(head.latent.weight)
    torch.testing.assert_close(head.near_softmax_()(hidden), softmax)
    with pytest.raises(
        ValueError, match="embedding_size is 8; a start near the softmax needs it to be hidden_size, 16"
    ):
        MixtureOfSoftmaxes(16, 40, 3, embedding_size=8).near_softmax_()
