"""`fastmos score`: one log-probability a line."""

import json
from pathlib import Path

import pytest

from tests.cli.calling import Command


def test_evaluate_and_score_agree(trained: Path, run_command: Command) -> None:
    files = ["--source", trained / "test.a", "--target", trained / "test.b"]
    scores = run_command("score", trained / "run", *files).out.split()
    record = json.loads(run_command("evaluate", trained / "run", "--json").out)
    total = record["nll_per_word"] * (record["words"] + record["lines"])
    assert total == pytest.approx(-sum(map(float, scores)), rel=1e-4)
    assert len(scores) == 8


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("lm --target test.b --source test.a", "a language model, which has no sources"),
        ("run --target none --source test.a", "none: no such file"),
        ("run --source test.a", "the following arguments are required: --target"),
    ],
)
def test_refusals(words: str, said: str, trained: Path, run_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    done = run_command("score", *words.split(), stdin=b"3\n")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("fastmos: ") and done.err.count("\n") == 1
    assert said in done.err
