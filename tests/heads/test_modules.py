"""The heads: equations, interface, tying, dropout, and life inside DDP, torch.compile and autocast."""

import copy
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
    MixtureOfContexts,
    MixtureOfSoftmaxes,
    Softmax,
    build_head,
    fused,
    mixture_nll_reference,
)

KINDS = pytest.mark.parametrize("kind", list(HEADS))
HERE = Path(__file__).parent


def equation(head: Head, g: Tensor) -> Tensor:
    """The probabilities [N, V] by the definition of each head, one component after the other."""
    if isinstance(head, Softmax):
        context = g if head.latent is None else head.latent(g)
        return F.linear(context, head.weight, head.bias).softmax(-1)
    assert isinstance(head, MixtureOfSoftmaxes)
    pi = (g @ head.prior.weight.t()).softmax(-1)
    weights, biases = head.latent.weight.chunk(head.mixtures), head.latent.bias.chunk(head.mixtures)
    h = [torch.tanh(g @ w.t() + b) for w, b in zip(weights, biases, strict=True)]
    if isinstance(head, MixtureOfContexts):
        mean = sum((pi[:, k : k + 1] * h[k] for k in range(head.mixtures)), torch.zeros_like(h[0]))
        return F.linear(mean, head.weight, head.bias).softmax(-1)
    each = [pi[:, k : k + 1] * F.linear(h[k], head.weight, head.bias).softmax(-1) for k in range(head.mixtures)]
    return torch.stack(each).sum(0)


@KINDS
@pytest.mark.parametrize("width", [None, 5])
@pytest.mark.parametrize("bias", [True, False])
def test_log_probabilities_follow_the_equations(kind: str, width: int | None, bias: bool) -> None:
    head = build_head(kind, 6, 11, 3, width=width, bias=bias).double()
    hidden = torch.randn(2, 4, 6, dtype=torch.float64)
    expected = equation(head, hidden.view(8, 6)).log().view(2, 4, 11)
    torch.testing.assert_close(head(hidden), expected)
    with torch.no_grad():
        torch.testing.assert_close(head(hidden), expected)
        assert head(hidden[:0]).shape == (0, 4, 11)
        assert head(hidden[0, 0]).shape == (11,)


