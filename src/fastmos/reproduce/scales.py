"""The sizes at which the paper is reproduced: a corpus, its base configs, and its vocabulary sizes.

All settings of training and search are in the YAML files. A row of a suite changes target tokenizer, head and seed, and
only where that is its point the hidden size (`rank`, `language`), the learning rate (`wmt`), or all but the text
(`recipe`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fastmos.config import Config, changed, configs_folder, read_config
from fastmos.errors import InputError
from fastmos.tables.rounds import TableLearning

Changes = Mapping[str, Any]
MAIN = "main"  # the base of most rows


@dataclass(frozen=True)
class Base:
    """A file of the configs folder, and what is changed in it."""

    yaml: str
    changes: Changes = field(default_factory=dict)
    differs: str = ""  # from the paper's set-up, where that is not what the scale says


@dataclass(frozen=True)
class Scale:
    """One size. `vocab_sizes` are those of BPE and tables: about a third, a sixth and a thirtieth of the words."""

    name: str
    task: Literal["translation", "captioning", "language-modeling"]
    corpus: str  # in two or three words
    bases: Mapping[str, Base]
    differs: str  # from the paper's set-up, in one line
    words: int = 0  # of the target vocabulary
    vocab_sizes: tuple[int, ...] = ()
    wide: Mapping[str, int] = field(
        default_factory=dict
    )  # tokenizer and head -> hidden size with the parameters of MoS-9
    frequent: int = 0  # words of the suite heads, where all would be too many
    near_softmax: bool = False  # mixtures start near one softmax
    seeds: Mapping[str, int] = field(default_factory=dict)  # of a suite, where it is not `usual_seeds`
    usual_seeds: int = 1
    learning: TableLearning = field(default_factory=TableLearning)  # of tables
    sentence: str = "zwei kinder spielen mit einem kleinen hund am strand ."  # whose translation is looked into
    wmt_bleu: bool = False  # also the two kinds of BLEU that are usual for WMT


# The YAML files say what each of eight processes takes; here one takes it all.
WMT14 = {
    "base": Base("wmt14-ende-base-mos.yaml", {"training": {"accumulate_steps": 8}}),
    "big": Base("wmt14-ende-big-mos.yaml", {"training": {"accumulate_steps": 16}}),
    "french-base": Base(
        "wmt14-enfr-big-mos.yaml",
        {
            "model": {"hidden_size": 512, "ffn_size": 2048, "num_heads": 8},
            "training": {"learning_rate": 0.00056, "keep_last": 5, "accumulate_steps": 16},
        },
    ),
    "french-big": Base("wmt14-enfr-big-mos.yaml", {"training": {"accumulate_steps": 16}}),
}
OURS = "Adam, mixtures that start near a softmax, dropout on embeddings and right before the output embedding"
NEAR = "mixtures that start near a softmax"


def small_transformers(yaml: str, corpus: str) -> dict[str, Base]:
    """Two sizes. Learning rates go with 1/sqrt(hidden size) in Vaswani et al. (2017): the big one follows the small."""
    differs = (
        f"{corpus} for WMT'14 (4,500,000 pairs, 32,000 tokens); three layers of size 128 (base) and 256 (big) for six "
        f"of 512 and 1,024; {NEAR}; a linear schedule"
    )
    big = {"model": {"num_heads": 8}, "training": {"learning_rate": 0.0007}}
    return {
        "base": Base(yaml, {"model": {"hidden_size": 128, "ffn_size": 512}}, differs),
        "big": Base(yaml, big, differs),
    }


RECIPE: Changes = {  # the paper's, with which a base keeps its text, its tokenizers and its sizes
    "model": {"dropout": 0.3, "embedding_dropout": 0.0, "init_range": 0.1},
    "head": {"dropout": 0.0},
    "training": {
        "optimizer": "sgd",
        "learning_rate": 0.6,
        "lr_schedule": "plateau",
        "batch_size": 50,
        "loss_normalization": "sentences",
        "max_epochs": 30,
        "max_steps": 0,
    },
    "search": {"length_penalty": 0.0},
}


def recipe(yaml: str, corpus: str) -> dict[str, Base]:
    """The base of the suite `recipe`."""
    differs = (
        f"{corpus} for IWSLT'14 (160,000 pairs); source in BPE; training continues at the last learning rate after the "
        "sixth halving, where the authors' code stops"
    )
    return {"recipe": Base(yaml, RECIPE, differs)}


SCALES: dict[str, Scale] = {
    scale.name: scale
    for scale in (
        Scale(
            "multi30k",
            "translation",
            "Multi30k",
            {
                MAIN: Base("reproduce-multi30k.yaml"),
                **small_transformers(
                    "multi30k-transformer-mos.yaml",
                    "Multi30k (29,000 pairs, 3,000 tokens a side; twelve epochs)",
                ),
            },
            "Multi30k (29,000 pairs, 9,781 words against 3,200 tokens) for IWSLT'14 (160,000; 30,000 against 10,000); "
            f"source in BPE; {OURS}, six epochs; beam search with a length penalty",
            words=9781,
            vocab_sizes=(3200, 1600, 320),
            near_softmax=True,
            wide={"bpe softmax": 316},
            seeds={"overall": 3, "heads": 3},
        ),
        Scale(
            "flickr8k",
            "captioning",
            "Flickr8k",
            {MAIN: Base("reproduce-flickr8k.yaml")},
            "Flickr8k (6,000 images, 7,372 words against 2,500 tokens) for MSCOCO (113,287; 10,000 against 3,000); "
            f"EfficientNet-Lite0 for ResNet-101; {OURS}, six epochs",
            words=7372,
            vocab_sizes=(2500, 1250, 250),
            near_softmax=True,
        ),
        Scale(
            "msctd",
            "translation",
            "MSCTD",
            {
                MAIN: Base("reproduce-msctd.yaml"),
                **small_transformers(
                    "reproduce-msctd-transformer.yaml",
                    "MSCTD (132,741 pairs, Chinese to English, 12,000 and 8,700 tokens; eight epochs)",
                ),
                **recipe("reproduce-msctd.yaml", "MSCTD (132,741 pairs, Chinese to English)"),
            },
            "MSCTD (132,741 pairs of film dialogue, Chinese to English, 26,058 words against 8,700 tokens) for "
            f"IWSLT'14 (160,000; 30,000 against 10,000); source in BPE; {OURS}, four epochs; beam search with a length "
            "penalty",
            words=26_058,
            vocab_sizes=(8700, 4350, 870),
            near_softmax=True,
            wide={"bpe softmax": 296},
            frequent=10_000,
            sentence="你 为什么 不 早点 告诉 我 ？",
            seeds={"overall": 3, "heads": 3},
        ),
        Scale(
            "ted",
            "translation",
            "TED",
            {
                MAIN: Base("reproduce-ted.yaml"),
                **recipe("reproduce-ted.yaml", "a quarter of IWSLT'14's pairs (our collection, 36,270)"),
            },
            "a quarter of IWSLT'14's pairs (our collection): 36,270 for 160,000, 24,972 words against 8,300 tokens for "
            f"30,000 against 10,000; source in BPE; {OURS}, eight epochs; beam search with a length penalty",
            words=24_972,
            vocab_sizes=(8300, 4150, 830),
            sentence="wir müssen gemeinsam eine antwort auf diese frage finden .",
            near_softmax=True,
            wide={"bpe softmax": 296},
            seeds={"overall": 3},
        ),
        Scale(
            "wikitext2",
            "language-modeling",
            "WikiText-2",
            {
                MAIN: Base("reproduce-wikitext2.yaml"),
                "bpe": Base("reproduce-wikitext2.yaml", {"training": {"max_steps": 26_448}}),  # as many epochs
            },
            "language modeling, which the paper leaves to Yang et al. (2018): WikiText-2 (33,278 words with eos "
            f"against 11,000 tokens of BPE); an LSTM of hidden size 256, Adam, {NEAR}, twelve epochs",
            words=33_277,
            vocab_sizes=(11_000, 5500, 1100),
            near_softmax=True,
            wide={"words softmax": 272, "words shortlist": 268, "words mixtape": 261, "bpe softmax": 295},
        ),
        Scale(
            "europarl",
            "translation",
            "Europarl",
            {MAIN: Base("reproduce-europarl.yaml")},
            "50,000 pairs of Europarl of at most 30 words, 15,000 words against 5,000 tokens, for IWSLT'14 (160,000; "
            f"30,000 against 10,000); cased; source in BPE; {OURS}, ten epochs; beam search with a length penalty; "
            "BLEU of detokenized text",
            words=15_000,
            vocab_sizes=(5000, 2500, 500),
            sentence="Wir müssen gemeinsam eine Antwort auf diese Frage finden.",
            near_softmax=True,
            wide={"bpe softmax": 308},
        ),
        Scale(
            "sample",
            "translation",
            "sample",
            {MAIN: Base("reproduce-sample.yaml")},
            "3,000 pairs that a grammar makes up, and models of hidden size 64: to see that everything works, no more",
            words=1762,
            vocab_sizes=(600, 300, 120),
            sentence="der alte mann öffnet das fenster nicht .",
            wide={"bpe softmax": 80},
            learning=TableLearning(rounds=1, first_epochs=1, hidden_size=32, batch_tokens=500),
        ),
        Scale(
            "iwslt14",
            "translation",
            "IWSLT'14",
            {MAIN: Base("iwslt14-baseline.yaml")},
            "the paper's corpus and settings; source in 30,000 words; the text has its punctuation normalized, source "
            "lines end with eos, and training continues after the sixth halving, all unlike in the authors' base code",
            words=30_000,
            vocab_sizes=(10_000, 5000, 1000),
            wide={"bpe softmax": 292},
            usual_seeds=5,
        ),
        Scale(
            "coco",
            "captioning",
            "MSCOCO",
            {MAIN: Base("coco-baseline.yaml")},
            "the paper's corpus; captions are split into words by our rule, not as Karpathy's tokens; optimizer, "
            "dropout and beam, which the paper does not give, are ours",
            words=10_000,
            vocab_sizes=(3000, 1500, 300),
            usual_seeds=5,
        ),
        Scale(
            "wmt14",
            "translation",
            "WMT'14",
            WMT14,
            "the paper's corpora and settings, but 32,000 tokens in place of 32,000 merges; in bfloat16",
            wmt_bleu=True,
        ),
    )
}
PAPER = ("iwslt14", "coco", "wmt14")  # what `--scale paper` is


def scales_called(name: str) -> list[Scale]:
    """The scales of that name: several for the paper's."""
    if name == "paper":
        return [SCALES[part] for part in PAPER]
    if name not in SCALES:
        raise InputError(f"no scale '{name}'; choose one of paper, {', '.join(SCALES)}")
    return [SCALES[name]]


def base_config(scale: Scale, base: str) -> Config:
    """A base of a scale. Paths into ../runs are made relative to the runs folder, wherever that is."""
    config = read_config(configs_folder() / scale.bases[base].yaml)
    return changed(changed(config, scale.bases[base].changes), {"data": _within_runs(config), "training": {"seed": 1}})


def _within_runs(config: Config) -> Changes:
    splits = {
        split: {side: path.removeprefix("../runs/") for side, path in getattr(config.data, split)}
        for split in ("train", "valid", "test")
    }
    return {**splits, "cache": "cache"}
