"""Judging a model on the validation text: nats per word, BLEU of real beam search, and how its mixture is used."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch

from fastmos.codings import Coding
from fastmos.data import EncodedText, SentenceBatches
from fastmos.data.captions import CaptionBatches, Pictures
from fastmos.errors import InputError
from fastmos.files import written_whole
from fastmos.metrics import Likelihood, LikelihoodReport, Score
from fastmos.metrics.captions import CaptionScores, caption_scores
from fastmos.models import Generator
from fastmos.training.build import Pair
from fastmos.training.captioning import Gallery
from fastmos.training.config import Config
from fastmos.training.decoding import score_lines, score_running_text, search_lines, search_pictures
from fastmos.training.distributed import World
from fastmos.training.quality import bleu_and_chrf, likelihood

T = TypeVar("T")
USAGE_TOKENS = 4096  # that the use of the mixture is measured on


@dataclass(frozen=True)
class Result:
    """What a validation found."""

    likelihood: LikelihoodReport
    bleu: Score | None = None  # None for a language model
    chrf: Score | None = None
    effective: float | None = None  # number of mixtures in use
    share: Sequence[float] = ()  # of each of them
    translations: list[str] | None = None
    captions: CaptionScores | None = None  # for a captioner

    def value(self, measure: str) -> float:
        """What says which weights are best: the larger, the better."""
        if measure == "nats":
            return -self.likelihood.nats_per_word
        if self.captions is not None:
            figure = self.captions.cider if measure == "cider" else self.captions.bleu_4
            if figure is None:
                raise InputError(f"training.measure {measure} needs Java, which failed; set it to nats")
            return 100 * figure
        assert self.bleu is not None  # the config was checked
        return self.bleu.value

    def record(self) -> dict[str, Any]:
        """For the log."""
        record: dict[str, Any] = asdict(self.likelihood)
        for name, score in (("bleu", self.bleu), ("chrf", self.chrf)):
            if score is not None:
                record |= {name: score.value, f"{name}_signature": score.signature}
        if self.captions is not None:
            record |= self.captions.record()
        if self.effective is not None:
            record |= {"effective_mixtures": self.effective, "mixture_share": [round(part, 4) for part in self.share]}
        return record

    def summary(self) -> str:
        """For the reader."""
        parts = [f"BLEU {self.bleu.value:.2f}"] if self.bleu is not None else []
        if self.captions is not None and self.captions.bleu_4 is not None and self.captions.cider is not None:
            parts.append(f"BLEU-4 {100 * self.captions.bleu_4:.2f}, CIDEr {100 * self.captions.cider:.2f}")
        parts.append(f"{self.likelihood.nats_per_word:.4f} nats per word")
        if self.effective is not None:
            parts.append(f"{self.effective:.1f} of {len(self.share)} mixtures in use")
        return ", ".join(parts)


class Alone(Protocol):
    """Does long work in which no process waits for another, so that it may be broken off."""

    def __call__(self, work: Callable[[], T]) -> T: ...


class Validator:
    """The validation text, ready to be used again and again."""

    def __init__(
        self,
        config: Config,
        pair: Pair,
        target: Coding,
        references: Sequence[str],
        gallery: Gallery | None = None,
    ) -> None:
        self.config, self.pair, self.target = config, pair, target
        self.references, self.gallery = list(references), gallery

    def run(self, model: Generator, world: World, alone: Alone) -> Result:
        """Validate, each process a share of the lines; the result is the same everywhere."""
        training = model.training
        likelihood = self._likelihood(model, world, alone)
        effective, share = self._usage(model, world.device)
        translations: list[str] | None = None
        scores: tuple[Score | None, Score | None] = None, None
        if self.pair.source is not None:
            translations = self._translate(model, world, alone)
            scores = bleu_and_chrf(translations, self.references, self.target)
        captions: CaptionScores | None = None
        if self.gallery is not None:
            translations, captions = self._caption(self.gallery, model, world, alone)
        model.train(training)
        return Result(likelihood, *scores, effective, share, translations, captions)

    def _likelihood(self, model: Generator, world: World, alone: Alone) -> LikelihoodReport:
        target, source = self.pair.target, self.pair.source
        window = self.config.training.window
        if window:
            nll = alone(lambda: score_running_text(model, target, window, world.device))
            return likelihood(nll, target, self.target).report()
        mine = range(world.rank, len(target), world.size)
        target = EncodedText.of([target[line].tolist() for line in mine])
        source = None if source is None else EncodedText.of([source[line].tolist() for line in mine])
        pictures = self.pair.pictures
        pictures = None if pictures is None else Pictures(pictures.features, pictures.rows[mine])
        scores = alone(lambda: score_lines(model, target, source, world.device, pictures) if mine else [])
        sums = astuple(likelihood(np.concatenate([np.empty(0), *scores]), target, self.target))
        nats, known_nats, *counts = world.sum(sums)
        return Likelihood(nats, known_nats, *map(int, counts)).report()

    def _translate(self, model: Generator, world: World, alone: Alone) -> list[str]:
        assert self.pair.source is not None
        limit = self.config.data.max_length  # as when it is put to use
        mine = [self.pair.source[line][:limit].tolist() for line in range(world.rank, len(self.references), world.size)]
        found = alone(lambda: search_lines(model, self.target, mine, self.config.search, world.device))
        codes: list[list[int]] = [[]] * len(self.references)
        for rank, part in enumerate(world.gather([hypotheses[0].codes for hypotheses in found])):
            codes[rank :: world.size] = part
        return self.target.decode_lines(codes)

    def _caption(
        self, gallery: Gallery, model: Generator, world: World, alone: Alone
    ) -> tuple[list[str], CaptionScores]:
        mine = gallery.features[world.rank :: world.size]
        found = alone(lambda: search_pictures(model, self.target, mine, self.config.search, world.device))
        codes: list[list[int]] = [[]] * len(gallery.features)
        for rank, part in enumerate(world.gather([hypotheses[0].codes for hypotheses in found])):
            codes[rank :: world.size] = part
        captions = self.target.decode_lines(codes)
        scores = alone(lambda: caption_scores(captions, gallery.references, meteor=False) if world.first else None)
        shared = world.gather(scores)[0]
        assert shared is not None  # the first process judged
        return captions, shared

    @torch.no_grad()
    def _usage(self, model: Generator, device: torch.device) -> tuple[float | None, Sequence[float]]:
        """How many mixtures are in use in one batch of the text, always the same."""
        if self.config.head.mixtures < 2:
            return None, ()
        model.eval()
        longest = max(int(text.lengths.max()) + 1 for text in self.pair.texts())
        tokens, pictures = max(USAGE_TOKENS, longest), self.pair.pictures
        if pictures is not None:
            batches: SentenceBatches = CaptionBatches(self.pair.target, pictures, tokens=tokens)
        else:
            batches = SentenceBatches(self.pair.target, self.pair.source, tokens=tokens)
        batch = next(batches.epoch(0)).to(device)
        hidden, _ = model.body(batch)
        usage = model.head.usage(hidden[batch.target != self.target.pad])  # type: ignore[operator]
        return usage.effective, usage.share

    def write(self, path: Path, translations: Sequence[str]) -> None:
        """Keep translations, one a line."""
        with written_whole(path) as file:
            file.writelines(f"{line}\n" for line in translations)
