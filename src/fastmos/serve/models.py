"""The runs that a server has: what is told about them, and what they can be asked, in batches."""

import os
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from fastmos.errors import InputError
from fastmos.files import read_lines
from fastmos.heads import Head
from fastmos.inference.inside import Explanation, explain
from fastmos.inference.run import Output, Run, load
from fastmos.serve.limits import MAX_BEAM

ROWS = 320  # hypotheses searched at once: 64 sentences with a beam of 5
SCORED = 64  # lines at once
EXAMPLES = 24  # lines of the test text, offered to those who want to try
LONGEST_EXAMPLE = 120  # characters


@dataclass(frozen=True)
class Answer:
    """The outputs for one line or image, best first, and how each came about if that was asked."""

    outputs: list[Output]
    inside: list[Explanation] | None = None
    cut: bool = False  # was the line too long?


@dataclass(frozen=True, eq=False)
class Served:
    """A run under the name that clients use."""

    name: str
    run: Run
    examples: bool = False  # may lines of the file that its config names as test text be shown?

    @property
    def task(self) -> str:
        return self.run.config.task

    @cached_property
    def about(self) -> dict[str, Any]:
        """What a client may want to know; no paths."""
        config, head = self.run.config, self.run.model.head
        assert isinstance(head, Head)
        return {
            "name": self.name,
            "task": self.task,
            "body": config.model.type,
            "head": config.head.type,
            "mixtures": head.mixtures,
            "vocab_size": len(self.run.target),
            "parameters": sum(weight.numel() for weight in self.run.model.parameters()),
            "beam_size": config.search.beam_size,
            "max_length": config.data.max_length,
            "tokenized": self.run.task.tokenizers[0].pretokenizer.language is None,
            "lowercase": self.run.task.tokenizers[0].pretokenizer.lowercase,
            "examples": self._examples() if self.examples else [],
        }

    def _examples(self) -> list[str]:
        """Short lines of the test text, if it is still there."""
        files = self.run.config.data.test
        name = {"translation": files.source, "language-modeling": files.target}.get(self.task)
        if not name:
            return []
        with suppress(InputError, OSError):
            lines = (line for line in read_lines(self.run.task.path(name)) if 0 < len(line) <= LONGEST_EXAMPLE)
            return list(dict.fromkeys(islice(lines, EXAMPLES)))
        return []

    def is_cut(self, line: str) -> bool:
        """Has the line more tokens than lines had in training? Then the model sees its beginning."""
        return len(self.run.task.tokenizers[0].encode(line)) > self.run.config.data.max_length

    def square(self, image: Any) -> Any:
        """What the run's backbone sees of a PIL image."""
        return self.run.backbone.square(image)

    def check(self, folder: Path) -> None:
        """Refuse a run whose own beam is wider than what clients may ask for."""
        size = self.run.config.search.beam_size
        if size > MAX_BEAM:
            raise InputError(
                f"{folder}: search.beam_size is {size}, more than {MAX_BEAM}; make it smaller in the run's config.yaml"
            )

    def prepare(self) -> None:
        """Whatever is made once, so that no request waits for it."""
        _ = self.run.searched
        if self.task == "captioning":
            self.run.backbone.network.to(self.run.device)
        else:
            self.run.score([""] if self.task == "translation" else None, [""])


def load_served(folders: Sequence[Path], device: str | None, examples: bool = False) -> list[Served]:
    """The runs of these folders, named after them."""
    warnings.filterwarnings("ignore", message=".* lines were cut to .* tokens")  # the answer says so
    names: list[str] = []
    for folder in folders:
        base = name = Path(os.path.abspath(folder)).name or "run"
        number = 2
        while name in names:
            name, number = f"{base}-{number}", number + 1
        names.append(name)
    found = [Served(name, load(folder, device), examples) for name, folder in zip(names, folders, strict=True)]
    for one, folder in zip(found, folders, strict=True):
        one.check(folder)
    for one in found:
        one.prepare()
    return found


# ---- kinds of questions, for the batcher


@dataclass(frozen=True)
class Search:
    """What is answered by the outputs of a search."""

    model: Served
    beam_size: int
    nbest: int
    inside: bool

    @property
    def batch_size(self) -> int:
        return max(1, ROWS // self.beam_size)


class Translate(Search):
    """Lines -> answers."""

    def answer(self, lines: Sequence[str]) -> list[Answer]:
        run = self.model.run
        found = run.translate(lines, nbest=self.nbest, beam_size=self.beam_size)
        return [
            Answer(
                outputs,
                explain(run, [output.tokens for output in outputs], line=line) if self.inside else None,
                self.model.is_cut(line),
            )
            for line, outputs in zip(lines, found, strict=True)
        ]


class Caption(Search):
    """Squares of images -> answers."""

    def answer(self, squares: Sequence[Any]) -> list[Answer]:
        run = self.model.run
        features = run.backbone.features(squares)
        found = run.caption_features(features, nbest=self.nbest, beam_size=self.beam_size)
        return [
            Answer(
                outputs,
                explain(run, [output.tokens for output in outputs], features=image) if self.inside else None,
            )
            for image, outputs in zip(features, found, strict=True)
        ]


@dataclass(frozen=True)
class Score:
    """Pairs of source (None of a language model) and target -> log-probability, and how it came about if asked."""

    model: Served
    inside: bool
    batch_size: int = SCORED

    def answer(self, pairs: Sequence[tuple[str | None, str]]) -> list[tuple[float, Explanation | None]]:
        run = self.model.run
        sources = [source for source, _ in pairs if source is not None]
        scores = run.score(sources if sources else None, [target for _, target in pairs])
        if not self.inside:
            return [(score, None) for score in scores]
        return [
            (score, explain(run, [run.target.encode(target)], line=source)[0])
            for score, (source, target) in zip(scores, pairs, strict=True)
        ]


@dataclass(frozen=True)
class Generate:
    """Prompts -> sampled lines; one at a time, since a batch is drawn with one seed."""

    model: Served
    lines: int
    temperature: float
    top_p: float | None
    seed: int
    batch_size: int = 1

    def answer(self, prompts: Sequence[str]) -> list[list[str]]:
        return [
            self.model.run.sample(
                self.lines, temperature=self.temperature, top_p=self.top_p, seed=self.seed, prompt=prompt
            )
            for prompt in prompts
        ]
