"""The heads: modules that hold parameters and make contexts of hidden states; `loss.py` does the rest."""

import math
from dataclasses import dataclass
from typing import Literal, Self, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fastmos.heads.fused import Layer
from fastmos.heads.kernel import Kernel, Objective, exact_dtype
from fastmos.heads.log_probs import layer_log_probs, soft_capped
from fastmos.heads.loss import HeadOutput, best_tokens, fused, head_output, layer_entropy
from fastmos.heads.products import Linear
from fastmos.heads.targets import CheckedTargets, LossOptions, Reduction, SmoothingKind, check_targets

ContextKind = Literal["tanh", "residual"]


@dataclass(frozen=True)
class Usage:
    """How a mixture spreads its weight over its components. A mixture that has collapsed uses one of them."""

    effective: float  # effective number of mixtures: exp of the entropy of `share`, from 1 to K
    entropy: float  # of the prior, in nats, averaged over tokens
    share: list[float]  # [K] prior of each component, averaged over tokens


class Head(nn.Module):
    """What all heads share: an output embedding, a bias, and the step from contexts to log-probabilities or loss."""

    def __init__(
        self,
        hidden_size: int,
        vocab_size: int,
        mixtures: int,
        embedding_size: int | None,
        embedding: nn.Embedding | None,
        bias: bool,
        dropout: float,
        softcap: float | None,
    ) -> None:
        super().__init__()
        self.hidden_size, self.vocab_size, self.mixtures = hidden_size, vocab_size, mixtures
        self.embedding_size = hidden_size if embedding_size is None else embedding_size
        for name in ("hidden_size", "vocab_size", "embedding_size", "mixtures"):
            size = getattr(self, name)
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"{name} is {size!r}; it must be an integer and at least 1")
        if embedding is not None:
            _check_embedding(embedding, self.vocab_size, self.embedding_size)
            self.weight = embedding.weight  # [V, d]
        else:
            self.weight = nn.Parameter(torch.empty(self.vocab_size, self.embedding_size).uniform_(-0.1, 0.1))
        self.bias = nn.Parameter(torch.zeros(self.vocab_size)) if bias else None  # [V]
        self.dropout = nn.Dropout(dropout)
        if softcap is not None and not 0 < softcap < math.inf:
            raise ValueError(f"softcap is {softcap}; it must be above 0 and finite, or None")
        self.softcap = softcap

    @property
    def softmaxes(self) -> int:
        """How many contexts `parts` makes for a token."""
        return self.mixtures

    def parts(self, hidden: Tensor) -> tuple[Tensor, ...]:
        """Contexts [..., K, d] and log-prior [..., K] of hidden states [..., D]."""
        raise NotImplementedError

    def mixture_weights(self, hidden: Tensor) -> Tensor:
        """The weights [..., K] of the components for hidden states [..., D]."""
        return hidden.new_ones(*hidden.shape[:-1], 1)

    @torch.no_grad()
    def usage(self, hidden: Tensor) -> Usage:
        """How the mixture is used over these hidden states [..., D]; nan over none."""
        self._check_hidden(hidden)
        prior = self.mixture_weights(hidden).double().reshape(-1, self.mixtures)  # [N, K]
        share = prior.mean(0)
        entropy = torch.special.entr(prior).sum(-1).mean()
        return Usage(torch.special.entr(share).sum().exp().item(), entropy.item(), share.tolist())

    def forward(
        self,
        hidden: Tensor,
        targets: Tensor | None = None,
        *,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        label_smoothing_kind: SmoothingKind = "uniform",
        reduction: Reduction = "mean",
        count_correct: bool = False,
        z_loss: float = 0.0,
        target_probs: Tensor | None = None,
    ) -> Tensor | HeadOutput:
        """Log-probabilities [..., V] of hidden states [..., D]; with targets [...] the loss instead.

        Soft targets, say of a teacher, are probabilities [..., V], or tokens [..., k] with `target_probs` [..., k].
        """
        self._check_hidden(hidden)
        if targets is None and target_probs is None:
            return self.log_probs(hidden)
        if targets is None:
            raise ValueError("target_probs are given without targets, the tokens [..., k] that they belong to")
        options = LossOptions(ignore_index, label_smoothing, label_smoothing_kind, reduction, count_correct, z_loss)
        return self.loss(hidden, targets, options, target_probs)

    def log_probs(self, hidden: Tensor) -> Tensor:
        """Log-probabilities [..., V]; where no gradient is asked for, in chunks of tokens."""
        return layer_log_probs(self._layer(), hidden)

    def component_log_probs(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Log-prior [..., K] and log-probabilities [..., K, V] of every softmax by itself, to look at them one by one.

        Their mixture is `log_probs`. A head that mixes before its softmax has one.
        """
        contexts, log_prior = self.parts(hidden)
        logits = soft_capped(F.linear(contexts, self.weight, self.bias), self.softcap)
        return log_prior, torch.log_softmax(logits, -1, dtype=exact_dtype(logits.dtype))

    def loss(
        self, hidden: Tensor, targets: Tensor, options: LossOptions, target_probs: Tensor | None = None
    ) -> HeadOutput:
        """The loss with its options as one object."""
        shape, rows = hidden.shape[:-1], hidden.reshape(-1, hidden.shape[-1])  # [N, D]
        checked = check_targets(targets, target_probs, shape, self.vocab_size, options)
        objective = options.objective(self.vocab_size, checked.soft)
        loss, nll = self._fused(rows, checked, objective, options.reduction == "none")
        return head_output(loss, nll, checked, options, shape, lambda: best_tokens(self.log_probs, [rows]))

    def entropy(self, hidden: Tensor) -> Tensor:
        """The entropy [...] of the distribution of the next token, in nats, with gradients."""
        self._check_hidden(hidden)
        rows = hidden.reshape(-1, hidden.shape[-1])  # [N, D]
        return self._entropy(rows).view(hidden.shape[:-1])

    def _fused(
        self, hidden: Tensor, targets: CheckedTargets, objective: Objective, per_token: bool
    ) -> tuple[Tensor, Tensor]:
        """Loss (the sum, or [N] for each token) and nll [N] of hidden states [N, D]."""
        return fused(self._layer(), [hidden], targets, objective, per_token)

    def _entropy(self, hidden: Tensor) -> Tensor:
        return layer_entropy(self._layer(), [hidden])

    def _layer(self) -> Layer:
        inner = [one for one in self.parameters() if one is not self.weight and one is not self.bias]
        return Layer(self.parts, inner, [self.weight, self.bias], self.softmaxes, Kernel, self.softcap)

    def _check_hidden(self, hidden: Tensor) -> None:
        if hidden.ndim < 1 or hidden.shape[-1] != self.hidden_size:
            raise ValueError(f"hidden has shape {list(hidden.shape)}; its last dimension must be {self.hidden_size}")

    def extra_repr(self) -> str:
        names = ("hidden_size", "vocab_size", "mixtures", "embedding_size")
        return ", ".join([*(f"{name}={getattr(self, name)}" for name in names), f"bias={self.bias is not None}"])


def _check_embedding(embedding: nn.Embedding, vocab_size: int, embedding_size: int) -> None:
    if not isinstance(embedding, nn.Embedding):
        raise TypeError(f"embedding is a {type(embedding).__name__}; it must be an nn.Embedding")
    if embedding.weight.shape != (vocab_size, embedding_size):
        raise ValueError(
            f"embedding is nn.Embedding({embedding.num_embeddings}, {embedding.embedding_dim}); it must be "
            f"nn.Embedding({vocab_size}, {embedding_size}): vocab_size, and embedding_size (hidden_size unless given)"
        )


class Softmax(Head):
    """The plain output layer: P = softmax(g W^T + b).

    `embedding_size` is the size of W's rows where it differs from the hidden size (a linear layer then leads there),
    `embedding` ties W to an `nn.Embedding`, dropout acts on the hidden state g, `softcap` c turns logits z into
    c tanh(z / c).
    """

    def __init__(
        self,
        hidden_size: int,
        vocab_size: int,
        *,
        embedding_size: int | None = None,
        embedding: nn.Embedding | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        softcap: float | None = None,
    ) -> None:
        super().__init__(hidden_size, vocab_size, 1, embedding_size, embedding, bias, dropout, softcap)
        self.latent = Linear(hidden_size, self.embedding_size) if self.embedding_size != hidden_size else None

    def parts(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        context = self.dropout(hidden)
        if self.latent is not None:
            context = self.latent(context)
        return context[..., None, :], context.new_zeros(*context.shape[:-1], 1)


class Contexts(Linear):
    """The contexts h_k [..., K, d] of hidden states g [..., D].

    They are tanh(W_k g + b_k), or residual: g + s_k tanh(W_k g + b_k), where s_k starts at 0, so that a mixture starts
    as one softmax. (Where the sizes differ, a linear layer takes g to size d.)
    """

    def __init__(self, hidden_size: int, embedding_size: int, mixtures: int, kind: ContextKind) -> None:
        super().__init__(hidden_size, mixtures * embedding_size)
        if kind not in get_args(ContextKind):
            raise ValueError(f"contexts is {kind!r}; it must be one of {get_args(ContextKind)}")
        residual = kind == "residual"
        self.mixtures = mixtures
        self.scale = nn.Parameter(torch.zeros(mixtures, embedding_size)) if residual else None  # s_k
        self.base = Linear(hidden_size, embedding_size) if residual and embedding_size != hidden_size else None

    def forward(self, hidden: Tensor) -> Tensor:
        contexts = torch.tanh(super().forward(hidden)).view(*hidden.shape[:-1], self.mixtures, -1)
        if self.scale is None:
            return contexts
        base: Tensor = hidden if self.base is None else self.base(hidden)
        return base[..., None, :] + self.scale * contexts

    @torch.no_grad()
    def near_softmax_(self) -> None:
        """Halve the W_k that were drawn and add the identity: h_k = tanh(g + noise). Residual contexts start there."""
        if self.scale is not None:
            return
        embedding_size = self.out_features // self.mixtures
        if embedding_size != self.in_features:
            raise ValueError(
                f"embedding_size is {embedding_size}; a start near the softmax needs it to be hidden_size, "
                f"{self.in_features}"
            )
        layers = self.weight.view(self.mixtures, self.in_features, self.in_features)
        layers.mul_(0.5).add_(torch.eye(self.in_features, dtype=layers.dtype, device=layers.device))


class MixtureOfSoftmaxes(Head):
    """P = sum_k pi_k softmax(h_k W^T + b) with pi = softmax(W_pi g) and h_k = tanh(W_k g + b_k) (equations 1 and 2).

    `mixtures` is K, `embedding_size` the size of W's rows where it differs from the hidden size, `embedding` ties W to
    an `nn.Embedding`, dropout acts on the contexts h_k, `softcap` c turns logits z into c tanh(z / c). One mixture is
    not a `Softmax`: it has a tanh layer. With contexts "residual", h_k = g + s_k tanh(W_k g + b_k) with s_k = 0 at
    first: the mixture starts as one softmax.
    """

    def __init__(
        self,
        hidden_size: int,
        vocab_size: int,
        mixtures: int,
        *,
        contexts: ContextKind = "tanh",
        embedding_size: int | None = None,
        embedding: nn.Embedding | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        softcap: float | None = None,
    ) -> None:
        super().__init__(hidden_size, vocab_size, mixtures, embedding_size, embedding, bias, dropout, softcap)
        self.prior = Linear(hidden_size, mixtures, bias=False)
        self.latent = Contexts(hidden_size, self.embedding_size, mixtures, contexts)

    def parts(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        log_prior = F.log_softmax(self.prior(hidden), -1, dtype=exact_dtype(hidden.dtype))
        return self.dropout(self.latent(hidden)), log_prior

    def near_softmax_(self) -> Self:
        """Start near a plain softmax: with contexts h_k = tanh(g + noise).

        Contexts drawn at random have to be learned first, and a mixture then lags behind a softmax for some epochs.
        """
        for module in self.modules():
            if isinstance(module, Contexts):
                module.near_softmax_()
        return self

    def mixture_weights(self, hidden: Tensor) -> Tensor:
        return F.softmax(self.prior(hidden), -1, dtype=exact_dtype(hidden.dtype))


class MixtureOfContexts(MixtureOfSoftmaxes):
    """One softmax over the mean context: P = softmax((sum_k pi_k h_k) W^T + b), with pi and h_k as in the mixture.

    The control of experiments: as many parameters as a `MixtureOfSoftmaxes`, but the rank of one softmax.
    """

    softmaxes = 1

    def parts(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        contexts, log_prior = super().parts(hidden)
        context = (log_prior.exp()[..., None] * contexts).sum(-2)
        return context[..., None, :].to(contexts.dtype), torch.zeros_like(log_prior[..., :1])
