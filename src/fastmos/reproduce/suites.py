"""The paper's tables and figures as suites: rows that are data, what is measured of them, and what the paper found.

A suite says all that is particular to it, so that adding one is adding it to `SUITES`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from fastmos.reproduce.measurements import COST, MEASUREMENTS, Measurement
from fastmos.reproduce.plans import Plan, Row, plan
from fastmos.reproduce.records import figure_at
from fastmos.reproduce.scales import SCALES, Scale
from fastmos.reproduce.summary import (
    SCORES,
    Cell,
    Line,
    Record,
    Records,
    SuiteTable,
    mean_cell,
    mixtures_in_use,
    score_cell,
)

Split = Literal["valid", "test"]
COSTS = tuple(COST.columns)  # of a training step
# The columns that tell most come first: a narrow screen shows those.
TRANSLATIONS = ("BLEU", "size", "NLL per word", "perplexity", "chrF")
CAPTIONS = ("BLEU-4", "CIDEr", "METEOR", "size", "NLL per word", "perplexity")


@dataclass(frozen=True)
class Suite:
    """One table or figure. The first row is what others are compared with."""

    name: str
    title: str
    rows: tuple[Row, ...]
    split: Split = "test"
    columns: Mapping[str, tuple[str, ...]] = field(  # by task
        default_factory=lambda: {"translation": TRANSLATIONS, "captioning": CAPTIONS}
    )
    about: str = ""  # what differs from the paper's, whatever the scale
    curve: bool = False  # the report draws the first column over the number of softmaxes
    trains: ClassVar[bool] = True  # the models of its rows, not their tables alone

    def rows_at(self, scale: Scale) -> list[Row]:
        """The rows that a scale has; none if the suite is not for it."""
        return [row for row in self.rows if row.base in scale.bases] if scale.task in self.columns else []

    def seeds_at(self, scale: Scale) -> int:
        """How many runs of each row are trained by default."""
        return scale.seeds.get(self.name, scale.usual_seeds)

    def measurements(self, scale: Scale) -> list[Measurement]:
        """What is measured of all rows at once: that of which a column is shown."""
        return [one for one in MEASUREMENTS if one.columns.keys() & set(self.columns.get(scale.task, ()))]

    def table(self, scale: Scale, results: Sequence[Record], seeds: int | None = None) -> SuiteTable:
        """The table at one scale, from all records of that scale; `seeds` says how many runs a row should have."""
        records = Records(results)
        plans = [(row, plan(row, scale)) for row in self.rows_at(scale)]
        lines = self.lines(scale, plans, records)
        filled = {name for line in lines for name in (*line.ours, *line.paper)}
        columns = [name for name in self.columns[scale.task] if name in filled]
        where = "time and memory on a CPU, one thread" if COST in self.measurements(scale) else ""
        differs = "; ".join(filter(None, [scale.differs, where, self.about]))
        missing = self.missing(scale, plans, records, seeds or self.seeds_at(scale))
        return SuiteTable(
            self.name, self.title, scale.name, columns, lines, differs, missing, self.seeds_at(scale), self.curve
        )

    def lines(self, scale: Scale, plans: Sequence[tuple[Row, Plan]], records: Records) -> list[Line]:
        """The lines of the table: scores over seeds, and what is measured."""
        lines = []
        baselines = {row.base: records.runs(one) for row, one in reversed(plans)}  # the first row of each base
        for row, one in plans:
            runs = records.runs(one)
            baseline = {} if runs == baselines[row.base] else baselines[row.base]
            ours: dict[str, Cell] = {}
            for column in self.columns[scale.task] if runs else ():
                if column == "size":
                    size = figure_at(next(iter(runs.values())), "vocab_size")
                    ours[column] = Cell(text=f"{row.softmaxes} x {size:,.0f}")
                elif column == "in use":
                    metric = one.config.training.early_stopping_metric
                    ours[column] = mean_cell([mixtures_in_use(run, metric) for run in runs.values()])
                elif column in SCORES:
                    ours[column] = score_cell(column, self.split, runs, baseline)
            for measurement in self.measurements(scale):
                cells = {column: records.measured(measurement, column, one) for column in measurement.columns}
                ours |= {column: cell for column, cell in cells.items() if cell is not None}
            paper = row.translation if scale.task == "translation" else row.captioning
            lines.append(Line(row.name, ours, dict(paper), one.name, row.softmaxes))
        return lines

    def missing(self, scale: Scale, plans: Sequence[tuple[Row, Plan]], records: Records, seeds: int) -> list[str]:
        """What the table still lacks."""
        measured = [
            measurement.label
            for measurement in self.measurements(scale)
            if any(
                records.measured(measurement, column, one) is None for column in measurement.columns for _, one in plans
            )
        ]
        counts = {row.name: len(records.runs(one)) for row, one in plans}
        return measured + [f"{name}: {count} of {seeds} seeds" for name, count in counts.items() if count < seeds]


class OOVStudy(Suite):
    """The best of the seeds, with its out-of-vocabulary words and without."""

    def lines(self, scale: Scale, plans: Sequence[tuple[Row, Plan]], records: Records) -> list[Line]:
        lines = []
        for row, one in plans:
            runs = records.runs(one).values()
            best: Record = max(runs, key=lambda run: figure_at(run, "scores", "valid", "bleu") or 0.0, default={})
            bleu = figure_at(best, "scores", "valid_without_oov" if row.without_oov else "valid", "bleu")
            ours = {} if bleu is None else {"BLEU": Cell(bleu)}
            replaced = figure_at(best, "scores", "valid_without_oov", "replaced_words")
            if replaced is not None:
                ours["OOV words"] = Cell(0 if row.without_oov else replaced)
            lines.append(Line(row.name, ours, dict(row.translation), one.name, row.softmaxes))
        return lines


class LearnedWords(Suite):
    """Rows of the learned table, beside some of the paper's."""

    trains = False
    paper: ClassVar[dict[str, str]] = {
        "row 45": "700 3.3 28 19 7 86 35",
        "row 48": "around between by into down for off",
        "row 54": "mined imaged advised pickled outfitted filled withheld",
        "row 91": "bristol chinatown rochester kingston guangdong guangzhou chongqing",
        "row 93": "pursuing posing proposing reacting replacing blogging pointing",
    }
    shown_rows, shown_words = 10, 8

    def lines(self, scale: Scale, plans: Sequence[tuple[Row, Plan]], records: Records) -> list[Line]:
        lines = [Line(f"paper, {name}", {"words": Cell(text=words)}) for name, words in self.paper.items()]
        for table in filter(None, (records.table(one) for _, one in plans)):
            rows = [(number, [word for word in words if word]) for number, words in enumerate(table["table"])]
            full = [row for row in rows if len(row[1]) >= self.shown_words] or rows
            run = str(table.get("name", ""))
            for number, words in full[:: max(1, math.ceil(len(full) / self.shown_rows))]:
                text = " ".join(words[: self.shown_words])
                lines.append(Line(f"ours, row {number}", {"words": Cell(text=text)}, run=run))
        return lines

    def missing(self, scale: Scale, plans: Sequence[tuple[Row, Plan]], records: Records, seeds: int) -> list[str]:
        return ["the learned table" for _, one in plans if records.table(one) is None]


