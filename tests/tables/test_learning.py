"""Tables learned from text: better than random ones, the same for the same seed, strict about input."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastmos.errors import InputError
from fastmos.run_folder import BusyError, RunFolder
from fastmos.tables.learning import learn_table
from fastmos.tables.rounds import Rounds, TableLearning
from fastmos.tokenizers import TableTokenizer, WordTokenizer, load_tokenizer
from tests.tables.tiny import CLASSES, QUICK, assert_same, learned, quick, write_texts


def test_a_learned_table_is_better_than_a_random_one(tmp_path: Path) -> None:
    """For a new language model trained as long; and rows hold words of one class more often."""
    write_texts(tmp_path, lines=400, words=4)
    values: dict[str, Any] = {
        "first_epochs": 4,
        "hidden_size": 16,
        "batch_tokens": 300,
        "learning_rate": 0.02,
        "dropout": 0.0,
    }
    setting = TableLearning(rounds=4, early_stopping_patience=4, **values)
    found = learned(tmp_path, "learned", setting, frequent=0, rows=10, columns=10, layout="random")
    for one in found.rounds[1:]:
        assert one.objective_before and one.objective_after and one.objective_after < one.objective_before
        assert one.moved > 0
    start = load_tokenizer(tmp_path / "learned.learning/table-0.json")
    assert isinstance(start, TableTokenizer)
    new_model = TableLearning(rounds=0, seed=1, **values)
    by_learned, by_random = [
        learned(tmp_path, name, new_model, layout=table, frequent=None).rounds[0].after_training
        for name, table in {"by-learned": found.tokenizer, "by-random": start}.items()
    ]
    assert by_learned and by_random
    assert by_learned.nll_per_known_word < by_random.nll_per_known_word - 0.05
    assert _purity(found.tokenizer) > _purity(start) + 0.05


def test_unk_is_learned_unless_told_otherwise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tenth of the words seen once are unknown, so that held-out ones are not the first that the model meets."""
    train, valid = write_texts(tmp_path)
    once = [f"once{number:02d}" for number in range(20)]
    train.write_text(train.read_text() + "".join(f"d0 {word} v0\n" for word in once))
    valid.write_text("d0 new v0\n")
    setting = quick(rounds=0)
    left_out = [word for word in once if word not in learned(tmp_path, "usual", setting).tokenizer.table_words]
    assert 2 <= len(left_out) <= 3 and "set unk_share" not in capsys.readouterr().err
    assert set(once) <= set(learned(tmp_path, "all", setting, unk_share=0.0).tokenizer.table_words)
    assert "1 unknown words, but none in training; set unk_share" in capsys.readouterr().err


def _purity(tokenizer: TableTokenizer) -> float:
    """The share of words that belong to their row's commonest class."""
    rows = [[word[0] for word in tokenizer.row_words(row) if word] for row in range(tokenizer.rows)]
    return sum(max(row.count(c) for c in CLASSES) for row in rows) / len(tokenizer.table_words)


@pytest.mark.parametrize("layout", ["neighbors", "diagonal", "frequency", "random", "file"])
def test_a_seed_gives_one_table_and_the_best_is_kept(layout: str, tmp_path: Path) -> None:
    write_texts(tmp_path)
    options: dict[str, Any] = {"layout": layout}
    if layout == "file":
        TableTokenizer.learn((tmp_path / "train").open(), frequent=3).save(tmp_path / "given.json")
        options = {"layout": tmp_path / "given.json", "frequent": None}
    first, second = (learned(tmp_path, name, **options) for name in ("one", "two"))
    assert_same(tmp_path, "one", "two")
    assert (
        first.tokenizer.fingerprint()
        == load_tokenizer(tmp_path / "one.json").fingerprint()
        == second.tokenizer.fingerprint()
    )
    known = [one.after_training.nll_per_known_word for one in first.rounds if one.after_training]
    assert first.best == int(np.argmin(known))
    for one, before in zip(first.rounds[1:], first.rounds, strict=False):
        assert one.before == before.after_training
        assert set(one.seconds) == {"costs", "assignment", "held_out", "training"}


# ---- bad input


def no_rare_word(folder: Path) -> None:
    learned(folder, frequent=24)


def table_without_words(folder: Path) -> None:
    learned(folder, layout=TableTokenizer([f"n{i}" for i in range(9)], [], [], 2, 2), frequent=None)


def table_of_another_text(folder: Path) -> None:
    learned(folder, layout=TableTokenizer.learn(["x y z", "n1"], frequent=0), frequent=None)


def sides_beside_a_table(folder: Path) -> None:
    learned(folder, layout=TableTokenizer.learn((folder / "train").open(), frequent=3))


