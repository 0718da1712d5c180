"""The shortlist mixture: its distribution, its loss with every argument, its cost, and how its tokens are chosen."""

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from fastmos.heads import (
    LossOptions,
    SharedTailMixture,
    ShortlistMixture,
    best_shortlist,
    kernel,
    log_prob_rank,
    loss,
    nll_reference,
)

BOTH = pytest.mark.parametrize("kind_of_head", [ShortlistMixture, SharedTailMixture])
SHORTLISTS = pytest.mark.parametrize("shortlist", [3, [9, 2, 4], 1, 10, [10]], ids=str)


@pytest.fixture(params=[True, False], ids=["picked", "scaled"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignored tokens left out, as on a CPU, and scaled by 0, as elsewhere."""
    monkeypatch.setattr(loss, "_picks", lambda _: request.param)


@BOTH
@SHORTLISTS
@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("kind", ["uniform", "others"])
@pytest.mark.parametrize("reduction", ["sum", "mean", "none"])
def test_every_argument(
    reduction: Any,
    kind: Any,
    shortlist: int | list[int],
    kind_of_head: type[ShortlistMixture | SharedTailMixture],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    head = kind_of_head(6, 11, 3, shortlist).double()
    hidden = torch.randn(9, 6, dtype=torch.float64, requires_grad=True)
    inputs = [hidden, *head.parameters()]
    every = torch.arange(2, 11)
    some = every.clone()
    some[1::3] = -1
    for targets, amount, budget in itertools.product([every, some], [0.0, 0.3, 1.0], [1, 2000]):
        monkeypatch.setitem(kernel.BUFFER_BYTES, "cpu", budget)
        options = LossOptions(-1, amount, kind, reduction, count_correct=True)
        output, plain = head.loss(hidden, targets, options), nll_reference(head(hidden), targets, options)
        for name in ("loss", "nll", "tokens", "correct"):
            torch.testing.assert_close(getattr(output, name), getattr(plain, name))
        torch.testing.assert_close(
            torch.autograd.grad(output.loss.sin().sum(), inputs), torch.autograd.grad(plain.loss.sin().sum(), inputs)
        )


@SHORTLISTS
@pytest.mark.parametrize("mixtures", [1, 3])
def test_is_a_distribution_whose_tail_is_bounded_by_its_mass(shortlist: int | list[int], mixtures: int) -> None:
    head, hidden = ShortlistMixture(6, 11, mixtures, shortlist).double(), torch.randn(2, 4, 6, dtype=torch.float64)
    for recording in (True, False):
        with torch.set_grad_enabled(recording):
            log_probs = head(hidden)
            listed, tail = head.shortlist_log_probs(hidden)
            rest = head.tail_log_probs(hidden)
        torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(2, 4, dtype=torch.float64))
        torch.testing.assert_close(log_probs[..., head.shortlist.ids], listed)
        torch.testing.assert_close(log_probs[..., head.shortlist.rest], rest + tail[..., None])
        torch.testing.assert_close(log_probs[..., head.shortlist.rest].logsumexp(-1), tail)


def test_ids_are_the_same_head_with_tokens_renumbered() -> None:
    ids = torch.tensor([9, 2, 4])
    by_ids, by_size = ShortlistMixture(6, 11, 2, ids).double(), ShortlistMixture(6, 11, 2, 3).double()
    state = by_ids.state_dict()
    state["shortlist.ids"] = torch.arange(3)
    for name in ("weight", "bias"):
        state[name] = state[name][by_ids.shortlist.order]
    by_size.load_state_dict(state)
    hidden, targets = torch.randn(8, 6, dtype=torch.float64), torch.arange(8)
    torch.testing.assert_close(by_size(hidden), by_ids(hidden)[:, by_ids.shortlist.order])
    torch.testing.assert_close(by_size(hidden, by_ids.shortlist.places[targets]).nll, by_ids(hidden, targets).nll)


@BOTH
@pytest.mark.parametrize("targets", [[0, 1, 2, 0], [3, 10, 7, 5], [-100] * 4], ids=["listed", "tail", "none"])
def test_all_parameters_get_gradients_whatever_the_targets(
    targets: list[int], kind_of_head: type[ShortlistMixture | SharedTailMixture]
) -> None:
    """Or `DistributedDataParallel` would wait for those that are missing."""
    head = kind_of_head(6, 11, 3, 3)
    head(torch.randn(4, 6), torch.tensor(targets)).loss.backward()
    assert all(one.grad is not None for one in head.parameters())
    assert head.tail_latent.weight.grad is not None
    first = 3 if kind_of_head is ShortlistMixture else 0  # a shared tail is in the sum of every token
    assert bool(head.tail_latent.weight.grad.any()) == (max(targets) >= first)


def test_starts_near_the_uniform_distribution() -> None:
    head = ShortlistMixture(16, 500, 4, 20)
    torch.testing.assert_close(head(torch.randn(50, 16)).exp().mean(0), torch.full((500,), 1 / 500), rtol=0.5, atol=0)


def test_a_token_costs_the_shortlist_and_the_tail_only_where_its_target_is_there() -> None:
    head, hidden = ShortlistMixture(8, 1000, 4, 50), torch.randn(64, 8)
    targets = torch.arange(64)  # 14 of them in the tail

    def products(targets: Tensor, **options: Any) -> int:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            head(hidden, targets, **options)
        return int(counter.get_total_flops()) // (2 * 8)

    mixture = 64 * (4 * 51 + 4 * 8 + 4)  # logits, contexts and prior
    assert products(targets) == mixture + 14 * (950 + 8)
    assert products(targets % 50) == mixture
    assert products(targets, label_smoothing=0.1) == mixture + 64 * (950 + 8)


def test_the_shortlist_keeps_the_rank_of_a_mixture() -> None:
    head, hidden = ShortlistMixture(4, 60, 3, 40).double(), 3 * torch.randn(200, 4, dtype=torch.float64)
    with torch.no_grad():
        torch.nn.init.normal_(head.weight)
        assert log_prob_rank([head.shortlist_log_probs(hidden)[0]]).rank == 40  # one softmax: 6
        assert log_prob_rank([head(hidden)]).rank > 40


def test_a_state_brings_its_tokens_and_only_its_own_number_of_them() -> None:
    head, other = ShortlistMixture(6, 11, 2, [9, 2, 4]), ShortlistMixture(6, 11, 2, [0, 1, 5])
    other.load_state_dict(head.state_dict())
    hidden = torch.randn(5, 6)
    torch.testing.assert_close(other(hidden), head(hidden))
    torch.testing.assert_close(other(hidden, torch.arange(5)).nll, head(hidden, torch.arange(5)).nll)
    with pytest.raises(RuntimeError, match=r"size mismatch for shortlist\.ids"):
        ShortlistMixture(6, 11, 2, 4).load_state_dict(head.state_dict())


@pytest.mark.parametrize("price", [None, 0.01, 0.5, 1.0, 100.0])
def test_best_shortlist_by_trying_all(price: float | None) -> None:
    generator = torch.Generator().manual_seed(0)
    counts = (1000 / torch.arange(1, 201)).round()[torch.randperm(200, generator=generator)]
    ranked = sorted(range(200), key=lambda token: -counts[token].item())
    costs = {}
    for size in range(1, 200):
        uncovered = sum(counts[token].item() for token in ranked[size:]) / counts.sum().item()
        costs[size] = 4 * (size + 1) + uncovered * (200 - size)
    cheapest = min(costs, key=costs.__getitem__)
    affordable = [size for size, cost in costs.items() if price is not None and cost <= 200 * price]
    expected = max(affordable, default=cheapest)
    found = best_shortlist(counts, 4, price)
    assert len(found) == expected
    assert sorted(counts[found].tolist()) == sorted(counts[ranked[:expected]].tolist())
    ShortlistMixture(4, 200, 4, found)


@pytest.mark.parametrize(
    ("shortlist", "said"),
    [
        (0, "the shortlist has 0 tokens; it must have 1 to 10 of 11"),
        (-2, "the shortlist has 0 tokens"),
        (11, "the shortlist has 11 tokens; it must have 1 to 10 of 11"),
        ([], "the shortlist has 0 tokens"),
        ([3, 11], r"the shortlist holds 3 to 11; its tokens must lie in 0\.\.10"),
        ([-1, 3], "the shortlist holds -1 to 3"),
        ("three", "the shortlist is 'three'; it must be a number of tokens, or a list of ids"),
        (3.5, r"the shortlist has shape \[\]; it must be a number of tokens, or a list of ids"),
        ([[3, 4]], r"the shortlist has shape \[1, 2\]"),
        ([3, 4, 3], "the shortlist names a token twice"),
        (torch.arange(11) < 3, r"the shortlist is a mask; it must be ids, which mask\.nonzero\(\)\[:, 0\] are"),
    ],
    ids=str,
)
def test_bad_shortlists_are_named(shortlist: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ShortlistMixture(6, 11, 2, shortlist)


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ([], "counts hold 0 tokens seen 0 times; a shortlist needs seen tokens"),
        ([5], "counts hold 1 tokens seen 5 times"),
        ([0, 0, 0], "counts hold 3 tokens seen 0 times"),
        ([3, -1, 2], "counts hold -1 for token 1; a count must be finite and at least 0"),
        ([3, 2, math.inf], "counts hold inf for token 2"),
        ([math.nan, 2, 1], "counts hold nan for token 0"),
        ([[3, 2, 1]], r"counts have shape \[1, 3\]; they must be one number for each token, \[V\]"),
        (7, r"counts have shape \[\]"),
    ],
    ids=str,
)
def test_bad_counts_are_named(counts: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        best_shortlist(counts, 3)


@pytest.mark.parametrize("price", [math.nan, -1.0, 0.0])
def test_bad_prices_are_named(price: float) -> None:
    with pytest.raises(ValueError, match=f"price is {price}; it must be above 0, in softmaxes, or None"):
        best_shortlist([3, 2, 1], 3, price)


def test_a_shortlist_for_no_mixtures_is_refused() -> None:
    with pytest.raises(ValueError, match="mixtures is 0; it must be at least 1"):
        best_shortlist([3, 2, 1], 0)
