"""What every task is asked for: tokenizers, datasets, batches, a model, evaluation, and what a trained model can do."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from torch import nn

from fastmos.config import Config, Search, Table, TokenizerConfig, TokenizerFile, check, data_path, load_class
from fastmos.config.models import RecurrentConfig
from fastmos.data.batches import ContiguousBatches, SentenceBatches
from fastmos.data.tokenized import encode_files
from fastmos.errors import InputError
from fastmos.files import read_json, read_lines, write_json
from fastmos.heads import best_shortlist
from fastmos.models import Generator, uniform_
from fastmos.run_folder import RunFolder
from fastmos.search import Hypothesis
from fastmos.tasks.dataset import Dataset
from fastmos.tasks.evaluation import Evaluation, Evaluator
from fastmos.tokenizers import SPECIALS, Pretokenizer, Tokenizer, load_tokenizer
from fastmos.tokenizers.table import LAYOUTS

if TYPE_CHECKING:
    from PIL.Image import Image

    from fastmos.vision.backbones import Backbone

Split = Literal["train", "valid", "test"]
Texts = list[str] | dict[str, str]  # in order, or by image
Learn = Callable[[TokenizerConfig, list[Path], str], Tokenizer]  # section, training text, side -> tokenizer


class Task(ABC):
    """One experiment's task: its config, the folder that the config's files are relative to, and its run folder."""

    metrics: ClassVar[tuple[str, ...]]  # that early stopping may use
    use: ClassVar[str]  # what a trained model is used for, to tell whoever asks for something else
    train_files: ClassVar[dict[str, str]]  # key in data.train -> a name, in the order of fastmos init --train
    text_sides: ClassVar[tuple[str, ...]] = ("target",)  # which of them are text, and have a tokenizer
    usual_settings: ClassVar[dict[str, Any]]  # what fastmos init writes for this task alone

    def __init__(self, config: Config, base: Path, folder: RunFolder) -> None:
        self.config, self.base, self.folder = config, base, folder

    # ---- before any work

    def check(self) -> None:
        """Refuse a config that cannot be trained, or that names files which are not there."""
        check(self.config)
        for problem in self.problems():
            raise InputError(f"the config is not usable: {problem}")
        for name in self.files():
            if not self.path(name).is_file():
                raise InputError(f"{self.path(name)}: no such file (named in the config)")

    def problems(self) -> Iterator[str]:
        """What is wrong with the config, as far as only this task knows."""
        metric = self.config.training.early_stopping_metric
        if metric not in self.metrics:
            fitting = " or ".join(self.metrics)
            yield f"training.early_stopping_metric {metric} does not exist for {self.config.task}; set it to {fitting}"
        listed = getattr(self.config.head, "shortlist", 0)
        size = getattr(self.config.tokenizers.target, "vocab_size", listed)
        if listed >= size + len(SPECIALS):
            yield f"head.shortlist is {listed}, and tokenizers.target.vocab_size {size}; set it lower, or to 0"
        board = self.config.training.log_to  # the name of its package, too
        if board != "none" and find_spec(board) is None:
            yield f"training.log_to {board} needs the package {board}; pip install it, or set it to none"

    def files(self) -> list[str]:
        """Files that training needs, as the config names them."""
        data, tokenizers = self.config.data, self.config.tokenizers
        names = [name for files in (data.train, data.valid) for name in (files.source, files.target)]
        paths = [side.path for side in (tokenizers.source, tokenizers.target) if isinstance(side, TokenizerFile)]
        return [name for name in (*names, *paths) if name]

    def path(self, name: str) -> Path:
        """A file that the config names."""
        return data_path(name, self.base)

    # ---- tokenizers and data

    @classmethod
    def texts(cls, split: str, source: Path | None, target: Path) -> dict[str, Texts]:
        """Sources and references of a split, for a reader."""
        sources: dict[str, Texts] = {"source": list(read_lines(source))} if source else {}
        return {**sources, "reference": list(read_lines(target))}

    def text(self, split: Split, side: str) -> Path:
        """The text file of a side (source, target) of a split."""
        return self.path(getattr(getattr(self.config.data, split), side))

    @abstractmethod
    def prepare(self, learn: Learn) -> None:
        """Put into the run folder what training starts from: tokenizers, learned if no state depends on them yet."""

    @cached_property
    def target(self) -> Tokenizer:
        """The tokenizer of the outputs."""
        return load_tokenizer(self.folder.target)

    @property
    def tokenizers(self) -> list[Tokenizer]:
        """In the order of a dataset's texts."""
        return [self.target]

    @abstractmethod
    def dataset(self, split: Split) -> Dataset:
        """A split of the config, tokenized once into the cache."""

    @abstractmethod
    def evaluation_data(self, split: Split, sources: Sequence[str] | None, references: Sequence[str] | None) -> Dataset:
        """The lines given, or else a split of the config, in memory."""

    def encoded(self, path: Path, tokenizer: Tokenizer) -> Any:
        """A text file as tokens, from the cache or into it."""
        cache = self.config.data.cache
        return encode_files([path], tokenizer, self.path(cache) if cache else self.folder.cache)

    def training_batches(
        self, dataset: Dataset, rank: int, world: int, share: int | None = None
    ) -> SentenceBatches | ContiguousBatches:
        """The batches of one of `world` processes; a step is as large as for `share` of them."""
        training = self.config.training
        return dataset.batches(
            max_tokens=training.batch_tokens or None,
            max_sentences=training.batch_size or None,
            seed=training.seed,
            rank=rank,
            world=world,
            max_length=self.config.data.max_length,
            share=share,
        )

    # ---- the model

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """The sizes that a body takes from the data: of vocabularies and features."""

    def build_model(self) -> Generator:
        """The generator of the config, its parameters drawn from the seed."""
        torch.manual_seed(self.config.training.seed)
        model, head = self.config.model, self.config.head
        body: nn.Module = load_class(model.factory)(**self.sizes(), **model.arguments())
        arguments = head.arguments()
        if head.tie_embedding:
            arguments |= {"embedding": body.embedding, "embedding_size": model.target_embedding_size}
        if hasattr(head, "shortlist"):
            arguments["shortlist"] = self._shortlist()
        output: nn.Module = load_class(head.factory)(model.hidden_size, len(self.target), **arguments)
        generator = Generator(body, output)
        if isinstance(model, RecurrentConfig):
            uniform_(generator, model.init_range)
        if getattr(head, "near_softmax", False):
            output.near_softmax_()  # type: ignore[operator]
        return generator

    def _shortlist(self) -> list[int]:
        """The tokens on the shortlist of the run folder."""
        tokens = read_json(self.folder.shortlist)
        right = isinstance(tokens, list) and all(type(token) is int for token in tokens) and tokens
        if not right or tokens != sorted(set(tokens)) or not 0 <= tokens[0] <= tokens[-1] < len(self.target):
            raise InputError(f"{self.folder.shortlist}: is no list of tokens in order; is the run folder complete?")
        return list(tokens)

    def choose_shortlist(self, dataset: Dataset) -> None:
        """Put into the run folder which tokens are frequent, for a head that treats those otherwise."""
        head, vocab_size = self.config.head, len(self.target)
        size = getattr(head, "shortlist", None)
        if size is None or self.folder.state.exists():
            return
        if size >= vocab_size:
            raise InputError(f"head.shortlist is {size}; it must be below the {vocab_size:,} tokens of the vocabulary")
        counts = np.bincount(dataset.target.tokens, minlength=vocab_size)
        counts[self.target.eos] = len(dataset.target)
        if not size and head.type == "shortlist":
            size = len(best_shortlist(torch.from_numpy(counts), head.num_mixtures))
        # With pad, bos and unk a vocabulary sorted by frequency starts with its shortlist: no row is moved then.
        counts[[self.target.pad, self.target.bos, self.target.unk]] = counts.max()
        frequent = np.argsort(-counts, kind="stable")[: size or max(1, vocab_size // 10)]
        write_json(self.folder.shortlist, sorted(frequent.tolist()))

    def start_from(self, dataset: Dataset, model: Generator) -> None:  # noqa: B027 (most tasks take nothing)
        """Set what a new model takes from the training data beside its sizes."""

    # ---- evaluation and use

    @abstractmethod
    def evaluate(self, dataset: Dataset, evaluator: Evaluator, language: str | None = None) -> Evaluation:
        """The figures of validation and of `fastmos evaluate`; `language` asks for the BLEU that is usual for WMT."""

    def translate(
        self, model: Generator, lines: Sequence[str], search: Search, nbest: int, overlong: str
    ) -> list[list[Hypothesis]]:
        raise self._refusal("translate")

    def caption(
        self, model: Generator, images: "Sequence[Image]", search: Search, nbest: int
    ) -> list[list[Hypothesis]]:
        raise self._refusal("caption images")

    def caption_features(
        self, model: Generator, features: torch.Tensor, search: Search, nbest: int
    ) -> list[list[Hypothesis]]:
        raise self._refusal("caption images")

    @property
    def backbone(self) -> "Backbone":
        """The network that turns images into features."""
        raise self._refusal("caption images")

    def sample(
        self, model: Generator, count: int, temperature: float, top_p: float | None, seed: int, prompt: str
    ) -> list[Hypothesis]:
        raise self._refusal("make up text")

    def score(self, model: Generator, sources: Sequence[str] | None, targets: Sequence[str]) -> list[float]:
        raise self._refusal("score text")

    def _refusal(self, asked: str) -> InputError:
        return InputError(f"this run was trained for {self.config.task} and cannot {asked}; {self.use}")


def learn_tokenizer(section: TokenizerConfig, files: Sequence[Path], base: Path) -> Tokenizer:
    """The tokenizer of a section, learned from text files or read from its own file."""
    pretokenizer = Pretokenizer(section.language or None, section.lowercase)
    if isinstance(section, TokenizerFile):
        path = data_path(section.path, base)
        tokenizer = load_tokenizer(path)
        known = tokenizer.pretokenizer
        if pretokenizer not in (Pretokenizer(), known):  # a file knows its own
            raise InputError(
                f"{path}: was made for language '{known.language or ''}' and lowercase {known.lowercase}, "
                f"but the config says '{section.language}' and {section.lowercase}; leave both out"
            )
        return tokenizer
    arguments = section.arguments()
    if isinstance(section, Table):
        arguments["layout"] = section.layout if section.layout in LAYOUTS else "frequency"
    lines = chain.from_iterable(read_lines(file) for file in files)
    learned: Tokenizer = load_class(section.factory).learn(lines, **arguments, pretokenizer=pretokenizer)
    return learned
