"""Language modeling: lines, or running text, evaluated by perplexity."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fastmos.data.batches import Batch, ContiguousBatches, SentenceBatches, decoding_batch
from fastmos.errors import InputError
from fastmos.models import Generator
from fastmos.search import Hypothesis, sample
from fastmos.tasks.base import Learn, Split
from fastmos.tasks.dataset import Dataset
from fastmos.tasks.evaluation import Evaluation, Evaluator
from fastmos.tasks.text import TextTask


@dataclass(frozen=True)
class Prompted:
    """A model for search that has read some tokens: its first step reads the last of them instead of bos."""

    model: Generator
    tokens: list[int]

    def start(self, batch: Batch) -> tuple[bool, Any]:
        state = self.model.start(batch)
        for token in self.tokens[:-1]:
            _, state = self.model.step(self._rows(batch.index, token), state)
        return True, state

    def step(self, tokens: Tensor, state: tuple[bool, Any]) -> tuple[Any, tuple[bool, Any]]:
        first, inner = state
        found, inner = self.model.step(self._rows(tokens, self.tokens[-1]) if first else tokens, inner)
        return found, (False, inner)

    def reorder(self, state: tuple[bool, Any], rows: Tensor, sentences: Tensor | None = None) -> tuple[bool, Any]:
        return state[0], self.model.reorder(state[1], rows, sentences)

    def _rows(self, like: Tensor, token: int) -> Tensor:
        return torch.full_like(like, token, device=next(self.model.parameters()).device)


class LanguageModeling(TextTask):
    """Targets without sources."""

    metrics: ClassVar[tuple[str, ...]] = ("nll",)
    use: ClassVar[str] = "see fastmos score and fastmos sample"
    train_files: ClassVar[dict[str, str]] = {"target": "train.txt"}
    usual_settings: ClassVar[dict[str, Any]] = {
        "training.early_stopping_metric": "nll",
        "training.batch_size": 32,
        "training.bptt_length": 35,
    }

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        data, training = self.config.data, self.config.training
        if data.train.source or data.valid.source:
            yield "a language model has no source; leave out data.*.source"
        if data.features:
            yield "data.features is for captioning; leave it out"
        if self.config.tokenizers.joint:
            yield "tokenizers.joint needs a source text, which language modeling does not have"
        if training.bptt_length and training.batch_tokens:
            yield "training.bptt_length needs training.batch_size, the number of streams, not batch_tokens"

    def prepare(self, learn: Learn) -> None:
        if not self.folder.state.exists():
            text = [self.path(self.config.data.train.target)]
            learn(self.config.tokenizers.target, text, "target").save(self.folder.target)

    def dataset(self, split: Split) -> Dataset:
        return Dataset(self.encoded(self.path(getattr(self.config.data, split).target), self.target))

    def dataset_of(self, sources: Sequence[str] | None, targets: Sequence[str]) -> Dataset:
        if sources is not None:
            raise InputError("this run is a language model, which has no sources; give the text alone")
        return super().dataset_of(None, targets)

    def training_batches(
        self, dataset: Dataset, rank: int, world: int, share: int | None = None
    ) -> SentenceBatches | ContiguousBatches:
        training = self.config.training
        if not training.bptt_length:
            return super().training_batches(dataset, rank, world, share)
        return ContiguousBatches(
            dataset.target,
            streams=training.batch_size,
            length=training.bptt_length,
            rank=rank,
            world=world,
            share=share,
        )

    def sizes(self) -> dict[str, int]:
        return {"vocab_size": len(self.target)}

    def evaluate(self, dataset: Dataset, evaluator: Evaluator, language: str | None = None) -> Evaluation:
        if language is not None:
            raise InputError("this run is a language model, which has no BLEU; leave language out")
        length = self.config.training.bptt_length
        if length:
            likelihood = evaluator.running_likelihood(dataset.target, length)
        else:
            likelihood = evaluator.likelihood(dataset)
        return Evaluation(likelihood, usage=evaluator.usage(dataset))

    def sample(
        self, model: Generator, count: int, temperature: float, top_p: float | None, seed: int, prompt: str
    ) -> list[Hypothesis]:
        batch = decoding_batch([[]] * count).to(next(model.parameters()).device)
        tokens = self.target.encode(prompt)
        model.eval()
        found = sample(
            Prompted(model, [self.target.bos, *tokens]) if tokens else model,
            self.target,
            batch,
            temperature=temperature,
            top_p=top_p,
            seed=seed,
            max_length=self.config.search.max_length,
        )
        return [hypotheses[0] for hypotheses in found]