def _mt(bleu: str, memory: str = "", time: str = "") -> dict[str, str]:
    figures = {"BLEU": bleu, "MB, plain": memory and f"{memory} GB", "ms, plain": time}
    return {name: figure for name, figure in figures.items() if figure}


def _captions(bleu: str, meteor: str = "", cider: str = "", memory: str = "", time: str = "") -> dict[str, str]:
    figures = {"BLEU-4": bleu, "METEOR": meteor, "CIDEr": cider, "MB, plain": memory and f"{memory} GB"}
    return {name: figure for name, figure in {**figures, "ms, plain": time}.items() if figure}


BASELINE = ("27.41 ± 0.15", "29.64 ± 0.20", "23.60 ± 0.12", "88.50 ± 0.47")
HYBRID_3 = ("28.36 ± 0.11", "29.93 ± 0.14", "23.74 ± 0.29", "88.52 ± 0.18")
BPE_3 = ("28.47 ± 0.16", "29.96 ± 0.08", "23.67 ± 0.34", "88.61 ± 0.27")
MOS_3 = ("28.42 ± 0.14", "29.91 ± 0.14", "23.69 ± 0.20", "88.84 ± 0.66")
HYBRID_9 = ("28.79 ± 0.23", "30.02 ± 0.16", "23.87 ± 0.18", "88.96 ± 0.21")
BPE_9 = ("28.91 ± 0.06", "30.06 ± 0.10", "24.00 ± 0.24", "89.26 ± 0.11")

OVERALL = Suite(
    "overall",
    "Overall performance",
    (
        Row("Baseline", "words", translation=_mt(BASELINE[0]), captioning=_captions(*BASELINE[1:])),
        Row("Hybrid-LightRNN-MoS", "hybrid", 9, translation=_mt(HYBRID_9[0]), captioning=_captions(*HYBRID_9[1:])),
        Row("BPE-MoS", "bpe", 9, translation=_mt(BPE_9[0]), captioning=_captions(*BPE_9[1:])),
    ),
)

