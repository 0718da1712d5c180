"""Tables learnt from text: better than chance, the same after any kill and in many processes, strict about input."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fastmos.codings import TableCoding, WordCoding, load_coding
from fastmos.errors import InputError
from fastmos.tables import Learning, LearntTable, assign, costs, learn_table, learning, rounds
from fastmos.tables.rounds import Rounds
from fastmos.training.checkpoints import read_tensors
from fastmos.training.folder import BusyError, RunFolder
from tests.training.test_resume import at_call, die, half_written_then_die, no_space, small_files_only
from tests.training.tiny import Sabotage, in_child

QUICK = Learning(rounds=2, first_epochs=1, width=4, batch_tokens=80, rate=0.05, save_every=3)
CLASSES = {"d": 3, "a": 6, "n": 9, "v": 6}  # words of each part of speech


def write_texts(folder: Path, lines: int = 40, words: int = 1, seed: int = 0) -> tuple[Path, Path]:
    """Sentences of a tiny grammar: which class of word comes next is clear, and which word of it is not."""
    choose = random.Random(seed)
    files = folder / "train", folder / "valid"
    for file, count in zip(files, (lines, 12), strict=True):
        orders = [choose.choice(["dnvdn", "danv", "dnv", "dnvdan"]) for _ in range(count)]
        file.write_text(
            "".join(" ".join(f"{c}{choose.randrange(words * CLASSES[c])}" for c in order) + "\n" for order in orders)
        )
    return files


def learnt(folder: Path, name: str = "table", setting: Learning = QUICK, **options: Any) -> LearntTable:
    train, valid = folder / "train", folder / "valid"
    sides = {"frequent": 3, **options}
    return learn_table([train], [valid], folder / f"{name}.json", **sides, learning=setting)


def figures(folder: Path, name: str) -> Any:
    found = json.loads((folder / f"{name}.learning/rounds.json").read_text())
    for one in found["rounds"]:
        one.pop("seconds")
    del found["provenance"]
    return found


def assert_same(folder: Path, first: str, second: str) -> None:
    assert (folder / f"{first}.json").read_bytes() == (folder / f"{second}.json").read_bytes()
    assert figures(folder, first) == figures(folder, second)
    states = [read_tensors(folder / f"{name}.learning/state.safetensors")[0] for name in (first, second)]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_a_learnt_table_is_better_than_a_random_one(tmp_path: Path) -> None:
    """For a new language model of the same budget; and rows hold words of one class more often."""
    write_texts(tmp_path, lines=400, words=4)
    setting = Learning(rounds=4, patience=4, first_epochs=4, width=16, batch_tokens=300, rate=0.02, dropout=0.0)
    found = learnt(tmp_path, "learnt", setting, frequent=0, rows=10, columns=10, start="random")
    for one in found.rounds[1:]:
        assert one.objective_before and one.objective_after and one.objective_after < one.objective_before
        assert one.moved > 0
    start = load_coding(tmp_path / "learnt.learning/start.json")
    assert isinstance(start, TableCoding)
    judging = replace(setting, rounds=0, seed=1)
    judged = [
        learnt(tmp_path, name, judging, start=table, frequent=None).rounds[0].after_training
        for name, table in {"judged": found.coding, "random": start}.items()
    ]
    assert judged[0] and judged[1]
    assert judged[0].nats_per_known_word < judged[1].nats_per_known_word - 0.05
    assert _purity(found.coding) > _purity(start) + 0.05


def test_unk_is_learnt_unless_told_otherwise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tenth of the words seen once are unknown, so that held-out ones are not the first that the model meets."""
    train, valid = write_texts(tmp_path)
    once = [f"once{number:02d}" for number in range(20)]
    train.write_text(train.read_text() + "".join(f"d0 {word} v0\n" for word in once))
    valid.write_text("d0 new v0\n")
    quick = replace(QUICK, rounds=0)
    left_out = [word for word in once if word not in learnt(tmp_path, "usual", quick).coding.table_words]
    assert 2 <= len(left_out) <= 3 and "figures will be poor" not in capsys.readouterr().err
    assert set(once) <= set(learnt(tmp_path, "all", quick, unk_share=0.0).coding.table_words)
    assert "1 held-out words are unknown, but none to learn from" in capsys.readouterr().err


