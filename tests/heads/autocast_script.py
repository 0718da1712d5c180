"""Autocast and low-precision weights, in a process of its own: the errors of the fused loss beside the formula's.

Both are compared with the formula in float64. Run by test_modules.py with ONEDNN_MAX_CPU_ISA set, which some machines
need for bfloat16 products and which counts only before torch starts.
"""

import itertools
from typing import Any

import torch
from torch import Tensor

from fastmos.heads import HEADS, Head, HeadOutput, LossOptions, MixtureOfSoftmaxes, build_head, nll_reference
from tests.heads.options import own

CASES: dict[str, dict[str, Any]] = {
    **{name: {"head_type": name} for name in HEADS},
    "residual": {"head_type": "mos", "contexts": "residual"},
}


def new_head(case: str) -> Head:
    options = CASES[case] | own(CASES[case]["head_type"], mixtures=4, shortlist=range(0, 300, 5))
    head = build_head(hidden_size=32, vocab_size=300, embedding_size=24, **options)
    if isinstance(head, MixtureOfSoftmaxes) and head.latent.scale is not None:
        torch.nn.init.normal_(head.latent.scale)
    return head


def errors(output: HeadOutput, head: Head, hidden: Tensor, truth: list[Tensor], scale: float) -> list[float]:
    """Relative errors of loss, nll and gradients, these by a loss scaled as a GradScaler does."""
    inputs = [hidden, *head.parameters()]
    gradients = torch.autograd.grad(output.loss * scale, inputs)
    assert all(gradient.dtype == one.dtype for gradient, one in zip(gradients, inputs, strict=True))
    assert output.loss.dtype == output.nll.dtype == torch.float32
    values = [output.loss, output.nll, *(gradient.double() / scale for gradient in gradients)]
    return [
        ((value - true).norm() / true.norm().clamp(min=1e-30)).item() for value, true in zip(values, truth, strict=True)
    ]


def check(
    case: str, low: torch.dtype, amount: float, whole_model: bool, surely: float = 0.0, scale: float = 1.0
) -> None:
    """`surely` raises the bias of every target: at 18 the loss of a token is about 5e-6."""
    torch.manual_seed(0)
    head, exact = new_head(case), new_head(case).double()
    hidden, targets = torch.randn(40, 32), torch.randint(300, (40,))
    if surely:
        assert head.bias is not None
        targets.zero_()
        torch.nn.init.constant_(head.bias[:1], surely)
    targets[::7] = -100
    if whole_model:
        head, hidden = head.to(low), hidden.to(low)
    hidden.requires_grad_()
    exact_hidden = hidden.detach().double().requires_grad_()
    exact.load_state_dict(head.state_dict())
    options = LossOptions(label_smoothing=amount, reduction="sum")
    true = nll_reference(exact(exact_hidden), targets, options)
    truth = [true.loss, true.nll, *torch.autograd.grad(true.loss, [exact_hidden, *exact.parameters()])]
    with torch.autocast("cpu", low, enabled=not whole_model):
        fast = head.loss(hidden, targets, options)
        plain = nll_reference(head(hidden), targets, options)
        with torch.no_grad():
            log_probs = head(hidden)
    assert log_probs.dtype == torch.float32
    torch.testing.assert_close(log_probs.double(), exact(exact_hidden), rtol=0.01, atol=0.03)
    ours, theirs = errors(fast, head, hidden, truth, scale), errors(plain, head, hidden, truth, scale)
    for one, other in zip(ours, theirs, strict=True):
        assert one <= 1.3 * other + 2e-3, (case, low, amount, whole_model, ours, theirs)
    each = head(hidden, targets, reduction="none", label_smoothing=amount) if whole_model else fast
    assert each.nll.shape == targets.shape


for case, low, amount, whole_model in itertools.product(
    CASES, [torch.bfloat16, torch.float16], [0.0, 0.1], [False, True]
):
    check(case, low, amount, whole_model)
# float16 ends at 6e-8, and gradients inside the loss do not know its scale yet.
for case, whole_model in itertools.product(CASES, [False, True]):
    check(case, torch.float16, 0.0, whole_model, surely=18.0, scale=2.0**10)

# Gradients stay in float32 inside: a loss divided by 1e6 tokens still has them, though float16 ends at 6e-8.
head = MixtureOfSoftmaxes(8, 50, 3)
with torch.autocast("cpu", torch.float16):
    loss = head(torch.randn(5, 8), torch.arange(5), reduction="sum").loss / 1e9
loss.backward()
assert all(one.grad is not None and one.grad.any() for one in head.parameters())

with torch.autocast("cpu", torch.bfloat16):  # float64 is left alone
    exact = head.double()
    assert exact(torch.randn(5, 8, dtype=torch.float64), torch.arange(5)).loss.dtype == torch.float64
