"""Whether two systems differ: paired bootstrap resampling of stored statistics, without outputs and references."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fastmos.metrics.bleu import Tokenize

Array = np.ndarray[Any, np.dtype[Any]]
ORDER = 4  # the length of the longest n-grams
SEED = 12345  # sacreBLEU's


def bleu_statistics(
    hypotheses: Sequence[str], references: Sequence[str], *, tokenize: Tokenize = "none", lowercase: bool = False
) -> list[list[int]]:
    """The statistics of BLEU for each line: its length, the reference's, matching n-grams [4] and n-grams [4]."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    lines = (metric.corpus_score([line], [[reference]]) for line, reference in zip(hypotheses, references, strict=True))
    return [[line.sys_len, line.ref_len, *line.counts, *line.totals] for line in lines]


def bleu_of_statistics(statistics: Array) -> Array:
    """Corpus BLEU of summed statistics [..., 10], with sacreBLEU's exponential smoothing."""
    length, reference = statistics[..., 0], statistics[..., 1]
    matches, totals = statistics[..., 2 : 2 + ORDER], statistics[..., 2 + ORDER :]
    missed = np.cumsum(matches == 0, -1)  # each order without a match counts half as much as the one before
    precision = np.where(matches == 0, 0.5**missed, matches) / np.maximum(totals, 1)
    brevity = np.where(length < reference, np.exp(1 - reference / np.maximum(length, 1)), 1.0)
    scores = 100 * brevity * np.exp(np.log(np.maximum(precision, 1e-300)).mean(-1))
    return np.where((matches.sum(-1) == 0) | (totals == 0).any(-1), 0.0, scores)


def bootstrap_bleu(baseline: Array, system: Array, samples: int = 1000) -> float:
    """The p-value of the difference in BLEU, from statistics [lines, 10], as sacreBLEU's paired bootstrap gives it."""
    return _bootstrap(bleu_of_statistics, baseline, system, samples)


def bootstrap_mean(baseline: Array, system: Array, samples: int = 1000) -> float:
    """The p-value of the difference in the mean of a score that each line or image has [lines]."""
    return _bootstrap(lambda sums: sums[..., 0] / len(baseline), baseline[:, None], system[:, None], samples)


def _bootstrap(score: Callable[[Array], Array], baseline: Array, system: Array, samples: int) -> float:
    lines = len(baseline)
    chosen = np.random.default_rng(SEED).choice(lines, size=(samples, lines), replace=True)
    weights = np.stack([np.bincount(row, minlength=lines) for row in chosen]).astype(float)  # [samples, lines]
    found = np.abs(score(weights @ system) - score(weights @ baseline))
    difference = abs(float(score(system.sum(0)) - score(baseline.sum(0))))
    if difference == 0:  # no sample can exceed it
        return 1.0
    return float(((found - found.mean()) > difference).sum() + 1) / (samples + 1)
