"""One experiment, one YAML file: its sections as frozen models, and how they may contradict each other.

This module needs no torch, so that help and refusals are quick.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fastmos.errors import InputError, did_you_mean, lower_first

Count = Annotated[int, Field(ge=1)]
Amount = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]


class Section(BaseModel):
    """A part of the config: it never changes, and takes no key it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Texts(Section):
    """The files of one split; a language model has targets only."""

    source: str = ""  # a text file, plain or gzipped, relative to the YAML file; ${NAME} is taken from the environment
    target: str = ""  # its other side, line by line; captioning: a file of captions, and source lists the images


class Data(Section):
    """What is learnt from, and what it is judged by."""

    train: Texts = Texts()  # what the model learns from
    valid: Texts = Texts()  # what decides which weights are best
    test: Texts = Texts()  # what `fastmos evaluate RUN` takes when it is given no files
    features: str = ""  # captioning: features of all images, a file that `fastmos features` made, or an .npz
    backbone: str = ""  # captioning: what made the features; only an .npz does not know
    max_length: Count = 256  # longer lines (in codes) are left out of training and cut when translated
    cache: str = ""  # folder for the encoded text, relative to the YAML file; empty: inside the run folder


class CodingChoice(Section):
    """How one side's text becomes codes: learnt from the training text, or a coding made before."""

    kind: Literal["words", "bpe", "table", "file"] = "bpe"  # file: read `path` (from `fastmos codes learn`)
    codes: Count = 10_000  # size of the dictionary, without the four special codes
    words: Count = 30_000  # vocabulary of a table
    fill: Literal["frequency", "diagonal", "random"] = "frequency"  # how a table is filled; a learnt one is a file
    unk_share: Share = 0.0  # words, table: share of the words that occur once which become unk, so that it is learnt
    language: str = ""  # of raw text, which Moses' rules part into words; empty: the text is tokenised
    lowercase: bool = False  # lowercase the text, and judge it so
    path: str = ""  # for kind file: the coding's JSON, relative to the YAML file


class Codings(Section):
    """The codings of both sides."""

    source: CodingChoice = CodingChoice()  # of the source text
    target: CodingChoice = CodingChoice()  # of the target text
    joint: bool = False  # learn one coding from both sides, as `target` says, and use it for both


class Model(Section):
    """The body: everything before the output layer."""

    kind: Literal["lstm", "transformer"] = "lstm"  # a language model or captioner is an lstm
    width: Count = 256  # width of the decoder, and of all of a Transformer (lstm: the encoder has half a direction)
    layers: Count = 1  # how many layers
    dropout: Share = 0.3  # lstm: on g and between layers; Transformer, language model: also on embeddings
    embedding: Amount = 0  # lstm: width of the embeddings; 0: as the decoder
    embedding_dropout: Share = 0.0  # lstm, captioner: on the embeddings
    input_feeding: bool = False  # lstm: feed g into the next step
    init: Annotated[float, Field(gt=0, le=100)] = 0.1  # lstm: all parameters start from U(-init, init)
    inner: Count = 1024  # Transformer: width inside the feed-forward layers
    inner_dropout: Share = 0.0  # Transformer: inside attention and feed-forward layers
    heads: Count = 4  # Transformer: attention heads
    norm: Literal["post", "pre"] = "post"  # Transformer: where it normalises
    share_embeddings: bool = False  # Transformer: one embedding for source and target (needs codings.joint)


class Head(Section):
    """The output layer."""

    kind: Literal["softmax", "mos", "moc"] = "mos"  # one softmax, mixture of softmaxes, mixture of contexts
    mixtures: Count = 9  # how many softmaxes
    width: Amount = 0  # width of the contexts and output embedding; 0: that of the decoder
    dropout: Share = 0.0  # on the contexts
    near_softmax: bool = False  # mixtures: start near one softmax, rather than with contexts drawn at random
    tied: bool = False  # use the target embedding as output embedding


