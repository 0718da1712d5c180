"""What a model does inside: distributions over softmaxes and source tokens, one for each token of the output."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from fastmos.config import changed
from fastmos.experiment import begin
from fastmos.inference.inside import TOP, explain, look_inside
from fastmos.inference.run import Run, load
from fastmos.run_folder import RunFolder
from fastmos.tasks import build_task
from tests.training.tiny import tiny

TRANSFORMER = {"type": "transformer", "ffn_size": 8, "num_heads": 2, "num_layers": 2}
BODIES: list[dict[str, Any]] = [{}, {"input_feeding": True}, TRANSFORMER]


def untrained(base: Path, sections: dict[str, Any]) -> Run:
    """A run with the parameters it would start from."""
    task = build_task(changed(tiny(), sections), base, RunFolder(base / "run"))
    begin(task)
    if hasattr(task.config.head, "shortlist"):
        task.choose_shortlist(task.dataset("train"))
    model = task.build_model().eval()
    return Run(task, model, next(model.parameters()).device)


def test_a_translation_is_shown_token_by_token(trained: Path) -> None:
    run = load(trained / "run", "cpu")
    inside = look_inside(run, "3 1 2")
    eos = run.target.id_to_token(run.target.eos)
    assert inside.source == ["3", "1", "2", eos]
    assert inside.output == [*run.translate(["3 1 2"])[0].split(), eos]
    assert inside.weights is not None and inside.attention is not None
    for rows, width in ((inside.weights, 2), (inside.attention, len(inside.source))):
        assert len(rows) == len(inside.output)
        assert all(len(row) == width and min(row) >= 0 for row in rows)
        assert [sum(row) for row in rows] == pytest.approx([1.0] * len(rows), abs=1e-3)
    assert json.loads(json.dumps(inside.record()))["attention"] == inside.attention


def test_an_empty_line_has_an_inside(trained: Path) -> None:
    inside = look_inside(load(trained / "run", "cpu"), "")
    assert (len(inside.source), len(inside.output)) == (1, 1)
    assert inside.attention == [[1.0]]


@pytest.mark.parametrize(
    ("sections", "weights", "attention"),
    [
        ({}, True, True),
        ({"head": {"type": "softmax"}}, False, True),
        ({"model": {"input_feeding": True}}, True, True),
        ({"model": TRANSFORMER}, True, True),
    ],
)
def test_what_a_model_does_not_have_is_none(
    sections: dict[str, Any], weights: bool, attention: bool, digits: Path
) -> None:
    inside = look_inside(untrained(digits, sections), "3 1")
    assert (inside.weights is not None, inside.attention is not None) == (weights, attention)


# ---- explanations


@pytest.mark.parametrize("head", ["softmax", "mos", "moc", "mixtape", "shortlist"])
def test_every_choice_adds_up(head: str, digits: Path) -> None:
    section = {"type": head, "shortlist": 5} if head in ("shortlist", "mixtape") else {"type": head}
    run = untrained(digits, {"head": section})
    outputs = [one.tokens for one in run.translate(["3 1 2"], nbest=2)[0]]
    mixed = head in ("mos", "shortlist")
    for tokens, found in zip(outputs, explain(run, outputs, line="3 1 2"), strict=True):
        assert [choice.token for choice in found.choices] == [
            run.target.id_to_token(t) for t in [*tokens, run.target.eos]
        ]
        for choice in found.choices:
            assert sum(choice.prior) == pytest.approx(1, abs=1e-3)
            assert sum(choice.responsibility) == pytest.approx(1, abs=1e-3)
            assert len(choice.prior) == len(choice.responsibility) == (2 if mixed else 1)
            assert len(choice.softmaxes) == (2 if mixed else 0)
            for guesses in (choice.mixture, *choice.softmaxes):
                probs = [prob for _, prob in guesses]
                assert len(guesses) == TOP and probs == sorted(probs, reverse=True)


def test_an_explanation_says_what_the_model_scores(trained: Path) -> None:
    run = load(trained / "run", "cpu")
    outputs = run.translate(["3 1 2 9 4"], nbest=2)[0]
    for output, found in zip(outputs, explain(run, [one.tokens for one in outputs], line="3 1 2 9 4"), strict=True):
        assert sum(choice.log_prob for choice in found.choices) == pytest.approx(output.log_prob, abs=1e-3)
        for choice in found.choices:
            said = dict(choice.mixture).get(choice.token)
            if said is not None:
                assert said == pytest.approx(torch.tensor(choice.log_prob).exp().item(), abs=1e-3)
            for component, (prior, share) in enumerate(zip(choice.prior, choice.responsibility, strict=True)):
                alone = dict(choice.softmaxes[component]).get(choice.token)  # share = prior * alone / whole
                if alone is not None and said is not None:
                    assert share * said == pytest.approx(prior * alone, abs=2e-3)


@pytest.mark.parametrize("model", BODIES)
def test_attention_reads_the_source_in_step_with_the_output(model: dict[str, Any], digits: Path) -> None:
    """It is a distribution over source tokens, of which the first row is known before the rest of the output."""
    run = untrained(digits, {"model": model})
    tokens = run.target.encode("1 2 3")
    long, short = explain(run, [tokens, tokens[:1]], line="3 1 2")
    assert long.attention is not None and short.attention is not None
    assert (len(long.attention), len(short.attention)) == (4, 2)
    assert long.source == ["3", "1", "2", run.target.id_to_token(run.target.eos)]
    for row in (*long.attention, *short.attention):
        assert len(row) == 4 and sum(row) == pytest.approx(1, abs=1e-3)
    for one, other in zip(long.attention[:2], short.attention, strict=True):
        assert one == pytest.approx(other, abs=1e-3)
    (alone,) = explain(run, [tokens], line="3 1 2")
    assert alone.attention is not None
    for one, other in zip(long.attention, alone.attention, strict=True):
        assert one == pytest.approx(other, abs=1e-3)
    (far,) = explain(run, [tokens], line="2 2 2")
    assert far.attention != alone.attention


def test_the_attention_of_a_transformer_is_that_of_its_last_layer(digits: Path) -> None:
    """The weights are those with which torch reads the values, seen with values that count the source tokens."""
    run = untrained(digits, {"model": TRANSFORMER})
    read: Any = run.model.body.decoder[-1].source  # type: ignore[union-attr,index]
    seen: list[torch.Tensor] = []

    def count(module: Any, given: Any) -> Any:
        queries, keys_values, mask = given
        keys, values = keys_values
        one_hot = torch.eye(4).expand(*values.shape[:2], 4, 4)  # [B, H, S, D/H], D/H is 4 too
        seen.append(torch.nn.functional.scaled_dot_product_attention(queries, keys, one_hot, mask).mean(1))

    handle = read.register_forward_pre_hook(count)
    tokens = run.target.encode("1 2")
    run.score(["3 1 2"], ["1 2"])
    handle.remove()
    (found,) = explain(run, [tokens], line="3 1 2")
    torch.testing.assert_close(torch.tensor(found.attention), seen[0][0], atol=1e-3, rtol=0)
    with torch.no_grad():
        read.query.weight.zero_()
        read.query.bias.zero_()
    (even,) = explain(run, [tokens], line="3 1 2")  # all source tokens look alike
    assert even.attention == [[0.25] * 4] * 3


def test_a_language_model_shows_what_may_follow(trained: Path) -> None:
    run = load(trained / "lm", "cpu")
    (found,) = explain(run, [run.target.encode("1 2")])
    assert found.source == [] and found.attention is None
    assert [choice.token for choice in found.choices][:2] == ["1", "2"]
    (longer,) = explain(run, [run.target.encode("1 2 3")])
    assert longer.choices[2].mixture == found.choices[2].mixture  # what follows "1 2", whatever follows it
    total = sum(choice.log_prob for choice in found.choices)
    assert total == pytest.approx(run.score(None, ["1 2"])[0], abs=1e-3)


def test_pieces_of_a_word_are_told_from_its_end(digits: Path) -> None:
    for side in "ab":
        for split in ("train", "valid", "test"):
            path = digits / f"{split}.{side}"
            path.write_text(path.read_text().replace("1", "eins").replace("2", "zwei"))
    bpe = {"type": "bpe", "vocab_size": 29}
    run = untrained(digits, {"tokenizers": {"source": bpe, "target": bpe}})
    (found,) = explain(run, [run.target.encode("eins zwei 3")], line="3")
    words = "".join(one.token.removesuffix("@@") + " " * one.ends_word for one in found.choices[:-1])
    assert words == "eins zwei 3 " and any(not one.ends_word for one in found.choices)
