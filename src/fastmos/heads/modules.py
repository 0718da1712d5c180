"""The heads: modules that hold parameters and say how contexts come of hidden states; `loss.py` does the rest."""

from dataclasses import dataclass
from typing import Self, overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fastmos.heads.loss import HeadOutput, LossOptions, Reduction, Smoothing, fused_nll, log_probabilities, mixture_nll


@dataclass(frozen=True)
class Usage:
    """How a mixture spreads its weight over its components. A mixture that has collapsed uses one of them."""

    effective: float  # effective number of mixtures: exp of the entropy of `share`, from 1 to K
    entropy: float  # of the prior, in nats, averaged over tokens
    share: list[float]  # [K] prior of each component, averaged over tokens


class Head(nn.Module):
    """What all heads share: an embedding of codes, a bias, and the step from contexts to log-probabilities or loss."""

    def __init__(
        self,
        mixtures: int,
        hidden: int,
        codes: int,
        width: int | None,
        embedding: nn.Embedding | None,
        bias: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        width = hidden if width is None else width
        for name, size in {"hidden": hidden, "codes": codes, "width": width, "mixtures": mixtures}.items():
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"{name} is {size!r}; it must be an integer and at least 1")
        self.mixtures, self.hidden, self.width = mixtures, hidden, width
        if embedding is not None:
            _check_embedding(embedding, codes, width)
            self.weight = embedding.weight  # [V, d]
        else:
            self.weight = nn.Parameter(torch.empty(codes, width).uniform_(-0.1, 0.1))
        self.bias = nn.Parameter(torch.zeros(codes)) if bias else None  # [V]
        self.dropout = nn.Dropout(dropout)

    @property
    def softmaxes(self) -> int:
        """How many contexts `parts` gives for a token."""
        return self.mixtures

    def parts(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Contexts [..., K, d] and log-prior [..., K] of hidden states [..., D]."""
        raise NotImplementedError

    @overload
    def forward(self, hidden: Tensor) -> Tensor: ...

    @overload
    def forward(
        self,
        hidden: Tensor,
        targets: Tensor,
        *,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        smoothing: Smoothing = "uniform",
        reduction: Reduction = "sum",
        count_correct: bool = False,
    ) -> HeadOutput: ...

    def forward(
        self,
        hidden: Tensor,
        targets: Tensor | None = None,
        *,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        smoothing: Smoothing = "uniform",
        reduction: Reduction = "sum",
        count_correct: bool = False,
    ) -> Tensor | HeadOutput:
        """Log-probabilities [..., V] of hidden states [..., D]; with targets [...] the loss instead."""
        self._check_hidden(hidden)
        if targets is None:
            return log_probabilities(self.parts, hidden, self.softmaxes, self.weight, self.bias)
        if targets.shape != hidden.shape[:-1]:
            raise ValueError(
                f"targets have shape {list(targets.shape)}; "
                f"for hidden {list(hidden.shape)} it must be {list(hidden.shape[:-1])}"
            )
        if reduction == "none" and torch.is_grad_enabled():  # the backward pass needs the very same contexts again
            contexts, log_prior = self.parts(hidden)
            return mixture_nll(
                contexts,
                log_prior,
                self.weight,
                self.bias,
                targets,
                ignore_index=ignore_index,
                label_smoothing=label_smoothing,
                smoothing=smoothing,
                reduction=reduction,
                count_correct=count_correct,
            )
        inner = [one for one in self.parameters() if one is not self.weight and one is not self.bias]
        options = LossOptions(ignore_index, label_smoothing, smoothing, reduction, count_correct)
        return fused_nll(self.parts, [hidden], inner, self.softmaxes, self.weight, self.bias, targets, options)

    def _check_hidden(self, hidden: Tensor) -> None:
        if hidden.ndim < 1 or hidden.shape[-1] != self.hidden:
            raise ValueError(f"hidden has shape {list(hidden.shape)}; its last dimension must be {self.hidden}")

    def extra_repr(self) -> str:
        return f"hidden={self.hidden}, codes={len(self.weight)}, width={self.width}, bias={self.bias is not None}"


def _check_embedding(embedding: nn.Embedding, codes: int, width: int) -> None:
    if not isinstance(embedding, nn.Embedding):
        raise TypeError(f"embedding is a {type(embedding).__name__}; it must be an nn.Embedding")
    if embedding.weight.shape != (codes, width):
        raise ValueError(
            f"embedding has {embedding.num_embeddings} codes of width {embedding.embedding_dim}; "
            f"it must have codes={codes} of width={width} (the hidden width unless given)"
        )


class Softmax(Head):
    """The plain output layer: P = softmax(g W^T + b).

    `width` is the embedding's width where it differs from the hidden one (a linear layer then leads there), `embedding`
    ties the weight to an `nn.Embedding`, dropout acts on the hidden state g.
    """

    def __init__(
        self,
        hidden: int,
        codes: int,
        *,
        width: int | None = None,
        embedding: nn.Embedding | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(1, hidden, codes, width, embedding, bias, dropout)
        self.latent = nn.Linear(hidden, self.width) if self.width != hidden else None

    def parts(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        context = self.dropout(hidden)
        if self.latent is not None:
            context = self.latent(context)
        return context[..., None, :], context.new_zeros(*context.shape[:-1], 1)


class MixtureOfSoftmaxes(Head):
    """P = sum_k pi_k softmax(h_k W^T + b) with pi = softmax(W_pi g) and h_k = tanh(W_k g + b_k) (equations 1 and 2).

    `mixtures` is K, `width` that of the embedding where it differs from the hidden one, `embedding` ties the weight to
    an `nn.Embedding`, dropout acts on the contexts h_k. One mixture is not a `Softmax`: it has a tanh layer.
    """

    def __init__(
        self,
        hidden: int,
        codes: int,
        mixtures: int,
        *,
        width: int | None = None,
        embedding: nn.Embedding | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(mixtures, hidden, codes, width, embedding, bias, dropout)
        self.prior = nn.Linear(hidden, mixtures, bias=False)
        self.latent = nn.Linear(hidden, mixtures * self.width)

    def parts(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        contexts = torch.tanh(self.latent(hidden)).view(*hidden.shape[:-1], self.mixtures, self.width)
        exact = torch.float64 if hidden.dtype == torch.float64 else torch.float32
        return self.dropout(contexts), F.log_softmax(self.prior(hidden), -1, dtype=exact)

    @torch.no_grad()
    def near_softmax_(self) -> Self:
        """Start near a plain softmax: halve the W_k that were drawn and add the identity; h_k is then tanh(g + noise).

        Contexts drawn at random have to be learnt first, and a mixture then lags behind a softmax for some epochs.
        """
        if self.width != self.hidden:
            raise ValueError(f"width is {self.width}; a start near the softmax needs it to be hidden, {self.hidden}")
        layers = self.latent.weight.view(self.mixtures, self.width, self.hidden)
        layers.mul_(0.5).add_(torch.eye(self.width, dtype=layers.dtype, device=layers.device))
        return self

    @torch.no_grad()
    def usage(self, hidden: Tensor) -> Usage:
        """How the mixture is used over these hidden states [..., D]; nan over none."""
        self._check_hidden(hidden)
        prior = F.softmax(self.prior(hidden).double(), -1).reshape(-1, self.mixtures)  # [N, K]
        share = prior.mean(0)
        entropy = torch.special.entr(prior).sum(-1).mean()
        return Usage(torch.special.entr(share).sum().exp().item(), entropy.item(), share.tolist())


class MixtureOfContexts(MixtureOfSoftmaxes):
    """One softmax over the mean context: P = softmax((sum_k pi_k h_k) W^T + b), with pi and h_k as in the mixture.

    The control of experiments: as many parameters as a `MixtureOfSoftmaxes`, but the rank of one softmax.
    """

    softmaxes = 1

    def parts(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        contexts, log_prior = super().parts(hidden)
        context = (log_prior.exp()[..., None] * contexts).sum(-2)
        return context[..., None, :].to(contexts.dtype), torch.zeros_like(log_prior[..., :1])


HEADS: dict[str, type[Softmax] | type[MixtureOfSoftmaxes]] = {
    "softmax": Softmax,
    "mos": MixtureOfSoftmaxes,
    "moc": MixtureOfContexts,
}


def build_head(
    kind: str,
    hidden: int,
    codes: int,
    mixtures: int,
    *,
    width: int | None = None,
    embedding: nn.Embedding | None = None,
    bias: bool = True,
    dropout: float = 0.0,
) -> Head:
    """The head of this kind, a key of `HEADS`; a "softmax" has no use for `mixtures`."""
    if kind not in HEADS:
        raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(HEADS)}")
    head = HEADS[kind]
    if issubclass(head, MixtureOfSoftmaxes):
        return head(hidden, codes, mixtures, width=width, embedding=embedding, bias=bias, dropout=dropout)
    return head(hidden, codes, width=width, embedding=embedding, bias=bias, dropout=dropout)
