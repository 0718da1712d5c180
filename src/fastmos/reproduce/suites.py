"""The paper's tables and figures as suites, and what it found; and suites of ours.

A suite says all that is particular to it, so that adding one is adding it to `SUITES`.
"""

from collections.abc import Sequence
from typing import Literal

from fastmos.reproduce.plans import Row
from fastmos.reproduce.scales import SCALES
from fastmos.reproduce.suite import COSTS, GRADIENTS, LearnedWords, OOVStudy, Suite, Transformers
from fastmos.reproduce.summary import Record, SuiteTable

Paper = dict[str, dict[str, str]]  # task -> column -> figure


def _mt(bleu: str, memory: str = "", time: str = "", size: str = "") -> Paper:
    figures = {"BLEU": bleu, "size": size, "MB, plain": memory and f"{memory} GB", "ms, plain": time}
    return {"translation": {name: figure for name, figure in figures.items() if figure}}


def _captions(bleu: str, meteor: str = "", cider: str = "", memory: str = "", time: str = "") -> Paper:
    figures = {"BLEU-4": bleu, "METEOR": meteor, "CIDEr": cider, "MB, plain": memory and f"{memory} GB"}
    return {"captioning": {name: figure for name, figure in {**figures, "ms, plain": time}.items() if figure}}


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
        Row("Baseline", "words", paper=_mt(BASELINE[0]) | _captions(*BASELINE[1:])),
        Row("Hybrid-LightRNN-MoS", "hybrid", 9, paper=_mt(HYBRID_9[0]) | _captions(*HYBRID_9[1:])),
        Row("BPE-MoS", "bpe", 9, paper=_mt(BPE_9[0]) | _captions(*BPE_9[1:])),
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
            paper=_mt(BASELINE[0], "5.18", "40.38") | _captions(BASELINE[1], memory="0.96", time="13.29"),
        ),
        Row(
            "Hybrid-LightRNN-Baseline",
            "hybrid",
            paper=_mt("27.43 ± 0.21", "3.61", "33.57") | _captions("29.69 ± 0.15", memory="0.73", time="10.35"),
        ),
        Row(
            "BPE-Baseline",
            "bpe",
            paper=_mt("27.37 ± 0.17", "3.52", "32.78") | _captions("29.68 ± 0.12", memory="0.70", time="9.96"),
        ),
        Row(
            "MoS",
            "words",
            3,
            paper=_mt(MOS_3[0], "10.24", "89.94") | _captions(MOS_3[1], memory="1.39", time="25.66"),
        ),
        Row(
            "Hybrid-LightRNN-MoS",
            "hybrid",
            3,
            paper=_mt(HYBRID_3[0], "5.37", "49.19") | _captions(HYBRID_3[1], memory="1.01", time="15.49"),
        ),
        Row(
            "BPE-MoS",
            "bpe",
            3,
            paper=_mt(BPE_3[0], "5.27", "46.83") | _captions(BPE_3[1], memory="0.99", time="15.03"),
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
        paper=_mt(found[0], *translation) | _captions(found[1], found[2], found[3], *captioning),
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
        Row("Hybrid-LightRNN, 1/3", "hybrid", 9, 0, paper=_mt("30.07", size="10k")),
        Row("Hybrid-LightRNN, 1/6", "hybrid", 9, 1, paper=_mt("29.69", size="5k")),
        Row("Hybrid-LightRNN, 1/30", "hybrid", 9, 2, paper=_mt("28.73", size="1k")),
        Row("Hybrid-LightRNN, 1/3, random start, half", "hybrid-half", 9, 0),
        Row("LightRNN", "lightrnn", 9, paper=_mt("27.39", size="0.2k")),
        Row("LightRNN, random start, half", "lightrnn-half", 9),
        Row("Frequency table", "frequency", 9, paper=_mt("25.84", size="0.2k")),
        Row("Random table", "random", 9, paper=_mt("24.98", size="0.2k")),
    ),
    "valid",
    {"translation": ("BLEU", "size", "NLL per word", "perplexity")},
    about="learning starts from words with like neighbors in a row and assigns words exactly; where a row says so, it "
    "starts at random and assigns by the 1/2-approximation, as in the paper, whose 0.2k are 174 rows and 174 columns",
)

OOV = OOVStudy(
    "oov",
    "Does translating unknown words matter?",
    (
        Row("BPE-MoS", "bpe", 9, paper=_mt("30.19")),
        Row("BPE-MoS, OOV words as unk", "bpe", 9, without_oov=True, paper=_mt("30.14")),
        Row("Hybrid-LightRNN-MoS", "hybrid", 9, paper=_mt("30.07")),
    ),
    "valid",
    {"translation": ("BLEU", "OOV words")},
    about="the best of the seeds by validation BLEU",
)

