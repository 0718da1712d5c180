"""Results made up for tests of the report: every kind, in the form that `fastmos reproduce` writes."""

import math
import random
from typing import Any

from fastmos.reproduce.plans import plan
from fastmos.reproduce.records import FORMAT
from fastmos.reproduce.scales import SCALES
from fastmos.reproduce.suites import OVERALL
from fastmos.reproduce.summary import Cell, Line, SuiteTable

NAMES = ("Baseline", "Hybrid-LightRNN-MoS, 9 softmaxes", "BPE-MoS, 9 softmaxes")
SOURCE = ["ein", "kleiner", "hund", "läuft", "durch", "den", "schnee", "."]
OUTPUT = ["a", "small", "dog", "runs", "through", "the", "snow", "."]


def provenance(seed: int) -> dict[str, Any]:
    return {
        "command": "fastmos reproduce overall --scale multi30k --seeds 3",
        "date": f"2026-11-1{seed}T05:00:00+00:00",
        "machine": "AMD EPYC",
        "threads": 1,
        "torch": "2.13.0",
        "commit": "1a06726",
        "seed": seed,
    }


def run(name: str, seed: int = 1, mixtures: int = 9, rows: int = 0) -> dict[str, Any]:
    """A run of a translation model; with `rows`, one that learned a table of so many rows and columns."""
    dice = random.Random(f"{name}{seed}")
    best = 30 + mixtures / 5 + dice.random()
    curve = [
        {
            "step": 580 * epoch,
            "epoch": epoch,
            "bleu": best * (1 - math.exp(-epoch / 3)) + dice.random() / 3,
            "nll_per_word": 2 + 3 * math.exp(-epoch / 3),
            "effective_mixtures": mixtures * 0.8,
        }
        for epoch in range(1, 13)
    ]
    weights = [[dice.random() ** 3 for _ in range(mixtures)] for _ in OUTPUT]
    attention = [[math.exp(-((row - column) ** 2)) + dice.random() / 9 for column in range(8)] for row in range(8)]
    result = {
        "format": FORMAT,
        "kind": "run",
        "scale": "multi30k",
        "provenance": provenance(seed),
        "name": name,
        "config": {"head": {"type": "mos", "mixtures": mixtures}, "training": {"seed": seed}},
        "parameters": 8_123_456,
        "vocab_size": 3000,
        "seconds": 3600.0,
        "steps": 6960,
        "epochs": 12,
        "curve": curve,
        "scores": {split: {"bleu": best, "chrf": best + 20, "nll_per_word": 2.1} for split in ("valid", "test")},
        "outputs": {"test": [f"a {dice.choice(['man', 'woman', 'dog'])} runs in line {line} ." for line in range(12)]},
        "inside": {
            "source": SOURCE,
            "output": OUTPUT,
            "weights": [[part / sum(row) for part in row] for row in weights],
            "attention": [[part / sum(row) for part in row] for row in attention],
        },
    }
    if rows:
        cells = [[f"word{row * rows + column}" for column in range(rows)] for row in range(rows)]
        result["table"] = [*cells[:-1], [*cells[-1][:-2], None, None]]
    return result


def cost() -> dict[str, Any]:
    shapes = [(1, 10_000), (9, 3000), (9, 3000)]
    return {
        "format": FORMAT,
        "kind": "cost",
        "scale": "multi30k",
        "provenance": provenance(1),
        "batch": {"sentences": 50, "words": 14},
        "rows": [
            {
                "name": name,
                "mixtures": mixtures,
                "plain": {"ms": mixtures * size / 80, "ms_spread": 3.0, "megabytes": mixtures * size / 60},
                "fused": {"ms": mixtures * size / 150, "ms_spread": 2.0, "megabytes": 40.0},
            }
            for name, (mixtures, size) in zip(NAMES, shapes, strict=True)
        ],
    }


def rank() -> dict[str, Any]:
    def values(steep: float, bound: int) -> list[list[float]]:
        return [[n, 1e4 * math.exp(-steep * n) + (1e-10 if n > bound else 1e-3)] for n in range(1, 3000, 10)]

    rows = [("one softmax", 0.02, 258), ("mixture of contexts", 0.019, 258), ("mixture of softmaxes", 0.003, 3000)]
    return {
        "format": FORMAT,
        "kind": "rank",
        "scale": "multi30k",
        "provenance": provenance(1),
        "contexts": 6000,
        "vocab_size": 3004,
        "embedding_size": 256,
        "rows": [
            {"name": name, "mixtures": 9, "rank": bound, "singular_values": values(steep, bound)}
            for name, steep, bound in rows
        ],
    }


def whole_results() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """A run, costs and ranks that stand in tables: BPE-MoS at the scale multi30k."""
    row = OVERALL.rows[2]
    one = plan(row, SCALES["multi30k"])
    whole = {**run(one.name), "config": one.config.model_dump(mode="json"), "vocab_size": 3200}
    whole["scores"]["valid_without_oov"] = {"bleu": 30.0, "replaced_words": 5}
    whole["statistics"] = {split: [[9, 9, 8, 7, 6, 5, 9, 8, 7, 6]] * 4 for split in ("valid", "test")}
    costs, ranks = cost(), rank()
    for measured in (costs, ranks):
        measured["rows"] = [{**measured["rows"][0], "name": one.name, "run": one.id}]
    ranks["rows"][0] |= {"bound": 258, "parameters": 4_059_780}
    return whole, costs, ranks


def results() -> list[dict[str, Any]]:
    """A small set of every kind."""
    runs = [
        run(name, seed, 1 if name == "Baseline" else 9, 12 if "Light" in name else 0)
        for name in NAMES
        for seed in (1, 2)
    ]
    return [*runs, cost(), rank()]


def tables() -> list[SuiteTable]:
    """Tables of two suites."""

    def cell(mean: float | None, p: float | None = None) -> Cell:
        return Cell(mean, None if mean is None else 0.15, 2, p, None)

    overall = [
        Line("Baseline", {"size": Cell(text="1 x 10,000"), "BLEU": cell(31.5)}, {"BLEU": "27.41 ± 0.15"}, NAMES[0]),
        Line("Hybrid-LightRNN-MoS", {"size": Cell(text="9 x 3,000")}, {"BLEU": "28.79 ± 0.23"}, NAMES[1]),
        Line("BPE-MoS", {"size": Cell(text="9 x 3,000"), "BLEU": cell(33.1, 0.01)}, {"BLEU": "28.91 ± 0.06"}, NAMES[2]),
    ]
    mixtures = [
        Line(f"{count} softmaxes", {"BLEU": cell(score)}, {}, f"BPE-MoS, {count} softmaxes", count)
        for count, score in ((1, 32.0), (2, 32.4), (3, 32.9), (5, 33.0), (9, 33.4), (15, 33.2))
    ]
    columns = ["size", "BLEU"]
    differs = "Multi30k instead of IWSLT'14, 12 epochs, 2 seeds instead of 5."
    return [
        SuiteTable(
            "overall", "Overall comparison", "multi30k", columns, overall, differs, ["Hybrid-LightRNN-MoS, seed 3"]
        ),
        SuiteTable("mixtures", "Mixtures", "multi30k", ["BLEU"], mixtures, differs, [], curve=True),
    ]
