"""Outputs beside sources and references, or a note that says which file is not here."""

from pathlib import Path
from typing import Any

from fastmos.report.outputs import outputs_section
from tests.report.parsed import Page, of

OUTPUTS = ["a man sleeps .", "a <b> runs ."]


def shown(config: dict[str, Any], *outputs: list[str]) -> str:
    runs = [
        {
            "format": 1,
            "kind": "run",
            "scale": "tiny",
            "name": f"run {place}",
            "config": config,
            "outputs": {"test": one},
        }
        for place, one in enumerate(outputs)
    ]
    return outputs_section(of(*runs), {})


def config_of(folder: Path) -> dict[str, Any]:
    files = {"source": str(folder / "test.de"), "target": str(folder / "test.en")}
    return {"task": "translation", "data": {"test": files}}


def test_what_differs_is_underlined() -> None:
    page = shown({}, OUTPUTS, ["a dog sleeps .", "a <b> runs ."])
    assert "a <u>dog</u> sleeps ." in page and page.count("<u>") == 1
    assert page.count("a &lt;b&gt; runs .") == 2


def test_sources_and_references_come_first(tmp_path: Path) -> None:
    (tmp_path / "test.de").write_text("ein mann schläft .\nein b läuft .\n", encoding="utf-8")
    (tmp_path / "test.en").write_text("one man sleeps .\none b runs .\n", encoding="utf-8")
    text = Page(shown(config_of(tmp_path), OUTPUTS)).text
    assert text.index("ein mann schläft .") < text.index("one man sleeps .") < text.index("a man sleeps .")
    assert "missing" not in text


def test_a_text_that_is_not_here_is_named(tmp_path: Path) -> None:
    text = Page(shown(config_of(tmp_path), OUTPUTS)).text
    assert f"Sources and references are missing: {tmp_path / 'test.en'} cannot be read here." in text
    assert "missing" not in Page(shown({}, OUTPUTS)).text  # nothing is known of its files
