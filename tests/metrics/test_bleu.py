"""BLEU and chrF: tables of (input, expected), with figures computed by hand."""

import math

import pytest

from fastmos.errors import InputError
from fastmos.metrics import bleu, chrf, compound_split_bleu
from fastmos.metrics.bleu import Tokenize, split_compounds

CAT = "the cat sat on the mat"


@pytest.mark.parametrize(
    ("hypothesis", "reference", "expected"),
    [
        (CAT, CAT, 100),
        # 3 of 4 words, 2 of 3 pairs, 1 of 2 triples, and no four: smoothed to half of one of 1.
        ("this is a fest", "this is a test", 100 * (3 / 4 * 2 / 3 * 1 / 2 * 1 / 2) ** (1 / 4)),
        # Every n-gram is right and one word of six is missing: the brevity penalty alone.
        ("the cat sat on the", CAT, 100 * math.exp(1 - 6 / 5)),
        # Clipping: `the` counts twice of seven times (Papineni et al. 2002); then smoothing by 1/2, 1/4, 1/8.
        ("the the the the the the the", CAT, 100 * (2 / 7 / (2 * 6) / (4 * 5) / (8 * 4)) ** (1 / 4)),
        ("quite another thing", CAT, 0),
        ("The cat sat on the mat", CAT, 100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** (1 / 4)),
        # Words as they stand: punctuation is not split off.
        ("the cat sat on the mat.", CAT, 100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** (1 / 4)),
    ],
)
def test_bleu(hypothesis: str, reference: str, expected: float) -> None:
    assert bleu([hypothesis], [reference]).value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("tokenize", "lowercase", "value", "mark"),
    [
        ("none", False, 100 * (4 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** (1 / 4), "case:mixed|eff:no|tok:none"),
        ("none", True, 100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** (1 / 4), "case:lc|eff:no|tok:none"),
        ("13a", True, 100, "case:lc|eff:no|tok:13a"),
    ],
)
def test_bleu_options(tokenize: Tokenize, lowercase: bool, value: float, mark: str) -> None:
    score = bleu(["The cat sat on the mat."], ["the cat sat on the mat ."], tokenize=tokenize, lowercase=lowercase)
    if tokenize == "none":  # seven tokens against six
        value *= math.exp(1 - 7 / 6)
    assert score.value == pytest.approx(value)
    assert mark in score.signature and "version:" in score.signature


def test_bleu_is_of_the_corpus_not_a_mean_of_lines() -> None:
    hypotheses, references = [CAT, "one two three four five"], [CAT, "one two three four nine"]
    expected = 100 * (10 / 11 * 8 / 9 * 6 / 7 * 4 / 5) ** (1 / 4)
    assert bleu(hypotheses, references).value == pytest.approx(expected)


def test_chrf() -> None:
    assert chrf([CAT], [CAT]).value == pytest.approx(100)
    # One character of two is right, no pair is: F2 = 1/2 for order one, 0 for two; orders three to six have no n-grams.
    assert chrf(["ab"], ["ac"]).value == pytest.approx(25)
    assert chrf(["AB"], ["ab"], lowercase=True).value == pytest.approx(100)
    assert chrf(["AB"], ["ab"]).value == 0
    assert chrf([CAT], [CAT]).signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0")


@pytest.mark.parametrize(
    ("line", "split"),
    [
        ("rich-text", "rich ##AT##-##AT## text"),
        ("a - b", "a - b"),
        ("-5 und 5-", "-5 und 5-"),
        ("ab-cd-ef", "ab ##AT##-##AT## cd ##AT##-##AT## ef"),
        ("Ost-West-Konflikt , Öl-Preis", "Ost ##AT##-##AT## West ##AT##-##AT## Konflikt , Öl ##AT##-##AT## Preis"),
        ("a-b-c", "a ##AT##-##AT## b-c"),  # as the script of the time did: matches do not overlap
        ("", ""),
    ],
)
def test_split_compounds(line: str, split: str) -> None:
    assert split_compounds([line]) == [split]


def test_compound_split_bleu() -> None:
    hypothesis, reference = "der Öl-Preis ist sehr hoch", "der Öl-Markt ist sehr hoch"
    score = compound_split_bleu([hypothesis], [reference])
    # der Öl - X ist sehr hoch: 6 of 7, 4 of 6, 2 of 5, and of the four fours none.
    assert score.value == pytest.approx(100 * (6 / 7 * 4 / 6 * 2 / 5 * 1 / (2 * 4)) ** (1 / 4))
    assert score.signature.endswith("|compounds:split")


@pytest.mark.parametrize(("hypotheses", "references"), [(["a"], ["a", "b"]), ([], [])])
def test_bad_input(hypotheses: list[str], references: list[str]) -> None:
    for metric in (bleu, chrf, compound_split_bleu):
        with pytest.raises(InputError):
            metric(hypotheses, references)
