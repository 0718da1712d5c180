"""The sizes at which the paper is reproduced: a corpus, its base configs, and its vocabulary sizes.

All settings of training and search are in the YAML files. A row of a suite changes target tokenizer, head and seed, and
only where that is its point the hidden size (`rank`) or the learning rate (`wmt`).
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


@dataclass(frozen=True)
class Scale:
    """One size. `vocab_sizes` are those of BPE and tables: about a third, a sixth and a thirtieth of the words."""

    name: str
    task: Literal["translation", "captioning"]
    bases: Mapping[str, Base]
    differs: str  # from the paper's set-up, in one line
    words: int = 0  # of the target vocabulary
    vocab_sizes: tuple[int, ...] = ()
    wide: int = 0  # hidden size at which a model with one softmax has the parameters of BPE-MoS with nine
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
# Learning rates go with 1/sqrt(hidden size) in Vaswani et al. (2017); the small one was tuned, the big one follows it.
SMALL_TRANSFORMERS = {
    "base": Base("multi30k-transformer-mos.yaml", {"model": {"hidden_size": 128, "ffn_size": 512}}),
    "big": Base("multi30k-transformer-mos.yaml", {"model": {"num_heads": 8}, "training": {"learning_rate": 0.0007}}),
}
OURS = "Adam, mixtures that start near a softmax, dropout on embeddings and right before the output embedding"

SCALES: dict[str, Scale] = {
    scale.name: scale
    for scale in (
        Scale(
            "multi30k",
            "translation",
            {MAIN: Base("reproduce-multi30k.yaml"), **SMALL_TRANSFORMERS},
            "Multi30k (29,000 pairs, 9,781 words against 3,200 tokens) for IWSLT'14 (160,000; 30,000 against 10,000); "
            f"source in BPE; {OURS}, six epochs; beam search with a length penalty",
            words=9781,
            vocab_sizes=(3200, 1600, 320),
            near_softmax=True,
            wide=316,
            seeds={"overall": 3, "heads": 3},
        ),
        Scale(
            "flickr8k",
            "captioning",
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
            {MAIN: Base("reproduce-msctd.yaml")},
            "MSCTD (132,741 pairs of film dialogue, Chinese to English, 26,058 words against 8,700 tokens) for "
            f"IWSLT'14 (160,000; 30,000 against 10,000); source in BPE; {OURS}, four epochs; beam search with a length "
            "penalty",
            words=26_058,
            vocab_sizes=(8700, 4350, 870),
            near_softmax=True,
            wide=296,
            frequent=10_000,
            sentence="你 为什么 不 早点 告诉 我 ？",
            seeds={"overall": 3, "heads": 3},
        ),
        Scale(
            "ted",
            "translation",
            {MAIN: Base("reproduce-ted.yaml")},
            "a quarter of IWSLT'14's pairs (our collection): 36,270 for 160,000, 24,972 words against 8,300 tokens for "
            f"30,000 against 10,000; source in BPE; {OURS}, eight epochs; beam search with a length penalty",
            words=24_972,
            vocab_sizes=(8300, 4150, 830),
            sentence="wir müssen gemeinsam eine antwort auf diese frage finden .",
            near_softmax=True,
            wide=296,
            seeds={"overall": 3},
        ),
        Scale(
            "europarl",
            "translation",
            {MAIN: Base("reproduce-europarl.yaml")},
            "50,000 pairs of Europarl of at most 30 words, 15,000 words against 5,000 tokens, for IWSLT'14 (160,000; "
            f"30,000 against 10,000); cased; source in BPE; {OURS}, ten epochs; beam search with a length penalty; "
            "BLEU of detokenized text",
            words=15_000,
            vocab_sizes=(5000, 2500, 500),
            sentence="Wir müssen gemeinsam eine Antwort auf diese Frage finden.",
            near_softmax=True,
            wide=308,
        ),
        Scale(
            "sample",
            "translation",
            {MAIN: Base("reproduce-sample.yaml")},
            "3,000 pairs that a grammar makes up, and models of hidden size 64: to see that everything works, no more",
            words=1762,
            vocab_sizes=(600, 300, 120),
            sentence="der alte mann öffnet das fenster nicht .",
            wide=80,
            learning=TableLearning(rounds=1, first_epochs=1, hidden_size=32, batch_tokens=500),
        ),
        Scale(
            "iwslt14",
            "translation",
            {MAIN: Base("iwslt14-baseline.yaml")},
            "the paper's corpus and settings; source in 30,000 words",
            words=30_000,
            vocab_sizes=(10_000, 5000, 1000),
            wide=292,
            usual_seeds=5,
        ),
        Scale(
            "coco",
            "captioning",
            {MAIN: Base("coco-baseline.yaml")},
            "the paper's corpus; optimizer, dropout and beam, which it does not give, are ours",
            words=10_000,
            vocab_sizes=(3000, 1500, 300),
            usual_seeds=5,
        ),
        Scale(
            "wmt14",
            "translation",
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
