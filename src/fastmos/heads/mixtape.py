"""Mixtape (Yang, Luong, Salakhutdinov and Le, NeurIPS 2019): contexts mixed token by token before one softmax.

The logit of token v is sum_k pi_vk h_k . w_v + b_v with four contexts h_k and gates pi_v from a tree of sigmoids,

    y_j = sigmoid(l_vj),  pi_v = (y1 y2, y1 (1 - y2), (1 - y1) y3, (1 - y1) (1 - y3)),

with gate logits l_vj = v_v . tanh(U_j g + c_j) + u_j . g + b_vj for the frequent tokens of a shortlist, and u_j . g for
all others. These share their gates, so their logits are m . w_v + b_v with one mean context m = sum_k pi_k h_k.
"""

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor, nn

from fastmos.heads.fused import Layer
from fastmos.heads.kernel import Kernel, Objective, Products, Recipe, exact_dtype
from fastmos.heads.log_probs import in_chunks, soft_capped
from fastmos.heads.modules import ContextKind, Contexts, Head
from fastmos.heads.products import linear
from fastmos.heads.shortlist import Shortlist, Tokens
from fastmos.heads.targets import CheckedTargets


def mixtape_logits(
    contexts: Tensor,
    mean: Tensor,
    gates: Tensor,
    shared: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    gate_weight: Tensor,
    gate_bias: Tensor,
) -> Tensor:
    """Logits [..., V] by the formula, the F tokens of the shortlist first.

    Contexts [..., 4, d], mean context [..., d], gate vectors tanh(U_j g + c_j) [..., 3, e], shared gate logits
    [..., 3]; weight [V, d], bias [V], gate weight v [F, e], gate bias [3, F].
    """
    size = len(gate_weight)
    products = linear(contexts, weight[:size])  # [..., 4, F]
    mixture = tree_weights(linear(gates, gate_weight) + shared[..., None] + gate_bias, -2)  # [..., 4, F]
    logits = torch.cat([(mixture * products).sum(-2), linear(mean, weight[size:])], -1)
    return logits if bias is None else logits + bias


def tree_weights(logits: Tensor, dim: int = -1) -> Tensor:
    """The four weights of a tree of three sigmoids."""
    first, second, third = torch.sigmoid(logits).unbind(dim)
    return torch.stack([first * second, first * (1 - second), (1 - first) * third, (1 - first) * (1 - third)], dim)


class MixtapeKernel(Kernel):
    """One softmax over logits that are mixed in front of it, in buffers [n, 4, F] and [n, 3, F] beside the logits'."""

    def make_products(
        self, recipe: Recipe, vocabulary: Sequence[Tensor | None], gradients: Sequence[Tensor | None]
    ) -> None:
        weight, bias, gate_weight, gate_bias = vocabulary
        assert weight is not None and gate_weight is not None and gate_bias is not None
        (d_weight, d_bias, d_gate_weight, self.d_gate_bias), dtype = gradients, recipe.dtype
        self.size, self.d_bias = len(gate_weight), d_bias
        exact, listed, others = exact_dtype(dtype), slice(self.size), slice(self.size, None)

        def part(tensor: Tensor | None, here: slice) -> Tensor | None:
            return None if tensor is None else tensor[here]

        self.gate_bias, self.bias = gate_bias.to(exact), None if bias is None else bias[listed].to(exact)
        self.products = Products(weight[listed], None, part(d_weight, listed), None, dtype, 4 * self.tokens)
        self.gate_products = Products(gate_weight, None, d_gate_weight, None, dtype, 3 * self.tokens)
        rest = part(bias, others), part(d_weight, others), part(d_bias, others)
        self.mean_products = Products(weight[others], *rest, dtype, self.tokens)
        self.mixed = weight.new_empty(self.tokens, 4, self.size, dtype=exact)
        self.gates = weight.new_empty(self.tokens, 3, self.size, dtype=exact)

    def chunk(
        self,
        made: Sequence[Tensor],
        targets: Tensor,
        probs: Tensor | None,
        scale: Tensor | None,
        d_made: Sequence[Tensor | None],
    ) -> tuple[Tensor, Tensor]:
        contexts, mean, gates, shared = made
        contexts, gates = (one.reshape(-1, one.shape[-1]) for one in (contexts, gates))  # [4n, d], [3n, e]
        z, y = self.mixed[: len(targets)], self.gates[: len(targets)]  # [n, 4, F], [n, 3, F]
        logits = self.rows(len(targets))  # [n, stride]
        self.products.logits(contexts, z.flatten(0, 1))
        self.gate_products.logits(gates, y.flatten(0, 1))
        y.add_(self.gate_bias).add_(shared[..., None]).sigmoid_()
        left, right = torch.lerp(z[:, 1], z[:, 0], y[:, 1]), torch.lerp(z[:, 3], z[:, 2], y[:, 2])  # [n, F]
        torch.lerp(right, left, y[:, 0], out=logits[:, : self.size])
        if self.bias is not None:
            logits[:, : self.size] += self.bias
        self.mean_products.logits(mean, logits[:, self.size : self.vocab_size])
        loss, nll, slope, share, _ = self.differentiate(logits, z.new_zeros(len(targets), 1), targets, probs, scale)
        if d_made[0] is not None or self.needs_gradients:
            self._backward(slope, share, left.sub_(right), contexts, mean, gates, d_made)
        return loss, nll

    def _backward(
        self,
        slope: Tensor,
        share: Tensor,
        difference: Tensor,
        contexts: Tensor,
        mean: Tensor,
        gates: Tensor,
        d_made: Sequence[Tensor | None],
    ) -> None:
        """Back through logit = right + y1 (left - right), left = z2 + y2 (z1 - z2), right = z4 + y3 (z3 - z4).

        The gradients by z and by the gates' logits take the places of z and y.
        """
        d_contexts, d_mean, d_gates, d_shared = d_made
        z, y = self.mixed[: len(slope)], self.gates[: len(slope)]
        d_logits = slope[:, : self.size] * share  # [n, F]
        d_left = d_logits * y[:, 0]
        d_right = d_logits - d_left
        z1, z2, z3, z4 = z.unbind(1)
        y1, y2, y3 = y.unbind(1)
        d_y = difference.mul_(d_logits), (z1 - z2).mul_(d_left), (z3 - z4).mul_(d_right)
        torch.mul(d_left, y2, out=z1)
        torch.sub(d_left, z1, out=z2)
        torch.mul(d_right, y3, out=z3)
        torch.sub(d_right, z3, out=z4)
        for gate, gradient in zip((y1, y2, y3), d_y, strict=True):
            gate.copy_(torch.ops.aten.sigmoid_backward(gradient, gate))
        if self.d_bias is not None:
            self.d_bias[: self.size] += d_logits.sum(0)
        if self.d_gate_bias is not None:
            self.d_gate_bias += y.sum(0)
        if d_shared is not None:
            d_shared.copy_(y.sum(2))
        self.products.backward(z.flatten(0, 1), None, contexts, d_contexts)
        self.gate_products.backward(y.flatten(0, 1), None, gates, d_gates)
        self.mean_products.backward(slope[:, self.size :], share, mean, d_mean)


