"""Output layers: hidden states -> log-probabilities, and the loss. Needs nothing but torch."""

from fastmos.heads.loss import HeadOutput, mixture_nll
from fastmos.heads.modules import HEADS, MixtureOfContexts, MixtureOfSoftmaxes, Softmax, Usage

__all__ = ["HEADS", "HeadOutput", "MixtureOfContexts", "MixtureOfSoftmaxes", "Softmax", "Usage", "mixture_nll"]
