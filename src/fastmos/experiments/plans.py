"""From a row of a suite to what must be trained: a config, perhaps a learnt table, and names made of their hashes.

Two rows, of whatever suites, that come to the same config are one run, and one table serves all runs that need it.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from fastmos.experiments.scales import MAIN, Changes, Scale, base_config, changed
from fastmos.tables import Learning
from fastmos.training.config import Config

CodingName = Literal["words", "bpe", "hybrid", "lightrnn", "frequency", "random"]
LABELS: dict[str, str] = {
    "words": "words",
    "bpe": "BPE",
    "hybrid": "Hybrid-LightRNN",
    "lightrnn": "LightRNN",
    "frequency": "table by frequency",
    "random": "table at random",
}


@dataclass(frozen=True)
class Row:
    """A line of a table: what it trains, and what the paper found."""

    name: str
    coding: CodingName | None = "bpe"  # of the target; None: as the base has it
    mixtures: int = 1  # one is the plain softmax
    part: int = 0  # which of the scale's numbers of codes
    head: Literal["", "moc"] = ""  # a mixture of contexts instead of softmaxes
    wide: bool = False  # as wide as it takes to have the parameters of nine softmaxes
    base: str = MAIN  # of the scale
    rate: float = 1.0  # factor on the base's
    translation: Mapping[str, str] = field(default_factory=dict)  # the paper's figures by column,
    captioning: Mapping[str, str] = field(default_factory=dict)  # for either task


@dataclass(frozen=True)
class TablePlan:
    """A table to be learnt from the training text."""

    train: str  # files, as in the config
    valid: str
    codes: int
    words: int
    unk_share: float
    language: str
    lowercase: bool
    learning: Learning

    @property
    def id(self) -> str:
        return digest(asdict(self))

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
    """What a row comes to at a scale."""
    config = base_config(scale, row.base)
    changes: dict[str, Any] = {"head": _head(row), "training": {"seed": seed}}
    if row.rate != 1.0:
        changes["training"]["rate"] = float(f"{config.training.rate * row.rate:.3g}")
    if row.wide:
        changes["model"] = {"width": scale.wide}
    table = None
    if row.coding is not None:
        choice, table = _target(row, scale, config)
        changes["codings"] = {"target": choice}
    return Plan(_name(row, scale), changed(config, changes), table)


def _head(row: Row) -> Changes:
    return {"kind": row.head or ("softmax" if row.mixtures == 1 else "mos"), "mixtures": row.mixtures}


def _name(row: Row, scale: Scale) -> str:
    """Without the suite's own words, since suites share runs."""
    softmaxes = {"": "one softmax" if row.mixtures == 1 else f"{row.mixtures} softmaxes", "moc": "mixed contexts"}
    coding = row.name if row.coding is None else f"{LABELS[row.coding]}, {codes_of(row, scale):,} codes"
    return f"{coding}, {softmaxes[row.head]}{', wide' if row.wide else ''}"


def codes_of(row: Row, scale: Scale) -> int:
    """Size of the target dictionary."""
    if row.coding == "words":
        return scale.words
    if row.coding in ("bpe", "hybrid"):
        return scale.codes[row.part]
    return 2 * (math.isqrt(scale.words - 1) + 1)  # a table alone


def _target(row: Row, scale: Scale, config: Config) -> tuple[Changes, TablePlan | None]:
    """The target coding, as changes of the base's."""
    codes = codes_of(row, scale)
    if row.coding in ("words", "bpe"):
        return {"kind": row.coding, "codes": codes}, None
    if row.coding in ("frequency", "random"):
        return {"kind": "table", "codes": codes, "words": scale.words, "fill": row.coding}, None
    target = config.codings.target
    table = TablePlan(
        _text_of(config, "train", scale),
        _text_of(config, "valid", scale),
        codes,
        scale.words,
        target.unk_share,
        target.language,
        target.lowercase,
        scale.learning,
    )
    return {"kind": "file", "codes": codes, "words": scale.words, "path": table.path}, table


def _text_of(config: Config, split: str, scale: Scale) -> str:
    """A split's target text; captions will be written as lines."""
    name: str = getattr(config.data, split).target
    return f"captions-{scale.name}/{split}.txt" if config.task == "captioning" else name


def config_id(config: Config) -> str:
    """A name that equal configs share; values that are the default do not count, so that a new option changes none."""
    return digest(config.model_dump(mode="json", exclude_defaults=True))


def group_id(config: Config) -> str:
    """The same without the seed."""
    return config_id(changed(config, {"training": {"seed": 1}}))


def digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:10]
