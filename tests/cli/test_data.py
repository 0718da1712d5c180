"""`fastmos data`: the sample, and which corpora there are."""

from pathlib import Path

from fastmos.data.preprocess import CORPORA
from fastmos.files import read_lines
from tests.cli.calling import Command


def test_the_sample_has_as_many_pairs_as_asked_for(tmp_path: Path, run_command: Command) -> None:
    done = run_command("data", "sample", tmp_path / "a", "--pairs", 20, "--valid", 3, "--test", 2)
    assert (done.code, done.out) == (0, f"{tmp_path / 'a'}: pairs: train 20, valid 3, test 2\n")
    for split, count in (("train", 20), ("valid", 3), ("test", 2)):
        assert [len(list(read_lines(tmp_path / "a" / f"{split}.{side}"))) for side in ("de", "en")] == [count] * 2


def test_every_corpus_is_listed(run_command: Command) -> None:
    lines = run_command("data", "list").out.splitlines()
    assert [line.split()[0] for line in lines] == list(CORPORA)


def test_an_unknown_corpus_is_refused(tmp_path: Path, run_command: Command) -> None:
    done = run_command("data", "get", "iwslt", "--folder", tmp_path / "x")
    assert (done.code, done.out) == (2, "") and done.err.startswith("fastmos: no corpus 'iwslt'; there are iwslt14")
    assert not (tmp_path / "x").exists()
