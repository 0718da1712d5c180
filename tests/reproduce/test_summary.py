"""Results to tables."""

import statistics
from typing import Any

import pytest

from fastmos.reproduce.plans import Row, plan
from fastmos.reproduce.scales import SCALES, Scale
from fastmos.reproduce.suites import HEADS, MIXTURES, OVERALL, SUITES, WMT, suite_tables
from fastmos.reproduce.summary import Cell, shown, table_text

SCALE = SCALES["multi30k"]


def record(row: Row, seed: int, bleu: float, right: int = 6, scale: Scale = SCALE) -> dict[str, Any]:
    one = plan(row, scale, seed)
    scores = {split: {"bleu": bleu, "chrf": 2 * bleu, "nll_per_word": 2.0} for split in ("valid", "test")}
    lines = [[9, 9, right + (line % 2), 3, 2, 1, 9, 8, 7, 6] for line in range(40)]
    return {
        "kind": "run",
        "scale": scale.name,
        "name": one.name,
        "config": one.config.model_dump(mode="json"),
        "vocab_size": 3200,
        "curve": [{"step": 1, "bleu": bleu, "effective_mixtures": 4.0}],
        "scores": scores,
        "statistics": {"valid": lines, "test": lines},
    }


def test_mean_spread_significance_and_what_is_missing() -> None:
    baseline, _, bpe = OVERALL.rows
    results = [record(baseline, seed, 30.0 + seed) for seed in (1, 2, 3)]
    results += [record(bpe, seed, 33.0 + seed, right=8) for seed in (1, 2)]
    table = OVERALL.table(SCALE, results)
    assert [line.name for line in table.lines] == ["Baseline", "Hybrid-LightRNN-MoS", "BPE-MoS"]
    first, second, third = (line.ours for line in table.lines)
    assert first["BLEU"] == Cell(32.0, 1.0, 3) and not second
    assert third["BLEU"].mean == 34.5 and third["BLEU"].spread == statistics.stdev([34, 35])
    assert third["BLEU"].p is not None and third["BLEU"].p < 0.01
    assert third["size"].text == "9 x 3,200"
    assert table.lines[2].paper["BLEU"] == "28.91 ± 0.06"
    assert table.missing == ["Hybrid-LightRNN-MoS: 0 of 3 seeds", "BPE-MoS: 2 of 3 seeds"]
    assert "Multi30k" in table.differs


def test_the_sides_of_a_table_are_called_by_their_corpora_where_those_differ() -> None:
    text = table_text(OVERALL.table(SCALE, [record(OVERALL.rows[0], 1, 30.0)]))
    assert "ours, Multi30k" in text and "paper, IWSLT'14" in text
    assert OVERALL.table(SCALES["iwslt14"], []).sides == ("ours", "paper")


def test_mixed_contexts_are_one_softmax() -> None:
    lines = HEADS.table(SCALE, [record(row, 1, 30.0) for row in HEADS.rows]).lines
    softmaxes = [1, 1, 1, 3, 9, 9, 9, 4]
    assert [line.ours["size"].text for line in lines] == [f"{count} x 3,200" for count in softmaxes]


def test_rows_are_compared_with_the_first_of_their_language_and_size() -> None:
    scale = SCALES["wmt14"]
    results = [record(row, 1, 30.0, 8 if row.mixtures > 1 else 6, scale) for row in WMT.rows]
    lines = WMT.table(scale, results, 1).lines
    assert len(lines) == 8
    for line, row in zip(lines, WMT.rows, strict=True):
        p = line.ours["BLEU"].p
        assert p is None if row.mixtures == 1 else p is not None and p < 0.01


def test_transformers_say_how_they_differ_and_what_the_paper_found() -> None:
    for name, column in (("multi30k", "BLEU"), ("msctd", "BLEU"), ("wmt14", "compound BLEU")):
        table = WMT.table(SCALES[name], [])
        assert table.lines[0].paper == {column: "27.4"} and table.lines[3].paper == {column: "29.6"}
        assert table.paper_corpus == "WMT'14" and "LSTM" not in table.differs and "six epochs" not in table.differs
        assert ("three layers" in table.differs) == (name != "wmt14")


def test_mixtures_in_use_are_those_of_the_best_weights() -> None:
    row = MIXTURES.rows[4]
    one = record(row, 1, 30.0)
    one["curve"] = [
        {"step": 1, "bleu": 30.0, "effective_mixtures": 4.0},
        {"step": 2, "bleu": 29.0, "effective_mixtures": 5.0},
    ]
    assert MIXTURES.table(SCALE, [one]).lines[4].ours["in use"].mean == 4.0


def test_a_run_counts_in_every_suite_that_has_it() -> None:
    found = {table.suite for table in suite_tables([record(OVERALL.rows[2], 1, 30.0)])}
    assert found == {"overall", "oov", "same-budget", "rank", "mixtures"}