def layout_of_another_type(folder: Path) -> None:
    WordTokenizer(["a"]).save(folder / "words.json")
    learned(folder, layout=folder / "words.json", frequent=None)


def unknown_layout(folder: Path) -> None:
    learned(folder, layout="neighbours")


def too_small_a_table(folder: Path) -> None:
    learned(folder, rows=2, columns=2)


def other_options(folder: Path) -> None:
    learned(folder)
    learned(folder, frequent=4)


def other_setting(folder: Path) -> None:
    learned(folder)
    learned(folder, setting=quick(hidden_size=5))


def changed_text(folder: Path) -> None:
    learned(folder)
    with (folder / "train").open("a") as file:
        file.write("d0 n0\n")
    learned(folder)


def changed_held_out_text(folder: Path) -> None:
    learned(folder)
    with (folder / "valid").open("a") as file:
        file.write("d0 n0\n")
    learned(folder)


def missing_text(folder: Path) -> None:
    (folder / "valid").unlink()
    learned(folder)


def blank_text(folder: Path) -> None:
    (folder / "valid").write_text(" \n\n")
    learned(folder)


def output_is_a_folder(folder: Path) -> None:
    (folder / "table.json").mkdir()
    learned(folder)


def output_of_another_kind(folder: Path) -> None:
    learn_table([folder / "train"], [folder / "valid"], folder / "table.1", frequent=3, learning=QUICK)


def folder_of_somebody_else(folder: Path) -> None:
    (folder / "table.learning").mkdir()
    (folder / "table.learning" / "notes.txt").write_text("mine")
    learned(folder)


def other_held_out_text(folder: Path) -> None:
    (folder / "valid").write_text("nobody knows these words\n")
    learned(folder)


# These leave what was there.
BEGUN = (other_options, other_setting, changed_text, changed_held_out_text, folder_of_somebody_else)


def test_what_was_cut_before_anything_was_learned_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_texts(tmp_path)
    with monkeypatch.context() as cut:
        cut.setattr(Rounds, "run", lambda *arguments: sys.exit())
        with pytest.raises(SystemExit):
            learned(tmp_path)
    assert (tmp_path / "table.learning" / "about.json").exists()
    (tmp_path / "train").write_text((tmp_path / "train").read_text().replace("n1", "m1"))
    tokenizer = learned(tmp_path, frequent=4).tokenizer
    assert len(tokenizer.frequent) == 4
    assert {"m1", "n1"} & {*tokenizer.frequent, *tokenizer.table_words} == {"m1"}


def test_who_finds_a_folder_locked_leaves_it_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if it was made by the other process just after we looked."""
    write_texts(tmp_path)
    folder = tmp_path / "table.learning"
    exists = Path.exists

    def not_yet(path: Path, **options: bool) -> bool:
        return path != folder and exists(path, **options)

    with RunFolder(folder).lock():
        monkeypatch.setattr(Path, "exists", not_yet)
        with pytest.raises(BusyError):
            learned(tmp_path)
    monkeypatch.undo()
    assert folder.exists()


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (no_rare_word, "too few for 24 frequent ones and a table"),
        (table_without_words, "no word of the table occurs"),
        (table_of_another_text, "only 1 of the table's 4 words occur"),
        (sides_beside_a_table, "settles frequent already"),
        (layout_of_another_type, "type words is no table"),
        (unknown_layout, "none of neighbors, frequency, diagonal, random"),
        (too_small_a_table, "do not fit into 2 x 2 cells"),
        (other_options, "was begun with other words"),
        (other_setting, "was begun with hidden_size 4, not 5"),
        (changed_text, "the text, or the options of the table, changed"),
        (changed_held_out_text, "validation data has changed"),
        (missing_text, "no such file"),
        (blank_text, "has no words"),
        (output_is_a_folder, "is a folder"),
        (output_of_another_kind, "ends in .json"),
        (folder_of_somebody_else, "not from learning a table"),
        (other_held_out_text, "100% of its words are not in the vocabulary"),
    ],
)
def test_bad_input_is_answered_in_a_sentence(act: Callable[[Path], None], sentence: str, tmp_path: Path) -> None:
    write_texts(tmp_path)
    with pytest.raises(InputError, match=sentence):
        act(tmp_path)
    assert list(tmp_path.glob("*.learning")) == ([tmp_path / "table.learning"] if act in BEGUN else [])


def test_settings_are_checked() -> None:
    bad = {"seed": -1, "first_epochs": 0, "method": "best", "dropout": 1.0, "clip_grad_norm": -1.0}
    for name, value in bad.items():
        with pytest.raises(ValueError, match=name):
            quick(**{name: value})
