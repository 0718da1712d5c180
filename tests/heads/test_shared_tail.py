"""The mixture with a shared tail: its precision, its start, its cost, its rank."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from fastmos.heads import LossOptions, SharedTailMixture, Softmax, log_prob_rank, nll_reference


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e3], ids="scale {}".format)
@pytest.mark.parametrize("amount", [0.0, 0.1])
def test_float32_is_no_worse_than_the_formula(amount: float, scale: float) -> None:
    head = SharedTailMixture(16, 300, 4, 40, contexts="residual")
    for one in head.parameters():
        torch.nn.init.normal_(one, std=0.3)
    hidden, targets, options = scale * torch.randn(32, 16), torch.randint(300, (32,)), LossOptions(-1, amount)
    exact = SharedTailMixture(16, 300, 4, 40, contexts="residual").double()
    exact.load_state_dict(head.state_dict())
    true = torch.autograd.grad(nll_reference(exact(hidden.double()), targets, options).loss, [*exact.parameters()])
    ours = torch.autograd.grad(head.loss(hidden, targets, options).loss, [*head.parameters()])
    plain = torch.autograd.grad(nll_reference(head(hidden), targets, options).loss, [*head.parameters()])
    for gradient, other, truth in zip(ours, plain, true, strict=True):
        error, plain_error = ((each.double() - truth).norm() for each in (gradient, other))
        # log Z is as large as logits here, and rounded like them.
        assert gradient.isfinite().all() and error <= 1.5 * plain_error + 3e-6 * truth.norm()


@pytest.mark.parametrize("softcap", [None, 5.0])
def test_residual_contexts_start_as_the_softmax(softcap: float | None) -> None:
    head = SharedTailMixture(6, 50, 4, [7, 3, 1], contexts="residual", softcap=softcap)
    softmax, hidden, targets = Softmax(6, 50, softcap=softcap), torch.randn(5, 6), torch.tensor([7, 1, 9, 30, 3])
    softmax.weight, softmax.bias = head.weight, head.bias
    torch.testing.assert_close(head(hidden), softmax(hidden))
    torch.testing.assert_close(head(hidden, targets).nll, softmax(hidden, targets).nll)
    head(hidden, targets).loss.backward()
    assert head.latent.scale is not None and head.latent.scale.grad is not None
    assert len({tuple(row) for row in head.latent.scale.grad.tolist()}) == 4  # components part at the first step


def test_a_token_costs_the_mixture_over_the_shortlist_and_one_softmax_over_the_tail() -> None:
    head, hidden = SharedTailMixture(8, 1000, 4, 50), torch.randn(64, 8)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        head(hidden, torch.arange(64))
    logits, contexts = 4 * 51 + 950, 5 * 8 + 4  # the tail symbol is one of the 51
    assert counter.get_total_flops() == 2 * 64 * 8 * (logits + contexts)


def test_the_shortlist_keeps_the_rank_of_a_mixture() -> None:
    head, hidden = SharedTailMixture(4, 60, 3, 40).double(), 3 * torch.randn(200, 4, dtype=torch.float64)
    with torch.no_grad():
        torch.nn.init.normal_(head.weight)
        assert log_prob_rank([head(hidden)[:, :40]]).rank == 40  # one softmax: 6
