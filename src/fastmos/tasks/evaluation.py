"""Evaluation of a model, during and after training: likelihood, metrics of its outputs, use of its mixture."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch

from fastmos.config import METRICS, Search
from fastmos.data.tokenized import TokenizedText
from fastmos.distributed import World
from fastmos.files import written_whole
from fastmos.heads import Usage
from fastmos.metrics import Likelihood, LikelihoodReport, Score
from fastmos.models import Generator, packed
from fastmos.search import Hypothesis
from fastmos.tasks.dataset import Dataset
from fastmos.tasks.decoding import Inputs, Show, no_progress, score_lines, score_running_text, search_outputs
from fastmos.tokenizers import Tokenizer

T = TypeVar("T")
Array = np.ndarray[Any, np.dtype[Any]]
USAGE_TOKENS = 4096  # that the use of a mixture is measured on
LABELS = {"bleu": "BLEU", "chrf": "chrF", "text_bleu": "detokenized BLEU", "compound_bleu": "compound-split BLEU"}


class Interruptible(Protocol):
    """Does long work in which no process waits for another, so that a signal may end it."""

    def __call__(self, work: Callable[[], T]) -> T: ...


def at_once(work: Callable[[], T]) -> T:
    return work()


@dataclass(frozen=True)
class Evaluation:
    """How good a model is on a dataset."""

    likelihood: LikelihoodReport
    scores: dict[str, Score] = field(default_factory=dict)  # of its outputs: bleu, chrf, ...
    outputs: list[str] | None = None  # None: a language model has none
    seconds: float = 0.0  # that the outputs took
    usage: Usage | None = None  # of the mixture's components; None for one softmax

    def metric(self, name: str) -> float:
        """A metric of early stopping; the larger, the better."""
        return -self.likelihood.nll_per_word if name == "nll" else self.scores[name].value

    def record(self) -> dict[str, Any]:
        """All figures, for JSON."""
        record: dict[str, Any] = {**asdict(self.likelihood), "perplexity": self.likelihood.perplexity}
        for name, score in self.scores.items():
            record |= {name: score.value, f"{name}_signature": score.signature}
        return record | self._usage_record()

    def speed(self) -> dict[str, float]:
        """Time of the outputs, for JSON."""
        if self.outputs is None:
            return {}
        return {"seconds": self.seconds, "sentences_per_second": len(self.outputs) / self.seconds}

    def _usage_record(self) -> dict[str, Any]:
        if self.usage is None:
            return {}
        return {"effective_mixtures": self.usage.effective, "mixture_share": [round(x, 4) for x in self.usage.share]}

    def headline(self) -> str:
        """The most important figures on one line."""
        parts = [f"{METRICS[name]} {score.value:.2f}" for name, score in self.scores.items() if name in METRICS]
        parts.append(f"NLL per word {self.likelihood.nll_per_word:.4f} (perplexity {self.likelihood.perplexity:.2f})")
        if self.usage is not None:
            parts.append(f"{self.usage.effective:.1f} of {len(self.usage.share)} mixtures in use")
        return ", ".join(parts)

    def summary(self) -> str:
        """All figures, for the reader."""
        return "\n".join([*self._score_lines(), self._likelihood_line(), *self._speed_lines("sentences")])

    def _score_lines(self) -> list[str]:
        return [
            f"{LABELS.get(name, name)} {score.value:.2f} ({score.signature})" for name, score in self.scores.items()
        ]

    def _likelihood_line(self) -> str:
        report = self.likelihood
        known = f"{report.nll_per_known_word:.4f} for known words, {report.oov_rate:.2%} unknown"
        return f"NLL per word {report.nll_per_word:.4f}, perplexity {report.perplexity:.2f} ({known})"

    def _speed_lines(self, what: str) -> list[str]:
        if self.outputs is None:
            return []
        return [f"{len(self.outputs) / self.seconds:,.1f} {what}/s ({len(self.outputs):,} {what})"]

    def write_outputs(self, path: Path) -> None:
        """One output a line."""
        write_lines(path, self.outputs or [])


@dataclass(frozen=True)
class Evaluator:
    """A model and the processes that evaluate it together, each a share of the lines; results are equal everywhere."""

    model: Generator
    tokenizer: Tokenizer  # of the outputs
    search: Search
    world: World
    interruptible: Interruptible = at_once
    show: Show = no_progress
    quick: bool = False  # leave out what takes long and selects nothing: METEOR
    int8: bool = False  # search with weights of 8 bits; likelihoods stay those of all bits

    def likelihood(self, dataset: Dataset) -> LikelihoodReport:
        """Of the lines, each for itself."""
        mine = dataset.select(range(self.world.rank, len(dataset.target), self.world.size))
        scores = self.interruptible(lambda: score_lines(self.model, mine, self.world.device))
        sums = astuple(likelihood_of(np.concatenate([np.empty(0), *scores]), mine.target, self.tokenizer))
        nll, known_nll, *counts = self.world.sum(sums)
        return Likelihood(nll, known_nll, *map(int, counts)).report()

    def running_likelihood(self, text: TokenizedText, length: int) -> LikelihoodReport:
        """Of running text, read in windows of `length` tokens; every process reads it all."""
        nll = self.interruptible(lambda: score_running_text(self.model, text, length, self.world.device))
        return likelihood_of(nll, text, self.tokenizer).report()

    def outputs(self, inputs_of: Callable[[range], Inputs], count: int) -> list[str]:
        """The best output for each of `count` inputs."""
        mine, model = inputs_of(range(self.world.rank, count, self.world.size)), packed(self.model, self.int8)
        found: list[list[Hypothesis]] = self.interruptible(
            lambda: search_outputs(model, self.tokenizer, mine, self.search, self.world.device, show=self.show)
        )
        tokens: list[list[int]] = [[]] * count
        for rank, part in enumerate(self.world.gather([hypotheses[0].tokens for hypotheses in found])):
            tokens[rank :: self.world.size] = part
        return self.tokenizer.decode_lines(tokens)

    def first(self, work: Callable[[], T]) -> T:
        """What the first process finds, for all."""
        found = self.interruptible(lambda: work() if self.world.first else None)
        return self.world.gather(found)[0]  # type: ignore[return-value]  # the first process has it

    @torch.no_grad()
    def usage(self, dataset: Dataset) -> Usage | None:
        """How a mixture uses its components on one batch of the dataset, always the same; None for one softmax."""
        if self.model.head.mixtures == 1:
            return None
        self.model.eval()
        batches = dataset.batches(max_tokens=max(USAGE_TOKENS, dataset.longest), keep_empty=True)
        batch = next(batches.epoch(0)).to(self.world.device)
        hidden, _ = self.model.body(batch)
        usage: Usage = self.model.head.usage(hidden[batch.target != self.tokenizer.pad])  # type: ignore[operator]
        return usage


def likelihood_of(nll: Array, text: TokenizedText, tokenizer: Tokenizer) -> Likelihood:
    """Of a text whose negative log-likelihoods, in the order of tokens and eos, are `nll`."""
    sums = Likelihood()
    if len(text):
        tokens = np.insert(text.tokens.astype(np.int64), text.offsets[1:], tokenizer.eos)  # all lines, each with eos
        sums.add(torch.from_numpy(nll)[None], torch.from_numpy(tokens)[None], tokenizer)
    return sums


def write_lines(path: Path, lines: Sequence[str]) -> None:
    with written_whole(path) as file:
        file.writelines(f"{line}\n" for line in lines)