WITH_COSTS = {
    "translation": ("BLEU", "size", *COSTS),
    "captioning": ("BLEU-4", "CIDEr", "size", *COSTS, "METEOR"),
}
SAME_SOFTMAXES = Suite(
    "same-softmaxes",
    "Memory and time for the same number of softmaxes",
    (
        Row(
            "Baseline",
            "words",
            translation=_mt(BASELINE[0], "5.18", "40.38"),
            captioning=_captions(BASELINE[1], memory="0.96", time="13.29"),
        ),
        Row(
            "Hybrid-LightRNN-Baseline",
            "hybrid",
            translation=_mt("27.43 ± 0.21", "3.61", "33.57"),
            captioning=_captions("29.69 ± 0.15", memory="0.73", time="10.35"),
        ),
        Row(
            "BPE-Baseline",
            "bpe",
            translation=_mt("27.37 ± 0.17", "3.52", "32.78"),
            captioning=_captions("29.68 ± 0.12", memory="0.70", time="9.96"),
        ),
        Row(
            "MoS",
            "words",
            3,
            translation=_mt(MOS_3[0], "10.24", "89.94"),
            captioning=_captions(MOS_3[1], memory="1.39", time="25.66"),
        ),
        Row(
            "Hybrid-LightRNN-MoS",
            "hybrid",
            3,
            translation=_mt(HYBRID_3[0], "5.37", "49.19"),
            captioning=_captions(HYBRID_3[1], memory="1.01", time="15.49"),
        ),
        Row(
            "BPE-MoS",
            "bpe",
            3,
            translation=_mt(BPE_3[0], "5.27", "46.83"),
            captioning=_captions(BPE_3[1], memory="0.99", time="15.03"),
        ),
    ),
    columns=WITH_COSTS,
    about="memory is that of a step beside parameters and gradients, not the whole process's",
)


def _budget(name: str, tokenizer: Literal["words", "hybrid", "bpe"], mixtures: int, found: tuple[str, ...]) -> Row:
    """A row of the two budgets; the paper measured memory and time once a budget."""
    large = mixtures == 9 or (tokenizer == "words" and mixtures == 3)
    translation = ("10.4", "90.4") if large else ("5.3", "45.5")
    captioning = ("4.3", "26.4") if large else ("1.0", "14.6")
    return Row(
        name,
        tokenizer,
        mixtures,
        translation=_mt(found[0], *translation),
        captioning=_captions(found[1], found[2], found[3], *captioning),
    )


SAME_BUDGET = Suite(
    "same-budget",
    "The same memory and time budget",
    (
        _budget("Baseline", "words", 1, BASELINE),
        _budget("Hybrid-LightRNN-MoS", "hybrid", 3, HYBRID_3),
        _budget("BPE-MoS", "bpe", 3, BPE_3),
        _budget("MoS", "words", 3, MOS_3),
        _budget("Hybrid-LightRNN-MoS, 9", "hybrid", 9, HYBRID_9),
        _budget("BPE-MoS, 9", "bpe", 9, BPE_9),
    ),
    columns=WITH_COSTS,
    about="a budget is an equal number of softmaxes x tokens",
)

MIXTURES = Suite(
    "mixtures",
    "Number of softmaxes in BPE-MoS",
    tuple(Row(f"{count} softmax{'es' if count > 1 else ''}", "bpe", count) for count in (1, 2, 3, 5, 9, 15)),
    "valid",
    {"translation": ("BLEU", "NLL per word", "perplexity", "in use")},
    curve=True,
    about="one is the plain softmax; the paper shows a figure without numbers",
)

TABLES = Suite(
    "tables",
    "Mapping tables, nine softmaxes",
    (
        Row("Hybrid-LightRNN, 1/3", "hybrid", 9, 0, translation={"size": "10k", "BLEU": "30.07"}),
        Row("Hybrid-LightRNN, 1/6", "hybrid", 9, 1, translation={"size": "5k", "BLEU": "29.69"}),
        Row("Hybrid-LightRNN, 1/30", "hybrid", 9, 2, translation={"size": "1k", "BLEU": "28.73"}),
        Row("LightRNN", "lightrnn", 9, translation={"size": "0.2k", "BLEU": "27.39"}),
        Row("Frequency table", "frequency", 9, translation={"size": "0.2k", "BLEU": "25.84"}),
        Row("Random table", "random", 9, translation={"size": "0.2k", "BLEU": "24.98"}),
    ),
    "valid",
    {"translation": ("BLEU", "size", "NLL per word", "perplexity")},
    about="0.2k in the paper is 174 rows and 174 columns, 348 tokens",
)

