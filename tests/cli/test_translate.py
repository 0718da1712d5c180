"""`fastmos translate`: order, columns, refusals."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fastmos
from tests.cli.calling import Command


def test_translate_keeps_order_number_and_empty_lines(trained: Path, run_command: Command) -> None:
    lines = ["3 1 2", "", "5", "  ", "9 8 7 6 5", "1 1", ""] * 3
    done = run_command("translate", trained / "run", stdin="".join(f"{line}\n" for line in lines).encode())
    found = done.out.splitlines()
    assert (done.code, len(found)) == (0, len(lines))
    assert [not line for line in found] == [not line.strip() for line in lines]
    one_by_one = [fastmos.load(trained / "run").translate([line])[0] for line in lines[:7]]
    assert found == one_by_one * 3
    assert found[2] == "5"


def test_translate_files_and_standard_input_alike(trained: Path, run_command: Command) -> None:
    path = trained / "test.a"
    assert (
        run_command("translate", trained / "run", path, path).out
        == run_command("translate", trained / "run", stdin=path.read_bytes() * 2).out
    )


def test_nbest_and_scores_are_columns(trained: Path, run_command: Command) -> None:
    done = run_command("translate", trained / "run", "--nbest", 2, "--beam-size", 3, "--scores", stdin=b"3 1\n\n5\n")
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "2", "3", "3"]
    assert rows[2] == ["2", "0.0000", "0.0000", ""]
    run = fastmos.load(trained / "run")
    for number, log_prob, score, text in rows[:2] + rows[3:]:
        assert float(log_prob) == pytest.approx(run.score([["3 1", "", "5"][int(number) - 1]], [text])[0], abs=1e-3)
        assert score == log_prob  # not normalized
    assert run.translate(["3 1"], nbest=2)[0][0].text == rows[0][3]


def test_overlong_lines_are_cut_and_counted_or_refused(trained: Path, run_command: Command) -> None:
    lines = b"1 2\n" + b"7 " * 13 + b"\n" + b"7 " * 12 + b"\n"
    done = run_command("translate", trained / "run", stdin=lines)
    assert (done.code, done.err) == (0, "fastmos: warning: 1 of 3 lines were cut to 12 tokens\n")
    assert len(done.out.splitlines()) == 3
    done = run_command("translate", trained / "run", "--overlong", "refuse", stdin=lines)
    assert (done.code, done.out) == (2, "")
    assert done.err == "fastmos: line 2: 13 tokens, but the model was trained on at most 12\n"


def test_a_terminal_gets_a_prompt(trained: Path, run_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(["3 1", "5"])

    def answer(prompt: str) -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", answer)
    done = run_command("translate", trained / "run", stdin=None)
    assert (done.code, len(done.out.splitlines())) == (0, 2)


def test_a_closed_pipe_ends_quietly(trained: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "fastmos", "translate", str(trained / "run"), str(trained / "test.a")],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("lm", "this run was trained for language-modeling and cannot translate"),
        ("run --nbest 3 --beam-size 2", "nbest is 3 and beam_size 2; 1 <= nbest <= beam_size is needed"),
        ("run --nbest 0", "--nbest: must be at least 1, not 0"),
        ("run --device gpu", "device 'gpu' cannot be used here"),
        ("run none", "none: no such file"),
        ("none", "none: no such folder; give the folder that fastmos train made"),
        (".", "not a run folder (it has no run.json)"),
    ],
)
def test_refusals(words: str, said: str, trained: Path, run_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    done = run_command("translate", *words.split(), stdin=b"3\n")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("fastmos: ") and done.err.count("\n") == 1
    assert said in done.err


def test_bytes_that_are_no_text_are_refused(trained: Path, run_command: Command) -> None:
    done = run_command("translate", trained / "run", stdin=b"\xff\n")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("fastmos: standard input, line 1: not UTF-8")


def test_a_damaged_run_folder_is_refused(trained: Path, tmp_path: Path, run_command: Command) -> None:
    shutil.copytree(trained / "run", tmp_path / "run", ignore=shutil.ignore_patterns("cache"))
    (tmp_path / "run" / "model.safetensors").write_bytes(b"")
    done = run_command("translate", tmp_path / "run")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "model.safetensors: damaged" in done.err


def test_int8_translates(trained: Path, run_command: Command) -> None:
    path = trained / "test.a"
    whole, rounded = (run_command("translate", trained / "run", path, *more) for more in ((), ("--int8",)))
    assert (rounded.code, rounded.err) == (0, "")
    pairs = list(zip(whole.out.splitlines(), rounded.out.splitlines(), strict=True))
    assert sum(one == other for one, other in pairs) >= 0.9 * len(pairs)
