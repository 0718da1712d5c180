"""Run folders: as a list, and as a page of curves, scores and samples."""

import json
import math
from pathlib import Path

import pytest

from fastmos.errors import InputError
from fastmos.files import read_lines
from fastmos.report.page import write_report
from fastmos.report.runs import list_runs, losses, run_folders, run_record_of, texts_of, unique_names
from tests.report.parsed import Page


def validations_of(folder: Path) -> list[dict[str, float]]:
    lines = map(json.loads, read_lines(folder / "log.jsonl"))
    return [line for line in lines if "nll_per_word" in line]


def test_a_list_of_runs_says_what_they_are_and_how_good(runs: Path) -> None:
    head, *lines = list_runs(runs).splitlines()
    assert head.split("  ")[0] == "run" and "NLL per word" in head and "perplexity" in head
    assert [line.split()[0] for line in lines] == ["lm", "long", "short"]
    best = max(validations_of(runs / "long"), key=lambda line: line["bleu"])
    for words in (
        "translation",
        "mos 2",
        f"BLEU {best['bleu']:.2f}",
        f"{best['nll_per_word']:.4f}",
        f"{math.exp(best['nll_per_word']):.2f}",
        "48",  # steps
    ):
        assert f"  {words}" in lines[1], words
    assert "language-modeling" in lines[0] and "NLL per word" in lines[0]
    assert list_runs(runs / "long").splitlines()[1].startswith("long ")


def test_a_damaged_run_does_not_hide_the_others(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "good").symlink_to(runs / "long")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text('{"format": 99}')
    assert "bad" in list_runs(tmp_path) and "run folder of format 99" in list_runs(tmp_path)


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run folders"):
        list_runs(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        list_runs(tmp_path / "nowhere")
    assert run_folders(tmp_path / "nowhere") == []


def test_a_run_folder_as_a_result(runs: Path) -> None:
    record = run_record_of(runs / "long", "long")
    best = max(validations_of(runs / "long"), key=lambda line: line["bleu"])
    assert record["scores"]["valid"]["bleu"] == best["bleu"]
    assert len(record["curve"]) == 8 and record["steps"] == 48 and record["epochs"] == 8
    assert [line["step"] for line in record["losses"]][:2] == [3, 6]
    folder = runs.parent
    assert record["outputs"]["source"] == list(read_lines(folder / "valid.a"))
    assert record["outputs"]["reference"] == list(read_lines(folder / "valid.b"))
    step = f"step-{best['step']:08d}.txt"
    assert record["outputs"]["valid"] == list(read_lines(runs / "long" / "validation" / step))


def test_losses_of_a_few_steps_are_left_out() -> None:
    log = [{"step": step, "epoch": 0, "loss": 1.0, "more": 2} for step in (50, 100, 102, 150, 175, 180)]
    assert [row["step"] for row in losses([{"step": 0, "about": {}}, *log], 50)] == [50, 100, 150, 175]
    assert losses(log[:1], 50) == [{"step": 50, "epoch": 0, "loss": 1.0}]
    assert [row["step"] for row in losses(log, 1000)] == [50, 100, 102, 150, 175, 180]  # there is nothing better


def test_a_page_of_runs_shows_curves_scores_and_samples(runs: Path, tmp_path: Path) -> None:
    assert write_report([runs], tmp_path / "page.html") == []
    text = (tmp_path / "page.html").read_text("utf-8")
    shown = Page(text)
    assert text.index("<h2>Runs</h2>") < text.index("<h2>Training</h2>") < text.index("<h2>Outputs</h2>")
    for words in ("valid BLEU", "valid perplexity", "loss per token", "NLL per word", "mos 2", "3 runs", "Line 8"):
        assert words in shown.text, words
    for line in read_lines(runs.parent / "valid.a"):
        assert line in shown.text
    alone = write_report([runs / "short"], tmp_path / "alone.html")
    assert alone == [] and "1 run" in (tmp_path / "alone.html").read_text("utf-8")
    with pytest.raises(InputError, match="no results of a suite"):
        write_report([runs], tmp_path / "page.md")


def test_a_run_that_was_not_validated_yet(runs: Path, tmp_path: Path) -> None:
    for name in ("run.json", "config.yaml"):
        (tmp_path / name).write_text((runs / "long" / name).read_text())
    assert "not validated" in list_runs(tmp_path)
    write_report([tmp_path], tmp_path.parent / "new.html")
    assert "<h2>Training</h2>" not in (tmp_path.parent / "new.html").read_text("utf-8")


def test_texts_that_are_not_here_are_left_out(runs: Path) -> None:
    config = run_record_of(runs / "long", "long")["config"]
    assert texts_of(config, "valid") == {}  # relative to an unknown folder
    assert texts_of(config, "valid", runs) == {}
    assert texts_of({"data": 3}, "valid", runs.parent) == {}
    assert list(texts_of(config, "test", runs.parent)) == ["source", "reference"]


def test_names_are_paths_where_two_folders_have_the_same(tmp_path: Path) -> None:
    assert unique_names([Path("a/x"), Path("b/y")]) == ["x", "y"]
    assert unique_names([Path("a/x"), Path("b/x"), Path("z")]) == ["a/x", "b/x", "z"]