OOV = OOVStudy(
    "oov",
    "Does translating unknown words matter?",
    (
        Row("BPE-MoS", "bpe", 9, translation={"BLEU": "30.19"}),
        Row("BPE-MoS, OOV words as unk", "bpe", 9, without_oov=True, translation={"BLEU": "30.14"}),
        Row("Hybrid-LightRNN-MoS", "hybrid", 9, translation={"BLEU": "30.07"}),
    ),
    "valid",
    {"translation": ("BLEU", "OOV words")},
    about="the best of the seeds by validation BLEU",
)

WORDS = LearnedWords(
    "words",
    "Rows of the learned table",
    (Row("Hybrid-LightRNN", "hybrid", 9),),
    columns={"translation": ("words",), "captioning": ("words",)},
    about="the fullest rows, evenly spaced",
)

RANK = Suite(
    "rank",
    "Rank of the log-probability matrix",
    (
        Row("Softmax", "bpe"),
        Row("Softmax, parameters of nine", "bpe", wide=True),
        Row("Mixture of contexts, 9", "bpe", 9, head="moc"),
        Row("Mixture of softmaxes, 3", "bpe", 3),
        Row("Mixture of softmaxes, 9", "bpe", 9),
    ),
    "valid",
    {"translation": ("rank", "bound", "parameters", "BLEU", "NLL per word", "perplexity")},
    about="the paper gives no ranks",
)

HEADS = Suite(
    "heads",
    "Output layers over the same words",
    (
        Row("One softmax", "frequent"),
        Row("Adaptive softmax", "frequent", 1, head="shortlist"),
        Row("MoC, 9", "frequent", 9, head="moc"),
        Row("MoS, 3", "frequent", 3),
        Row("MoS, 9", "frequent", 9),
        Row("Shortlist mixture, 9", "frequent", 9, head="shortlist"),
        Row("Shortlist mixture, 9, residual", "frequent", 9, head="shortlist", head_options={"contexts": "residual"}),
        Row("Mixtape", "frequent", 4, head="mixtape"),
    ),
    columns={
        "translation": ("BLEU", "size", "NLL per word", "perplexity", *COSTS),
        "captioning": ("BLEU-4", "CIDEr", "size", "NLL per word", "perplexity", *COSTS),
    },
    about="the paper has no such table",
)


def _transformer(name: str, base: str, mixtures: int, bleu: str) -> Row:
    """The bases have the paper's learning rate with nine softmaxes, which is 0.8 times that with one.

    BLEU of German was reported with compounds split in those years, that of French was not.
    """
    column = "BLEU" if base.startswith("french") else "compound BLEU"
    factor = 1.0 if mixtures > 1 else 1.25
    return Row(name, None, mixtures, base=base, learning_rate_factor=factor, translation={column: bleu})


WMT = Suite(
    "wmt",
    "Transformers (the paper's: WMT'14)",
    (
        _transformer("Transformer (Base)", "base", 1, "27.4"),
        _transformer("Transformer-MoS (Base)", "base", 9, "28.0"),
        _transformer("Transformer (Big)", "big", 1, "28.7"),
        _transformer("Transformer-MoS (Big)", "big", 9, "29.6"),
        _transformer("Transformer (Base), EN-FR", "french-base", 1, "38.2"),
        _transformer("Transformer-MoS (Base), EN-FR", "french-base", 9, "39.1"),
        _transformer("Transformer (Big), EN-FR", "french-big", 1, "41.7"),
        _transformer("Transformer-MoS (Big), EN-FR", "french-big", 9, "42.1"),
    ),
    columns={"translation": ("BLEU", "compound BLEU", "text BLEU", "chrF", "NLL per word", "perplexity")},
    about="rows are of the scale's language pair unless they say EN-FR",
)

# In the order of `fastmos reproduce all`: each adds to what is there.
SUITES = {
    suite.name: suite
    for suite in (OVERALL, WORDS, OOV, SAME_BUDGET, SAME_SOFTMAXES, RANK, MIXTURES, TABLES, HEADS, WMT)
}


def suite_tables(results: Sequence[Record]) -> list[SuiteTable]:
    """The tables of which there are results."""
    tables = []
    for scale in SCALES.values():
        records = [record for record in results if record.get("scale") == scale.name]
        for suite in SUITES.values() if records else ():
            if suite.rows_at(scale):
                table = suite.table(scale, records)
                if any(line.run and line.ours.keys() - {"size"} for line in table.lines):
                    tables.append(table)
    return tables