def _purity(coding: TableCoding) -> float:
    """The share of words that belong to their row's commonest class."""
    rows = [[word[0] for word in coding.row_words(row) if word] for row in range(coding.rows)]
    return sum(max(row.count(c) for c in CLASSES) for row in rows) / len(coding.table_words)


@pytest.mark.parametrize("start", ["neighbours", "diagonal", "frequency", "random", "file"])
def test_a_seed_gives_one_table_and_the_best_is_kept(start: str, tmp_path: Path) -> None:
    write_texts(tmp_path)
    options: dict[str, Any] = {"start": start}
    if start == "file":
        TableCoding.learn((tmp_path / "train").open(), frequent=3).save(tmp_path / "given.json")
        options = {"start": tmp_path / "given.json", "frequent": None}
    first, second = (learnt(tmp_path, name, **options) for name in ("one", "two"))
    assert_same(tmp_path, "one", "two")
    assert first.coding.fingerprint() == load_coding(tmp_path / "one.json").fingerprint() == second.coding.fingerprint()
    known = [one.after_training.nats_per_known_word for one in first.rounds if one.after_training]
    assert first.best == int(np.argmin(known))
    for one, before in zip(first.rounds[1:], first.rounds, strict=False):
        assert one.before == before.after_training
        assert set(one.seconds) == {"costs", "assignment", "held_out", "training"}


def test_learning_ends_when_rounds_do_not_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_texts(tmp_path)
    worse = iter(range(100))
    original = costs.held_out

    def rising(*arguments: Any) -> costs.HeldOut:
        return replace(original(*arguments), nats_per_known_word=float(next(worse)))

    monkeypatch.setattr(rounds, "held_out", rising)
    found = learnt(tmp_path, setting=replace(QUICK, rounds=9, patience=2))
    assert found.best == 0
    assert len(found.rounds) == 3  # the start, and two that did not help
    start = load_coding(tmp_path / "table.learning/start.json")
    assert load_coding(tmp_path / "table.json").fingerprint() == start.fingerprint()


def test_half_never_takes_a_dearer_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_texts(tmp_path)
    found = learnt(tmp_path, "half", replace(QUICK, method="half", keep_costs=True))
    assert all(one.objective_after is not None for one in found.rounds[1:])
    tensors, _ = read_tensors(tmp_path / "half.learning/costs-1.safetensors")
    assert tensors["R"].dtype == tensors["Q"].dtype == torch.float64
    original = assign

    def dear(R: Any, Q: Any, method: Any) -> Any:
        return replace(original(R, Q, method), cost=1e9)

    monkeypatch.setattr(rounds, "assign", dear)
    found = learnt(tmp_path, "dear", replace(QUICK, method="half"))
    assert [one.moved for one in found.rounds] == [0, 0, 0]
    assert all(one.objective_after == one.objective_before for one in found.rounds)


# ---- kills


SABOTAGES: dict[str, list[Sabotage]] = {
    "in training": [at_call(Rounds, "_step", number, die) for number in (2, 4, 9)],
    "in the costs": [at_call(rounds, "table_costs", 1, die)],
    "in the assignment": [at_call(rounds, "assign", number, die) for number in (1, 2)],
    "when judging": [at_call(rounds, "held_out", number, die) for number in (1, 2)],
    "at the start": [at_call(learning, "by_neighbours", 1, die), at_call(learning, "write_json", 1, die)],
    "when publishing": [at_call(TableCoding, "save", number, die) for number in (1, 2)],
    "between the table and its figures": [at_call(learning, "write_json", 2, die)],
    "when a file is not safe yet": [at_call(os, "fsync", number, die) for number in (3, 11)],
    "when a file is half written": [at_call(os, "fsync", number, half_written_then_die) for number in (1, 7, 13)],
    "when a file has no name yet": [at_call(os, "replace", number, die) for number in (2, 6)],
    "with a full disk": [*(at_call(os, "fsync", number, no_space) for number in (2, 9)), small_files_only],
}


