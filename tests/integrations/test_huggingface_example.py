"""The example learns its task, and the snippets of the page run as they stand."""

import re
import runpy
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
