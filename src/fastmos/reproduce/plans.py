"""From a row of a suite to what must be trained: a config, perhaps a learned table, and ids made of their hashes.

Two rows that come to the same config are one run, whatever their suites, and one table serves all runs that need it.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from fastmos.config import HEADS, Config, changed, options
from fastmos.config.tokenizers import Words
from fastmos.reproduce.scales import MAIN, Changes, Scale, base_config
from fastmos.tables.rounds import TableLearning

TokenizerName = Literal[
    "words", "frequent", "bpe", "hybrid", "lightrnn", "hybrid-half", "lightrnn-half", "frequency", "random"
]
Layout = Literal["neighbors", "random"]
LABELS: dict[str, str] = {
    "words": "words",
    "frequent": "words",
    "bpe": "BPE",
    "hybrid": "Hybrid-LightRNN",
    "lightrnn": "LightRNN",
    "hybrid-half": "Hybrid-LightRNN (random start, half)",
    "lightrnn-half": "LightRNN (random start, half)",
    "frequency": "table by frequency",
    "random": "table at random",
}


@dataclass(frozen=True)
class Row:
    """A line of a table: what it trains, and what the paper found."""

    name: str
    tokenizer: TokenizerName | None = "bpe"  # of the target; None: as the base has it
    mixtures: int = 1  # one is the plain softmax
    vocab: int = 0  # which of the scale's vocabulary sizes
    head: str = ""  # type of head in the config; empty: softmax or mos, by the mixtures
    head_options: Mapping[str, Any] = field(default_factory=dict)  # its other keys
    wide: bool = False  # with the hidden size that gives it the parameters of nine softmaxes
    base: str = MAIN  # of the scale
    learning_rate_factor: float = 1.0  # on the base's
    without_oov: bool = False  # shown with its out-of-vocabulary words as unk
    paper: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # its figures: task -> column -> figure

    @property
    def softmaxes(self) -> int:
        """Mixed contexts go through one."""
        return 1 if self.head == "moc" else self.mixtures


@dataclass(frozen=True)
class TablePlan:
    """A table to be learned from the training text."""

    train: str  # files, as in the config
    valid: str
    vocab_size: int
    words: int
    unk_share: float
    language: str
    lowercase: bool
    learning: TableLearning
    layout: Layout = "neighbors"  # where learning starts

    @property
    def id(self) -> str:
        """Of all values; those of layout and learning that are the default do not count, as in `config_id`."""
        values = {**asdict(self), "learning": self.learning.model_dump(mode="json", exclude_defaults=True)}
        if self.layout == "neighbors":
            del values["layout"]
        return digest(values)

    @property
    def path(self) -> str:
        """Where it will be in the runs folder."""
        return f"tables/{self.id}.json"


@dataclass(frozen=True)
class Plan:
    """A run: what it is called, its config, and the table that it needs first."""

    name: str
    config: Config
    table: TablePlan | None = None

    @property
    def id(self) -> str:
        """Of this run alone."""
        return config_id(self.config)

    @property
    def group(self) -> str:
        """Of all runs that differ in nothing but the seed."""
        return group_id(self.config)


def plan(row: Row, scale: Scale, seed: int = 1) -> Plan:
    """What a row trains at a scale."""
    of_tokenizer = row.base == MAIN and row.tokenizer in scale.bases  # a base for all rows with this tokenizer
    config = base_config(scale, str(row.tokenizer) if of_tokenizer else row.base)
    changes: dict[str, Any] = {"head": _head(row, scale), "training": {"seed": seed}}
    if row.learning_rate_factor != 1.0:
        rate = config.training.learning_rate * row.learning_rate_factor
        changes["training"]["learning_rate"] = float(f"{rate:.3g}")
    if row.wide:
        changes["model"] = {"hidden_size": scale.wide[wide_key(row)]}
    table = None
    if row.tokenizer is not None:
        target, table = _target(row, scale, config)
        changes["tokenizers"] = {"target": target}
    return Plan(_name(row, scale), changed(config, changes), table)


def wide_key(row: Row) -> str:
    """Of a row in a scale's `wide`."""
    return f"{row.tokenizer} {row.head or 'softmax'}"


def _head(row: Row, scale: Scale) -> Changes:
    name = row.head or ("softmax" if row.mixtures == 1 else "mos")
    options = {"mixtures": row.mixtures, "near_softmax": scale.near_softmax, **row.head_options}
    return {"type": name, **{key: value for key, value in options.items() if key in HEADS[name].model_fields}}


def _name(row: Row, scale: Scale) -> str:
    """Without the suite's own words, since suites share runs."""
    labels = {"": "one softmax" if row.mixtures == 1 else f"{row.mixtures} softmaxes", "moc": "mixed contexts"}
    tokenizer = row.name if row.tokenizer is None else f"{LABELS[row.tokenizer]}, {vocab_size(row, scale):,} tokens"
    others = [", wide"] if row.wide else []
    others += [f", {row.base}"] if row.base != MAIN and row.tokenizer is not None else []
    return f"{tokenizer}, {labels.get(row.head, f'{row.head} of {row.mixtures}')}{''.join(others)}"


def vocab_size(row: Row, scale: Scale) -> int:
    """Size of the target vocabulary, without special tokens."""
    if row.tokenizer == "words":
        return scale.words
    if row.tokenizer == "frequent":
        return scale.frequent or scale.words
    if row.tokenizer in ("bpe", "hybrid", "hybrid-half"):
        return scale.vocab_sizes[row.vocab]
    return 2 * (math.isqrt(scale.words - 1) + 1)  # a table alone


def _target(row: Row, scale: Scale, config: Config) -> tuple[Changes, TablePlan | None]:
    """The target tokenizer, as changes of the base's."""
    size = vocab_size(row, scale)
    if row.tokenizer in ("words", "frequent", "bpe"):
        return {"type": "bpe" if row.tokenizer == "bpe" else "words", "vocab_size": size}, None
    if row.tokenizer in ("frequency", "random"):
        return {"type": "table", "vocab_size": size, "words": scale.words, "layout": row.tokenizer}, None
    words = word_model(scale)
    assert words is not None and row.tokenizer is not None, "a learned table needs words"
    half = row.tokenizer.endswith("half")  # as the paper learned its tables
    table = TablePlan(
        _text_of(config, "train", scale),
        _text_of(config, "valid", scale),
        size,
        words.vocab_size,
        words.unk_share,
        words.language,
        words.lowercase,
        scale.learning.model_copy(update={"method": "half"}) if half else scale.learning,
        "random" if half else "neighbors",
    )
    return {"type": "file", "path": table.path}, table


def word_model(scale: Scale) -> Words | None:
    """The tokenizer of the scale's word model; none where there is no such model."""
    if not scale.words:
        return None
    target = base_config(scale, MAIN).tokenizers.target
    assert isinstance(target, Words), "the main base of a scale is a word model"
    return target.model_copy(update={"vocab_size": scale.words})


def _text_of(config: Config, split: str, scale: Scale) -> str:
    """A split's target text; captions will be written as lines."""
    name: str = getattr(config.data, split).target
    return f"captions-{scale.name}/{split}.txt" if config.task == "captioning" else name


def config_id(config: Config) -> str:
    """A name that equal configs share; values that are the default do not count, so that a new option changes none."""
    types = {name: value for name, value in options(config).items() if name.endswith(".type")}
    return digest({**config.model_dump(mode="json", exclude_defaults=True), "types": types})


def group_id(config: Config) -> str:
    """The same without the seed."""
    return config_id(changed(config, {"training": {"seed": 1}}))


def digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:10]
