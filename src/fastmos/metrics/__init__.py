"""Metrics: BLEU and chrF, the COCO caption metrics, likelihood per word, significance."""

from fastmos.metrics.bleu import Score, bleu, chrf, compound_split_bleu
from fastmos.metrics.likelihood import Likelihood, LikelihoodReport

__all__ = [
    "Likelihood",
    "LikelihoodReport",
    "Score",
    "bleu",
    "chrf",
    "compound_split_bleu",
]
