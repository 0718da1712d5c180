"""The fast loss against its formula: every argument, odd shapes, hard numbers, bad input."""

import itertools
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fastmos.heads import HeadOutput, LossOptions, kernel, loss, mixture_nll, mixture_nll_reference
from fastmos.heads.log_probs import log_mixture

Inputs = tuple[Tensor, Tensor, Tensor, Tensor]


def inputs(n: int, k: int, d: int, v: int, dtype: torch.dtype = torch.float64, scale: float = 1.0) -> Inputs:
    """Contexts, log-prior, weight and bias that ask for gradients."""
    made = (
        torch.randn(n, k, d, dtype=dtype) * scale,
        torch.randn(n, k, dtype=dtype).log_softmax(-1),
        torch.randn(v, d, dtype=dtype),
        torch.randn(v, dtype=dtype),
    )
    return cast(Inputs, tuple(one.requires_grad_() for one in made))


def gradients(output: HeadOutput, given: tuple[Tensor, ...]) -> list[Tensor]:
    """Gradients under an upstream gradient that differs from token to token, or is at least not 1."""
    upstream = torch.linspace(-1, 2, output.loss.numel(), dtype=output.loss.dtype).view_as(output.loss) + 0.3
    return list(torch.autograd.grad(output.loss, given, upstream))


def assert_same(given: Inputs, targets: Tensor, **options: Any) -> None:
    fast, plain = (loss_(*given, targets, LossOptions(**options)) for loss_ in (mixture_nll, mixture_nll_reference))
    for name in ("loss", "nll", "tokens"):
        torch.testing.assert_close(getattr(fast, name), getattr(plain, name))
    assert fast.correct == plain.correct
    assert not fast.nll.requires_grad
    for one, other in zip(gradients(fast, given), gradients(plain, given), strict=True):
        torch.testing.assert_close(one, other)


@pytest.fixture(params=[2**25, 2000, 1], ids=["one chunk", "some chunks", "token by token"])
def buffer_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(kernel.BUFFER_BYTES, "cpu", request.param)


