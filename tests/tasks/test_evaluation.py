"""Evaluation: perplexity stands beside every NLL, and several processes find what one finds."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from fastmos.distributed import World
from fastmos.heads import Usage
from fastmos.inference.run import load
from fastmos.metrics import LikelihoodReport, Score
from fastmos.tasks.evaluation import Evaluation, Evaluator

REPORT = LikelihoodReport(nll_per_word=2.0, nll_per_known_word=1.5, oov_rate=0.25, words=8, lines=2)
FULL = Evaluation(REPORT, {"bleu": Score(31.5, "tok:none")}, ["a", "b", "c"], 1.5, Usage(1.5, 0.4, [0.75, 0.25]))


def test_the_record_has_every_figure() -> None:
    assert FULL.record() == {
        "nll_per_word": 2.0,
        "nll_per_known_word": 1.5,
        "oov_rate": 0.25,
        "words": 8,
        "lines": 2,
        "perplexity": pytest.approx(math.exp(2.0)),
        "bleu": 31.5,
        "bleu_signature": "tok:none",
        "effective_mixtures": 1.5,
        "mixture_share": [0.75, 0.25],
    }
    assert FULL.speed() == {"seconds": 1.5, "sentences_per_second": 2.0}


def test_the_headline_is_one_line() -> None:
    expected = "BLEU 31.50, NLL per word 2.0000 (perplexity 7.39), 1.5 of 2 mixtures in use"
    assert FULL.headline() == expected
    assert Evaluation(REPORT).headline() == "NLL per word 2.0000 (perplexity 7.39)"


def test_the_summary_has_a_line_for_each_figure() -> None:
    likelihood = "NLL per word 2.0000, perplexity 7.39 (1.5000 for known words, 25.00% unknown)"
    assert FULL.summary().splitlines() == ["BLEU 31.50 (tok:none)", likelihood, "2.0 sentences/s (3 sentences)"]
    assert Evaluation(REPORT).summary() == likelihood


@pytest.mark.parametrize(("name", "value"), [("nll", -2.0), ("bleu", 31.5)])
def test_larger_metrics_are_better(name: str, value: float) -> None:
    assert FULL.metric(name) == value


def test_outputs_are_written_one_a_line(tmp_path: Path) -> None:
    FULL.write_outputs(tmp_path / "out")
    assert (tmp_path / "out").read_text() == "a\nb\nc\n"


@dataclass
class Meeting:
    """Where threads exchange what they have."""

    barrier: threading.Barrier
    places: dict[int, Any] = field(default_factory=dict)

    def exchange(self, rank: int, value: Any) -> list[Any]:
        self.places[rank] = value
        self.barrier.wait(60)
        found = [self.places[rank] for rank in sorted(self.places)]
        self.barrier.wait(60)
        return found


@dataclass(frozen=True)
class Thread(World):
    """One of several processes, as a thread."""

    meeting: Meeting

    def sum(self, values: Any) -> list[float]:
        return [sum(column) for column in zip(*self.meeting.exchange(self.rank, list(values)), strict=True)]

    def gather(self, value: Any) -> list[Any]:
        return self.meeting.exchange(self.rank, value)


@pytest.mark.parametrize("name", ["run", "lm"])
@pytest.mark.parametrize("size", [2, 3])
def test_processes_together_find_what_one_finds(size: int, name: str, trained: Path) -> None:
    run = load(trained / name, "cpu")
    dataset = run.task.evaluation_data("test", None, None)
    meeting, cpu = Meeting(threading.Barrier(size)), torch.device("cpu")

    def evaluate(world: World) -> Evaluation:
        return run.task.evaluate(dataset, Evaluator(run.model, run.target, run.config.search, world))

    alone = evaluate(World(0, 1, cpu))
    with ThreadPoolExecutor(size) as threads:
        together = list(threads.map(evaluate, [Thread(rank, size, cpu, meeting) for rank in range(size)]))
    for found in together:
        assert found.outputs == alone.outputs
        record, expected = found.record(), alone.record()
        assert record.keys() == expected.keys()
        for key, value in expected.items():
            assert record[key] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-5)), key
