"""Mixtape: its loss with every argument, its cost, its rank."""

import itertools
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from fastmos.heads import LossOptions, Mixtape, Softmax, kernel, log_prob_rank, loss, nll_reference


@pytest.fixture(params=[True, False], ids=["picked", "scaled"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignored tokens left out, as on a CPU, and scaled by 0, as elsewhere."""
    monkeypatch.setattr(loss, "_picks", lambda _: request.param)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("shortlist", [None, 3, [9, 2, 4], 10], ids=str)
@pytest.mark.parametrize("kind", ["uniform", "others"])
@pytest.mark.parametrize("reduction", ["sum", "mean", "none"])
def test_every_argument(
    reduction: Any, kind: Any, shortlist: int | list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = Mixtape(6, 11, shortlist, gate_size=2).double()
    for one in head.parameters():
        torch.nn.init.normal_(one)
    hidden = torch.randn(9, 6, dtype=torch.float64, requires_grad=True)
    inputs = [hidden, *head.parameters()]
    every = torch.arange(2, 11)
    some = every.clone()
    some[1::3] = -1
    for targets, amount, budget in itertools.product([every, some], [0.0, 0.3, 1.0], [1, 4000]):
        monkeypatch.setitem(kernel.BUFFER_BYTES, "cpu", budget)
        options = LossOptions(-1, amount, kind, reduction, count_correct=True)
        output, plain = head.loss(hidden, targets, options), nll_reference(head(hidden), targets, options)
        for name in ("loss", "nll", "tokens", "correct"):
            torch.testing.assert_close(getattr(output, name), getattr(plain, name))
        torch.testing.assert_close(
            torch.autograd.grad(output.loss.sin().sum(), inputs), torch.autograd.grad(plain.loss.sin().sum(), inputs)
        )


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e3], ids="scale {}".format)
def test_float32_is_no_worse_than_the_formula(scale: float) -> None:
    head = Mixtape(16, 300, 40)
    for one in head.parameters():
        torch.nn.init.normal_(one, std=0.3)
    hidden, targets = scale * torch.randn(32, 16), torch.randint(300, (32,))
    exact = Mixtape(16, 300, 40).double()
    exact.load_state_dict(head.state_dict())
    true = torch.autograd.grad(nll_reference(exact(hidden.double()), targets).loss, [*exact.parameters()])
    ours = torch.autograd.grad(head(hidden, targets).loss, [*head.parameters()])
    plain = torch.autograd.grad(nll_reference(head(hidden), targets).loss, [*head.parameters()])
    for gradient, other, truth in zip(ours, plain, true, strict=True):
        error, plain_error = ((each.double() - truth).norm() for each in (gradient, other))
        assert gradient.isfinite().all() and error <= 1.5 * plain_error + 1e-6 * truth.norm()


def test_residual_contexts_start_as_the_softmax() -> None:
    head, softmax, hidden = Mixtape(6, 50, contexts="residual"), Softmax(6, 50), torch.randn(5, 6)
    softmax.weight = head.weight
    torch.testing.assert_close(head(hidden), softmax(hidden))


def test_a_token_costs_four_products_where_it_is_listed_and_one_elsewhere() -> None:
    head, hidden = Mixtape(8, 1000, gate_size=4), torch.randn(64, 8)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        head(hidden, torch.arange(64))
    logits, gates = 4 * 8 * 100 + 8 * 900, 3 * 4 * 100
    contexts, gate_vectors = 8 * (4 * 8), 8 * (3 * 4 + 3)
    assert counter.get_total_flops() == 2 * 64 * (logits + gates + contexts + gate_vectors)


def test_listed_tokens_break_the_rank_of_one_softmax() -> None:
    head, hidden = Mixtape(4, 60, 30).double(), 3 * torch.randn(200, 4, dtype=torch.float64)
    with torch.no_grad():
        for one in head.parameters():
            torch.nn.init.normal_(one)
        assert log_prob_rank([head(hidden)[:, :30]]).rank == 30  # one softmax: 6
        assert log_prob_rank([head(hidden)]).rank > 30


def test_usage_is_that_of_the_shared_gates() -> None:
    head, hidden = Mixtape(6, 11), torch.randn(20, 6)
    with torch.no_grad():
        head.shared_gates.weight.zero_()
        assert head.usage(hidden).effective == pytest.approx(4)
        head.shared_gates.weight[:2] = 100.0
        assert head.usage(hidden.abs()).share == pytest.approx([1, 0, 0, 0])


def test_a_start_near_the_softmax() -> None:
    """Without noise all four contexts are tanh(g), whatever the gates."""
    head, hidden = Mixtape(16, 40), torch.randn(20, 16)
    for parameter in head.latent.parameters():
        torch.nn.init.zeros_(parameter)
    softmax = torch.log_softmax(torch.tanh(hidden) @ head.weight.t(), -1)
    torch.testing.assert_close(head.near_softmax_()(hidden), softmax)