def go_on(folder: Path) -> None:
    learnt(folder, "killed")


def test_learning_killed_again_and_again_gives_the_same_table(tmp_path: Path) -> None:
    write_texts(tmp_path)
    learnt(tmp_path, "undisturbed")  # first and in this process, so that the children have everything imported
    endings = [in_child(lambda: go_on(tmp_path), end) for ends in zip_longest(SABOTAGES.values()) for end in ends]
    assert -signal.SIGKILL in endings
    assert 2 in endings  # the disk was full
    assert set(endings) <= {-signal.SIGKILL, 2, 0}
    assert in_child(lambda: go_on(tmp_path)) == 0
    assert_same(tmp_path, "undisturbed", "killed")
    assert not list(tmp_path.rglob(".*.tmp"))


def zip_longest(kinds: Any) -> list[list[Sabotage]]:
    """The first of each kind, then the second of each kind, and so on."""
    kinds = list(kinds)
    return [[kind[turn] for kind in kinds if turn < len(kind)] for turn in range(max(map(len, kinds)))]


@pytest.mark.parametrize("kind", SABOTAGES)
def test_learning_killed_once_gives_the_same_table(kind: str, tmp_path: Path) -> None:
    write_texts(tmp_path)
    learnt(tmp_path, "undisturbed")
    assert in_child(lambda: go_on(tmp_path), SABOTAGES[kind][0]) in (-signal.SIGKILL, 2)
    assert in_child(lambda: go_on(tmp_path)) == 0
    assert_same(tmp_path, "undisturbed", "killed")


def test_a_finished_table_can_have_more_rounds(tmp_path: Path) -> None:
    write_texts(tmp_path)
    learnt(tmp_path, "long", replace(QUICK, patience=9))
    learnt(tmp_path, "longer", replace(QUICK, rounds=1, patience=9))
    learnt(tmp_path, "longer", replace(QUICK, patience=9))
    assert_same(tmp_path, "long", "longer")


# ---- many processes


WORKER = """
import os, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from dataclasses import replace
from tests.tables.test_learning import QUICK, learnt
learnt(Path(sys.argv[1]), "two", replace(QUICK, dropout=0.0, batch_tokens=40))
os._exit(0)  # as the command line does: the tear-down of gloo's threads sometimes aborts
"""


