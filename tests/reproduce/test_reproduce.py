"""`fastmos reproduce` at a scale of seconds: what is trained once, shared, passed over, measured and printed."""

import gzip
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fastmos import experiment, measure
from fastmos.config import configs_folder, write_config
from fastmos.demos import captioning as caption_demo
from fastmos.errors import InputError
from fastmos.files import read_json, write_json
from fastmos.inference.contexts import log_prob_batches
from fastmos.inference.inside import look_inside
from fastmos.inference.run import average, load
from fastmos.reproduce import cost, prepare, reproduce, scales
from fastmos.reproduce.decoding import decoding_record
from fastmos.reproduce.plans import plan
from fastmos.reproduce.scales import MAIN, SCALES, Base, Scale
from fastmos.reproduce.suites import OVERALL, RANK, SUITES
from fastmos.run_folder import RunFolder
from fastmos.samples.scenes import write_scenes
from fastmos.tables.rounds import TableLearning
from fastmos.vision.backbones import load_backbone
from fastmos.vision.extraction import extract

SMALLER = {
    r"hidden_size: 64": "hidden_size: 8",
    r"embedding_size: 64": "embedding_size: 8",
    r"max_epochs: 3": "max_epochs: 1",
    r"beam_size: 3": "beam_size: 2",
    r"max_length: 60": "max_length: 6",
    r"source: \{type: bpe, vocab_size: 600\}": "source: {type: bpe, vocab_size: 120}",
}
TINY = TableLearning(rounds=1, first_epochs=1, hidden_size=8, batch_tokens=400)


@pytest.fixture(autouse=True)
def tiny_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scale `sample` with less text, smaller models and fewer words."""
    configs = tmp_path / "configs"
    configs.mkdir()
    text = (configs_folder() / "reproduce-sample.yaml").read_text(encoding="utf-8")
    for pattern, smaller in SMALLER.items():
        assert re.search(pattern, text)
        text = re.sub(pattern, smaller, text)
    (configs / "reproduce-sample.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(scales, "configs_folder", lambda: configs)
    monkeypatch.setattr(prepare, "SAMPLE", {"pairs": 150, "valid": 6, "test": 6})
    monkeypatch.setitem(
        SCALES,
        "sample",
        replace(SCALES["sample"], words=200, vocab_sizes=(100, 60, 40), wide={"bpe softmax": 10}, learning=TINY),
    )
    monkeypatch.chdir(tmp_path)


def records(kind: str) -> list[dict[str, Any]]:
    found = [read_json(path) for path in sorted(Path("results/sample").glob("*.json"))]
    return [record for record in found if record["kind"] == kind]


def test_overall_is_trained_once_and_its_runs_serve_other_suites(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reproduce.reproduce("overall", "sample", only="MoS")
    assert len(records("run")) == 2 and len(records("table")) == 1
    assert "Baseline: 0 of 1 seeds" in capsys.readouterr().out
    reproduce.reproduce("overall", "sample")
    said = capsys.readouterr().out
    assert "28.91 ± 0.06" in said and "missing" not in said
    for record in records("run"):
        assert set(record["scores"]) >= {"valid", "test"}
        assert len(record["statistics"]["test"]) == 6 and len(record["statistics"]["test"][0]) == 10
        assert len(record["outputs"]["test"]) == 6 and record["curve"] and record["steps"] == 5
        assert '"/' not in str(record["config"]) and "source" not in record["outputs"]
    bpe = next(record for record in records("run") if record["name"].startswith("BPE"))
    assert bpe["scores"]["valid_without_oov"]["words"] >= bpe["scores"]["valid_without_oov"]["replaced_words"]
    inside = bpe["inside"]
    assert len(inside["weights"]) == len(inside["attention"]) == len(inside["output"])
    assert len(inside["attention"][0]) == len(inside["source"]) and len(inside["weights"][0]) == 9

    def untrained(*arguments: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(experiment, "train", untrained)
    for suite in ("overall", "oov", "words"):
        reproduce.reproduce(suite, "sample")
    said = capsys.readouterr().out
    assert "row 0" in said and "OOV words" in said and "missing" not in said


def test_a_lost_record_is_made_again_from_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    reproduce.reproduce("overall", "sample", only="Baseline")
    (path,) = Path("results/sample").glob("*.json")
    before = read_json(path)
    path.unlink()
    reproduce.reproduce("overall", "sample", only="Baseline")
    after = read_json(path)
    timeless = ("provenance", "scores")
    assert {name: after[name] for name in after if name not in timeless} == {
        name: before[name] for name in before if name not in timeless
    }
    assert before["scores"]["test"]["bleu"] == after["scores"]["test"]["bleu"]


def test_a_lost_table_comes_back_from_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learnt again elsewhere, it would be another, and seeds of a row would not share it."""
    scale = SCALES["sample"]
    reproduce.reproduce("words", "sample")
    table = plan(SUITES["words"].rows[0], scale).table
    assert table is not None
    record = Path(f"results/sample/table-{table.id}.json")
    learned = Path("runs", table.path).read_text("utf-8")

    def forbidden(*arguments: object, **options: object) -> None:
        raise AssertionError("learned again")

    monkeypatch.setattr(prepare, "learn_table", forbidden)
    shutil.rmtree("runs/tables")
    prepare.prepare_table(table, Path("runs"), record)
    assert Path("runs", table.path).read_text("utf-8") == learned

    shutil.rmtree("runs/tables")
    value = read_json(record)
    value["table"][0] = [word and f"{word}x" for word in value["table"][0]]
    write_json(record, value)
    with pytest.raises(InputError, match="other words than the training text"):
        prepare.prepare_table(table, Path("runs"), record)
    assert not Path("runs/tables").exists()


