"""Language models in the suites, at a scale of seconds: trained, measured, printed."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fastmos import measure
from fastmos.config import configs_folder
from fastmos.files import read_json, read_lines
from fastmos.heads import build_head
from fastmos.inference.contexts import log_prob_batches, some_states
from fastmos.inference.run import load
from fastmos.reproduce import cost, gradient, rank, reproduce, scales
from fastmos.reproduce.frequency import EDGES, by_frequency
from fastmos.reproduce.plans import plan
from fastmos.reproduce.scales import MAIN, SCALES, Base, Scale
from fastmos.reproduce.suites import HEADS, RANK
from fastmos.samples.grammar import write_sample
from tests.heads.options import own

SMALLER = {
    r"hidden_size: 256": "hidden_size: 8",
    r"vocab_size: 33277": "vocab_size: 120",
    r"batch_size: 32": "batch_size: 4",
    r"bptt_length: 35": "bptt_length: 7",
    r"max_steps: 22380": "max_steps: 40",
    r"learning_rate: 0.002": "learning_rate: 0.02",
    r"\$\{FASTMOS_DATA\}/wikitext2/(\w+)\.txt\.gz": r"../text/\1.en",
}


@pytest.fixture(autouse=True)
def tiny_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scale `wikitext2` with text of the grammar, and models to match."""
    text = (configs_folder() / "reproduce-wikitext2.yaml").read_text("utf-8")
    for pattern, smaller in SMALLER.items():
        assert re.search(pattern, text), pattern
        text = re.sub(pattern, smaller, text)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/tiny.yaml").write_text(text, "utf-8")
    write_sample(tmp_path / "text", pairs=200, valid=20, test=20)
    monkeypatch.setattr(scales, "configs_folder", lambda: tmp_path / "configs")
    monkeypatch.setattr(cost, "ROUNDS", 1)
    monkeypatch.setattr(measure, "extra_memory", lambda prepared, *given: prepared(*given) and 2_000_000)
    monkeypatch.setattr(gradient, "POSITIONS", {"hidden": 5, "contexts": 3})
    bases = {MAIN: Base("tiny.yaml"), "bpe": Base("tiny.yaml", {"training": {"max_steps": 50}})}
    wide = {"words softmax": 9, "words shortlist": 9, "words mixtape": 9, "bpe softmax": 10}
    scale = Scale("tiny", "language-modeling", "a grammar", bases, "a grammar", 120, (80,), wide, near_softmax=True)
    monkeypatch.setitem(SCALES, "tiny", scale)
    monkeypatch.chdir(tmp_path)


def records(kind: str) -> list[dict[str, Any]]:
    found = [read_json(path) for path in sorted(Path("results/tiny").glob("*.json"))]
    return [record for record in found if record["kind"] == kind]


def test_heads_are_compared_by_perplexity(capsys: pytest.CaptureFixture[str]) -> None:
    reproduce.reproduce("heads", "tiny", runs=Path("runs"))
    said = capsys.readouterr().out
    assert "missing" not in said and "perplexity" in said and "ms, fused" in said and "BLEU" not in said
    assert len(records("run")) == len(HEADS.rows)
    for record in records("run"):
        assert record["scores"]["test"]["perplexity"] < 124 and record["inside"] is None
        assert record["statistics"] == {"valid": None, "test": None}
        assert sum(record["by_frequency"]["words"]) == record["scores"]["test"]["words"]
    (ranks,) = records("rank")
    rows = dict(zip([row.name for row in HEADS.rows], ranks["rows"], strict=True))
    assert all(row["rank"] <= row["bound"] <= 124 for row in rows.values())
    assert rows["One softmax"]["bound"] == rows["MoC, 9"]["bound"] == 8 + 2
    assert rows["MoS, 9"]["bound"] == 124 and rows["Adaptive softmax"]["bound"] == 2 * 8 + 3
    assert rows["MoS, 9"]["rank"] > rows["One softmax"]["rank"]


