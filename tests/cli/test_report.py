"""`fastmos compare`, `fastmos runs` and `fastmos report` on one's own runs."""

import shutil
from pathlib import Path

import pytest

from tests.cli.calling import Command


def test_compare_prints_scores_side_by_side(trained: Path, tmp_path: Path, run_command: Command) -> None:
    shutil.copytree(trained / "run", tmp_path / "copy")
    done = run_command("compare", trained / "run", tmp_path / "copy", "--split", "valid")
    assert done.code == 0, done.err
    header, *lines = done.out.splitlines()
    assert header.split()[:3] == ["run", "BLEU", "p"]
    assert [line.split()[0] for line in lines[:2]] == ["run", "copy"]


def test_runs_are_listed_with_their_best_score(
    trained: Path, run_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run_command("runs", trained)
    assert done.code == 0, done.err
    assert {line.split()[0] for line in done.out.splitlines()} >= {"run", "lm"}
    monkeypatch.chdir(trained)
    assert (run_command("runs").code, run_command("runs", ".").out) == (2, done.out)


def test_a_run_gets_a_page(trained: Path, tmp_path: Path, run_command: Command) -> None:
    page = tmp_path / "page.html"
    done = run_command("report", trained / "run", "-o", page)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{page}: ") and done.out.endswith(" kB; open it in a browser\n")
    assert "perplexity" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("compare run", "give at least two to compare"),
        ("compare run lm", "compare runs of one task"),
        ("compare run none", "none: no such folder"),
        ("runs none", "none: no such folder"),
        ("report none", "none: "),
        ("report run -o page.pdf", "page.pdf: "),
    ],
)
def test_refusals(words: str, said: str, trained: Path, run_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    done = run_command(*words.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("fastmos: ") and done.err.count("\n") == 1
    assert said in done.err
