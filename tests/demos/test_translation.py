"""The demonstration of the toolkit, in small: it leaves two runs that work, and does nothing twice."""

import html
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastmos import cli, measure
from fastmos.config import check, options
from fastmos.demos import translation as translation_demo
from fastmos.demos.translation import NAMES, Size, configs, demo, table
from fastmos.errors import InputError
from fastmos.reproduce.cost import WAYS

SMALL = Size(pairs=80, held_out=4, epochs=1, hidden_size=8, mixtures=3, vocab_size=90, seed=1)


def fake_memory(prepare: Callable[..., Callable[[], object]], *arguments: Any) -> float:
    """Does the step here and calls it 5 MB; measuring would take a process each."""
    prepare(*arguments)()
    return 5e6


def test_it_leaves_two_runs_that_translate_and_does_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "extra_memory", fake_memory)
    folder = tmp_path / "demo"
    demo(folder, SMALL)
    said = capsys.readouterr()
    assert f"fastmos train {folder / 'softmax.yaml'} --folder {folder / 'softmax'}" in said.err
    assert f"fastmos translate {folder / 'mixture'}" in said.out
    assert f"fastmos serve {folder / 'softmax'} {folder / 'mixture'} --examples\n" in said.out
    record = json.loads((folder / "results.json").read_text())
    assert table(record) in said.out
    assert str(folder / "report.html") in said.out
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert all(f"<h2>{part}</h2>" in page for part in ("Time and memory", "Training", "Inside a model", "Outputs"))
    assert page.index("<h2>Runs</h2>") < page.index("<h2>Time and memory</h2>")  # the table of both on top
    assert html.escape(record["examples"][0]["source"]) in page
    for name in NAMES:
        found = record["runs"][name]
        costs = [found[way][what] for way in WAYS for what in ("ms", "ms_spread", "megabytes")]
        numbers = [value for value in found.values() if isinstance(value, int | float)] + costs
        assert len(numbers) >= 12
        assert all(math.isfinite(number) for number in numbers)
    for example in record["examples"]:
        assert list(example) == ["source", "reference", *NAMES]
        assert f"   source  {example['source']}\n" in said.out

    logs = {path: path.read_bytes() for path in folder.glob("*/log.jsonl")}
    assert {path.parent.name for path in logs} == set(NAMES)
    demo(folder, SMALL)
    again = capsys.readouterr()
    assert again.err == ""  # nothing was trained, nor measured
    assert table(record) in again.out

    monkeypatch.setattr(sys, "argv", ["fastmos", "translate", str(folder / "mixture"), str(folder / "data/test.de")])
    cli.main()
    translations = capsys.readouterr().out.split("\n")[:-1]
    assert translations[: len(record["examples"])] == [example["mixture"] for example in record["examples"]]

    (folder / "results.json").unlink()  # as if interrupted after training
    demo(folder, SMALL)
    assert f" mixture: {folder / 'mixture'}: finished at step 2" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in logs} == logs


def test_the_two_differ_in_the_head_only() -> None:
    baseline, mixture = configs(Size()).values()
    check(baseline)
    check(mixture)
    ours, theirs = options(mixture), options(baseline)
    assert {key.split(".")[0] for key in {*ours, *theirs} if ours.get(key) != theirs.get(key)} == {"head"}
    assert (baseline.head.type, mixture.head.type, mixture.head.num_mixtures) == ("softmax", "shortlist", 9)


def test_a_training_that_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def start(folder: Path, name: str) -> subprocess.Popen[str]:
        program = f"import sys; print('so it is', file=sys.stderr); sys.exit(3 * ({name!r} == 'mixture'))"
        return subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)

    monkeypatch.setattr(translation_demo, "_start", start)
    with pytest.raises(InputError, match="training mixture ended with exit code 3"):
        demo(tmp_path, SMALL)
    assert " mixture: so it is\n" in capfd.readouterr().err
    assert not (tmp_path / "results.json").exists()


class Interrupted(subprocess.Popen[str]):
    """A child that is ready, and whose parent is interrupted when it first waits for it."""

    waited = False

    def wait(self, timeout: float | None = None) -> int:
        if not self.waited:
            self.waited = True
            raise KeyboardInterrupt
        return super().wait(timeout)


def test_an_interrupt_lets_both_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    program = """if True:
        import signal, sys, time
        def save(number, frame):
            print("saved", file=sys.stderr)
            sys.exit(143)
        signal.signal(signal.SIGTERM, save)
        print("ready", flush=True)
        while True:
            time.sleep(0.1)"""
    children = []

    def start(folder: Path, name: str) -> subprocess.Popen[str]:
        kind = Interrupted if name == "softmax" else subprocess.Popen[str]
        child = kind([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        children.append(child)
        return child

    monkeypatch.setattr(translation_demo, "_start", start)
    with pytest.raises(KeyboardInterrupt):
        demo(tmp_path, SMALL)
    assert [child.returncode for child in children] == [143, 143]
    said = capfd.readouterr().err
    assert " softmax: saved\n" in said and " mixture: saved\n" in said