@KINDS
@pytest.mark.parametrize("reduction", ["sum", "mean", "none"])
@pytest.mark.parametrize("budget", [1, 2000, 2**25])
def test_loss_is_that_of_the_log_probabilities(
    kind: str, reduction: Any, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fused.BUFFER_BYTES, "cpu", budget)
    head = build_head(kind, 6, 11, 3, width=5).double()
    hidden = torch.randn(3, 4, 6, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(11, (3, 4))
    targets[1, 2:] = 0
    options: dict[str, Any] = {"ignore_index": 0, "label_smoothing": 0.1, "reduction": reduction}
    output = head(hidden, targets, count_correct=True, **options)
    plain = mixture_nll_reference(*head.parts(hidden), head.weight, head.bias, targets, count_correct=True, **options)
    torch.testing.assert_close(output.loss, plain.loss)
    torch.testing.assert_close(output.nll, plain.nll)
    assert (output.tokens, output.correct) == (plain.tokens, plain.correct)
    inputs = [hidden, *head.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(output.loss.sin().sum(), inputs), torch.autograd.grad(plain.loss.sin().sum(), inputs)
    )
    with torch.inference_mode():
        torch.testing.assert_close(head(hidden, targets, **options).loss, plain.loss)


@KINDS
@pytest.mark.parametrize("codes", [11, 16, 1024])  # rows of the result that lie apart, close together, and apart again
def test_chunks_of_log_probabilities_make_no_difference(kind: str, codes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    head, hidden = build_head(kind, 6, codes, 3), torch.randn(7, 6)
    expected = equation(head, hidden).log()
    with torch.no_grad():
        for budget in (2**25, 100 * codes, 1):
            monkeypatch.setitem(fused.BUFFER_BYTES, "cpu", budget)
            torch.testing.assert_close(head(hidden.view(7, 1, 6)).view(7, codes), expected)


@KINDS
def test_a_code_of_bias_minus_infinity_is_impossible(kind: str) -> None:
    head, hidden = build_head(kind, 6, 11, 3), torch.randn(7, 6)
    with torch.no_grad():
        assert head.bias is not None
        head.bias[4] = -torch.inf
        log_probs = head(hidden)
    torch.testing.assert_close(log_probs, head(hidden).detach())
    assert log_probs[:, 4].isneginf().all()
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(7))


@KINDS
@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_dropout_of_forward_and_gradient_agree(kind: str, reduction: Any) -> None:
    """The derivative along a direction, by differences under the same random masks, is what backward gives."""
    head = build_head(kind, 6, 11, 3, dropout=0.5).double()
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


@KINDS
def test_tied_embedding_gathers_both_gradients(kind: str) -> None:
    embedding = nn.Embedding(11, 5).double()
    head = build_head(kind, 6, 11, 3, width=5, embedding=embedding, bias=False).double()
    body = nn.Linear(5, 6).double()
    assert head.weight is embedding.weight
    codes, targets = torch.randint(11, (4,)), torch.randint(11, (4,))
    head(body(embedding(codes)), targets).loss.backward()
    fast, embedding.weight.grad = embedding.weight.grad, None
    hidden = body(embedding(codes))
    mixture_nll_reference(*head.parts(hidden), embedding.weight, None, targets).loss.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(fast, embedding.weight.grad)
    assert head.to(torch.float32).weight is embedding.weight


@KINDS
def test_frozen_parts_get_no_gradients(kind: str) -> None:
    head = build_head(kind, 6, 11, 3, width=5)
    for name, parameter in head.named_parameters():
        head.requires_grad_(True).zero_grad()
        parameter.requires_grad_(False)
        head(torch.randn(4, 6), torch.arange(4)).loss.backward()
        for other, one in head.named_parameters():
            assert (one.grad is None) == (other == name), (other, name)


def test_one_mixture_is_not_a_softmax() -> None:
    head, softmax = MixtureOfSoftmaxes(4, 7, 1), Softmax(4, 7)
    softmax.weight = head.weight
    hidden = 3 * torch.randn(5, 4)
    assert not torch.allclose(head(hidden), softmax(hidden))
    torch.testing.assert_close(head(hidden), softmax(torch.tanh(head.latent(hidden))))


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


@KINDS
def test_state_survives_saving_and_copying(kind: str, tmp_path: Path) -> None:
    head, other, hidden = build_head(kind, 6, 11, 3), build_head(kind, 6, 11, 3), torch.randn(4, 6)
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
        (lambda: Softmax(0, 7), "hidden is 0"),
        (lambda: Softmax(4, 0), "codes is 0"),
        (lambda: Softmax(4, 7, width=0), "width is 0"),
        (lambda: Softmax(4, 7, dropout=1.5), "dropout"),
        (lambda: Softmax(4, 7, embedding=nn.Embedding(7, 5)), "embedding has 7 codes of width 5; .* width=4"),
        (lambda: MixtureOfSoftmaxes(4, 7, 2, embedding=nn.Embedding(8, 4)), "embedding has 8 codes .* codes=7"),
        (lambda: build_head("mix", 4, 7, 2), "kind is 'mix'; it must be one of softmax, mos, moc"),
        (lambda: MixtureOfSoftmaxes(4, 7, 2).usage(torch.zeros(3, 5)), r"hidden has shape \[3, 5\]"),
        (lambda: Softmax(4, 7)(torch.zeros(3, 5)), r"hidden has shape \[3, 5\]; its last dimension must be 4"),
        (lambda: Softmax(4, 7)(torch.zeros(3, 4), torch.zeros(4, dtype=torch.long)), r"targets have shape \[4\]"),
        (
            lambda: Softmax(4, 1)(torch.zeros(1, 4), torch.zeros(1).long(), label_smoothing=0.1, smoothing="others"),
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


def test_compiled_model_gives_the_same_gradients() -> None:
    model, head = nn.Linear(6, 6), MixtureOfSoftmaxes(6, 11, 3)
    targets, x = torch.arange(4), torch.randn(4, 6)

    def step(x: Tensor) -> Tensor:
        output: HeadOutput = head(torch.relu(model(x)), targets, label_smoothing=0.1)
        return output.loss * 2

    inputs = [*model.parameters(), *head.parameters()]
    expected = torch.autograd.grad(step(x), inputs)
    torch.testing.assert_close(torch.autograd.grad(torch.compile(step, backend="eager")(x), inputs), expected)


def run_script(name: str, **environment: str) -> None:
    command = [sys.executable, str(HERE / name)]
    done = subprocess.run(
        command, env={**os.environ, "OMP_NUM_THREADS": "1", **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_autocast_is_no_worse_than_the_formula() -> None:
    run_script("autocast_script.py", ONEDNN_MAX_CPU_ISA="AVX512_CORE_BF16")


def test_two_ddp_processes_get_the_gradients_of_one(tmp_path: Path) -> None:
    run_script("ddp_script.py", FASTMOS_RENDEZVOUS=str(tmp_path / "rendezvous"))


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
    with pytest.raises(ValueError, match="width is 8; a start near the softmax needs it to be hidden, 16"):
        MixtureOfSoftmaxes(16, 40, 3, width=8).near_softmax_()
