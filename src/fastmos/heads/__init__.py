"""Output layers: hidden states -> log-probabilities, and the loss. Needs nothing but torch."""

from fastmos.heads.loss import HeadOutput, mixture_nll, mixture_nll_reference, nll_reference
from fastmos.heads.mixtape import Mixtape
from fastmos.heads.modules import ContextKind, Head, MixtureOfContexts, MixtureOfSoftmaxes, Softmax, Usage
from fastmos.heads.public import load_public_mos
from fastmos.heads.rank import Rank, log_prob_rank
from fastmos.heads.registry import HEADS, build_head
from fastmos.heads.shared_tail import SharedTailMixture
from fastmos.heads.shortlist import PartialLogProbs, ShortlistMixture, best_shortlist
from fastmos.heads.targets import LossOptions, Reduction, SmoothingKind

__all__ = [
    "HEADS",
    "ContextKind",
    "Head",
    "HeadOutput",
    "LossOptions",
    "Mixtape",
    "MixtureOfContexts",
    "MixtureOfSoftmaxes",
    "PartialLogProbs",
    "Rank",
    "Reduction",
    "SharedTailMixture",
    "ShortlistMixture",
    "SmoothingKind",
    "Softmax",
    "Usage",
    "best_shortlist",
    "build_head",
    "load_public_mos",
    "log_prob_rank",
    "mixture_nll",
    "mixture_nll_reference",
    "nll_reference",
]
