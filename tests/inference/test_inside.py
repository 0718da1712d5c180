"""What a model does inside: distributions over softmaxes and source tokens, one for each token of the output."""

import json
from pathlib import Path
from typing import Any

import pytest

from fastmos.config import changed
from fastmos.experiment import begin
from fastmos.inference.inside import look_inside
from fastmos.inference.run import Run, load
from fastmos.run_folder import RunFolder
from fastmos.tasks import build_task
from tests.training.tiny import tiny


def untrained(base: Path, sections: dict[str, Any]) -> Run:
    """A run with the parameters it would start from."""
    task = build_task(changed(tiny(), sections), base, RunFolder(base / "run"))
    begin(task)
    model = task.build_model().eval()
    return Run(task, model, next(model.parameters()).device)


def test_a_translation_is_shown_token_by_token(trained: Path) -> None:
    run = load(trained / "run", "cpu")
    inside = look_inside(run, "3 1 2")
    eos = run.target.id_to_token(run.target.eos)
    assert inside.source == ["3", "1", "2", eos]
    assert inside.output == [*run.translate(["3 1 2"])[0].split(), eos]
    assert inside.weights is not None and inside.attention is not None
    for rows, width in ((inside.weights, 2), (inside.attention, len(inside.source))):
        assert len(rows) == len(inside.output)
        assert all(len(row) == width and min(row) >= 0 for row in rows)
        assert [sum(row) for row in rows] == pytest.approx([1.0] * len(rows), abs=1e-3)
    assert json.loads(json.dumps(inside.record()))["attention"] == inside.attention


def test_an_empty_line_has_an_inside(trained: Path) -> None:
    inside = look_inside(load(trained / "run", "cpu"), "")
    assert (len(inside.source), len(inside.output)) == (1, 1)
    assert inside.attention == [[1.0]]


@pytest.mark.parametrize(
    ("sections", "weights", "attention"),
    [
        ({}, True, True),
        ({"head": {"type": "softmax"}}, False, True),
        ({"model": {"input_feeding": True}}, True, False),
        ({"model": {"type": "transformer", "ffn_size": 8, "num_heads": 2, "num_layers": 1}}, True, False),
    ],
)
def test_what_a_model_does_not_have_is_none(
    sections: dict[str, Any], weights: bool, attention: bool, digits: Path
) -> None:
    inside = look_inside(untrained(digits, sections), "3 1")
    assert (inside.weights is not None, inside.attention is not None) == (weights, attention)
