"""`fastmos average`: a run of its own."""

from pathlib import Path

import pytest

from tests.cli.calling import Command


@pytest.mark.parametrize("choice", ["--last", "--best"])
def test_average_makes_a_run_of_its_own(choice: str, trained: Path, run_command: Command, tmp_path: Path) -> None:
    output = tmp_path / "mean"
    done = run_command("average", trained / "run", choice, 2, "--output", output)
    assert done.out.startswith(f"{output}: mean of the checkpoints at steps ")
    assert run_command("evaluate", output).out.startswith("BLEU ")
    again = run_command("average", trained / "run", choice, 2, "--output", output)
    assert (again.code, again.err) == (2, f"fastmos: {output}: exists; give another --output\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run", "one of the arguments --last --best is required"),
        ("run --last 1 --best 1", "not allowed with argument --last"),
        ("run --last 9", "in all, so 9 cannot be averaged; see training.keep_last and keep_best"),
        ("none --last 1", "none: no such folder"),
    ],
)
def test_refusals(words: str, said: str, trained: Path, run_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    done = run_command("average", *words.split(), stdin=b"3\n")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("fastmos: ") and done.err.count("\n") == 1
    assert said in done.err
