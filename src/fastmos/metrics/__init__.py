"""Metrics: BLEU and chrF with signatures, significance, and likelihood per word."""

from fastmos.metrics.bleu import Comparison, Score, bleu, chrf, compound_split_bleu, paired_bootstrap
from fastmos.metrics.likelihood import Likelihood, LikelihoodReport

__all__ = [
    "Comparison",
    "Likelihood",
    "LikelihoodReport",
    "Score",
    "bleu",
    "chrf",
    "compound_split_bleu",
    "paired_bootstrap",
]
