"""Translation: what its config must have, pairs of lines, and its figures."""

import json
from pathlib import Path
from typing import Any

import pytest

from fastmos.config import changed
from fastmos.errors import InputError
from fastmos.experiment import begin, train
from fastmos.inference.run import load
from fastmos.run_folder import RunFolder
from fastmos.tasks import Task, build_task
from fastmos.tokenizers import Pretokenizer
from tests.training.tiny import tiny

SHARED = {"type": "transformer", "share_embeddings": True, "num_heads": 2, "ffn_size": 8}


def task_of(changes: dict[str, Any], base: Path) -> Task:
    return build_task(changed(tiny(), changes), base, RunFolder(base / "run"))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, None),
        ({"training": {"early_stopping_metric": "nll"}}, None),
        (
            {"training": {"early_stopping_metric": "cider"}},
            "does not exist for translation; set it to bleu or nll",
        ),
        (
            {"head": {"type": "shortlist", "shortlist": 500}, "tokenizers": {"target": {"vocab_size": 200}}},
            "head.shortlist is 500, and tokenizers.target.vocab_size 200; set it lower, or to 0",
        ),
        ({"head": {"type": "shortlist", "shortlist": 150}, "tokenizers": {"target": {"vocab_size": 200}}}, None),
        ({"training": {"bptt_length": 5}}, "training.bptt_length is for language modeling; leave it out"),
        ({"data": {"train": {"source": ""}}}, "data.train.source is missing; name the file to translate"),
        ({"data": {"valid": {"source": ""}}}, "data.valid.source is missing; name the file to translate"),
        ({"data": {"features": "x"}}, "data.features is for captioning; leave it out"),
        ({"model": SHARED}, "model.share_embeddings needs tokenizers.joint"),
        ({"model": SHARED, "tokenizers": {"joint": True}}, None),
        (
            {"tokenizers": {"joint": True, "target": {"language": "de"}}},
            "tokenizers.joint needs tokenized text, not raw text of language de",
        ),
    ],
)
def test_problems_of_a_config(changes: dict[str, Any], problem: str | None, tmp_path: Path) -> None:
    found = list(task_of(changes, tmp_path).problems())
    assert len(found) == (problem is not None)
    assert problem is None or found[0].endswith(problem)


@pytest.mark.parametrize("joint", [False, True])
def test_a_split_is_its_pairs_of_lines(joint: bool, digits: Path) -> None:
    for side in "ab":
        with open(digits / f"train.{side}", "a") as file:
            file.write(f"{side}\n")  # a word that the other side does not have
    task = task_of({"tokenizers": {"joint": joint}}, digits)
    begin(task)
    dataset = task.dataset("valid")
    assert dataset.source is not None
    for side, text, tokenizer in zip("ab", dataset.texts, task.tokenizers, strict=True):
        lines = (digits / f"valid.{side}").read_text().splitlines()
        assert tokenizer.decode_lines([text[row].tolist() for row in range(len(text))]) == lines
    assert list(dataset.references) == (digits / "valid.b").read_text().splitlines()
    assert not task.dataset("train").references
    assert (task.folder.source.read_bytes() == task.folder.target.read_bytes()) is joint


def test_sides_of_unequal_length_are_refused(digits: Path) -> None:
    (digits / "valid.a").write_text("1 2\n")
    task = task_of({}, digits)
    begin(task)
    with pytest.raises(InputError, match=r"valid\.a.* has 1 lines and .*valid\.b.* 8"):
        task.dataset("valid")


def test_a_missing_file_is_refused_before_any_work(digits: Path) -> None:
    (digits / "valid.b").unlink()
    with pytest.raises(InputError, match=r"valid\.b: no such file \(named in the config\)$"):
        task_of({}, digits).check()


def test_validation_and_evaluation_agree(digits: Path) -> None:
    """Also where sources are longer than training allowed, and are cut."""
    train(tiny(data={"max_length": 3}), digits, digits / "run")
    sources, references = ((digits / f"valid.{side}").read_text().splitlines() for side in "ab")
    assert max(len(line.split()) for line in sources) > 3
    with pytest.warns(UserWarning, match="were cut to 3 tokens"):
        found = load(digits / "run", "cpu").evaluate(sources=sources, references=references)
    log = [json.loads(line) for line in (digits / "run/log.jsonl").read_text().splitlines()]
    best = max((record for record in log if "bleu" in record), key=lambda record: record["bleu"])
    for name in ("bleu", "chrf", "nll_per_word"):
        assert found.record()[name] == pytest.approx(best[name], rel=1e-6), name


def test_bleu_is_that_of_the_outputs(trained: Path) -> None:
    run = load(trained / "run", "cpu")
    sources = ["3 1 2", "5", "9 8 7 6 5", "4 0 4 2"]
    outputs = run.translate(sources)
    assert run.evaluate(sources=sources, references=outputs).scores["bleu"].value == pytest.approx(100)
    wrong = run.evaluate(sources=sources, references=[f"{line} x y" for line in outputs])
    assert wrong.scores["bleu"].value < 90


def test_raw_text_has_no_second_figure_of_wmt(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = load(trained / "run")
    monkeypatch.setattr(run.target, "pretokenizer", Pretokenizer("de"))
    with pytest.raises(InputError, match=r"text is raw, so its BLEU is of plain text \(13a\) already"):
        run.evaluate(sources=["3 1"], references=["1 3"], language="de")