def test_where_several_last_checkpoints_are_kept_their_mean_is_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    keeps = Base("reproduce-sample.yaml", {"training": {"max_epochs": 3, "keep_last": 2}})
    monkeypatch.setitem(SCALES, "sample", replace(SCALES["sample"], bases={MAIN: keeps}))
    reproduce.reproduce("overall", "sample", only="Baseline")
    (record,) = records("run")
    folder = Path("runs", plan(OVERALL.rows[0], SCALES["sample"]).id)
    assert len(record["curve"]) == 3
    average(folder, Path("mean"), last=2)
    nll = [load(run, "cpu").evaluate("test").likelihood.nll_per_word for run in (Path("mean"), folder)]
    assert record["scores"]["test"]["nll_per_word"] == pytest.approx(nll[0], abs=1e-9)
    assert nll[0] != nll[1]


def test_captions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Generated drawings, whose table is learned from all captions; without Java, which takes long to start."""
    monkeypatch.setattr(shutil, "which", lambda name: None)
    (tmp_path / "runs").mkdir()
    write_scenes(tmp_path / "data", train=60, valid=8, test=8)
    extract(tmp_path / "data" / "images", tmp_path / "features.safetensors", load_backbone("color-grid"))
    text = write_config(caption_demo.config_of(caption_demo.Size(train=60, epochs=1, hidden_size=8)))
    (tmp_path / "configs" / "scenes.yaml").write_text(
        text.replace("data/", "../data/").replace(" features.", " ../features."), "utf-8"
    )
    scale = Scale(
        "scenes", "captioning", "drawings", {MAIN: Base("scenes.yaml")}, "drawings", 50, (48, 30, 20), learning=TINY
    )
    monkeypatch.setitem(SCALES, "scenes", scale)
    with pytest.warns(UserWarning, match="no java on PATH"):
        reproduce.reproduce("overall", "scenes")
    found = [read_json(path) for path in sorted(Path("results/scenes").glob("*.json"))]
    runs = [record for record in found if record["kind"] == "run"]
    assert len(runs) == 3 and len(found) == 4  # with the table
    for record in runs:
        assert len(record["outputs"]["test"]) == 8 and record["statistics"]["test"] is None
        assert record["scores"]["test"]["nll_per_word"] > 0 and record["vocab_size"] <= 50
    said = capsys.readouterr().out
    assert "29.64 ± 0.20" in said and "missing" not in said


def test_what_another_process_works_on_is_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    one = plan(OVERALL.rows[0], SCALES["sample"])
    with RunFolder(Path("runs", one.id)).lock():
        reproduce.reproduce("overall", "sample", only="Baseline")
    said = capsys.readouterr()
    assert "another process works on words" in said.err and "1 of 1 jobs wait" in said.err
    assert not records("run") and "Baseline: 0 of 1 seeds" in said.out


def test_ranks_of_softmaxes_and_mixtures(capsys: pytest.CaptureFixture[str]) -> None:
    reproduce.reproduce("rank", "sample")
    (found,) = records("rank")
    rows: dict[str, Mapping[str, Any]] = {
        row.name: measured for row, measured in zip(RANK.rows, found["rows"], strict=True)
    }
    assert found["vocab_size"] == 104 and found["embedding_size"] == 8
    assert rows["Softmax"]["rank"] <= rows["Softmax"]["bound"] == 10
    assert rows["Mixture of contexts, 9"]["rank"] <= 10 and rows["Softmax, parameters of nine"]["bound"] == 12
    assert rows["Mixture of softmaxes, 9"]["bound"] == min(104, found["contexts"])
    assert rows["Softmax"]["singular_values"][0][0] == 1
    assert "missing" not in capsys.readouterr().out

    run = load(Path("runs", rows["Mixture of softmaxes, 9"]["run"]), "cpu")
    (batch,) = log_prob_batches(run, run.task.evaluation_data("test", ["der mann schläft ."], ["the man sleeps ."]))
    torch.testing.assert_close(batch.exp().sum(-1), torch.ones(len(batch)))
    assert len(batch) == len(run.target.encode("the man sleeps .")) + 1
    inside = look_inside(run, "der mann schläft .")
    assert inside.weights is not None and inside.attention is not None
    for row in [*inside.weights, *inside.attention]:
        assert sum(row) == pytest.approx(1.0, abs=1e-2)


def test_decoding_is_timed_for_all_rows_and_needs_their_weights() -> None:
    reproduce.reproduce("overall", "sample", only="Baseline")
    scale = SCALES["sample"]
    one = plan(OVERALL.rows[0], scale)
    found = decoding_record([one], scale, Path("runs"))
    assert found["kind"] == "decoding" and found["batch"]["sentences"] == 6 and found["batch"]["beam_size"] == 2
    assert [row["run"] for row in found["rows"]] == [one.id] and found["rows"][0]["ms"] > 0
    shutil.rmtree(Path("runs", one.id))
    with pytest.raises(InputError, match=f"needs weights that are not in runs: delete .*{one.id}.json"):
        decoding_record([one], scale, Path("runs"))


def test_tables_are_learned_as_the_paper_did_where_a_row_says_so() -> None:
    row = next(row for row in SUITES["tables"].rows if row.tokenizer == "hybrid-half")
    scale = SCALES["sample"]
    table = plan(row, scale).table
    assert table is not None
    prepare.prepare_text(scale, Path("runs"))
    prepare.prepare_table(table, Path("runs"), Path("nowhere"))
    about = read_json(Path("runs", table.path).with_suffix(".learning") / "about.json")
    assert about["neighbors"] is False and about["method"] == "half"


@pytest.mark.parametrize("folder", [None, "empty"])
def test_a_scale_without_its_text_is_refused_once(
    folder: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scales, "configs_folder", configs_folder)
    monkeypatch.delenv("FASTMOS_DATA", raising=False)
    if folder is not None:
        monkeypatch.setenv("FASTMOS_DATA", folder)
    with pytest.raises(InputError, match=r"\d+ of these failed, for the reasons given above"):
        reproduce.reproduce("all", "multi30k")
    said = capsys.readouterr().err
    why = "the environment has no FASTMOS_DATA" if folder is None else "train.de.gz: no such file"
    assert said.count(why) == 1 and said.count("\n") == 1
    assert said.startswith("the scale multi30k cannot be trained: ")
    assert not Path("runs").exists()


def test_costs_are_those_of_all_rows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(measure, "extra_memory", lambda prepared, *given: prepared(*given) and 2_000_000)
    monkeypatch.setattr(cost, "ROUNDS", 1)
    scale = SCALES["sample"]
    folders = reproduce.Folders(Path("runs").resolve(), Path("results"))
    prepare.prepare_text(scale, folders.runs)
    work = {job.name: job for job in reproduce.jobs([SUITES["same-budget"]], scale, folders, None, "")}
    found = work["time and memory"].make()
    assert len(found["rows"]) == 14
    assert all(row["plain"]["ms"] > 0 and row["fused"]["megabytes"] == 2.0 for row in found["rows"])


def test_listing_trains_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    reproduce.reproduce("all", "sample", show=True)
    said = capsys.readouterr().out
    measured = re.findall("^to do  ([a-z]+)-", said, re.MULTILINE)
    assert {name: measured.count(name) for name in measured} == {
        "table": 6,
        "cost": 1,
        "rank": 2,
        "decoding": 1,
        "gradient": 1,
        "coherence": 1,
    }
    assert len(re.findall("^to do", said, re.MULTILINE)) == 26 + len(measured)  # and runs
    assert not Path("runs").exists() and not Path("results").exists()


@pytest.mark.parametrize("scale", ["paper", *SCALES])
def test_all_suites_can_be_listed_at_every_scale(
    scale: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()
    reproduce.reproduce("all", scale, results=Path("nowhere"), show=True)
    said = capsys.readouterr().out
    assert "done" not in said and said.count("\nto do") >= 7
    measured = re.findall(r"^to do  (cost|rank)-", said, re.MULTILINE)
    assert len(measured) == {"paper": 4, "flickr8k": 1, "coco": 1, "wmt14": 0}.get(scale, 3)


def test_only_some_scales_may_have_a_row(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.undo()
    reproduce.reproduce("all", "paper", only="Transformer", results=Path("nowhere"), show=True)
    assert capsys.readouterr().out.count("to do") == 8


def test_a_record_that_is_none_is_neither_done_nor_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    reproduce.reproduce("overall", "sample", only="BPE")
    (path,) = Path("results/sample").glob("*.json")
    whole = path.read_text("utf-8")
    capsys.readouterr()
    for content in ('{"format": 2,', "", '{"format": 2, "kind": "cost"}'):
        path.write_text(content, "utf-8")
        with pytest.raises(InputError, match=f"{path.name}: no record of .*; delete it to make it again"):
            reproduce.reproduce("overall", "sample", only="BPE")
        reproduce.reproduce("overall", "sample", only="BPE", show=True)
        assert capsys.readouterr().out.startswith("broken")
    other = whole.replace('"learning_rate": ', '"learning_rate": 1')  # of another run
    assert other != whole
    path.write_text(other, "utf-8")
    with pytest.raises(InputError, match="no record of"):
        reproduce.reproduce("overall", "sample", only="BPE")


def test_what_fails_stops_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path("runs") / plan(OVERALL.rows[0], SCALES["sample"]).id
    folder.mkdir(parents=True)
    (folder / "something").touch()  # the folder is somebody else's
    with pytest.raises(InputError, match="1 of these failed, for the reasons given above"):
        reproduce.reproduce("overall", "sample")
    said = capsys.readouterr()
    assert "one softmax, seed 1 failed: " in said.err and "not a run folder, and not empty" in said.err
    assert len(records("run")) == 2 and "Baseline: 0 of 1 seeds" in said.out


@pytest.mark.parametrize(
    ("suite", "scale", "only", "said"),
    [
        ("overal", "sample", "", "no suite 'overal'; choose one of overall, words"),
        ("overall", "moon", "", "no scale 'moon'; choose one of paper, multi30k"),
        ("wmt", "flickr8k", "", "the suite wmt has no rows at the scale flickr8k"),
        ("overall", "sample", "x", "no row has 'x' in its name; there are Baseline"),
    ],
)
def test_refusals(suite: str, scale: str, only: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        reproduce.reproduce(suite, scale, only=only)


def test_no_seeds_are_refused() -> None:
    with pytest.raises(InputError, match="0 seeds train nothing; give at least 1"):
        reproduce.reproduce("overall", "sample", seeds=0)


def test_a_file_that_is_no_result_stops_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs, results = tmp_path / "runs", tmp_path / "results"
    (results / "sample").mkdir(parents=True)
    (results / "sample/broken.json").write_text("{")
    reproduce.reproduce("overall", "sample", runs=runs, results=results, show=True)
    said = capsys.readouterr()
    assert "Overall performance" in said.out and "warning: left out" in said.err
    with pytest.raises(InputError, match=r"broken\.json: is a file; give a folder"):
        reproduce.reproduce("overall", "sample", runs=runs, results=results / "sample/broken.json", show=True)


def test_europarl_is_cut_to_short_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTMOS_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(prepare, "EUROPARL", {"train": 3, "valid": 1})
    monkeypatch.setattr(prepare, "LONGEST", 4)
    (tmp_path / "data/europarl").mkdir(parents=True)
    german = ["Ja, nein.", "Viel zu lang ist dieser Satz.", "Gut.", "", "So sei es.", "Danke."]
    english = ["Yes, no.", "Too long.", "Good.", "Nothing.", "So be it.", "Thanks."]
    for split in ("train", "valid"):
        for language, lines in (("de", german), ("en", english)):
            with gzip.open(tmp_path / f"data/europarl/{split}.{language}.gz", "wt", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
    prepare.prepare_text(SCALES["europarl"], tmp_path / "runs")
    assert (tmp_path / "runs/europarl-50k/train.de").read_text() == "Ja, nein.\nGut.\nSo sei es.\n"
    assert (tmp_path / "runs/europarl-50k/train.en").read_text() == "Yes, no.\nGood.\nSo be it.\n"
