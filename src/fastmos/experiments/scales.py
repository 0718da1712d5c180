"""The sizes at which the paper is reproduced: a corpus, its base configs, and how many words and codes it has.

All settings of training and search are in the YAML files; a row of a suite changes target coding, head and seed, and
only where that is its point the width (`rank`) or the rate (`wmt`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fastmos.errors import InputError
from fastmos.tables import Learning
from fastmos.training.config import Config, parse_config, read_config

Changes = Mapping[str, Any]
MAIN = "main"  # the base of most rows


@dataclass(frozen=True)
class Base:
    """A file of the configs folder, and what is changed in it."""

    yaml: str
    changes: Changes = field(default_factory=dict)


@dataclass(frozen=True)
class Scale:
    """One size. `codes` are those of BPE and tables: a third, a sixth and a thirtieth of the words, or nearly so."""

    name: str
    task: Literal["translation", "captioning"]
    bases: Mapping[str, Base]
    differs: str  # from the paper's set-up, in one line
    words: int = 0  # of the target vocabulary
    codes: tuple[int, ...] = ()
    wide: int = 0  # width at which a model with one softmax has the parameters of BPE-MoS with nine
    seeds: Mapping[str, int] = field(default_factory=dict)  # of a suite, where it is not `usual_seeds`
    usual_seeds: int = 1
    learning: Learning = field(default_factory=Learning)  # of tables


# The YAML files say what each of eight processes takes; here one takes it all.
WMT14 = {
    "base": Base("wmt14-ende-base-mos.yaml", {"training": {"accumulate": 8}}),
    "big": Base("wmt14-ende-big-mos.yaml", {"training": {"accumulate": 16}}),
    "french-base": Base(
        "wmt14-enfr-big-mos.yaml",
        {
            "model": {"width": 512, "inner": 2048, "heads": 8},
            "training": {"rate": 0.00056, "keep_last": 5, "accumulate": 16},
        },
    ),
    "french-big": Base("wmt14-enfr-big-mos.yaml", {"training": {"accumulate": 16}}),
}
# Rates go with 1/sqrt(width) in Vaswani et al. (2017); here the small one is tried, and the big one follows it.
SMALL_TRANSFORMERS = {
    "base": Base("multi30k-transformer-mos.yaml", {"model": {"width": 128, "inner": 512}}),
    "big": Base("multi30k-transformer-mos.yaml", {"model": {"heads": 8}, "training": {"rate": 0.0007}}),
}
OURS = "Adam, mixtures that start near a softmax, dropout on embeddings and right before the output embedding"

SCALES: dict[str, Scale] = {
    scale.name: scale
    for scale in (
        Scale(
            "multi30k",
            "translation",
            {MAIN: Base("reproduce-multi30k.yaml"), **SMALL_TRANSFORMERS},
            "Multi30k (29,000 pairs, 9,781 words against 3,200 codes) for IWSLT'14 (160,000; 30,000 against 10,000); "
            f"source in BPE; {OURS}, six epochs; beam search with a length penalty",
            words=9781,
            codes=(3200, 1600, 320),
            wide=316,
            seeds={"overall": 3},
        ),
        Scale(
            "flickr8k",
            "captioning",
            {MAIN: Base("reproduce-flickr8k.yaml")},
            "Flickr8k (6,000 images, 7,372 words against 2,500 codes) for MSCOCO (113,287; 10,000 against 3,000); "
            f"EfficientNet-Lite0 for ResNet-101; {OURS}, six epochs",
            words=7372,
            codes=(2500, 1250, 250),
        ),
        Scale(
            "europarl",
            "translation",
            {MAIN: Base("reproduce-europarl.yaml")},
            "50,000 pairs of Europarl of at most 30 words, 15,000 words against 5,000 codes, for IWSLT'14 (160,000; "
            f"30,000 against 10,000); cased; source in BPE; {OURS}, ten epochs; beam search with a length penalty; "
            "BLEU of detokenised text",
            words=15_000,
            codes=(5000, 2500, 500),
            wide=308,
        ),
        Scale(
            "sample",
            "translation",
            {MAIN: Base("reproduce-sample.yaml")},
            "3,000 pairs that a grammar makes up, and models of width 64: to see that everything works, no more",
            words=1762,
            codes=(600, 300, 120),
            wide=80,
            learning=Learning(rounds=1, first_epochs=1, width=32, batch_tokens=500),
        ),
        Scale(
            "iwslt14",
            "translation",
            {MAIN: Base("iwslt14-baseline.yaml")},
            "the paper's corpus and settings; source in 30,000 words",
            words=30_000,
            codes=(10_000, 5000, 1000),
            wide=292,
            usual_seeds=5,
        ),
        Scale(
            "coco",
            "captioning",
            {MAIN: Base("coco-baseline.yaml")},
            "the paper's corpus; optimiser, dropout and beam, which it does not give, are ours",
            words=10_000,
            codes=(3000, 1500, 300),
            usual_seeds=5,
        ),
        Scale(
            "wmt14",
            "translation",
            WMT14,
            "the paper's corpora and settings, but 32,000 codes in place of 32,000 merges; in bfloat16",
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


def changed(config: Config, changes: Changes) -> Config:
    """A config with some values of its sections replaced."""
    return parse_config(_merged(config.model_dump(mode="json"), changes), "the config of a row")


def _merged(values: Changes, changes: Changes) -> dict[str, Any]:
    both = dict(values)
    for name, value in changes.items():
        both[name] = _merged(both[name], value) if isinstance(value, Mapping) and name in both else value
    return both


def configs_folder() -> Path:
    """Where the YAML files lie: in an installed package within it, in a checkout beside src."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "configs"
    return inside if inside.is_dir() else package.parents[1] / "configs"
