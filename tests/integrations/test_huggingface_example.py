"""The example learns its task, and the snippets of the page run as they stand."""

import gzip
import json
import re
import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")
ROOT = Path(__file__).resolve().parents[2]


def test_the_example_learns_to_copy() -> None:
    assert runpy.run_path(str(ROOT / "examples" / "huggingface_gpt2.py"))["main"]() > 0.9


def test_the_snippets_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "huggingface.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for snippet in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(snippet, names)
    assert capsys.readouterr().out.endswith("True\n")


def test_a_trained_softmax_goes_on_as_mixtures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of every mixture starts where that of the softmax ended; a second call finds everything done."""
    for split, lines in (("train", 60), ("valid", 60), ("test", 20)):
        with gzip.open(tmp_path / f"{split}.txt.gz", "wt") as file:
            file.writelines(f"the {number} of {number * 7} is a {number % 9}\n" for number in range(lines))
    sizes = ["--vocab-size", "270", "--hidden-size", "8", "--layers", "1", "--steps", "12", "--further", "10"]
    monkeypatch.setattr(sys, "argv", ["example", str(tmp_path), "-o", str(tmp_path / "out"), *sizes])
    program, found = str(ROOT / "examples" / "huggingface_wikitext2.py"), []
    for _ in range(2):
        runpy.run_path(program, run_name="__main__")
        found.append(json.loads((tmp_path / "out" / "results.json").read_text()))
        assert (tmp_path / "out" / "curves.png").stat().st_size > 10_000
        (tmp_path / "out" / "results.json").unlink()
    assert found[0]["curves"] == found[1]["curves"]
    curves = found[0]["curves"]
    assert len(curves) == 4
    for name, curve in curves.items():
        if name != "before":
            assert curve[0][1] == pytest.approx(curves["before"][-1][1], rel=1e-4)
            assert [step for step, _ in curve] == [*range(11)]
