"""Runs side by side, with p-values."""

import re
from pathlib import Path

import pytest

from fastmos import experiment
from fastmos.errors import InputError
from fastmos.inference.run import load
from fastmos.report.compare import compare
from tests.training.tiny import tiny, write_digits


def cells(table: str) -> dict[str, list[str]]:
    """The cells of each run."""
    lines = [re.split(r" {2,}", line) for line in table.split("\n\n")[0].splitlines()]
    return {name: rest for name, *rest in lines}


def test_scores_stand_side_by_side_with_p_values(runs: Path) -> None:
    found = compare([runs / "short", runs / "long"])
    table = cells(found)
    assert table["run"] == ["BLEU", "p", "chrF", "NLL per word", "perplexity"]
    for name in ("short", "long"):
        evaluation = load(runs / name, "cpu").evaluate("test")
        figures = [float(cell) for cell in table[name] if cell]
        assert figures[0] == pytest.approx(evaluation.scores["bleu"].value, abs=0.006)
        assert figures[-2] == pytest.approx(evaluation.likelihood.nll_per_word, abs=6e-5)
        assert figures[-1] == pytest.approx(evaluation.likelihood.perplexity, rel=1e-3)
    assert 0 < float(table["long"][1]) <= 1
    assert "against short" in found and "test text of 8 lines" in found


def test_a_run_does_not_differ_from_itself(runs: Path) -> None:
    again = compare([runs / "long", runs / ".." / "runs" / "long"], "valid")
    assert " 1.000  " in again and "valid text of 8 lines" in again


def test_language_models_are_compared_by_likelihood(runs: Path) -> None:
    table = cells(compare([runs / "lm", runs / "lm"]))
    assert table["run"] == ["NLL per word", "perplexity"]


def test_what_does_not_compare_is_refused(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1 run given; give at least two"):
        compare([runs / "long"])
    with pytest.raises(InputError, match="long does translation and lm language-modeling"):
        compare([runs / "long", runs / "lm"])
    write_digits(tmp_path, seed=1)
    for name, section in (("other", {}), ("lower", {"target": {"type": "words", "lowercase": True}})):
        experiment.train(tiny(training={"max_epochs": 1}, tokenizers=section), tmp_path, tmp_path / name)
    with pytest.raises(InputError, match="name different test text"):
        compare([runs / "long", tmp_path / "other"])
    with pytest.raises(InputError, match="do not compare: their tokenizers treat case or words differently"):
        compare([tmp_path / "other", tmp_path / "lower"])