class Training(Section):
    """How it learns, how long, and what is kept."""

    optimiser: Literal["sgd", "adam"] = "adam"  # which rule
    rate: Positive = 1e-3  # learning rate (the highest one, for schedules with a warm-up)
    betas: tuple[Share, Share] = (0.9, 0.999)  # Adam's
    epsilon: Positive = 1e-8  # Adam's
    schedule: Literal["constant", "plateau", "inverse-sqrt", "linear"] = "constant"  # how the rate moves
    warmup: Amount = 0  # steps of linear warm-up (not for plateau)
    decay: Annotated[float, Field(gt=0, lt=1)] = 0.5  # plateau: factor on the rate when a validation is no better
    decays: Amount = 6  # plateau: at most so many times
    batch_sentences: Amount = 0  # sentences (running text: streams) a process takes at once, or
    batch_tokens: Amount = 0  # codes of the longer side, padding included; give one of the two
    window: Amount = 0  # language model: codes of each stream of running text in a batch; 0: reads sentences
    accumulate: Count = 1  # batches a step
    normalise: Literal["tokens", "sentences"] = "tokens"  # what the summed loss of a step is divided by
    clip: Annotated[float, Field(ge=0)] = 5.0  # largest norm of the gradient; 0: any
    smoothing: Share = 0.0  # label smoothing
    smoothing_kind: Literal["uniform", "others"] = "uniform"  # over all codes (torch) or all but the gold (THUMT)
    epochs: Amount = 30  # at most so many passes; 0: no limit
    steps: Amount = 0  # at most so many steps; 0: no limit
    validate_every: Amount = 0  # steps between validations; 0: at the end of each epoch
    save_every: Amount = 0  # steps between saves for resuming; 0: at validations only
    log_every: Count = 100  # steps between lines of the log
    measure: Literal["bleu", "nats", "cider"] = "bleu"  # what says which weights are best; captioning: BLEU-4, CIDEr
    patience: Amount = 0  # stop after so many validations in a row without a new best; 0: never
    keep_best: Amount = 1  # so many best checkpoints are kept,
    keep_last: Amount = 1  # and so many last ones
    autocast: Literal["none", "bf16", "fp16"] = "none"  # precision of the forward pass
    seed: Amount = 1  # of parameters, data order and dropout


class Search(Section):
    """How translations are searched for."""

    beam: Count = 5  # hypotheses kept
    normalise: Literal["none", "gnmt", "average"] = "none"  # for length
    alpha: Annotated[float, Field(ge=0)] = 0.6  # strength of gnmt
    max_length: Count = 100  # codes of a translation, at most


class Config(Section):
    """One experiment."""

    task: Literal["translation", "language-model", "captioning"] = "translation"  # what is learnt
    data: Data = Data()  # files
    codings: Codings = Codings()  # text to codes
    model: Model = Model()  # the body
    head: Head = Head()  # the output layer
    training: Training = Training()  # how it learns
    search: Search = Search()  # how it translates


