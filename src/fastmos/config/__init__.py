"""One experiment, one YAML file: read it, override keys, check it. Needs no torch, so that help is quick."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

from pydantic import ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo

from fastmos.config.base import Section, Typed, load_class
from fastmos.config.heads import HEADS, AnyHead, HeadConfig, MoS
from fastmos.config.models import BODIES, AnyBody, AttentionLSTM, BodyConfig, default_body
from fastmos.config.reading import read_yaml, shown
from fastmos.config.tokenizers import TOKENIZERS, Table, TokenizerConfig, TokenizerFile, Tokenizers
from fastmos.config.training import METRICS, Data, Search, SplitFiles, Training
from fastmos.errors import InputError, did_you_mean, lower_first

__all__ = [
    "BODIES",
    "HEADS",
    "METRICS",
    "TASKS",
    "TOKENIZERS",
    "BodyConfig",
    "Config",
    "Data",
    "HeadConfig",
    "Option",
    "Search",
    "Section",
    "SplitFiles",
    "Table",
    "TokenizerConfig",
    "TokenizerFile",
    "Tokenizers",
    "Training",
    "Typed",
    "changed",
    "check",
    "data_path",
    "describe",
    "find_config",
    "load_class",
    "options",
    "override",
    "parse_config",
    "read_config",
    "write_config",
]

# What can be learned, and the class that knows how.
TASKS = {
    "translation": "fastmos.tasks.translation.Translation",
    "captioning": "fastmos.tasks.captioning.Captioning",
    "language-modeling": "fastmos.tasks.language_modeling.LanguageModeling",
}
REGISTRIES: dict[str, Mapping[str, type[Typed]]] = {
    "model": BODIES,
    "head": HEADS,
    "tokenizers.source": TOKENIZERS,
    "tokenizers.target": TOKENIZERS,
}
PACKAGED = Path(__file__).resolve().parents[1] / "configs"  # in an installed package; a checkout has them beside src


class Config(Section):
    """One experiment."""

    task: str = "translation"
    """what is learned: translation, captioning or language-modeling"""
    data: Data = Data()
    tokenizers: Tokenizers = Tokenizers()
    model: AnyBody = AttentionLSTM()
    head: AnyHead = MoS()
    training: Training = Training()
    search: Search = Search()

    @field_validator("task")
    @classmethod
    def _known_task(cls, task: str) -> str:
        if task not in TASKS:
            raise ValueError(f"must be one of {', '.join(TASKS)}")
        return task

    @model_validator(mode="before")
    @classmethod
    def _default_body(cls, value: Any) -> Any:
        """The body of a task, where none is named."""
        if not isinstance(value, Mapping) or str(value.get("task", "translation")) not in TASKS:
            return value
        model = value.get("model", {})
        if isinstance(model, Mapping) and "type" not in model:
            return {**value, "model": {"type": default_body(value.get("task", "translation")), **model}}
        return value


class Option(NamedTuple):
    """A key of the config."""

    name: str  # dotted, as in training.learning_rate
    value: Any
    help: str


# ---- reading and writing


def find_config(name: str) -> Path:
    """The YAML file of that path, or a packaged config of that name."""
    if Path(name).is_file() or name.endswith((".yaml", ".yml")) or os.sep in name:
        return Path(name)
    path = configs_folder() / f"{name}.yaml"
    if not path.is_file():
        known = [file.stem for file in configs_folder().glob("*.yaml")]
        near = did_you_mean(name, known, "give a YAML file, which fastmos init writes")
        raise InputError(f"{name}: no such file, and no packaged config of that name{near}")
    return path


def configs_folder() -> Path:
    """Where the packaged YAML files are."""
    return PACKAGED if PACKAGED.is_dir() else PACKAGED.parents[2] / "configs"


def read_config(path: Path) -> Config:
    """The config of a YAML file; what the file leaves out has its default."""
    return parse_config(read_yaml(path), str(path))


def parse_config(value: Mapping[str, Any], name: str) -> Config:
    """Nested dictionaries to a config, or a sentence about the first thing that is wrong."""
    try:
        return Config.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
    key = _dotted(first["loc"])
    if first["type"] == "extra_forbidden":
        near = did_you_mean(key, _known_keys(value), "fastmos train --help lists the keys")
        raise InputError(f"{name}: no key '{key}'{near}") from None
    if first["type"] == "union_tag_invalid":
        known = ", ".join(REGISTRIES[key])
        raise InputError(f"{name}: {key}.type is '{first['ctx']['tag']}'; it must be one of {known}") from None
    if first["type"] == "union_tag_not_found":
        raise InputError(f"{name}: {key} must be a section of keys, not {shown(first['input'])}") from None
    message = lower_first(first["msg"].removeprefix("Value error, "))
    raise InputError(f"{name}: {key}: {message}, not {shown(first['input'])}") from None


def _dotted(location: tuple[int | str, ...]) -> str:
    """The key of an error, without the type that pydantic puts behind a section that has several."""
    parts: list[str] = []
    skip = False
    for part in map(str, location):
        if not skip:
            parts.append(part)
        skip = not skip and ".".join(parts) in REGISTRIES
    return ".".join(parts)


def _known_keys(value: Mapping[str, Any]) -> list[str]:
    """Keys that a config with these types has."""
    types: dict[str, Any] = {"task": value.get("task", "translation")}
    for path in REGISTRIES:
        part: Any = value
        for name in path.split("."):
            part = part.get(name) if isinstance(part, Mapping) else None
        if isinstance(part, Mapping) and part.get("type") in REGISTRIES[path]:
            _put(types, f"{path}.type", part["type"])
    config = Config.model_validate(types)
    return [*options(config), *Config.model_fields]


def write_config(config: Config) -> str:
    """The config as YAML, every value spelled out."""
    import yaml

    return str(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


# ---- looking at keys and changing them


def options(config: Config) -> dict[str, Any]:
    """Every value by its dotted name, as in `model.num_layers`."""
    return {option.name: option.value for option in describe(config)}


def describe(config: Config) -> list[Option]:
    """Every key of the config with its value and its help."""
    return list(_described(config, ""))


def _described(section: Section, prefix: str) -> Iterator[Option]:
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, Section):
            yield from _described(value, f"{prefix}{name}.")
        else:
            plain = list(value) if isinstance(value, tuple) else value
            yield Option(f"{prefix}{name}", plain, _help(f"{prefix}{name}", field))


def _help(name: str, field: FieldInfo) -> str:
    """What a key means, and which values it can have if they are few."""
    section, _, key = name.rpartition(".")
    registry = REGISTRIES.get(section, {}) if key == "type" else {}
    choices = list(registry) or [value or "''" for value in get_args(field.annotation) if isinstance(value, str)]
    return f"{field.description}{': ' if choices else ''}{', '.join(choices)}"


def override(config: Config, values: Mapping[str, str]) -> Config:
    """The config with some keys, by their dotted names, set to other values, as text; a list as [0.9, 0.98]."""
    changes: dict[str, Any] = {}
    for name, text in values.items():  # pydantic makes numbers and booleans of text, where a key wants them
        listed = text.startswith("[") and text.endswith("]")
        _put(changes, name, [part.strip() for part in text[1:-1].split(",")] if listed else text)
    return changed(config, changes, "the command line")


def changed(config: Config, changes: Mapping[str, Any], name: str = "the config") -> Config:
    """The config with some values of its sections replaced. A new type drops the keys that it does not have."""
    return parse_config(_merged(config.model_dump(mode="json"), changes, ""), name)


def _merged(values: Mapping[str, Any], changes: Mapping[str, Any], path: str) -> dict[str, Any]:
    both = dict(values)
    registry = REGISTRIES.get(path, {})
    if str(changes.get("type")) in registry and changes["type"] != values.get("type"):
        both = _kept(values, registry[values["type"]], registry[changes["type"]])
    for name, value in changes.items():
        inner = f"{path}.{name}" if path else name
        both[name] = (
            _merged(both[name], value, inner)
            if isinstance(value, Mapping) and isinstance(both.get(name), Mapping)
            else value
        )
    if not path and str(changes.get("task")) in TASKS and "type" not in changes.get("model", {}):
        both["model"] = _merged(both["model"], {"type": default_body(changes["task"])}, "model")
    return both


def _kept(values: Mapping[str, Any], old: type[Typed], new: type[Typed]) -> dict[str, Any]:
    """The keys of a section that were set and that its new type has, too."""
    fields = old.model_fields
    return {name: value for name, value in values.items() if name in new.model_fields and value != fields[name].default}


def _put(values: dict[str, Any], dotted: str, value: Any) -> None:
    *path, last = dotted.split(".")
    for name in path:
        values = values.setdefault(name, {})
        if not isinstance(values, dict):
            return
    values[last] = value


def data_path(name: str, base: Path) -> Path:
    """A file named in a config: ${NAME} filled in from the environment, relative to the YAML file's folder."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise InputError(
                f"{name}: the environment has no {match[1]}; set it, as in export {match[1]}=/path/to/data"
            )
        return os.environ[match[1]]

    return Path(os.path.normpath(base / re.sub(r"\$\{(\w+)\}", value, name)))


