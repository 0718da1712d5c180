"""The share of the gradient that a head lets through, beside formulas of its own, by least squares in float64."""

from typing import Any

import pytest
import torch
from torch import Tensor

from fastmos.heads import Head, MixtureOfSoftmaxes, Softmax, build_head
from fastmos.heads.gradient import Through, gradient_share
from tests.heads.options import own

D, V, K, N = 5, 23, 3, 7


def made(kind: str, **options: Any) -> tuple[Head, Tensor, Tensor]:
    torch.manual_seed(0)
    head = build_head(kind, D, V, **own(kind, mixtures=K, shortlist=9), dropout=0.5, **options).double()
    for weight in head.parameters():
        torch.nn.init.normal_(weight)
    return head, torch.randn(N, D, dtype=torch.float64), torch.arange(N)


def share(directions: list[Tensor], gradients: Tensor) -> float:
    """By least squares: logits that some directions [V, C] of each position, and a constant, can make."""
    left = torch.zeros(())
    for columns, gradient in zip(directions, gradients, strict=True):
        columns = torch.cat([columns, torch.ones(len(columns), 1, dtype=columns.dtype)], 1)
        best = torch.linalg.lstsq(columns, gradient[:, None], driver="gelsd").solution
        left = left + (columns @ best - gradient[:, None]).square().sum()
    return 1 - float(left / gradients.square().sum())


def gradients_of(head: Head, hidden: Tensor, targets: Tensor) -> Tensor:
    return head.eval().log_probs(hidden).exp().detach() - torch.nn.functional.one_hot(targets, V)


@pytest.mark.parametrize("through", ["hidden", "contexts"])
def test_one_softmax_lets_through_what_lies_in_the_span_of_its_embedding(through: Through) -> None:
    head, hidden, targets = made("softmax")
    assert isinstance(head, Softmax)
    found = gradient_share(head, hidden, targets, through)
    expected = share([head.weight.detach()] * N, gradients_of(head, hidden, targets))
    assert found.share == pytest.approx(expected, abs=1e-10) and found.directions == D
    assert 0.1 < found.share < 0.9


def responsibilities(head: MixtureOfSoftmaxes, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """r_k(x) [N, K, V], and the means of the embedding under each component [N, K, d]."""
    contexts, log_prior = head.eval().parts(hidden)
    assert head.bias is not None
    p = torch.softmax(contexts @ head.weight.T + head.bias, -1)  # [N, K, V]
    joint = log_prior.exp()[..., None] * p
    return (joint / joint.sum(1, keepdim=True)).detach(), (p @ head.weight).detach()


def test_a_mixture_moves_each_token_by_its_responsibilities() -> None:
    head, hidden, targets = made("mos")
    assert isinstance(head, MixtureOfSoftmaxes)
    r, mean = responsibilities(head, hidden)
    weight = head.weight.detach()
    columns = r[..., None] * (weight - mean[:, :, None])  # [N, K, V, d]
    found = gradient_share(head, hidden, targets, "contexts")
    expected = share([one.permute(1, 0, 2).flatten(1) for one in columns], gradients_of(head, hidden, targets))
    assert found.share == pytest.approx(expected, abs=1e-8) and found.directions == K * D

    g = hidden.detach().requires_grad_()
    contexts, log_prior = head.parts(g)
    by_state = []
    for n in range(N):
        d_contexts = torch.stack(
            [torch.autograd.grad(value, g, retain_graph=True)[0][n] for value in contexts[n].flatten()]
        ).view(K, D, D)
        d_prior = torch.stack([torch.autograd.grad(value, g, retain_graph=True)[0][n] for value in log_prior[n]])
        by_state.append(torch.einsum("kvd,kdg->vg", columns[n], d_contexts) + r[n].T @ d_prior)
    found = gradient_share(head, hidden, targets, "hidden")
    assert found.share == pytest.approx(share(by_state, gradients_of(head, hidden, targets)), abs=1e-8)
    assert found.directions == D


def test_mixed_contexts_have_the_directions_of_one_softmax() -> None:
    head, hidden, targets = made("moc")
    found = gradient_share(head, hidden, targets, "contexts")
    expected = share([head.weight.detach()] * N, gradients_of(head, hidden, targets))
    assert found.share == pytest.approx(expected, abs=1e-8) and found.directions == D


@pytest.mark.parametrize("kind", ["softmax", "mos", "moc", "shortlist", "mixtape"])
def test_a_step_in_the_best_direction_lowers_the_loss_as_much_as_the_share_says(kind: str) -> None:
    """sup over the head's steps of (G . Jd)^2 / |Jd|^2, by the definition, at one position."""
    head, hidden, targets = made(kind)
    found = gradient_share(head, hidden[:1], targets[:1], "hidden")
    jacobian: Tensor = torch.func.jacrev(head.eval().log_probs)(hidden[0])  # [V, D]
    jacobian = jacobian - jacobian.mean(0)
    gradient = gradients_of(head, hidden[:1], targets[:1])[0]
    torch.manual_seed(1)
    tried = torch.linalg.qr(jacobian)[0] @ torch.randn(D, 20_000, dtype=torch.float64)  # in all directions alike
    gains = (gradient @ tried).square() / tried.square().sum(0)
    assert 0.8 * found.reached[0] < gains.max() <= found.reached[0] * (1 + 1e-9)
    assert found.reached[0] <= found.total[0]
    assert gradient_share(head, hidden[:1], targets[:1], "contexts").reached[0] <= found.total[0]


def test_free_contexts_reach_at_least_as_far_where_the_prior_is_fixed() -> None:
    head, hidden, targets = made("mos")
    assert isinstance(head, MixtureOfSoftmaxes)
    torch.nn.init.zeros_(head.prior.weight)
    both = [gradient_share(head, hidden, targets, through).share for through in ("hidden", "contexts")]
    assert both[0] < both[1] <= 1


def test_a_head_in_training_is_left_as_it_is() -> None:
    head, hidden, targets = made("mos")
    head.float().train()
    before = [weight.clone() for weight in head.parameters()]
    gradient_share(head, hidden.float(), targets, "contexts")
    assert head.training and all(weight.requires_grad for weight in head.parameters())
    assert all(torch.equal(*pair) for pair in zip(before, head.parameters(), strict=True))


@pytest.mark.parametrize(("hidden", "targets"), [((2, 3, D), (2, 3)), ((3, D), (2,)), ((0, D), (0,))])
def test_shapes_are_checked(hidden: tuple[int, ...], targets: tuple[int, ...]) -> None:
    head, _, _ = made("softmax")
    with pytest.raises(ValueError, match=r"give \[N, D\], \[N\]"):
        gradient_share(head, torch.zeros(hidden), torch.zeros(targets, dtype=torch.long), "hidden")
