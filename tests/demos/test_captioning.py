"""The demo of captioning, in small."""

from pathlib import Path

import pytest

from fastmos.demos import captioning as caption_demo
from tests.tasks.captioner import without_java


def test_it_captions_new_drawings_and_does_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_java(monkeypatch)
    monkeypatch.setattr(caption_demo, "NEW", 2)
    size = caption_demo.Size(train=12, held_out=2, epochs=1, hidden_size=8, mixtures=2)
    caption_demo.demo(tmp_path / "demo", size)
    first = capsys.readouterr().out
    assert f"{tmp_path / 'demo' / 'new' / '01.png'}\t" in first
    assert (tmp_path / "demo" / "sheet.html").read_text().count("<img") == 2
    caption_demo.demo(tmp_path / "demo", size)
    again = capsys.readouterr()
    assert "finished at step" in again.err
    assert again.out.splitlines()[-6:] == first.splitlines()[-6:]
