"""The scripts of the folder benchmarks run, in small; JoeyNMT itself is not asked."""

import gzip
import importlib.util
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import pytest

from fastmos.provenance import provenance

FOLDER = Path(__file__).parents[2] / "benchmarks"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("body", ["lstm", "transformer"])
def test_fastmos_side_of_side_by_side(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FASTMOS_DATA", raising=False)
    side_by_side = script("side_by_side")
    small = {"hidden_size": 16, "num_layers": 1, "ffn_size": 16, "num_heads": 2}
    monkeypatch.setitem(side_by_side.BODIES, body, {**side_by_side.BODIES[body], **small})
    ours = {name: one for name, one in side_by_side.CONTENDERS.items() if one["script"] == "with_fastmos.py"}
    monkeypatch.setattr(side_by_side, "CONTENDERS", ours)
    plan = side_by_side.Plan(
        rounds=1, steps=2, tokens=100, lines=4, batch=2, longest=6, fixed=5, vocab_size=60, pairs=80
    )
    about = side_by_side.prepare(tmp_path, plan)
    assert "80 pairs" in about and len(json.loads((tmp_path / "batches.json").read_text())) > 1
    figures = side_by_side.compare(body, tmp_path, {"with_fastmos.py": Path(sys.executable)}, plan)
    assert list(figures) == ["training", "fixed", "free"]
    for answers in figures.values():
        assert list(answers) == list(ours)
    for (answer,) in figures["training"].values():
        assert answer["tokens"] > 0 and 0 < answer["loss"] < 10
    for (answer,) in figures["fixed"].values():
        assert answer["lines"] == 4 and answer["tokens"] == 4 * (plan.fixed - 1)

    with_base = {measure: {side_by_side.BASE: answers["fastmos"], **answers} for measure, answers in figures.items()}
    report = {"data": about, "plan": asdict(plan), "figures": {body: with_base}, "provenance": provenance(plan.seed)}
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- side_by_side.py writes here -->\nold\n<!-- up to here -->\nafter\n")
    side_by_side.fill(page, side_by_side.table(report))
    written = page.read_text()
    assert written.startswith("before\n") and written.endswith("after\n") and "old" not in written
    assert all(f"| {body}: {name} |" in written for name in ours)
    assert f"| {body}: fastmos |" in written and written.count("(1.00 ± 0.00)") == 3  # beside itself


def test_data_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = tmp_path / "europarl"
    corpus.mkdir()
    for side in ("de", "en"):
        with gzip.open(corpus / f"train.{side}.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"One line, the {n}th.\n" for n in range(20))
    monkeypatch.setenv("FASTMOS_DATA", str(tmp_path))
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- data_build.py writes here -->\n<!-- up to here -->\nafter\n")
    given: list[str | Path] = [
        "--pairs",
        "40",
        "--tokens",
        "50",
        "--processes",
        "1",
        "--output",
        tmp_path / "out.json",
        "--page",
        page,
    ]
    subprocess.run([sys.executable, FOLDER / "data_build.py", *given], check=True, capture_output=True)
    figures = json.loads((tmp_path / "out.json").read_text())["figures"]
    assert figures["de"]["whole"]["lines"] == 40 and figures["epoch"]["pairs left out"] == 0
    assert "40 pairs" in page.read_text() and page.read_text().endswith("after\n")


@pytest.mark.parametrize("name", ["side_by_side", "data_build"])
def test_help(name: str) -> None:
    shown = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py", "--help"], check=True, capture_output=True, text=True
    )
    assert "--output" in shown.stdout
