"""Output layers: hidden states -> log-probabilities, and the loss. Needs nothing but torch."""

from fastmos.heads.loss import HeadOutput, LossOptions, Reduction, Smoothing, mixture_nll, mixture_nll_reference
from fastmos.heads.modules import HEADS, Head, MixtureOfContexts, MixtureOfSoftmaxes, Softmax, Usage, build_head
from fastmos.heads.public import load_public_mos

__all__ = [
    "HEADS",
    "Head",
    "HeadOutput",
    "LossOptions",
    "MixtureOfContexts",
    "MixtureOfSoftmaxes",
    "Reduction",
    "Smoothing",
    "Softmax",
    "Usage",
    "build_head",
    "load_public_mos",
    "mixture_nll",
    "mixture_nll_reference",
]