def test_two_processes_are_as_one_with_the_double_batch(tmp_path: Path) -> None:
    write_texts(tmp_path)
    (tmp_path / "worker.py").write_text(WORKER)
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [sys.executable, *launch, str(tmp_path / "worker.py"), str(tmp_path)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("round 0: ") == 1  # one of them speaks
    one = learnt(tmp_path, "one", replace(QUICK, dropout=0.0))
    found, expected = figures(tmp_path, "two")["rounds"], [asdict(item) for item in one.rounds]
    for name, nats in expected[0]["after_training"].items():
        assert found[0]["after_training"][name] == pytest.approx(nats, rel=1e-3), name
    for name in ("objective_before", "objective_after"):  # the table itself may differ where cells cost the same
        assert found[1][name] == pytest.approx(expected[1][name], rel=1e-3), name


# ---- bad input


def no_rare_word(folder: Path) -> None:
    learnt(folder, frequent=24)


def table_without_words(folder: Path) -> None:
    learnt(folder, start=TableCoding([f"n{i}" for i in range(9)], [], [], 2, 2), frequent=None)


def table_of_another_text(folder: Path) -> None:
    learnt(folder, start=TableCoding.learn(["x y z", "n1"], frequent=0), frequent=None)


def sides_beside_a_table(folder: Path) -> None:
    learnt(folder, start=TableCoding.learn((folder / "train").open(), frequent=3))


def start_of_another_kind(folder: Path) -> None:
    WordCoding(["a"]).save(folder / "words.json")
    learnt(folder, start=folder / "words.json", frequent=None)


def unknown_start(folder: Path) -> None:
    learnt(folder, start="neighbors")


def too_small_a_table(folder: Path) -> None:
    learnt(folder, rows=2, columns=2)


def other_options(folder: Path) -> None:
    learnt(folder)
    learnt(folder, frequent=4)


def other_setting(folder: Path) -> None:
    learnt(folder)
    learnt(folder, setting=replace(QUICK, width=5))


def changed_text(folder: Path) -> None:
    learnt(folder)
    with (folder / "train").open("a") as file:
        file.write("d0 n0\n")
    learnt(folder)


def no_epochs(folder: Path) -> None:
    learnt(folder, setting=Learning(epochs=0))


def missing_text(folder: Path) -> None:
    (folder / "valid").unlink()
    learnt(folder)


def blank_text(folder: Path) -> None:
    (folder / "valid").write_text(" \n\n")
    learnt(folder)


def output_is_a_folder(folder: Path) -> None:
    (folder / "table.json").mkdir()
    learnt(folder)


def output_of_another_kind(folder: Path) -> None:
    learn_table([folder / "train"], [folder / "valid"], folder / "table.1", frequent=3, learning=QUICK)


def folder_of_somebody_else(folder: Path) -> None:
    (folder / "table.learning").mkdir()
    (folder / "table.learning" / "notes.txt").write_text("mine")
    learnt(folder)


def other_held_out_text(folder: Path) -> None:
    (folder / "valid").write_text("nobody knows these words\n")
    learnt(folder)


def negative_seed(folder: Path) -> None:
    learnt(folder, setting=Learning(seed=-1))


def unknown_method(folder: Path) -> None:
    learnt(folder, setting=Learning(method="best"))  # type: ignore[arg-type]


BEGUN = (other_options, other_setting, changed_text, folder_of_somebody_else)  # these leave what was there


def test_what_was_cut_before_anything_was_learnt_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_texts(tmp_path)
    with monkeypatch.context() as cut:
        cut.setattr(Rounds, "run", lambda *arguments: sys.exit())
        with pytest.raises(SystemExit):
            learnt(tmp_path)
    assert (tmp_path / "table.learning" / "about.json").exists()
    (tmp_path / "train").write_text((tmp_path / "train").read_text().replace("n1", "m1"))
    coding = learnt(tmp_path, frequent=4).coding
    assert len(coding.frequent) == 4
    assert {"m1", "n1"} & {*coding.frequent, *coding.table_words} == {"m1"}


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
            learnt(tmp_path)
    monkeypatch.undo()
    assert folder.exists()


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (no_rare_word, "too few for 24 frequent ones and a table"),
        (table_without_words, "no word of the table occurs"),
        (table_of_another_text, "only 1 of the table's 4 words occur"),
        (sides_beside_a_table, "settles frequent already"),
        (start_of_another_kind, "kind words is no table"),
        (unknown_start, "none of neighbours, diagonal, frequency, random"),
        (too_small_a_table, "do not fit into 2 x 2 cells"),
        (other_options, "was begun with frequent 3, not 4"),
        (other_setting, "was begun with width 4, not 5"),
        (changed_text, "the text has changed"),
        (no_epochs, "epochs is 0"),
        (missing_text, "no such file"),
        (blank_text, "has no words"),
        (output_is_a_folder, "is a folder"),
        (output_of_another_kind, "ends in .json"),
        (folder_of_somebody_else, "not from learning a table"),
        (other_held_out_text, "100% of its words are not in the vocabulary"),
        (negative_seed, "seed is -1; it must be at least 0"),
        (unknown_method, "method cannot be 'best'"),
    ],
)
def test_bad_input_is_answered_in_a_sentence(act: Callable[[Path], None], sentence: str, tmp_path: Path) -> None:
    write_texts(tmp_path)
    with pytest.raises(InputError, match=sentence):
        act(tmp_path)
    assert list(tmp_path.glob("*.learning")) == ([tmp_path / "table.learning"] if act in BEGUN else [])
