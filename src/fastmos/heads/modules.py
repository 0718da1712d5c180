"""The heads: modules that hold parameters; `loss.py` does the work."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fastmos.heads.loss import HeadOutput, Reduction, Smoothing, mixture_nll


@dataclass(frozen=True)
class Usage:
    """How a mixture spreads its weight over its components, averaged over tokens."""

    effective: float  # exp of the mean entropy's complement: effective number of mixtures
    entropy: float
    share: list[float]


class MixtureOfSoftmaxes(nn.Module):
    """Paper equations 1 and 2."""

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
        super().__init__()
        width = width or hidden
        self.mixtures, self.dropout = mixtures, dropout
        self.prior = nn.Linear(hidden, mixtures, bias=False)
        self.latent = nn.Linear(hidden, mixtures * width)
        self.weight = (
            embedding.weight if embedding is not None else nn.Parameter(torch.empty(codes, width).uniform_(-0.1, 0.1))
        )
        self.bias = nn.Parameter(torch.zeros(codes)) if bias else None

    def _parts(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        flat = hidden.reshape(-1, hidden.shape[-1])
        contexts = torch.tanh(self.latent(flat)).view(len(flat), self.mixtures, -1)
        return F.dropout(contexts, self.dropout, self.training), F.log_softmax(self.prior(flat), -1)

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
        contexts, log_prior = self._parts(hidden)
        if targets is None:
            log_probs = torch.logsumexp(
                F.log_softmax(F.linear(contexts, self.weight, self.bias), -1) + log_prior[..., None], 1
            )
            return log_probs.view(*hidden.shape[:-1], -1)
        out = mixture_nll(
            contexts,
            log_prior,
            self.weight,
            self.bias,
            targets.reshape(-1),
            ignore_index=ignore_index,
            label_smoothing=label_smoothing,
            smoothing=smoothing,
            reduction=reduction,
            count_correct=count_correct,
        )
        return HeadOutput(out.loss, out.nll.view_as(targets), out.tokens, out.correct)


class Softmax(MixtureOfSoftmaxes):
    """Placeholder."""


class MixtureOfContexts(MixtureOfSoftmaxes):
    """Placeholder."""


HEADS = {"softmax": Softmax, "mos": MixtureOfSoftmaxes, "moc": MixtureOfContexts}
