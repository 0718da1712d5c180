"""What a suite is: rows that are data, what is measured of them, and how records become its table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from fastmos.reproduce.measurements import COHERENCE, COST, GRADIENT, MEASUREMENTS, Measurement
from fastmos.reproduce.plans import Plan, Row, plan, wide_key
from fastmos.reproduce.records import figure_at
from fastmos.reproduce.scales import Scale
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
GRADIENTS = tuple(GRADIENT.columns)
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
    paper_corpus: Mapping[str, str] = field(  # on which the paper has its figures, by task
        default_factory=lambda: {"translation": "IWSLT'14", "captioning": "MSCOCO"}
    )
    trains: ClassVar[bool] = True  # the models of its rows, not their tables alone

    def rows_at(self, scale: Scale) -> list[Row]:
        """The rows that a scale has; none if the suite is not for it."""
        if scale.task not in self.columns:
            return []
        fitting = [row for row in self.rows if row.base in scale.bases]
        return [row for row in fitting if not row.wide or wide_key(row) in scale.wide]

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
        bases = (scale.bases[row.base].differs or scale.differs for row, _ in plans)
        differs = "; ".join(filter(None, [*dict.fromkeys(bases), where, self.about]))
        missing = self.missing(scale, plans, records, seeds or self.seeds_at(scale))
        return SuiteTable(
            self.name,
            self.title,
            scale.name,
            columns,
            lines,
            differs,
            missing,
            self.seeds_at(scale),
            self.curve,
            scale.corpus,
            self.paper_corpus.get(scale.task, ""),
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
                elif column == "parameters":
                    ours[column] = Cell(figure_at(next(iter(runs.values())), "parameters"))
                elif column == "in use":
                    metric = one.config.training.early_stopping_metric
                    ours[column] = mean_cell([mixtures_in_use(run, metric) for run in runs.values()])
                elif column in SCORES:
                    ours[column] = score_cell(column, self.split, runs, baseline)
            for measurement in self.measurements(scale):
                cells = {column: records.measured(measurement, column, one) for column in measurement.columns}
                ours |= {column: cell for column, cell in cells.items() if cell is not None}
            lines.append(Line(row.name, ours, dict(row.paper.get(scale.task, {})), one.name, row.softmaxes))
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
            lines.append(Line(row.name, ours, dict(row.paper.get(scale.task, {})), one.name, row.softmaxes))
        return lines


class LearnedWords(Suite):
    """The rows of the learned table whose words are most alike, beside some of the paper's."""

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
        for one in (one for _, one in plans):
            table, measured = records.table(one), records.rows.get((COHERENCE.kind, one.id))
            if table is None or measured is None:
                continue
            run = str(table.get("name", ""))
            for number, similarity in measured["rows"][: self.shown_rows]:
                text = " ".join([word for word in table["table"][number] if word][: self.shown_words])
                cells = {"words": Cell(text=text), "similarity": Cell(similarity)}
                lines.append(Line(f"ours, row {number}", cells, run=run))
            for name, figure in {
                "ours, mean of all rows": "mean",
                "the same words at random, best row": "random_best",
                "the same words at random, mean": "random_mean",
            }.items():
                lines.append(Line(name, {"similarity": Cell(figure_at(measured, figure))}, run=run))
        return lines

    def missing(self, scale: Scale, plans: Sequence[tuple[Row, Plan]], records: Records, seeds: int) -> list[str]:
        tables = ["the learned table" for _, one in plans if records.table(one) is None]
        unmeasured = any((COHERENCE.kind, one.id) not in records.rows for _, one in plans)
        return tables + ([COHERENCE.label] if unmeasured else [])


class Transformers(Suite):
    """The paper's BLEU of German has compounds split; where ours has not, it stands beside it all the same."""

    def lines(self, scale: Scale, plans: Sequence[tuple[Row, Plan]], records: Records) -> list[Line]:
        lines = super().lines(scale, plans, records)
        if scale.wmt_bleu:
            return lines
        return [replace(line, paper=dict.fromkeys(("BLEU",), *line.paper.values())) for line in lines]
