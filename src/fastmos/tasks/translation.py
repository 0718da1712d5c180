"""Translation: source lines to target lines, evaluated by BLEU and chrF."""

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

from fastmos.config import Search
from fastmos.data.tokenized import TokenizedText, check_pairs
from fastmos.errors import InputError
from fastmos.metrics import Score, bleu, chrf, compound_split_bleu
from fastmos.models import Generator
from fastmos.progress import progress
from fastmos.search import Hypothesis
from fastmos.tasks.base import Learn, Split
from fastmos.tasks.dataset import Dataset
from fastmos.tasks.decoding import SourceLines, search_outputs
from fastmos.tasks.evaluation import Evaluation, Evaluator
from fastmos.tasks.text import TextTask, check_lines, cut_overlong
from fastmos.tokenizers import Tokenizer, load_tokenizer
from fastmos.tokenizers.moses import check_language, detokenize


class Translation(TextTask):
    """Pairs of lines."""

    metrics: ClassVar[tuple[str, ...]] = ("bleu", "nll")
    use: ClassVar[str] = "see fastmos translate"
    train_files: ClassVar[dict[str, str]] = {"source": "train.de", "target": "train.en"}
    text_sides: ClassVar[tuple[str, ...]] = ("source", "target")
    usual_settings: ClassVar[dict[str, Any]] = {
        "training.early_stopping_metric": "bleu",
        "search.beam_size": 5,
        "search.length_penalty": 0.6,
    }

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        data, tokenizers, model = self.config.data, self.config.tokenizers, self.config.model
        for split in ("train", "valid"):
            if not getattr(data, split).source:
                yield f"data.{split}.source is missing; name the file to translate"
        if data.features:
            yield "data.features is for captioning; leave it out"
        if tokenizers.joint and tokenizers.target.language:
            yield f"tokenizers.joint needs tokenized text, not raw text of language {tokenizers.target.language}"
        if getattr(model, "share_embeddings", False) and not tokenizers.joint:
            yield "model.share_embeddings needs tokenizers.joint"
        if self.config.training.bptt_length:
            yield "training.bptt_length is for language modeling; leave it out"

    def prepare(self, learn: Learn) -> None:
        if self.folder.state.exists():
            return
        train, tokenizers = self.config.data.train, self.config.tokenizers
        source, target = self.path(train.source), self.path(train.target)
        if tokenizers.joint:
            learned = learn(tokenizers.target, [source, target], "target")
            learned.save(self.folder.source)
        else:
            learn(tokenizers.source, [source], "source").save(self.folder.source)
            learned = learn(tokenizers.target, [target], "target")
        learned.save(self.folder.target)

    @cached_property
    def source(self) -> Tokenizer:
        return load_tokenizer(self.folder.source)

    @property
    def tokenizers(self) -> list[Tokenizer]:
        return [self.source, self.target]

    def dataset(self, split: Split) -> Dataset:
        files = getattr(self.config.data, split)
        source, target = self.path(files.source), self.path(files.target)
        pair = self.encoded(source, self.source), self.encoded(target, self.target)
        check_pairs(*pair)
        return Dataset(pair[1], pair[0], self.references(target, split))

    def dataset_of(self, sources: Sequence[str] | None, targets: Sequence[str]) -> Dataset:
        if sources is None:
            raise InputError("this run translates, so it needs source lines beside the target lines")
        if len(sources) != len(targets):
            raise InputError(f"{len(sources):,} source lines and {len(targets):,} target lines; give as many of each")
        check_lines(sources)
        dataset = super().dataset_of(None, targets)
        return Dataset(dataset.target, TokenizedText.of(self.source.encode_lines(sources)), targets)

    def score(self, model: Generator, sources: Sequence[str] | None, targets: Sequence[str]) -> list[float]:
        """The log-probability of each target line, eos included, given its source, cut as in translation."""
        dataset = self.dataset_of(sources, targets)
        assert dataset.source is not None  # a translation dataset is made with them
        lines = [dataset.source[line].tolist() for line in range(len(targets))]
        cut = TokenizedText.of(cut_overlong(lines, self.config.data.max_length, "cut"))
        return self.scores(model, replace(dataset, source=cut))

    def sizes(self) -> dict[str, int]:
        return {"source_vocab_size": len(self.source), "target_vocab_size": len(self.target)}

    def evaluate(self, dataset: Dataset, evaluator: Evaluator, language: str | None = None) -> Evaluation:
        if language is not None:
            self._check_moses(language)
        likelihood, usage = evaluator.likelihood(dataset), evaluator.usage(dataset)
        sources, limit = dataset.source, self.config.data.max_length
        assert sources is not None  # a translation dataset is made with them
        long = int((sources.lengths > limit).sum())
        if long and not evaluator.quick:
            warnings.warn(f"{long:,} of {len(sources):,} lines were cut to {limit} tokens", stacklevel=3)
        begin = time.perf_counter()
        outputs = evaluator.outputs(
            lambda lines: SourceLines([sources[line][:limit].tolist() for line in lines]), len(sources)
        )
        seconds = time.perf_counter() - begin
        scores = self._scores(outputs, dataset.references)
        if language is not None:
            scores |= self._wmt_scores(outputs, dataset.references, language)
        return Evaluation(likelihood, scores, outputs, seconds, usage)

    def _scores(self, outputs: Sequence[str], references: Sequence[str]) -> dict[str, Score]:
        """On words as they are where text is tokenized, by sacreBLEU's 13a where it is raw."""
        pretokenizer = self.target.pretokenizer
        raw = pretokenizer.language is not None
        found = bleu(outputs, references, tokenize="13a" if raw else "none", lowercase=pretokenizer.lowercase)
        return {"bleu": found, "chrf": chrf(outputs, references, lowercase=pretokenizer.lowercase)}

    def _wmt_scores(self, outputs: Sequence[str], references: Sequence[str], language: str) -> dict[str, Score]:
        """Of Moses' tokens: BLEU of the detokenized text (13a), and of tokens with compounds split."""
        lowercase = self.target.pretokenizer.lowercase
        texts = (detokenize(list(lines), language) for lines in (outputs, references))
        return {
            "text_bleu": bleu(*texts, tokenize="13a", lowercase=lowercase),
            "compound_bleu": compound_split_bleu(outputs, references, lowercase=lowercase),
        }

    def _check_moses(self, language: str) -> None:
        check_language(language)
        if self.target.pretokenizer.language is not None:
            raise InputError("this run's text is raw, so its BLEU is of plain text (13a) already; leave language out")

    def translate(
        self, model: Generator, lines: Sequence[str], search: Search, nbest: int, overlong: str
    ) -> list[list[Hypothesis]]:
        check_lines(lines)
        sources = cut_overlong(self.source.encode_lines(lines), self.config.data.max_length, overlong)

        def show(groups: list[list[int]], count: int) -> Iterator[list[int]]:
            return progress(groups, "translating, batches", count) if count > 1 else iter(groups)

        device = next(model.parameters()).device
        return search_outputs(model, self.target, SourceLines(sources), search, device, nbest=nbest, show=show)  # type: ignore[arg-type]