def test_captions_are_in_the_suites_that_have_captions() -> None:
    scale = SCALES["flickr8k"]
    one = record(OVERALL.rows[2], 1, 30.0, scale=scale)
    one["scores"]["test"] |= {"bleu_4": 0.2, "meteor": 0.19, "cider": 0.46}
    tables = suite_tables([one])
    assert [table.suite for table in tables] == ["overall", "same-budget"]
    assert tables[0].lines[2].ours["CIDEr"].mean == 46.0 and tables[0].lines[2].paper["CIDEr"] == "89.26 ± 0.11"


def test_results_of_other_settings_or_without_scores_are_passed_over() -> None:
    other = record(OVERALL.rows[0], 1, 30.0)
    other["config"]["training"]["learning_rate"] = 0.5
    bare = {"kind": "run", "scale": "multi30k", "name": "x", "config": {"head": {"mixtures": 9}}}
    unknown_key = record(OVERALL.rows[0], 1, 30.0)
    unknown_key["config"]["training"]["momentum"] = 0.9  # which configs do not know
    table = {"kind": "table", "scale": "multi30k", "name": "without its id", "table": []}
    whole = record(OVERALL.rows[2], 1, 30.0)
    parts = [{key: value for key, value in whole.items() if key != part} for part in ("vocab_size", "scores", "curve")]
    parts += [{**whole, "curve": [{}]}, {**whole, "curve": [{"bleu": "much"}]}, {**whole, "scores": {"test": {}}}]
    assert suite_tables([other, bare, unknown_key, table, *parts]) == []
    assert suite_tables([]) == []


def test_costs_and_ranks_are_those_of_the_row() -> None:
    row = SUITES["rank"].rows[0]
    one = plan(row, SCALE)
    rank = {"kind": "rank", "scale": "multi30k", "rows": [{"name": one.name, "run": one.id, "rank": 258, "bound": 258}]}
    way = {"ms": 5.0, "ms_spread": 0.5, "megabytes": 7.0}
    cost = {
        "kind": "cost",
        "scale": "multi30k",
        "rows": [{"name": one.name, "run": one.id, "plain": way, "fused": way}],
    }
    tables = {table.suite: table for table in suite_tables([rank, cost])}
    assert tables["rank"].lines[0].ours["rank"] == Cell(258.0)
    assert tables["rank"].missing[0] == "ranks"  # of other rows
    assert tables["same-softmaxes"].lines[2].ours["ms, plain"] == Cell(5.0, 0.5)
    assert tables["same-softmaxes"].lines[2].ours["MB, fused"] == Cell(7.0)


def test_the_oov_study_takes_the_best_seed() -> None:
    runs = [record(OVERALL.rows[2], seed, 30.0 + seed) for seed in (1, 2)]
    for run in runs:
        run["scores"]["valid_without_oov"] = {"bleu": run["scores"]["valid"]["bleu"] - 1, "replaced_words": 5}
    lines = SUITES["oov"].table(SCALE, runs).lines
    assert [line.ours.get("BLEU", Cell()).mean for line in lines] == [32.0, 31.0, None]
    assert lines[0].ours["OOV words"].mean == 5


def test_words_are_rows_of_the_learned_table() -> None:
    one = plan(SUITES["words"].rows[0], SCALE)
    assert one.table is not None
    words = [[f"w{row}-{column}" if column < 9 else None for column in range(12)] for row in range(30)]
    table = {"kind": "table", "scale": "multi30k", "id": one.table.id, "name": "the table", "table": words}
    assert SUITES["words"].table(SCALE, [table]).missing == ["similarity of words"]
    alike = [[27 - 3 * row, 0.9 - row / 100] for row in range(9)] + [[0, 0.5], [1, 0.4]]
    figures = {"mean": 0.2, "random_mean": 0.1, "random_best": 0.3}
    measured = {"kind": "coherence", "scale": "multi30k", "rows": [{"run": one.id, "rows": alike, **figures}]}
    found = SUITES["words"].table(SCALE, [table, measured]).lines
    assert [line.name for line in found if not line.run] == [f"paper, row {row}" for row in (45, 48, 54, 91, 93)]
    lines = [line for line in found if line.run == "the table"]
    assert len(lines) == 10 + 3
    assert lines[1].name == "ours, row 24" and (lines[1].ours["words"].text or "").startswith("w24-0 w24-1 ")
    assert lines[1].ours["similarity"] == Cell(0.89)
    assert [line.ours["similarity"].mean for line in lines[10:]] == [0.2, 0.3, 0.1]


@pytest.mark.parametrize(
    ("cell", "column", "text"),
    [
        (Cell(28.791, 0.234, 3, 0.001), "BLEU", "28.79 ± 0.23 (3)**"),
        (Cell(28.791, None, 1, 0.04), "BLEU", "28.79*"),
        (Cell(28.791, None, 1, 0.4), "BLEU", "28.79"),
        (Cell(2.0), "NLL per word", "2.000"),
        (Cell(12345.0), "parameters", "12,345"),
        (Cell(text="3 x 10"), "size", "3 x 10"),
        (Cell(), "BLEU", ""),
    ],
)
def test_cells_as_text(cell: Cell, column: str, text: str) -> None:
    assert shown(cell, column) == text
