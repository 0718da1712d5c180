"""`fastmos evaluate`: what it prints, and that it agrees with the others."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.calling import Command
from tests.tasks.captioner import without_java


def test_evaluate_says_everything(trained: Path, run_command: Command, tmp_path: Path) -> None:
    done = run_command("evaluate", trained / "run", "--output", tmp_path / "out")
    bleu, chrf, nll, speed = done.out.splitlines()
    assert bleu.startswith("BLEU ")
    assert "nrefs:1|case:mixed|eff:no|tok:none|smooth:exp" in bleu
    assert chrf.startswith("chrF ")
    assert re.match(r"NLL per word \d\.\d{4}, perplexity \d+\.\d\d \(", nll)
    assert "sentences/s" in speed
    assert (tmp_path / "out").read_text() == run_command("translate", trained / "run", trained / "test.a").out
    files = ["--source", trained / "test.a", "--reference", trained / "test.b"]
    record = json.loads(run_command("evaluate", trained / "run", *files, "--json").out)
    assert f"BLEU {record['bleu']:.2f}" in bleu
    assert record["about"]["seed"] == 1
    assert record["lines"] == 8


def test_evaluate_gives_the_figures_of_wmt(trained: Path, run_command: Command) -> None:
    plain, _, text, compounds, *_ = run_command("evaluate", trained / "run", "--language", "de").out.splitlines()
    assert text.startswith("detokenized BLEU ")
    assert "|tok:13a|" in text
    assert compounds.startswith("compound-split BLEU ")
    assert compounds.endswith("|compounds:split)")
    assert plain.split()[1] == compounds.split()[2]  # these words have no hyphens


def test_evaluate_and_validation_agree(trained: Path, run_command: Command) -> None:
    """A language model reads running text in both."""
    log = [json.loads(line) for line in (trained / "lm" / "log.jsonl").read_text().splitlines()]
    record = json.loads(run_command("evaluate", trained / "lm", "--reference", trained / "valid.b", "--json").out)
    assert record["nll_per_word"] == pytest.approx(log[-1]["nll_per_word"], rel=1e-5)
    assert len(run_command("score", trained / "lm", "--target", trained / "valid.b").out.splitlines()) == 8


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run --beam-size 0", "--beam-size: must be at least 1, not 0"),
        ("lm --output x", "lm: a language model has no outputs; leave out --output"),
        ("lm --int8", "lm: a language model has no outputs; leave out --int8"),
        ("run --source test.a", "evaluation needs references, the text to compare with"),
        ("run --reference test.b", "this run translates, so it needs source lines"),
        (
            "run --source test.a --reference test.b --output test.b",
            "test.b: is read, and would be replaced",
        ),
        ("run --source test.a --reference train.b", "8 source lines and 400 target lines"),
        ("run --language xx", "language 'xx' is unknown to Moses' rules; give one of "),
        ("lm --language de", "this run is a language model, which has no BLEU"),
    ],
)
def test_refusals(words: str, said: str, trained: Path, run_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    done = run_command("evaluate", *words.split(), stdin=b"3\n")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("fastmos: ") and done.err.count("\n") == 1
    assert said in done.err


def test_captions_are_written_in_the_form_of_coco(
    captioner: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: Command
) -> None:
    without_java(monkeypatch)
    output = tmp_path / "captions.txt"
    done = run_command("evaluate", captioner, "--split", "valid", "--json", "--output", output)
    record = json.loads(done.out)
    assert done.code == 0 and record["meteor"] is None and record["captions"] == 4
    assert [sorted(one) for one in json.loads(output.read_text())] == [["caption", "image_id"]] * 4
    assert run_command("evaluate", captioner, "--reference", output).code == 2
