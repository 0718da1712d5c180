"""The benchmark of tokenizers runs, and says what it measured."""

from pathlib import Path

import pytest

from fastmos.bench import tokenizers
from fastmos.files import read_json


def test_generated_text_is_the_same_each_time() -> None:
    lines = tokenizers.generated_lines(50)
    assert lines == tokenizers.generated_lines(50)
    assert all(len(line.split(" ")) == 20 for line in lines)


def test_figures_carry_their_provenance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in tokenizers.generated_lines(400)), encoding="utf-8")
    tokenizers.run(quick=True, output=tmp_path / "figures.json", text=tmp_path / "text")
    figures = read_json(tmp_path / "figures.json")
    assert {"command", "date", "machine", "commit", "seed"} <= set(figures["provenance"])
    assert (figures["lines"], figures["words"]) == (400, 8_000)
    assert [row["tokenizer"] for row in figures["rows"]] == list(tokenizers.CONTENDERS)
    assert all(row["learn"] > 0 and row["encode"] > 0 for row in figures["rows"])
    assert "sentencepiece" in capsys.readouterr().out
