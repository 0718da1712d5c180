"""Language modeling: what its config must have, lines or running text, and its figures."""

from pathlib import Path
from typing import Any

import pytest
import torch

from fastmos.config import changed
from fastmos.data.batches import ContiguousBatches, SentenceBatches
from fastmos.distributed import World
from fastmos.errors import InputError
from fastmos.experiment import begin
from fastmos.inference.run import load
from fastmos.run_folder import RunFolder
from fastmos.tasks import Task, build_task
from fastmos.tasks.evaluation import Evaluator
from tests.training.tiny import tiny_language_model


def task_of(changes: dict[str, Any], base: Path) -> Task:
    return build_task(changed(tiny_language_model(), changes), base, RunFolder(base / "run"))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, None),
        ({"training": {"early_stopping_metric": "bleu"}}, "bleu does not exist for language-modeling; set it to nll"),
        ({"data": {"train": {"source": "x"}}}, "a language model has no source; leave out data.*.source"),
        ({"data": {"features": "x"}}, "data.features is for captioning; leave it out"),
        (
            {"tokenizers": {"joint": True}},
            "needs a source text, which language modeling does not have",
        ),
        ({"training": {"bptt_length": 0, "batch_size": 0, "batch_tokens": 100}}, None),
        (
            {"training": {"batch_size": 0, "batch_tokens": 100}},
            "training.bptt_length needs training.batch_size, the number of streams, not batch_tokens",
        ),
    ],
)
def test_problems_of_a_config(changes: dict[str, Any], problem: str | None, tmp_path: Path) -> None:
    found = list(task_of(changes, tmp_path).problems())
    assert len(found) == (problem is not None)
    assert problem is None or found[0].endswith(problem)


def test_a_split_has_targets_alone(digits: Path) -> None:
    task = task_of({}, digits)
    begin(task)
    dataset = task.dataset("valid")
    assert dataset.source is None
    lines = [dataset.target[row].tolist() for row in range(len(dataset.target))]
    assert task.target.decode_lines(lines) == (digits / "valid.b").read_text().splitlines()
    assert not task.folder.source.exists()


@pytest.mark.parametrize(("length", "kind"), [(5, ContiguousBatches), (0, SentenceBatches)])
def test_training_reads_running_text_or_lines(length: int, kind: type, digits: Path) -> None:
    task = task_of({"training": {"bptt_length": length}}, digits)
    begin(task)
    dataset = task.dataset("train")
    batches = task.training_batches(dataset, 0, 1)
    assert isinstance(batches, kind)
    assert sum(int((batch.target != task.target.pad).sum()) for batch in batches.epoch(0)) == len(
        dataset.target.tokens
    ) + len(dataset.target)


def test_the_likelihood_of_lines_is_their_score(digits: Path) -> None:
    """And of running text it is another, since a line is scored given those before it."""
    found = {}
    for length in (0, 5):
        task = task_of({"training": {"bptt_length": length}}, digits)
        if not length:
            begin(task)
        model = task.build_model().eval()
        lines = (digits / "test.b").read_text().splitlines()
        evaluator = Evaluator(model, task.target, task.config.search, World(0, 1, torch.device("cpu")))
        result = task.evaluate(task.evaluation_data("test", None, None), evaluator)
        assert (result.scores, result.outputs, result.speed()) == ({}, None, {})
        report = result.likelihood
        assert report.lines == len(lines)
        found[length] = report.nll_per_word
        score = -sum(task.score(model, None, lines)) / (report.words + report.lines)
        assert (report.nll_per_word == pytest.approx(score, rel=1e-6)) is (length == 0)
    assert found[0] != found[5]


def test_sources_are_refused(trained: Path) -> None:
    task = load(trained / "lm").task
    with pytest.raises(InputError, match="which has no sources; give the text alone"):
        task.evaluation_data("test", ["1"], ["1"])