def read_config(path: Path) -> Config:
    """The config of a YAML file; what the file leaves out has the values above."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where there is a C compiler's work
    try:
        text = path.read_text(encoding="utf-8")
        value, repeated = yaml.load(text, loader), _repeated_key(yaml.compose(text, loader))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; the first argument of fastmos train is a YAML file") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder; give the YAML file of an experiment") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text; give the YAML file of an experiment") from None
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds no sections; see the configs folder for examples")
    if repeated:
        raise InputError(f"{path}: has {repeated} twice; keep one")
    return parse_config(value, str(path))


def _repeated_key(node: Any, prefix: str = "") -> str | None:
    """The first key that stands twice in a section of a YAML tree; its parser would keep the last in silence."""
    seen: set[str] = set()
    for key, value in node.value if getattr(node, "id", "") == "mapping" else []:
        name = f"{prefix}{key.value}"
        if name in seen:
            return name
        seen.add(name)
        if deeper := _repeated_key(value, f"{name}."):
            return deeper
    return None


def parse_config(value: Mapping[str, Any], name: str) -> Config:
    """Nested dictionaries to a config, or a sentence about the first thing that is wrong."""
    try:
        return Config.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = [*options(Config()), *Config.model_fields]
        near = did_you_mean(key, known, "fastmos train --help lists the keys")
        raise InputError(f"{name}: no key '{key}'{near}") from None
    raise InputError(f"{name}: {key}: {lower_first(first['msg'])}, not {first['input']!r}") from None


def write_config(config: Config) -> str:
    """The config as YAML, every value spelt out."""
    import yaml

    return str(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


def options(config: Config) -> dict[str, Any]:
    """Every value by its dotted name, as in `model.layers`."""
    return dict(_flat("", config.model_dump(mode="json")))


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", value


def check(config: Config) -> None:
    """Refuse a config that contradicts itself, before any work."""
    for contradiction in _contradictions(config):
        raise InputError(f"the config contradicts itself: {contradiction}")


# What a body has not: keys of the section `model`, by its kind or by the task.
FOREIGN = {
    "transformer": ("embedding", "embedding_dropout", "input_feeding", "init"),
    "lstm": ("inner", "inner_dropout", "heads", "norm"),
    "language-model": ("embedding_dropout", "input_feeding"),
    "captioning": ("input_feeding",),
}


def _contradictions(config: Config) -> Iterator[str]:
    data, codings, model, head, training = config.data, config.codings, config.model, config.head, config.training
    translation, captioning = config.task == "translation", config.task == "captioning"
    language = config.task == "language-model"
    for split, texts in (("train", data.train), ("valid", data.valid)):
        if not texts.target:
            yield f"data.{split}.target names no file"
        if translation and not texts.source:
            yield f"data.{split}.source names no file, but the task is translation"
    if captioning != bool(data.features):
        yield "data.features and the task captioning go together; give both or neither"
    if not captioning and training.measure == "cider":
        yield "training.measure cider is for captioning; set it to bleu or nats"
    if language and (data.train.source or data.valid.source):
        yield "a language model has no source; leave out data.*.source"
    if not translation and model.kind != "lstm":
        yield f"a {config.task} model is an lstm, not a {model.kind}; set model.kind to lstm"
    if language and training.measure == "bleu":
        yield "a language model has no BLEU; set training.measure to nats"
    if not translation and codings.joint:
        yield f"codings.joint needs a source text; the task {config.task} has none"
    if codings.joint and codings.target.language:
        yield f"codings.joint needs tokenised text, not raw text in codings.target.language {codings.target.language}"
    for side, coding in (("source", codings.source), ("target", codings.target)):
        if (coding.kind == "file") != bool(coding.path):
            yield f"codings.{side}.path and kind file go together; give both or neither"
    if head.kind == "softmax" and head.mixtures > 1:
        yield f"head.mixtures is {head.mixtures}, but a softmax is one; set head.kind to mos or head.mixtures to 1"
    if head.tied and head.width not in (0, output_width(config)):
        yield f"head.tied needs head.width {head.width} to be that of the embedding, {output_width(config)}"
    if head.kind == "softmax" and head.width not in (0, model.width):
        yield f"head.width {head.width} is for mixtures; one softmax is as wide as the decoder, {model.width}"
    if head.tied and head.kind == "softmax" and output_width(config) != model.width:
        yield f"head.tied with one softmax needs model.embedding {model.embedding} to equal model.width {model.width}"
    contexts = output_width(config) if head.tied else head.width or model.width
    if head.near_softmax and contexts != model.width:
        yield f"head.near_softmax needs contexts as wide as the decoder, {model.width}, not {contexts}"
    if model.kind == "transformer" and model.width % (2 * model.heads):
        yield f"model.width {model.width} is not a multiple of twice model.heads, {2 * model.heads}"
    for body in (model.kind, config.task):
        for name in FOREIGN.get(body, ()):
            if getattr(model, name) != getattr(Model(), name):
                yield f"model.{name} means nothing to a model of kind {body}; leave it out"
    if model.kind == "lstm" and translation and model.width % 2:
        yield f"model.width {model.width} is odd, but the encoder has half of it a direction"
    if model.share_embeddings and not (codings.joint and model.kind == "transformer"):
        yield "model.share_embeddings needs a transformer and codings.joint"
    if bool(training.batch_sentences) == bool(training.batch_tokens):
        yield "give one of training.batch_sentences and training.batch_tokens"
    if training.window and (not language or training.batch_tokens):
        yield "training.window is for a language model that reads training.batch_sentences streams"
    if not training.epochs and not training.steps:
        yield "training.epochs and training.steps are both 0; training would never end"
    if training.schedule == "linear" and not training.steps:
        yield "a linear schedule ends at training.steps, which is 0"
    if training.schedule == "linear" and training.warmup >= training.steps > 0:
        yield f"training.warmup {training.warmup} is not below training.steps {training.steps}"
    if training.schedule == "inverse-sqrt" and not training.warmup:
        yield "an inverse-sqrt schedule needs training.warmup"
    if training.schedule == "plateau" and training.warmup:
        yield "a plateau schedule has no warm-up; set training.warmup to 0"


def output_width(config: Config) -> int:
    """Width of the target embedding."""
    model = config.model
    return model.width if model.kind == "transformer" else model.embedding or model.width


def data_path(name: str, base: Path) -> Path:
    """A file named in a config: ${NAME} filled in from the environment, relative to the YAML file's folder."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise InputError(
                f"{name}: the environment has no {match[1]}; set it, as in export {match[1]}=/path/to/data"
            )
        return os.environ[match[1]]

    return base / re.sub(r"\$\{(\w+)\}", value, name)
