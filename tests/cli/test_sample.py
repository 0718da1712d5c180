"""`fastmos sample`: the same seed, the same lines."""

from pathlib import Path

import pytest

from tests.cli.calling import Command


def test_a_language_model_makes_up_the_same_lines_for_a_seed(trained: Path, run_command: Command) -> None:
    made = [run_command("sample", trained / "lm", "--lines", 3, "--seed", seed).out for seed in (0, 0, 1)]
    assert made[0] == made[1] != made[2]
    assert len(made[0].splitlines()) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run", "this run was trained for translation and cannot make up text"),
        ("lm --temperature x", "--temperature: must be a number, not 'x'"),
    ],
)
def test_refusals(words: str, said: str, trained: Path, run_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    done = run_command("sample", *words.split(), stdin=b"3\n")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("fastmos: ") and done.err.count("\n") == 1
    assert said in done.err
