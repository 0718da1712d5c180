"""Whether systems differ, from stored statistics: neither outputs nor references are needed again."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastmos.metrics.bleu import Tokenize

Array = np.ndarray[Any, np.dtype[Any]]
ORDER = 4  # of the longest n-grams
SEED = 12345  # sacreBLEU's


def bleu_statistics(
    hypotheses: Sequence[str], references: Sequence[str], *, tokenize: Tokenize = "none", lowercase: bool = False
) -> list[list[int]]:
    """All that BLEU knows of each line: its length, the reference's, right n-grams [4] and n-grams [4]."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    lines = (metric.corpus_score([line], [[reference]]) for line, reference in zip(hypotheses, references, strict=True))
    return [[line.sys_len, line.ref_len, *line.counts, *line.totals] for line in lines]


def bleu_of_statistics(statistics: Array) -> Array:
    """Corpus BLEU of summed statistics [..., 10], with sacreBLEU's exponential smoothing."""
    length, reference = statistics[..., 0], statistics[..., 1]
    right, all_of = statistics[..., 2 : 2 + ORDER], statistics[..., 2 + ORDER :]
    missed = np.cumsum(right == 0, -1)  # each order without a match counts half of the one before
    precision = np.where(right == 0, 0.5**missed, right) / np.maximum(all_of, 1)
    brevity = np.where(length < reference, np.exp(1 - reference / np.maximum(length, 1)), 1.0)
    scores = 100 * brevity * np.exp(np.log(np.maximum(precision, 1e-300)).mean(-1))
    return np.where((right.sum(-1) == 0) | (all_of == 0).any(-1), 0.0, scores)


def bootstrap_bleu(baseline: Array, system: Array, samples: int = 1000) -> float:
    """The p-value of two systems' BLEU, from statistics [lines, 10], as sacreBLEU's paired bootstrap finds it."""
    return _bootstrap(lambda sums: bleu_of_statistics(sums), baseline, system, samples)


def bootstrap_mean(baseline: Array, system: Array, samples: int = 1000) -> float:
    """The p-value of two systems' means of a figure that each line, or image, has by itself [lines]."""
    return _bootstrap(lambda sums: sums[..., 0] / len(baseline), baseline[:, None], system[:, None], samples)


def _bootstrap(score: Any, baseline: Array, system: Array, samples: int) -> float:
    lines = len(baseline)
    chosen = np.random.default_rng(SEED).choice(lines, size=(samples, lines), replace=True)
    weights = np.stack([np.bincount(row, minlength=lines) for row in chosen]).astype(float)  # [samples, lines]
    found = np.abs(score(weights @ system) - score(weights @ baseline))
    difference = abs(float(score(system.sum(0)) - score(baseline.sum(0))))
    if difference == 0:  # where no sample differs either, nothing would exceed it
        return 1.0
    return float(((found - found.mean()) > difference).sum() + 1) / (samples + 1)
