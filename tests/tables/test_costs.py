"""Codes by look-up, costs by one pass, and held-out figures, each beside its definition."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fastmos.codings import EOS, TableCoding
from fastmos.data import SentenceBatches, decoding_batch
from fastmos.heads import Softmax
from fastmos.models import Generator, LanguageModel
from fastmos.tables import assign
from fastmos.tables.costs import held_out, table_costs
from fastmos.tables.start import by_neighbours
from fastmos.tables.words import LONGEST_LINE, WordText
from fastmos.training.distributed import World

ALONE = World(0, 1, torch.device("cpu"))
LINES = ["the cat sat on the mat", "", "a dog sat", "the dog ran on", "a cat ran", "the mat ran and ran", "cat"]


def made(tmp_path: Path, lines: list[str], frequent: int = 2, table: str = "random") -> tuple[TableCoding, WordText]:
    path = tmp_path / "text"
    path.write_text("".join(f"{line}\n" for line in lines))
    coding = TableCoding.learn(LINES, frequent=frequent, rows=3, columns=4, table=table, seed=1)
    return coding, WordText.read([path], coding, tmp_path / "cache")


def model_of(coding: TableCoding) -> Generator:
    """Large weights and dropout, so that a pass that leaves dropout on, or sums too little, is found out."""
    body = LanguageModel(len(coding), width=8, dropout=0.5)
    model = Generator(body, Softmax(8, len(coding))).double()
    torch.nn.init.normal_(model.head.weight)  # type: ignore[arg-type]
    return model.train()


@pytest.mark.parametrize("frequent", [0, 2])
@pytest.mark.parametrize("table", ["frequency", "random"])
def test_codes_by_look_up_are_the_codes_of_the_text(frequent: int, table: str, tmp_path: Path) -> None:
    lines = [*LINES, "an unknown cat sat", "unknown"]
    coding, text = made(tmp_path, lines, frequent, table)
    for shift in range(3):
        moved = coding.with_cells((coding.cells + 5 * shift) % (coding.rows * coding.columns))
        codes = text.codes(moved)
        assert [codes[line].tolist() for line in range(len(codes))] == moved.encode_lines(lines)


def test_a_text_without_line_breaks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="break the text into lines"):
        made(tmp_path, ["cat " * (LONGEST_LINE + 1)])


@pytest.mark.parametrize("frequent", [0, 2])
@pytest.mark.parametrize("buffer", [1, 2**22])
def test_costs_are_those_of_the_definition(
    frequent: int, buffer: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastmos.tables.costs.BUFFER", buffer)
    coding, text = made(tmp_path, [*LINES, "an unknown cat"], frequent)
    model = model_of(coding)
    batches = SentenceBatches(text.codes(coding), tokens=30)
    costs = table_costs(model, coding, batches.epoch(0), ALONE)

    model.eval()
    R, Q = np.zeros((len(coding.table_words), 3)), np.zeros((len(coding.table_words), 4))
    first_row = 4 + frequent
    for line in [*LINES, "an unknown cat"]:
        state = model.start(decoding_batch([[]]))
        code = coding.bos
        for word in line.split():
            codes = coding.encode(word)
            for position, next_code in enumerate(codes):
                log_probs, state = model.step(torch.tensor([code]), state)
                if len(codes) == 2:
                    place = coding.table_words.index(word)
                    nats = -log_probs[0].detach().numpy()
                    if position == 0:
                        R[place] += nats[first_row : first_row + 3]
                    else:
                        Q[place] += nats[first_row + 3 :]
                code = next_code
    np.testing.assert_allclose(costs.R.numpy(), R, rtol=1e-9)
    np.testing.assert_allclose(costs.Q.numpy(), Q, rtol=1e-9)
    row, column = np.divmod(coding.cells, 4)
    everyone = np.arange(len(row))
    assert costs.objective == pytest.approx(float((R[everyone, row] + Q[everyone, column]).sum()))
    assert assign(costs.R, costs.Q).cost < costs.objective  # the best table is better than one at random


def test_an_objective_that_is_not_the_loss_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    coding, text = made(tmp_path, LINES)
    model = model_of(coding)
    batches = SentenceBatches(text.codes(coding), tokens=30)
    monkeypatch.setattr("fastmos.tables.costs._at", lambda sums, places: float(sums.min()))
    with pytest.raises(AssertionError, match="the loss at its words"):
        table_costs(model, coding, batches.epoch(0), ALONE)


@pytest.mark.parametrize("lines", [[*LINES, "an unknown cat"], ["the the", ""]])
def test_held_out_figures_are_those_of_the_definition(lines: list[str], tmp_path: Path) -> None:
    coding, text = made(tmp_path, lines)
    model = model_of(coding)
    found = held_out(model, coding, SentenceBatches(text.codes(coding), tokens=30).epoch(0), ALONE)
    model.eval()
    sums = {"all": [0.0, 0], "table": [0.0, 0], "unknown": [0.0, 0]}
    for line in lines:
        state, code = model.start(decoding_batch([[]])), coding.bos
        for codes in [*map(coding.encode, line.split()), [EOS]]:
            nats = 0.0
            for next_code in codes:
                log_probs, state = model.step(torch.tensor([code]), state)
                nats -= log_probs[0, next_code].item()
                code = next_code
            kinds = {"all": True, "table": len(codes) == 2, "unknown": codes == [coding.unk]}
            for kind in (kind for kind, belongs in kinds.items() if belongs):
                sums[kind] = [sums[kind][0] + nats, sums[kind][1] + 1]
    assert found.nats_per_word == pytest.approx(sums["all"][0] / sums["all"][1])
    known = (sums["all"][0] - sums["unknown"][0]) / (sums["all"][1] - sums["unknown"][1])
    assert found.nats_per_known_word == pytest.approx(known)
    if sums["table"][1]:
        assert found.nats_per_table_word == pytest.approx(sums["table"][0] / sums["table"][1])
    else:
        assert found.nats_per_table_word is None


def test_words_with_the_same_neighbours_start_in_the_same_row(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    colours, animals = [f"colour{i}" for i in range(4)], [f"animal{i}" for i in range(4)]
    lines = [f"the {draw.choice(colours)} {draw.choice(animals)} ran" for _ in range(200)]
    path = tmp_path / "text"
    path.write_text("\n".join(lines))
    coding = TableCoding.learn(lines, frequent=2, rows=2, columns=5)
    text = WordText.read([path], coding, tmp_path / "cache")
    started = by_neighbours(coding, text, seed=0)
    groups = {frozenset(word for word in started.row_words(row) if word) for row in range(2)}
    assert groups == {frozenset(colours), frozenset(animals)}
    counts = dict(zip(coding.table_words, text.counts(8).tolist(), strict=True))
    for row in range(2):  # from the most frequent down
        in_row = [counts[word] for word in started.row_words(row) if word]
        assert in_row == sorted(in_row, reverse=True)
    assert by_neighbours(coding, text, seed=0).fingerprint() == started.fingerprint()


@pytest.mark.parametrize(("rows", "columns"), [(1, 8), (8, 1), (3, 7), (5, 2), (9, 9)])
def test_any_table_can_be_started(rows: int, columns: int, tmp_path: Path) -> None:
    coding = TableCoding.learn(LINES, rows=rows, columns=max(columns, -(-8 // rows)), frequent=1)
    path = tmp_path / "text"
    path.write_text("\n".join(LINES))
    started = by_neighbours(coding, WordText.read([path], coding, tmp_path / "cache"), seed=0)
    assert sorted(started.table_words) == sorted(coding.table_words)  # a bijection, which the coding checks
    sizes = [sum(word is not None for word in started.row_words(row)) for row in range(rows)]
    assert max(sizes) - min(sizes) <= 2
