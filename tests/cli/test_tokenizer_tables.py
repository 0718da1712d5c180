"""`fastmos tokenizer` with learned tables, from text to page."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from fastmos.cli import dispatch
from fastmos.errors import InputError
from fastmos.files import read_json
from fastmos.tokenizers import TableTokenizer, WordTokenizer, load_tokenizer
from tests.tables.tiny import write_texts


def fastmos(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fastmos", "tokenizer", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_learn_and_show_a_table(tmp_path: Path) -> None:
    train, valid = write_texts(tmp_path)
    table = tmp_path / "table.json"
    options = [
        "--type",
        "table",
        "--learn",
        "--vocab-size",
        "14",
        "--rounds",
        "1",
        "--hidden-size",
        "4",
        "--method",
        "half",
    ]
    done = fastmos("learn", *options, train, "--valid", valid, "-o", table)
    assert done.returncode == 0, done.stderr
    assert f"{table}: table, 18 tokens" in done.stdout
    assert "round 0: held-out NLL per known word" in done.stderr
    assert "words moved" in done.stderr
    tokenizer = load_tokenizer(table)
    assert isinstance(tokenizer, TableTokenizer)
    assert {path.name for path in (tmp_path / "table.learning").iterdir()} >= {"rounds.json", "state.safetensors"}
    assert len(read_json(tmp_path / "table.learning/rounds.json")["rounds"]) == 2

    word = tokenizer.table_words[0]
    shown = fastmos("show", table, "--nearest", word, "-o", tmp_path / "table.csv")
    assert shown.returncode == 0, shown.stderr
    row, column = (line.split(": ")[1].split() for line in (shown.stdout + " ").replace("\n", " \n").splitlines()[:2])
    assert word not in row + column
    with (tmp_path / "table.csv").open() as file:
        assert {line["word"] for line in csv.DictReader(file)} == set(tokenizer.table_words)
    assert fastmos("show", table, "-o", tmp_path / "table.html").returncode == 0
    assert word in (tmp_path / "table.html").read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["learn", "--type", "table", "--learn", "train", "-o", "t.json"], "--valid with held-out text"),
        (["learn", "--type", "table", "--rounds", "3", "train", "-o", "t.json"], "--rounds is for learned tables only"),
        (["learn", "--type", "words", "--valid", "valid", "-o", "t.json"], "--valid is for learned tables only"),
        (["show", "words.json", "--nearest", "d0"], "are for table tokenizers; words.json is of type words"),
        (["show", "table.json", "-o", "t.pdf"], "a table is written as .csv or .html"),
        (["show", "table.json", "--nearest", "zzz", "-o", "t.csv"], "'zzz' is not in this table"),
        (["show", "table.json", "--rows", "-1"], "--rows: must be at least 0, not -1"),
        (["encode", "table.json", "train", "-o", "train"], "train: is read, and would be replaced"),
        (
            ["learn", "--type", "table", "--layout", "random", "--seed", "-1", "train", "-o", "t.json"],
            "--seed: must be at least 0, not -1",
        ),
        (
            ["learn", "--type", "table", "--learn", "/dev/null", "--valid", "valid", "-o", "t.json"],
            "reads its text again after an interruption, so not from '/dev/null'",
        ),
    ],
)
def test_bad_input_is_answered_in_a_sentence(
    words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path)
    WordTokenizer(["d0"]).save("words.json")
    TableTokenizer.learn(["a b c"]).save("table.json")
    with pytest.raises(InputError, match=sentence):
        dispatch(["tokenizer", *words])
    assert not Path("t.json").exists()
