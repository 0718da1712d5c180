"""From a config to its parts: codings, encoded text, batches, model."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import torch
from torch import nn

from fastmos.codings import BPECoding, Coding, TableCoding, WordCoding, load_coding
from fastmos.codings.text import Text
from fastmos.data import ContiguousBatches, EncodedText, SentenceBatches, check_pairs, encode_files
from fastmos.data.captions import CaptionBatches, Pictures
from fastmos.errors import InputError
from fastmos.files import read_lines
from fastmos.heads import MixtureOfSoftmaxes, build_head
from fastmos.models import AttentionLSTM, Captioner, Generator, LanguageModel, Transformer, uniform_
from fastmos.training.config import CodingChoice, Config, Texts, data_path
from fastmos.training.folder import RunFolder


@dataclass(frozen=True)
class Pair:
    """Both sides of something; a language model has no source, and captions have pictures."""

    source: EncodedText | None
    target: EncodedText
    pictures: Pictures | None = None

    def texts(self) -> list[EncodedText]:
        return [text for text in (self.source, self.target) if text is not None]


def check_files(config: Config, base: Path) -> None:
    """All files a run needs are there, before any work."""
    data, codings = config.data, config.codings
    names = [name for texts in (data.train, data.valid) for name in (texts.source, texts.target) if name]
    for name in [*names, data.features, codings.source.path, codings.target.path]:
        if name and not data_path(name, base).is_file():
            raise InputError(f"{data_path(name, base)}: no such file (named in the config)")


def learn_codings(config: Config, base: Path, folder: RunFolder) -> None:
    """Put the codings into the run folder. Until a state is saved nothing depends on them, so they are learnt anew."""
    if folder.state.exists():
        return
    train, choice = config.data.train, config.codings
    if config.task == "translation" and not choice.joint:
        learn_coding(choice.source, [data_path(train.source, base)], base).save(folder.source)
    names = [train.source, train.target] if choice.joint else [train.target]
    coding = learn_coding(choice.target, [data_path(name, base) for name in names], base)
    if choice.joint:
        coding.save(folder.source)
    coding.save(folder.target)


def learn_coding(choice: CodingChoice, files: Iterable[Path], base: Path) -> Coding:
    """The coding of a choice, learnt from text files or made before."""
    text = Text("moses" if choice.language else "none", choice.language or None, choice.lowercase)
    if choice.kind == "file":
        path = data_path(choice.path, base)
        coding = load_coding(path)
        if text not in (Text(), coding.text):  # a file knows its own, and need not be told
            raise InputError(
                f"{path}: was made for language '{coding.text.language or ''}' and lowercase {coding.text.lowercase}, "
                f"but the config says '{choice.language}' and {choice.lowercase}; leave both out"
            )
        return coding
    lines = chain.from_iterable(read_lines(file) for file in files)
    if choice.kind == "words":
        return WordCoding.learn(lines, size=choice.codes, unk_share=choice.unk_share, text=text)
    if choice.kind == "bpe":
        return BPECoding.learn(lines, size=choice.codes, text=text)
    return TableCoding.learn(
        lines, size=choice.codes, words=choice.words, table=choice.fill, unk_share=choice.unk_share, text=text
    )


def load_codings(folder: RunFolder) -> tuple[Coding | None, Coding]:
    """The codings of a run folder; a language model has no source."""
    return load_coding(folder.source) if folder.source.exists() else None, load_coding(folder.target)


def encode(config: Config, texts: Texts, source: Coding | None, target: Coding, base: Path, folder: RunFolder) -> Pair:
    """A split in codes, from the cache or into it."""
    cache = cache_folder(config, base, folder)
    sides = Pair(
        None if source is None else encode_files([data_path(texts.source, base)], source, cache),
        encode_files([data_path(texts.target, base)], target, cache),
    )
    if sides.source is not None:
        check_pairs(sides.source, sides.target)
    return sides


def cache_folder(config: Config, base: Path, folder: RunFolder) -> Path:
    """Where encoded text goes."""
    return data_path(config.data.cache, base) if config.data.cache else folder.cache


def training_batches(config: Config, train: Pair, rank: int, world: int) -> SentenceBatches | ContiguousBatches:
    """The batches of this process."""
    training = config.training
    if training.window:
        streams = training.batch_sentences
        return ContiguousBatches(train.target, streams=streams, length=training.window, rank=rank, world=world)
    if train.pictures is not None:
        return CaptionBatches(
            train.target,
            train.pictures,
            tokens=training.batch_tokens or None,
            sentences=training.batch_sentences or None,
            seed=training.seed,
            rank=rank,
            world=world,
            max_length=config.data.max_length,
        )
    return SentenceBatches(
        train.target,
        train.source,
        tokens=training.batch_tokens or None,
        sentences=training.batch_sentences or None,
        seed=training.seed,
        rank=rank,
        world=world,
        max_length=config.data.max_length,
    )


def build_model(config: Config, source: Coding | None, target: Coding, features: int = 0) -> Generator:
    """The generator of a config, its parameters drawn from the seed; a captioner sees `features` numbers an image."""
    torch.manual_seed(config.training.seed)
    model, head = config.model, config.head
    body = _body(config, source, target, features)
    embedding = body.embedding if head.tied else None
    assert embedding is None or isinstance(embedding, nn.Embedding)
    output = build_head(
        head.kind,
        model.width,
        len(target),
        head.mixtures,
        width=embedding.embedding_dim if embedding is not None else head.width or None,
        embedding=embedding,
        dropout=head.dropout,
    )
    generator = Generator(body, output)
    if model.kind == "lstm":
        uniform_(generator, model.init)
    if isinstance(output, MixtureOfSoftmaxes) and head.near_softmax:
        output.near_softmax_()
    return generator


def _body(config: Config, source: Coding | None, target: Coding, features: int) -> nn.Module:
    model = config.model
    embedding = model.embedding or model.width
    if config.task == "captioning":
        return Captioner(
            len(target),
            features,
            width=model.width,
            embedding=embedding,
            layers=model.layers,
            dropout=model.dropout,
            embedding_dropout=model.embedding_dropout,
        )
    if source is None:
        return LanguageModel(
            len(target), width=model.width, embedding=embedding, layers=model.layers, dropout=model.dropout
        )
    if model.kind == "lstm":
        return AttentionLSTM(
            len(source),
            len(target),
            width=model.width,
            embedding=embedding,
            layers=model.layers,
            dropout=model.dropout,
            embedding_dropout=model.embedding_dropout,
            input_feeding=model.input_feeding,
        )
    return Transformer(
        len(source),
        len(target),
        width=model.width,
        inner=model.inner,
        heads=model.heads,
        layers=model.layers,
        dropout=model.dropout,
        inner_dropout=model.inner_dropout,
        norm=model.norm,
        share_embeddings=model.share_embeddings,
    )