WORDS = LearnedWords(
    "words",
    "Rows of the learned table",
    (Row("Hybrid-LightRNN", "hybrid", 9),),
    columns={"translation": ("words", "similarity"), "captioning": ("words", "similarity")},
    about="the rows whose words' vectors have the highest mean cosine; vectors are counts of neighbors in the training "
    "text (pointwise mutual information, 50 dimensions), from which learning starts, too",
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
    {
        "translation": ("rank", "bound", *GRADIENTS, "parameters", "BLEU", "NLL per word", "perplexity"),
        "language-modeling": ("rank", "bound", *GRADIENTS, "parameters", "NLL per word", "perplexity"),
    },
    about="the paper gives no ranks; gradient: the share of its square by log-probabilities that the output layer lets "
    "through to the hidden state, or to contexts if each could move alone",
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
        "translation": ("BLEU", "size", "NLL per word", "perplexity", *COSTS, "ms a sentence", "rank"),
        "captioning": ("BLEU-4", "CIDEr", "size", "NLL per word", "perplexity", *COSTS),
        "language-modeling": ("perplexity", "size", "NLL per word", "parameters", *COSTS, "rank"),
    },
    about="the paper has no such table",
)

LANGUAGE = Suite(
    "language",
    "Language models: as many parameters, and BPE",
    (
        Row("One softmax", "words"),
        Row("One softmax, parameters of MoS, 9", "words", wide=True),
        Row("Adaptive softmax, parameters of MoS, 9", "words", 1, head="shortlist", wide=True),
        Row("Mixtape, parameters of MoS, 9", "words", 4, head="mixtape", wide=True),
        Row("Shortlist mixture, 9", "words", 9, head="shortlist"),
        Row("MoS, 9", "words", 9),
        Row("BPE, one softmax", "bpe"),
        Row("BPE, one softmax, parameters of MoS, 9", "bpe", wide=True),
        Row("BPE, adaptive softmax", "bpe", 1, head="shortlist"),
        Row("BPE, MoC, 9", "bpe", 9, head="moc"),
        Row("BPE, MoS, 3", "bpe", 3),
        Row("BPE, MoS, 9", "bpe", 9),
        Row("BPE, shortlist mixture, 9", "bpe", 9, head="shortlist"),
        Row("BPE, Mixtape", "bpe", 4, head="mixtape"),
    ),
    columns={"language-modeling": ("perplexity", "size", "NLL per word", "parameters", *GRADIENTS)},
    about="the paper has no such table; perplexity is per word, so that BPE and words can be compared",
)

RECIPE = Suite(
    "recipe",
    "The paper's own recipe",
    (
        Row("Baseline", "words", base="recipe", paper=_mt(BASELINE[0])),
        Row("BPE-MoS", "bpe", 9, head_options={"near_softmax": False}, base="recipe", paper=_mt(BPE_9[0])),
    ),
    columns={"translation": ("BLEU", "size", "NLL per word", "perplexity", "chrF", "in use")},
    about="SGD with learning rate 0.6, halved at most six times; batches of 50 sentences, a loss averaged over them; "
    "parameters from U(-0.1, 0.1); dropout 0.3 on the hidden state; no length penalty",
)


def _transformer(name: str, base: str, mixtures: int, bleu: str) -> Row:
    """The bases have the paper's learning rate with nine softmaxes, which is 0.8 times that with one.

    BLEU of German was reported with compounds split in those years, that of French was not.
    """
    column = "BLEU" if base.startswith("french") else "compound BLEU"
    factor = 1.0 if mixtures > 1 else 1.25
    return Row(name, None, mixtures, base=base, learning_rate_factor=factor, paper={"translation": {column: bleu}})


WMT = Transformers(
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
    about="rows are of the scale's language pair unless they say EN-FR; the paper's BLEU of German has compounds split",
    paper_corpus={"translation": "WMT'14"},
)

# In the order of `fastmos reproduce all`: each adds to what is there.
SUITES = {
    suite.name: suite
    for suite in (
        OVERALL,
        WORDS,
        OOV,
        SAME_BUDGET,
        SAME_SOFTMAXES,
        RANK,
        MIXTURES,
        TABLES,
        HEADS,
        LANGUAGE,
        RECIPE,
        WMT,
    )
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