@pytest.fixture(params=[True, False], ids=["picked", "scaled"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignored tokens left out, as on a CPU, and scaled by 0, as elsewhere."""
    monkeypatch.setattr(loss, "_picks", lambda _: request.param)


@pytest.mark.usefixtures("buffer_bytes", "both_ways")
@pytest.mark.parametrize("kind", ["uniform", "others"])
@pytest.mark.parametrize("reduction", ["sum", "mean", "none"])
def test_every_argument(reduction: str, kind: str) -> None:
    given = inputs(7, 3, 5, 11)
    whole = torch.tensor([3, 0, 10, 10, 5, 1, 3])
    some = torch.tensor([3, -1, 10, -1, -1, 1, 3])
    for targets, amount, count in itertools.product([whole, some], [0.0, 0.3, 1.0], [False, True]):
        assert_same(
            given,
            targets,
            ignore_index=-1,
            label_smoothing=amount,
            label_smoothing_kind=kind,
            reduction=reduction,
            count_correct=count,
        )


@given(
    n=st.integers(0, 9),
    k=st.integers(1, 5),
    d=st.integers(1, 9),
    v=st.integers(2, 40),
    budget=st.sampled_from([1, 500, 5000, 2**25]),
    amount=st.sampled_from([0.0, 0.1]),
    seed=st.integers(0, 100),
)
def test_any_shape(n: int, k: int, d: int, v: int, budget: int, amount: float, seed: int) -> None:
    torch.manual_seed(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(kernel.BUFFER_BYTES, "cpu", budget)
        targets = torch.randint(v, (n,))
        targets[torch.rand(n) < 0.2] = -100
        assert_same(inputs(n, k, d, v), targets, label_smoothing=amount)


def test_one_softmax_is_cross_entropy_of_torch() -> None:
    contexts, _, weight, bias = inputs(8, 1, 5, 11)
    targets = torch.tensor([1, 2, -100, 4, 5, 6, -100, 10])
    for reduction, amount in itertools.product(["sum", "mean", "none"], [0.0, 0.2]):
        ours = mixture_nll(
            contexts,
            torch.zeros(8, 1, dtype=torch.float64),
            weight,
            bias,
            targets,
            LossOptions(
                reduction=reduction,  # type: ignore[arg-type]
                label_smoothing=amount,
            ),
        )
        logits = F.linear(contexts[:, 0], weight, bias)
        torch.testing.assert_close(
            ours.loss, F.cross_entropy(logits, targets, reduction=reduction, label_smoothing=amount)
        )


def test_smoothing_others_leaves_the_target_out() -> None:
    given, targets = inputs(4, 2, 3, 6), torch.tensor([0, 1, 2, 5])
    log_probs = log_mixture(*given)
    weights = torch.full((4, 6), 0.2 / 5, dtype=torch.float64)
    weights[torch.arange(4), targets] = 0.8
    ours = mixture_nll(
        *given, targets, LossOptions(label_smoothing=0.2, label_smoothing_kind="others", reduction="sum")
    ).loss
    torch.testing.assert_close(ours, -(weights * log_probs).sum())


@pytest.mark.parametrize("amount", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_gradcheck(reduction: Any, amount: float) -> None:
    given, targets = inputs(4, 3, 2, 5), torch.tensor([4, 0, -100, 2])

    def run(contexts: Tensor, log_prior: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return mixture_nll(
            contexts, log_prior, weight, bias, targets, LossOptions(reduction=reduction, label_smoothing=amount)
        ).loss

    assert torch.autograd.gradcheck(run, given)


@pytest.mark.parametrize("amount", [0.0, 0.1])
def test_without_bias_and_with_any_leading_shape(amount: float) -> None:
    contexts, log_prior, weight, _ = inputs(6, 3, 4, 7)
    for shape in [(2, 3), (1, 6, 1), (6,)]:
        given = contexts.view(*shape, 3, 4), log_prior.view(*shape, 3), weight
        targets = torch.arange(6).view(shape)
        fast = mixture_nll(
            given[0], given[1], weight, None, targets, LossOptions(label_smoothing=amount, reduction="none")
        )
        plain = mixture_nll_reference(
            given[0], given[1], weight, None, targets, LossOptions(label_smoothing=amount, reduction="none")
        )
        assert fast.loss.shape == fast.nll.shape == shape
        torch.testing.assert_close(fast.loss, plain.loss)
        torch.testing.assert_close(gradients(fast, given), gradients(plain, given))
    single = mixture_nll(contexts[0], log_prior[0], weight, None, torch.tensor(3))
    torch.testing.assert_close(
        single.loss, mixture_nll(contexts[:1], log_prior[:1], weight, None, torch.tensor([3])).loss
    )


def test_non_contiguous_inputs() -> None:
    contexts = torch.randn(3, 4, 6, dtype=torch.float64).permute(2, 1, 0).requires_grad_()  # [6, 4, 3]
    log_prior = torch.randn(4, 6, dtype=torch.float64).log_softmax(0).t().requires_grad_()
    weight = torch.randn(3, 9, dtype=torch.float64).t().requires_grad_()
    bias = torch.randn(18, dtype=torch.float64)[::2].requires_grad_()
    targets = torch.arange(12)[::2] % 9
    for reduction in ("sum", "none"):
        assert_same((contexts, log_prior, weight, bias), targets, reduction=reduction)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("reduction", ["sum", "mean", "none"])
@pytest.mark.parametrize("amount", [0.0, 0.1])
@pytest.mark.parametrize("count", [0, 4])
def test_nothing_to_count_is_zero_with_zero_gradients(count: int, amount: float, reduction: str) -> None:
    given = inputs(count, 3, 2, 5)
    output = mixture_nll(
        *given,
        torch.full((count,), -100),
        LossOptions(
            label_smoothing=amount,
            reduction=reduction,  # type: ignore[arg-type]
            count_correct=True,
        ),
    )
    assert output.loss.sum() == 0 and output.tokens == 0 and output.correct == 0
    assert output.nll.shape == (count,)
    for gradient in gradients(output, given):
        assert not gradient.any()


def test_needs_only_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    products = []

    def counted(real: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def call(*tensors: Tensor, **options: Any) -> Tensor:
            products.append(real)
            return real(*tensors, **options)

        return call

    for place, name in [(torch, "mm"), (torch, "addmm"), (Tensor, "addmm_")]:
        monkeypatch.setattr(place, name, counted(getattr(place, name)))

    def count(*frozen: int, reduction: Any = "sum") -> int:
        products.clear()
        given = inputs(4, 3, 2, 5)
        for index in frozen:
            given[index].requires_grad_(False)
        output = mixture_nll(*given, torch.arange(4), LossOptions(reduction=reduction))
        if output.loss.requires_grad:
            torch.autograd.backward(output.loss.sum())
            assert [one.grad is not None for one in given] == [one.requires_grad for one in given]
        return len(products)

    assert count() == 3
    assert count(2, 3) == 2  # frozen embedding: no product for its gradient
    assert count(0, 1) == 2  # frozen contexts
    assert count(0, 1, 2, 3) == 1
    assert count(reduction="none") == 4  # the logits a second time
    with torch.no_grad():
        assert count() == count(reduction="none") == 1
    with torch.inference_mode():
        assert count() == 1


def test_backward_twice_on_a_kept_graph_adds_up() -> None:
    given = inputs(4, 3, 2, 5)
    for reduction in ("sum", "none"):
        total = mixture_nll(*given, torch.arange(4), LossOptions(reduction=reduction)).loss.sum()
        once = torch.autograd.grad(total, given, retain_graph=True)
        twice = torch.autograd.grad(total * 2, given)
        torch.testing.assert_close([2 * one for one in once], list(twice))

    total = mixture_nll(*given, torch.arange(4)).loss
    for _ in range(3):
        torch.autograd.backward(total, retain_graph=True)
    torch.testing.assert_close([3 * one for one in torch.autograd.grad(total, given)], [one.grad for one in given])


@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_second_derivative_is_refused(reduction: Any) -> None:
    given = inputs(4, 3, 2, 5)
    total = mixture_nll(*given, torch.arange(4), LossOptions(reduction=reduction)).loss.sum()
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(total, given, create_graph=True)


def test_inside_activation_checkpointing() -> None:
    given = inputs(4, 3, 2, 5)

    def run(contexts: Tensor, log_prior: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return mixture_nll(contexts.sin(), log_prior, weight, bias, torch.arange(4)).loss

    inside = torch.utils.checkpoint.checkpoint(run, *given, use_reentrant=False)
    torch.testing.assert_close(torch.autograd.grad(inside, given), torch.autograd.grad(run(*given), given))


# Hard numbers, compared with the formula in float64.


@pytest.mark.parametrize("amount", [0.0, 0.1])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e4], ids="scale {}".format)
def test_float32_is_no_worse_than_the_formula(scale: float, amount: float) -> None:
    given = inputs(32, 4, 16, 500, torch.float32)
    given = (given[0] * (scale / 16**0.5)).detach().requires_grad_(), *given[1:]
    assert_no_worse(given, torch.randint(500, (32,)), amount)


def assert_no_worse(given: Inputs, targets: Tensor, amount: float, slack: float = 1.5) -> None:
    """Errors of loss and gradients at most `slack` times the plain formula's, or within a few units of rounding."""
    true_given = cast(Inputs, tuple(one.detach().double().requires_grad_() for one in given))
    truth = mixture_nll_reference(*true_given, targets, LossOptions(label_smoothing=amount))
    true_values = [truth.loss, truth.nll, *gradients(truth, true_given)]
    fast = mixture_nll(*given, targets, LossOptions(label_smoothing=amount))
    plain = mixture_nll_reference(*given, targets, LossOptions(label_smoothing=amount))
    for values, others, true in zip(
        [fast.loss, fast.nll, *gradients(fast, given)],
        [plain.loss, plain.nll, *gradients(plain, given)],
        true_values,
        strict=True,
    ):
        assert values.isfinite().all()
        ours, theirs = (values.double() - true).norm(), (others.double() - true).norm()
        assert ours <= slack * theirs + 1e-6 * true.norm(), (ours, theirs, true.norm())


@pytest.mark.parametrize("amount", [0.0, 0.1])
def test_logits_of_ten_thousand(amount: float) -> None:
    contexts = torch.tensor([[[1e4], [-1e4]], [[1e4], [1e4]]]).requires_grad_()  # [2, 2, 1]
    log_prior = torch.tensor([[0.5, 0.5], [0.9, 0.1]]).log().requires_grad_()
    weight, bias = torch.tensor([[1.0], [0.0], [-1.0]]).requires_grad_(), torch.zeros(3).requires_grad_()
    for targets in ([0, 0], [2, 1], [1, 2]):
        given = (contexts, log_prior, weight, bias)
        assert_no_worse(given, torch.tensor(targets), amount)


@pytest.mark.parametrize("amount", [0.0, 0.1])
def test_prior_of_one_component_alone(amount: float) -> None:
    given = inputs(3, 3, 4, 6)
    log_prior = torch.full((3, 3), -torch.inf, dtype=torch.float64)
    log_prior[:, 1] = 0
    given = (given[0], log_prior.requires_grad_(), *given[2:])
    fast = mixture_nll(*given, torch.arange(3), LossOptions(label_smoothing=amount, count_correct=True))
    alone = mixture_nll_reference(
        given[0][:, 1:2], log_prior[:, 1:2], *given[2:], torch.arange(3), LossOptions(label_smoothing=amount)
    )
    torch.testing.assert_close(fast.loss, alone.loss)
    d_contexts, d_log_prior, *shared = gradients(fast, given)
    a_contexts, a_log_prior, *a_shared = gradients(alone, (given[0], log_prior, *given[2:]))
    torch.testing.assert_close([d_contexts, *shared], [a_contexts, *a_shared])
    torch.testing.assert_close(d_log_prior[:, 1], a_log_prior[:, 1])
    assert not d_log_prior[:, [0, 2]].any()


def test_target_of_probability_1e_30_and_below() -> None:
    for depth in (69.0, 200.0):  # exp(-69) is 1e-30; exp(-200) is 0 in float32
        bias = torch.tensor([0.0, -depth, -depth]).requires_grad_()
        weight = torch.zeros(3, 2).requires_grad_()
        contexts, log_prior = torch.ones(1, 2, 2).requires_grad_(), torch.tensor([[0.5, 0.5]]).log().requires_grad_()
        output = mixture_nll(contexts, log_prior, weight, bias, torch.tensor([1]))
        torch.autograd.backward(output.loss)
        torch.testing.assert_close(output.loss.item(), depth)
        torch.testing.assert_close(bias.grad, torch.tensor([1.0, -1.0, 0.0]))


@pytest.mark.usefixtures("both_ways")
def test_a_token_that_is_ruled_out_by_its_bias() -> None:
    contexts, log_prior, weight, bias = inputs(4, 3, 2, 5)
    bias = bias.detach().clone()
    bias[0] = -torch.inf
    output = mixture_nll(contexts, log_prior, weight, bias, torch.tensor([1, 2, 3, 4]), LossOptions(count_correct=True))
    plain = mixture_nll_reference(
        contexts, log_prior, weight, bias, torch.tensor([1, 2, 3, 4]), LossOptions(count_correct=True)
    )
    torch.testing.assert_close(output.loss, plain.loss)
    assert output.correct == plain.correct


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("bad", [0.0, torch.nan, torch.inf])
@pytest.mark.parametrize("count", [False, True])
@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_ignored_tokens_may_hold_anything(reduction: Any, count: bool, bad: float) -> None:
    """Also beside a token 0 that is ruled out; the truth is the formula without both."""
    contexts, log_prior, weight, bias = given = inputs(5, 3, 2, 6)
    targets = torch.tensor([3, 4, -100, 5, -100])
    kept = targets >= 0
    with torch.no_grad():
        contexts[~kept], log_prior[~kept], bias[0] = bad, bad, -torch.inf
    fast = mixture_nll(*given, targets, LossOptions(reduction=reduction, count_correct=count))
    truth = mixture_nll_reference(
        contexts[kept],
        log_prior[kept],
        weight[1:],
        bias[1:],
        targets[kept] - 1,
        LossOptions(reduction="sum", count_correct=count),
    )
    torch.testing.assert_close(fast.loss.sum(), truth.loss)
    torch.testing.assert_close(fast.nll[kept], truth.nll)
    assert not fast.nll[~kept].any() and fast.correct == truth.correct
    torch.testing.assert_close(torch.autograd.grad(fast.loss.sum(), given), torch.autograd.grad(truth.loss, given))


# Bad input.


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"targets": torch.tensor([0, 1, 5, 2])}, IndexError, "targets hold 5; each must be a token from 0 to 4"),
        ({"targets": torch.tensor([0, 1, -1, 2])}, IndexError, "targets hold -1"),
        ({"targets": torch.tensor([0, 1, 2])}, ValueError, r"targets have shape \[3\]"),
        ({"targets": torch.zeros(4, 1, dtype=torch.long)}, ValueError, r"targets have shape \[4, 1\]"),
        ({"targets": torch.zeros(4)}, TypeError, "targets have dtype torch.float32"),
        ({"log_prior": torch.zeros(4, 2)}, ValueError, r"log_prior has shape \[4, 2\]"),
        ({"weight": torch.zeros(5, 3)}, ValueError, r"weight has shape \[5, 3\]"),
        ({"bias": torch.zeros(4)}, ValueError, r"bias has shape \[4\]"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], error: type[Exception], said: str) -> None:
    contexts, log_prior, weight, bias = inputs(4, 3, 2, 5)
    arguments = {"contexts": contexts, "log_prior": log_prior, "weight": weight, "bias": bias}
    with pytest.raises(error, match=said):
        mixture_nll(**{**arguments, "targets": torch.arange(4), **change})


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"label_smoothing": 1.5}, "label_smoothing is 1.5; it must lie between 0 and 1"),
        ({"label_smoothing_kind": "all"}, "label_smoothing_kind is 'all'"),
        ({"reduction": "total"}, "reduction is 'total'"),
    ],
)
def test_bad_options_are_named(option: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        LossOptions(**option)


def test_nan_is_reported_when_anomalies_are_looked_for() -> None:
    given, log_prior, weight, bias = inputs(4, 3, 2, 5)
    contexts = given.detach().clone()
    contexts[1, 1, 1] = torch.nan
    assert mixture_nll(contexts, log_prior, weight, bias, torch.arange(4)).loss.isnan()
    with torch.autograd.set_detect_anomaly(True), pytest.raises(ValueError, match="nan or inf"):
        mixture_nll(contexts, log_prior, weight, bias, torch.arange(4))


@pytest.mark.parametrize("scale", [1e10, 1e20, 1e30, 1e36])
@pytest.mark.parametrize("options", [LossOptions(label_smoothing=0.1), LossOptions(count_correct=True), LossOptions()])
def test_huge_logits_have_exact_gradients(scale: float, options: LossOptions) -> None:
    torch.manual_seed(0)
    contexts, log_prior = torch.randn(7, 3, 6), torch.randn(7, 3).log_softmax(1)
    weight, bias, targets = torch.randn(11, 6) * scale, torch.randn(11), torch.randint(11, (7,))
    found, truth = (
        numbers_of(formula, dtype, (contexts, log_prior, weight, bias), targets, options)
        for formula, dtype in ((mixture_nll, torch.float32), (mixture_nll_reference, torch.float64))
    )
    for ours, exact in zip(found, truth, strict=True):
        assert float((ours.double() - exact).abs().max() / exact.abs().max()) < 1e-5


def numbers_of(
    formula: Callable[..., HeadOutput],
    dtype: torch.dtype,
    parts: tuple[Tensor, ...],
    targets: Tensor,
    options: LossOptions,
) -> list[Tensor]:
    """Loss, NLL and gradients."""
    leaves = [part.to(dtype).requires_grad_() for part in parts]
    output = formula(*leaves, targets, options)
    return [output.loss.detach(), output.nll, *torch.autograd.grad(output.loss, leaves)]