# ---- checking


def check(config: Config) -> None:
    """Refuse a config that lacks something or contradicts itself, before any work; each task adds its own checks."""
    for problem in _problems(config):
        raise InputError(f"the config is not usable: {problem}")


def _problems(config: Config) -> Iterator[str]:
    model, head, training = config.model, config.head, config.training
    for split in ("train", "valid"):
        if not getattr(config.data, split).target:
            yield f"data.{split}.target is missing; name a file"
    if model.task != config.task:
        fitting = ", ".join(name for name, body in BODIES.items() if body.task == config.task)
        yield f"model.type {model.type} is for {model.task}; for {config.task} set it to {fitting}"
    yield from filter(None, [model.problem()])
    for side, tokenizer in config.tokenizers:
        if isinstance(tokenizer, TokenizerFile) and not tokenizer.path:
            yield f"tokenizers.{side}.path is missing; name the tokenizer's file"
        if isinstance(tokenizer, Table) and tokenizer.layout == "neighbors" and not tokenizer.learn:
            yield f"tokenizers.{side}.layout neighbors is where learning starts; set tokenizers.{side}.learn too"
    embedding = model.target_embedding_size
    if head.tie_embedding and head.output_size not in (0, embedding):
        yield f"head.tie_embedding needs head.embedding_size {head.output_size} to be model.embedding_size, {embedding}"
    if head.tie_embedding and head.type == "softmax" and embedding != model.hidden_size:
        yield f"head.tie_embedding with one softmax needs model.embedding_size {embedding} to be {model.hidden_size}"
    contexts = embedding if head.tie_embedding else head.output_size or model.hidden_size
    if getattr(head, "near_softmax", False) and contexts != model.hidden_size:
        yield f"head.near_softmax needs contexts of model.hidden_size, {model.hidden_size}, not {contexts}"
    if bool(training.batch_size) == bool(training.batch_tokens):
        yield "give one of training.batch_size and training.batch_tokens"
    if not training.max_epochs and not training.max_steps:
        yield "training.max_epochs and training.max_steps are both 0; training would never end"
    yield from _schedule_problems(training)


def _schedule_problems(training: Training) -> Iterator[str]:
    if training.lr_schedule == "linear" and not training.max_steps:
        yield "a linear schedule ends at training.max_steps, which is 0"
    if training.lr_schedule == "linear" and training.warmup_steps >= training.max_steps > 0:
        yield f"training.warmup_steps {training.warmup_steps} must be below training.max_steps {training.max_steps}"
    if training.lr_schedule == "inverse-sqrt" and not training.warmup_steps:
        yield "an inverse-sqrt schedule needs training.warmup_steps"
    if training.lr_schedule == "plateau" and training.warmup_steps:
        yield "a plateau schedule has no warm-up; set training.warmup_steps to 0"
