"""`fastmos bench step` and `decode` in small: every head takes part, and the record is whole."""

import json
from pathlib import Path

import pytest
import torch

from fastmos.bench import decode, models, step
from fastmos.data.batches import decoding_batch
from fastmos.files import read_json
from fastmos.heads import products
from fastmos.search import beam_search
from fastmos.tokenizers import WordTokenizer

SMALL = models.Sizes(vocab_size=60, hidden_size=16, rounds=2)


def test_a_tenth_of_the_words_covers_most_of_the_text() -> None:
    frequencies = models.zipf(10_000)
    assert frequencies.sum() == pytest.approx(1.0)
    words = frequencies[models.SPECIALS :]
    assert 0.88 < words[:1000].sum() / words.sum() < 0.92
    drawn = models.draw_words((50, 1000), 10_000)
    assert drawn.min() == models.SPECIALS and drawn.max() < 10_000
    assert 0.88 < (drawn < 1000 + models.SPECIALS).float().mean() < 0.92


def test_steps_of_every_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(step.SIZES, "quick", SMALL)
    monkeypatch.setitem(step.BATCH, "quick", (3, 5))
    record = step.run(quick=True, output=tmp_path / "step.json")
    assert read_json(tmp_path / "step.json") == json.loads(json.dumps(record))
    assert {"command", "date", "machine", "commit", "seed"} <= set(record["provenance"])
    printed = capsys.readouterr().out
    for body, rows in record["bodies"].items():
        assert body in printed
        assert [row["name"] for row in rows] == [*models.HEADS, step.SLOW]
        assert rows[0]["ratio"] == 1.0 and all(len(row["seconds"]) == 2 for row in rows)


def test_a_step_learns_and_the_slow_one_switches_fast_products_off() -> None:
    batch = models.draw_batch(3, 5, 60)
    assert batch.num_tokens == 15
    seen = []
    before = products.set_fast_products(True)
    step.without_fast_products(lambda: seen.append(products.describe()))()
    assert products.set_fast_products(before) is True
    assert "turned off" in seen[0]
    model = models.build("LSTM", models.SOFTMAX, SMALL)
    first = [one.clone() for one in model.parameters()]
    optimized = step.make_step("LSTM", models.SOFTMAX, SMALL, batch)
    optimized()
    assert all(torch.equal(a, b) for a, b in zip(first, model.parameters(), strict=True))  # each has its own model


def test_searches_of_every_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(decode.SIZES, "quick", SMALL)
    record = decode.run(quick=True, output=tmp_path / "decode.json")
    assert read_json(tmp_path / "decode.json") == json.loads(json.dumps(record))
    assert [(case["body"], case["sentences"]) for case in record["cases"]] == [
        (body, sentences) for body in models.BODIES for sentences in (32, 1)
    ]
    for case in record["cases"]:
        assert [row["name"] for row in case["rows"]] == [*models.HEADS, *(f"{head}, int8" for head in decode.INT8)]
        assert all(row["x ctranslate2"] is None for row in case["rows"])
        tails = {row["name"]: row["tail"] for row in case["rows"]}
        assert tails[models.SOFTMAX] is None and 0 <= tails["adaptive softmax"] <= 1
    assert "tail" in capsys.readouterr().out


@pytest.mark.parametrize("head", list(models.HEADS))
def test_models_are_as_sharp_as_trained_ones_and_take_equally_many_steps(head: str) -> None:
    sizes = models.Sizes(vocab_size=200, hidden_size=16)
    model = decode.Counting.of(decode.sharpened(models.build("LSTM", head, sizes).eval(), sizes))
    with torch.no_grad():
        torch.manual_seed(models.SEED)
        hidden = model.body(models.draw_batch(4, 13, sizes.vocab_size))[0].flatten(0, 1)
        assert 2 < decode.entropy(model.head(hidden)) < 4
    tokenizer = WordTokenizer([f"w{rank}" for rank in range(196)])
    batch = decoding_batch(models.draw_words((3, 13), 200).tolist())
    steps = []
    step_before = model.step
    model.step = lambda *given: steps.append(1) or step_before(*given)  # type: ignore[method-assign,func-returns-value]
    found = beam_search(model, tokenizer, batch, beam_size=5, max_length=6)
    assert len(steps) == 7 and all(len(one[0].tokens) == 6 for one in found)
