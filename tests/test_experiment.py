"""Tables learned as the first phase of a run: from one config, resumed after a kill, and never learned twice."""

import signal
from pathlib import Path

import pytest

from fastmos import experiment
from fastmos.config import Config
from fastmos.experiment import train
from fastmos.inference.run import load
from fastmos.tables import rounds
from fastmos.tables.learning import learn_in_folder
from fastmos.tokenizers import TableTokenizer, load_tokenizer
from fastmos.training.trainer import Trainer
from tests.training.test_resume import assert_same_run, at_call, die, undisturbed
from tests.training.tiny import Sabotage, in_child, tiny

TABLE = {"type": "table", "learn": True, "vocab_size": 10, "words": 10, "rounds": 2}  # 2 frequent words, 4 x 4 cells
KILLS: dict[str, Sabotage] = {
    "in the training of the table": at_call(Trainer, "step", 2, die),
    "in the assignment": at_call(rounds, "assign", 2, die),
    "between the table and the run": at_call(experiment, "_train", 1, die),
}


def learning_config(joint: bool = False) -> Config:
    sides = {"source": {"type": "words"}, "target": TABLE, "joint": joint}
    return tiny(tokenizers=sides, training={"max_epochs": 1})


def test_a_run_killed_while_its_table_is_learned_is_the_same_run(digits: Path) -> None:
    config, killed = learning_config(), digits / "killed"
    expected = undisturbed(config, digits)
    for place, kill in KILLS.items():
        assert in_child(lambda: train(config, digits, killed), kill) == -signal.SIGKILL, place
    assert in_child(lambda: train(config, digits, killed)) == 0
    assert_same_run(expected, killed)
    learned = load_tokenizer(killed / "target.json")
    assert isinstance(learned, TableTokenizer) and (learned.rows, learned.columns, len(learned.frequent)) == (4, 4, 2)
    best = (killed / "table-target/rounds.json").read_text()
    assert '"best"' in best and len(list(killed.glob("table-target/table-*.json"))) == 3  # the start and two rounds
    lines = ["3 1 2", "9"]
    assert load(killed).translate(lines) == load(expected).translate(lines)


def test_a_table_is_not_learned_again(digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = undisturbed(learning_config(), digits)
    before = (folder / "target.json").read_bytes()

    def learned_again(*arguments: object, **options: object) -> None:
        raise AssertionError("learned again")

    monkeypatch.setattr(experiment, "learn_in_folder", learned_again)
    train(learning_config(), digits, folder)
    assert (folder / "target.json").read_bytes() == before


def test_a_joint_table_is_learned_from_both_sides(digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[list[Path]] = []

    def seen(root, start, train_files, valid_files, *arguments, **options):  # type: ignore[no-untyped-def]
        texts.extend([train_files, valid_files])
        return learn_in_folder(root, start, train_files, valid_files, *arguments, **options)

    monkeypatch.setattr(experiment, "learn_in_folder", seen)
    folder = undisturbed(learning_config(joint=True), digits)
    assert texts == [[digits / f"{split}.{side}" for side in "ab"] for split in ("train", "valid")]
    assert (folder / "source.json").read_bytes() == (folder / "target.json").read_bytes()
