"""Rounds of table learning: the same after any kill and in many processes, ended in time, never worse."""

import os
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fastmos.checkpoints import read_tensors
from fastmos.tables import costs, learning, rounds
from fastmos.tables.assignment import assign
from fastmos.tokenizers import TableTokenizer, load_tokenizer
from fastmos.training.trainer import Trainer
from tests.tables.tiny import assert_same, figures, learned, quick, write_texts
from tests.training.test_resume import at_call, die, half_written_then_die, no_space, small_files_only
from tests.training.tiny import Sabotage, in_child

ROOT = Path(__file__).parents[2]


def test_learning_ends_when_rounds_do_not_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_texts(tmp_path)
    worse = iter(range(100))
    original = costs.held_out

    def rising(*arguments: Any) -> costs.HeldOut:
        return replace(original(*arguments), nll_per_known_word=float(next(worse)))

    monkeypatch.setattr(rounds, "held_out", rising)
    found = learned(tmp_path, setting=quick(rounds=9, early_stopping_patience=2))
    assert found.best == 0
    assert len(found.rounds) == 3  # the start, and two that did not help
    start = load_tokenizer(tmp_path / "table.learning/table-0.json")
    assert load_tokenizer(tmp_path / "table.json").fingerprint() == start.fingerprint()


def test_half_never_takes_a_dearer_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_texts(tmp_path)
    found = learned(tmp_path, "half", quick(method="half", keep_costs=True))
    assert all(one.objective_after is not None for one in found.rounds[1:])
    tensors, _ = read_tensors(tmp_path / "half.learning/costs-1.safetensors")
    assert tensors["R"].dtype == tensors["Q"].dtype == torch.float64
    original = assign

    def dear(R: Any, Q: Any, method: Any) -> Any:
        return replace(original(R, Q, method), cost=1e9)

    monkeypatch.setattr(rounds, "assign", dear)
    found = learned(tmp_path, "dear", quick(method="half"))
    assert [one.moved for one in found.rounds] == [0, 0, 0]
    assert all(one.objective_after == one.objective_before for one in found.rounds)


# ---- kills


SABOTAGES: dict[str, list[Sabotage]] = {
    "in training": [at_call(Trainer, "step", number, die) for number in (2, 4, 9)],
    "in the costs": [at_call(rounds, "table_costs", 1, die)],
    "in the assignment": [at_call(rounds, "assign", number, die) for number in (1, 2)],
    "in the evaluation": [at_call(rounds, "held_out", number, die) for number in (1, 2, 3)],
    "at the start": [at_call(learning, "by_neighbors", 1, die), at_call(learning, "write_json", 1, die)],
    "when a table is written": [at_call(TableTokenizer, "save", number, die) for number in (2, 3, 4)],
    "between the table and its figures": [at_call(rounds, "write_json", number, die) for number in (1, 2)],
    "when a file is not safe yet": [at_call(os, "fsync", number, die) for number in (3, 11)],
    "when a file is half written": [at_call(os, "fsync", number, half_written_then_die) for number in (1, 7, 13)],
    "when a file has no name yet": [at_call(os, "replace", number, die) for number in (2, 6)],
    "with a full disk": [*(at_call(os, "fsync", number, no_space) for number in (2, 9)), small_files_only],
}


def resume(folder: Path) -> None:
    learned(folder, "killed")


def test_learning_killed_again_and_again_gives_the_same_table(tmp_path: Path) -> None:
    write_texts(tmp_path)
    learned(tmp_path, "undisturbed")  # first and in this process, so that the children have everything imported
    endings = [in_child(lambda: resume(tmp_path), end) for ends in zip_longest(SABOTAGES.values()) for end in ends]
    assert -signal.SIGKILL in endings
    assert 2 in endings  # the disk was full
    assert set(endings) <= {-signal.SIGKILL, 2, 0}
    assert in_child(lambda: resume(tmp_path)) == 0
    assert_same(tmp_path, "undisturbed", "killed")
    assert not list(tmp_path.rglob(".*.tmp"))


def zip_longest(kinds: Any) -> list[list[Sabotage]]:
    """The first of each kind, then the second of each kind, and so on."""
    kinds = list(kinds)
    return [[kind[turn] for kind in kinds if turn < len(kind)] for turn in range(max(map(len, kinds)))]


@pytest.mark.parametrize("kind", SABOTAGES)
def test_learning_killed_once_gives_the_same_table(kind: str, tmp_path: Path) -> None:
    write_texts(tmp_path)
    learned(tmp_path, "undisturbed")
    assert in_child(lambda: resume(tmp_path), SABOTAGES[kind][0]) in (-signal.SIGKILL, 2)
    assert in_child(lambda: resume(tmp_path)) == 0
    assert_same(tmp_path, "undisturbed", "killed")


def test_a_finished_table_can_have_more_rounds(tmp_path: Path) -> None:
    write_texts(tmp_path)
    learned(tmp_path, "long", quick(early_stopping_patience=9))
    learned(tmp_path, "longer", quick(rounds=1, early_stopping_patience=9))
    learned(tmp_path, "longer", quick(early_stopping_patience=9))
    assert_same(tmp_path, "long", "longer")


# ---- many processes


WORKER = """
import os, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from tests.tables.tiny import learned, quick
learned(Path(sys.argv[1]), "two", quick(dropout=0.0, batch_tokens=40))
os._exit(0)  # as the command line does: the tear-down of gloo's threads sometimes aborts
"""


def test_two_processes_are_as_one_with_the_double_batch(tmp_path: Path) -> None:
    write_texts(tmp_path)
    (tmp_path / "worker.py").write_text(WORKER)
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [sys.executable, *launch, str(tmp_path / "worker.py"), str(tmp_path)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("round 0: ") == 1  # one of them speaks
    one = learned(tmp_path, "one", quick(dropout=0.0))
    found, expected = figures(tmp_path, "two")["rounds"], [asdict(item) for item in one.rounds]
    for name, value in expected[0]["after_training"].items():
        assert found[0]["after_training"][name] == pytest.approx(value, rel=1e-3), name
    for name in ("objective_before", "objective_after"):  # the table itself may differ where cells cost the same
        assert found[1][name] == pytest.approx(expected[1][name], rel=1e-3), name
