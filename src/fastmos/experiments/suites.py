"""The paper's tables and figures as suites: rows that are data, and what the paper found for them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fastmos.experiments.plans import Row
from fastmos.experiments.scales import Scale

Split = Literal["valid", "test"]
COST = ("MB, plain", "MB, fused", "ms, plain", "ms, fused")  # of a training step
TRANSLATIONS = ("BLEU", "chrF", "nats per word")
CAPTIONS = ("BLEU-4", "METEOR", "CIDEr", "nats per word")


@dataclass(frozen=True)
class Suite:
    """One table or figure. The first row is what others are compared with."""

    name: str
    title: str
    rows: tuple[Row, ...]
    split: Split = "test"
    columns: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {"translation": ("size", *TRANSLATIONS), "captioning": ("size", *CAPTIONS)}
    )
    about: str = ""  # what differs from the paper's, whatever the scale

    def rows_at(self, scale: Scale) -> list[Row]:
        """The rows that a scale has; none if the suite is not for it."""
        if scale.task not in self.columns:
            return []
        return [row for row in self.rows if row.base in scale.bases]


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

COSTLY = {"translation": ("size", "BLEU", *COST), "captioning": ("size", "BLEU-4", "METEOR", "CIDEr", *COST)}
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
    columns=COSTLY,
    about="memory is that of a step beside parameters and gradients, not the whole process's",
)


def _budget(name: str, coding: Literal["words", "hybrid", "bpe"], mixtures: int, found: tuple[str, ...]) -> Row:
    """A row of the two budgets; the paper measured memory and time once a budget."""
    large = mixtures == 9 or (coding == "words" and mixtures == 3)
    translation = ("10.4", "90.4") if large else ("5.3", "45.5")
    captioning = ("4.3", "26.4") if large else ("1.0", "14.6")
    return Row(
        name,
        coding,
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
    columns=COSTLY,
    about="a budget is an equal number of softmaxes x codes",
)

MIXTURES = Suite(
    "mixtures",
    "Number of softmaxes in BPE-MoS",
    tuple(Row(f"{count} softmax{'es' if count > 1 else ''}", "bpe", count) for count in (1, 2, 3, 5, 9, 15)),
    "valid",
    {"translation": ("BLEU", "nats per word", "in use")},
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
    {"translation": ("size", "BLEU", "nats per word")},
    about="0.2k in the paper is 174 rows and 174 columns, 348 codes",
)

OOV_ROWS = {  # line -> (coding, whether its out-of-vocabulary words are replaced, the paper's BLEU)
    "BPE-MoS": ("bpe", False, "30.19"),
    "BPE-MoS, OOV words as unk": ("bpe", True, "30.14"),
    "Hybrid-LightRNN-MoS": ("hybrid", False, "30.07"),
}
OOV = Suite(
    "oov",
    "Does translating unknown words matter?",
    (Row("BPE-MoS", "bpe", 9), Row("Hybrid-LightRNN-MoS", "hybrid", 9)),
    "valid",
    {"translation": ("BLEU", "OOV words")},
    about="the best of the seeds by validation BLEU",
)

PAPER_WORDS = {  # rows of the paper's table
    "row 45": "700 3.3 28 19 7 86 35",
    "row 48": "around between by into down for off",
    "row 54": "mined imaged advised pickled outfitted filled withheld",
    "row 91": "bristol chinatown rochester kingston guangdong guangzhou chongqing",
    "row 93": "pursuing posing proposing reacting replacing blogging pointing",
}
WORDS = Suite(
    "words",
    "Rows of the learnt table",
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
    {"translation": ("rank", "bound", "parameters", "BLEU", "nats per word")},
    about="the paper gives no ranks",
)


def _transformer(name: str, base: str, mixtures: int, bleu: str) -> Row:
    """The bases have the paper's rate with nine softmaxes, which is 0.8 times that with one.

    BLEU of German was reported with compounds split in those years, that of French was not.
    """
    column = "BLEU" if base.startswith("french") else "compound BLEU"
    return Row(name, None, mixtures, base=base, rate=1.0 if mixtures > 1 else 1.25, translation={column: bleu})


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
    columns={"translation": ("BLEU", "compound BLEU", "text BLEU", "chrF", "nats per word")},
    about="rows are of the scale's language pair unless they say EN-FR",
)

# In the order of `fastmos reproduce all`: each adds to what is there.
SUITES = {
    suite.name: suite for suite in (OVERALL, WORDS, OOV, SAME_BUDGET, SAME_SOFTMAXES, RANK, MIXTURES, TABLES, WMT)
}