def test_the_share_of_the_gradient_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    reproduce.reproduce("rank", "tiny", runs=Path("runs"))
    assert "missing" not in capsys.readouterr().out
    (found,) = records("gradient")
    rows = dict(zip([row.name for row in RANK.rows], found["rows"], strict=True))
    assert all(0 < row[through]["percent"] < 100 for row in rows.values() for through in ("hidden", "contexts"))
    assert rows["Softmax"]["hidden"]["directions"] == rows["Softmax"]["contexts"]["directions"] == 8
    assert rows["Mixture of contexts, 9"]["contexts"]["directions"] == 8
    assert rows["Mixture of softmaxes, 9"]["contexts"]["directions"] > 40
    nine, one = rows["Mixture of softmaxes, 9"]["contexts"], rows["Softmax"]["contexts"]
    assert nine["percent"] > one["percent"]
    scores = [record["scores"]["test"] for record in records("run")]
    assert all(score["oov_rate"] == 0 for score in scores)  # of BPE


@pytest.fixture
def trained() -> Any:
    reproduce.reproduce("heads", "tiny", only="One softmax", runs=Path("runs"))
    return load(Path("runs", plan(HEADS.rows[0], SCALES["tiny"]).id), "cpu")


def test_running_text_is_read_with_what_came_before(trained: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = trained.task.evaluation_data("valid", None, None)
    log_probs = torch.cat(list(log_prob_batches(trained, text)))
    states, targets = some_states(trained, text, 10_000)
    assert len(log_probs) == len(states) == len(targets) == len(text.target.tokens) + len(text.target)
    nll = -trained.model.head(states).detach().gather(1, targets[:, None]).double()
    assert float(nll.mean()) == pytest.approx(trained.evaluate("valid").likelihood.nll_per_word, rel=0.05)
    few, _ = some_states(trained, text, 7)
    assert len(few) == 7
    whole = rank.rank_of(trained)
    monkeypatch.setattr(rank, "LARGEST", 50)
    monkeypatch.setattr(rank, "POSITIONS", 90)
    assert rank.rank_of(trained).rank == whole.rank <= 10 and rank.rank_of(trained).rows == 90


def test_words_are_counted_by_how_often_they_were_seen(trained: Any) -> None:
    found = by_frequency(trained)
    assert found is not None
    lines = {split: [line.split() for line in read_lines(Path("text", f"{split}.en"))] for split in ("train", "test")}
    seen = [word for line in lines["train"] for word in line]
    frequency = [seen.count(word) for line in lines["test"] for word in line]
    edges = [*EDGES, 10**9]
    assert found["words"] == [
        sum(low <= n < high for n in frequency) for low, high in zip([0, *edges], edges, strict=False)
    ]
    report = trained.evaluate("test").likelihood
    ends = report.nll_per_word * (report.words + report.lines) - sum(found["nll"])
    assert 0 < ends < report.lines * 10  # what is left are the ends of lines


@pytest.mark.parametrize(
    ("kind", "mixtures", "most"),
    [("softmax", 1, 7), ("moc", 3, 7), ("mos", 3, 40), ("shortlist", 1, 13), ("shortlist", 3, 19), ("mixtape", 4, 19)],
)
def test_bounds_of_the_rank_hold_and_are_reached(kind: str, mixtures: int, most: int) -> None:
    torch.manual_seed(0)
    head = build_head(kind, 5, 40, **own(kind, mixtures=mixtures, shortlist=12)).double()
    for weight in head.parameters():
        torch.nn.init.normal_(weight)
    assert rank.most(head) == most
    with torch.no_grad():
        log_probs = head(torch.randn(400, 5, dtype=torch.float64)).numpy()
    assert np.linalg.matrix_rank(log_probs, tol=1e-8 * np.linalg.norm(log_probs)) == most
