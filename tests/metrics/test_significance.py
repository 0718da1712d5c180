"""Significance from stored statistics is what sacreBLEU finds from the texts."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest, Result

from fastmos.metrics import bleu
from fastmos.metrics.significance import bleu_of_statistics, bleu_statistics, bootstrap_bleu, bootstrap_mean


def noisy(lines: list[str], share: float, seed: int) -> list[str]:
    dice = random.Random(seed)
    return [" ".join(word if dice.random() > share else dice.choice("xyz") for word in line.split()) for line in lines]


@pytest.fixture
def references() -> list[str]:
    dice = random.Random(1)
    return [" ".join(dice.choices("abcdefgh", k=dice.randint(4, 12))) for _ in range(60)]


@pytest.mark.parametrize("share", [0.0, 0.2, 0.6, 0.9, 1.0])
def test_bleu_of_statistics_is_corpus_bleu(references: list[str], share: float) -> None:
    outputs = noisy(references, share, 2)
    statistics = np.array(bleu_statistics(outputs, references))
    assert statistics.shape == (60, 10)
    np.testing.assert_allclose(bleu_of_statistics(statistics.sum(0)), bleu(outputs, references).value, rtol=1e-9)


def test_outputs_that_are_empty_or_short(references: list[str]) -> None:
    outputs = [line[: 3 * (number % 3)].strip() for number, line in enumerate(references)]
    statistics = np.array(bleu_statistics(outputs, references))
    np.testing.assert_allclose(bleu_of_statistics(statistics.sum(0)), bleu(outputs, references).value, rtol=1e-9)
    nothing = np.array(bleu_statistics([""] * 60, references)).sum(0)
    assert bleu_of_statistics(nothing) == BLEU(tokenize="none").corpus_score([""] * 60, [references]).score == 0.0


@pytest.mark.parametrize("share", [0.2, 0.22, 0.3])
def test_p_value_is_sacrebleus(references: list[str], share: float) -> None:
    ours, theirs = noisy(references, 0.2, 3), noisy(references, share, 4)
    systems: list[tuple[str, Sequence[str]]] = [("baseline", theirs), ("system", ours)]
    _, scores = PairedTest(systems, {"BLEU": BLEU(tokenize="none", force=True)}, [references], "bs", 1000)()
    expected = scores["BLEU"][1]
    assert isinstance(expected, Result)
    before, after = (np.array(bleu_statistics(lines, references)) for lines in (theirs, ours))
    assert bootstrap_bleu(before, after) == pytest.approx(expected.p_value, abs=0.003)  # float32 there, float64 here


def test_equal_systems_do_not_differ(references: list[str]) -> None:
    outputs = np.array(bleu_statistics(noisy(references, 0.2, 3), references))
    wrong, no_better = (np.array(bleu_statistics([word] * 60, references)) for word in "xy")
    assert bootstrap_bleu(outputs, outputs) == bootstrap_bleu(wrong, no_better) == 1.0
    assert bootstrap_mean(outputs[:, 2], outputs[:, 2]) == 1.0


def test_means_differ_or_do_not() -> None:
    dice = np.random.default_rng(0)
    before = dice.normal(size=500)
    assert bootstrap_mean(before, before + 1.0 + 0.1 * dice.normal(size=500)) < 0.01
    assert bootstrap_mean(before, before + 0.1 * dice.normal(size=500)) > 0.05
