"""`fastmos score`: log-probability and perplexity, a line each."""

import json
import math
from pathlib import Path

import pytest

from tests.cli.calling import Command


def test_evaluate_and_score_agree(trained: Path, run_command: Command) -> None:
    files = ["--source", trained / "test.a", "--target", trained / "test.b"]
    lines = run_command("score", trained / "run", *files).out.splitlines()
    scores, perplexities = zip(*(map(float, line.split("\t")) for line in lines), strict=True)
    record = json.loads(run_command("evaluate", trained / "run", "--json").out)
    total = record["nll_per_word"] * (record["words"] + record["lines"])
    assert total == pytest.approx(-sum(scores), rel=1e-4)
    assert len(scores) == 8
    words = [len(line.split()) + 1 for line in (trained / "test.b").read_text(encoding="utf-8").splitlines()]
    nll = [math.log(one) * count for one, count in zip(perplexities, words, strict=True)]
    assert nll == pytest.approx([-score for score in scores], abs=0.1)
    assert sum(words) == record["words"] + record["lines"]


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