class Mixtape(Head):
    """One softmax over logits mixed from four contexts by gates of each token, at 1.3 times the price of one.

    The tokens of the shortlist (a tenth of the vocabulary unless given: F for the tokens 0 to F - 1, or their ids) have
    gates of their own, of `gate_size` numbers; the others share theirs. Everything else is as in `MixtureOfSoftmaxes`.
    """

    def __init__(
        self,
        hidden_size: int,
        vocab_size: int,
        shortlist: Tokens | None = None,
        *,
        gate_size: int = 32,
        contexts: ContextKind = "tanh",
        embedding_size: int | None = None,
        embedding: nn.Embedding | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        softcap: float | None = None,
    ) -> None:
        if gate_size < 1:
            raise ValueError(f"gate_size is {gate_size}; it must be at least 1")
        super().__init__(hidden_size, vocab_size, 4, embedding_size, embedding, bias, dropout, softcap)
        self.shortlist = Shortlist(max(1, vocab_size // 10) if shortlist is None else shortlist, vocab_size)
        self.latent = Contexts(hidden_size, self.embedding_size, 4, contexts)
        self.gates = Contexts(hidden_size, gate_size, 3, "tanh")
        self.shared_gates = nn.Linear(hidden_size, 3, bias=False)
        self.gate_weight = nn.Parameter(torch.empty(len(self.shortlist), gate_size).uniform_(-0.1, 0.1))
        self.gate_bias = nn.Parameter(torch.zeros(3, len(self.shortlist)))

    def parts(self, hidden: Tensor) -> tuple[Tensor, ...]:
        """Contexts [..., 4, d], their mean for the other tokens [..., d], gate vectors [..., 3, e], gates [..., 3]."""
        contexts, shared = self.dropout(self.latent(hidden)), self.shared_gates(hidden)
        mean = (tree_weights(shared)[..., None] * contexts).sum(-2)
        return contexts, mean, self.gates(hidden), shared

    def near_softmax_(self) -> Self:
        """Start near a plain softmax: with contexts tanh(g + noise), as `MixtureOfSoftmaxes.near_softmax_` does."""
        self.latent.near_softmax_()
        return self

    def mixture_weights(self, hidden: Tensor) -> Tensor:
        return tree_weights(self.shared_gates(hidden))

    def log_probs(self, hidden: Tensor) -> Tensor:
        vocabulary = self._layer().vocabulary

        def formula(hidden: Tensor) -> Tensor:
            logits = soft_capped(mixtape_logits(*self.parts(hidden), *vocabulary), self.softcap)
            return torch.log_softmax(logits, -1, dtype=exact_dtype(logits.dtype))

        return self.shortlist.restore(in_chunks(formula, hidden, self.weight))

    def component_log_probs(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return hidden.new_zeros(*hidden.shape[:-1], 1), self.log_probs(hidden)[..., None, :]

    def _fused(
        self, hidden: Tensor, targets: CheckedTargets, objective: Objective, per_token: bool
    ) -> tuple[Tensor, Tensor]:
        return super()._fused(hidden, self.shortlist.targets(targets), objective, per_token)

    def _layer(self) -> Layer:
        weight, bias = (None if one is None else self.shortlist.reorder(one) for one in (self.weight, self.bias))
        inner = [*self.latent.parameters(), *self.gates.parameters(), *self.shared_gates.parameters()]
        return Layer(
            self.parts, inner, [weight, bias, self.gate_weight, self.gate_bias], 1, MixtapeKernel, self.softcap
        )
