"""How much of the gradient by the logits an output layer lets through (after Godey and Artzi, 2026).

Any head says at a position what log P(. | position) is: V logits z, up to a constant. If they were free, the gradient
of the loss -log P(y) by them would be G = P - onehot(y), and a step against it the steepest. A head moves them only in
some directions, the columns of J, its Jacobian of log P by its input at that position, less their means (a constant
changes no probability). The best step of unit length in those directions lowers the loss by |proj G|, a free one by
|G|, where proj is the orthogonal projection on the span of J. So what is let through of N positions is

    share = sum_n |proj_n G_n|^2 / sum_n |G_n|^2,

from 0 to 1. The input is, in turn, what a body and what a head can change:

- `hidden`, the hidden state g [D]. One softmax z = W g + b has J = W - 1 w', the same span everywhere. A mixture has
  J = sum_k r_k (W - 1 w_k') dh_k/dg with the responsibilities r_k(x) = pi_k p_k(x) / P(x) of each token, and a term
  of its prior: its D directions differ from position to position.
- `contexts`, all contexts h_1 ... h_K that the head makes of g, as if each could be moved alone: up to K d directions,
  sum_k r_k (W - 1 w_k') dh_k. For one softmax that is the hidden state again, for mixed contexts still d directions.

The gradients of single components, r_k (p_k - onehot(y)), are not compared: each passes through the same W, so their
share is that of one softmax, whatever the mixture of them can do.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from fastmos.heads.modules import Contexts, Head

Through = Literal["hidden", "contexts"]
AT_ONCE = 32  # directions in which a head is differentiated at once
WEAKEST = 1e-7  # singular value, as a share of the largest, of a direction that counts


@dataclass(frozen=True)
class GradientShare:
    """What is let through of the gradient by the logits, over some positions."""

    reached: Tensor  # [N] float64, squared norm of the projected gradient
    total: Tensor  # [N] float64, that of the whole gradient
    directions: float  # how many the span has, on average

    @property
    def share(self) -> float:
        return float(self.reached.sum() / self.total.sum())


def gradient_share(head: Head, hidden: Tensor, targets: Tensor, through: Through) -> GradientShare:
    """What `head` lets through at hidden states [N, D] with targets [N], in float64 and without dropout."""
    if hidden.ndim != 2 or targets.shape != hidden.shape[:1] or not len(hidden):
        raise ValueError(
            f"hidden and targets have shapes {list(hidden.shape)} and {list(targets.shape)}; give [N, D], [N]"
        )
    exact = copy.deepcopy(head).double().eval().requires_grad_(False)
    reached, total, directions = [], [], 0
    for state, target in zip(hidden.detach().double(), targets, strict=True):
        log_probs, jacobian = _differentiated(exact, state, through)
        gradient = log_probs.exp()  # [V]
        gradient[target] -= 1
        squared, count = _projected(jacobian - jacobian.mean(0), gradient)
        reached.append(squared)
        total.append(gradient.square().sum())
        directions += count
    return GradientShare(torch.stack(reached), torch.stack(total), directions / len(hidden))


def _differentiated(head: Head, state: Tensor, through: Through) -> tuple[Tensor, Tensor]:
    """log P [V] at a hidden state [D], and its Jacobian [V, C] by that, or by the contexts made of it."""
    modules = [module for module in head.modules() if isinstance(module, Contexts)] if through == "contexts" else []
    sizes = [module.mixtures * (module.out_features // module.mixtures) for module in modules]

    def moved(by: Tensor) -> Tensor:
        """log P where the input is moved by so much."""
        if not modules:
            return head.log_probs(state + by)
        with ExitStack() as stack:
            for module, part in zip(modules, torch.split(by, sizes), strict=True):
                stack.enter_context(_adding(module, part))
            return head.log_probs(state)

    with torch.enable_grad():  # so that heads follow the formula that can be differentiated
        nothing = state.new_zeros(sum(sizes) or len(state))
        along = torch.vmap(lambda step: torch.func.jvp(moved, (nothing,), (step,))[1], out_dims=1, chunk_size=AT_ONCE)
        jacobian: Tensor = along(torch.eye(len(nothing)).to(nothing))  # [V, C]
        return moved(nothing).detach(), jacobian.detach()


@contextmanager
def _adding(module: Contexts, part: Tensor) -> Iterator[None]:
    """While inside, the contexts of a module come with this [K d] added."""
    hook: Callable[..., Any] = lambda _module, _inputs, output: output + part.view(module.mixtures, -1)  # noqa: E731
    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _projected(columns: Tensor, gradient: Tensor) -> tuple[Tensor, int]:
    """The squared norm of a gradient's [V] projection on the span of some columns [V, C], and the size of that span."""
    values, vectors = torch.linalg.eigh(columns.T @ columns)
    kept = values > values[-1] * WEAKEST**2
    along = vectors[:, kept].T @ (columns.T @ gradient)
    return (along.square() / values[kept]).sum(), int(kept.sum())
