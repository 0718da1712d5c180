"""A run folder put to use: `fastmos.load("runs/x")` translates, scores and evaluates."""

import os
import shutil
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import torch

from fastmos.codings import Coding
from fastmos.codings.moses import check_language
from fastmos.data import EncodedText, decoding_batch
from fastmos.data.backbones import Backbone, load_backbone
from fastmos.data.captions import Pictures, all_lines
from fastmos.data.features import Origin
from fastmos.data.images import upright_rgb
from fastmos.errors import InputError
from fastmos.files import read_json, write_json
from fastmos.metrics import LikelihoodReport, Score
from fastmos.metrics.captions import caption_scores
from fastmos.models import Generator
from fastmos.progress import progress
from fastmos.search import Hypothesis, sample
from fastmos.training.build import build_model, load_codings
from fastmos.training.captioning import (
    CaptionEvaluation,
    Gallery,
    Split,
    read_origin,
    split_captions,
    split_features,
)
from fastmos.training.checkpoints import average_weights, load_weights, read_tensors, write_tensors
from fastmos.training.config import Config, Search
from fastmos.training.decoding import score_lines, score_running_text, search_lines, search_pictures
from fastmos.training.folder import RunFolder
from fastmos.training.quality import bleu_and_chrf, likelihood, wmt_bleu

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGES = 64  # captioned at once


@dataclass(frozen=True)
class Translation:
    """One translation of a line, or caption of an image."""

    text: str
    log_prob: float  # of its codes and eos
    score: float  # normalised for length: what the search ranks by


def load(folder: Path | str, device: str | None = None) -> "Run":
    """The model of a run folder, ready for use, on `device` (the first GPU, or the CPU)."""
    where = RunFolder(Path(folder))
    config, base = where.read()
    source, target = load_codings(where)
    origin, width = read_origin(where) if config.task == "captioning" else (None, 0)
    model = build_model(config, source, target, width)
    load_weights(model, read_tensors(where.model)[0], where.model)
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    return Run(config, base, source, target, model.to(place).eval(), place, origin)


@dataclass(frozen=True)
class Run:
    """A trained model with its codings and config."""

    config: Config
    base: Path  # what data paths of the config are relative to
    source: Coding | None  # None: a language model or captioner
    target: Coding
    model: Generator
    device: torch.device
    origin: Origin | None = None  # what makes the features that a captioner sees

    @overload
    def translate(
        self, lines: Sequence[str], *, beam: int | None = None, overlong: Literal["cut", "refuse"] = "cut"
    ) -> list[str]: ...

    @overload
    def translate(
        self, lines: Sequence[str], *, nbest: int, beam: int | None = None, overlong: Literal["cut", "refuse"] = "cut"
    ) -> list[list[Translation]]: ...

    def translate(
        self,
        lines: Sequence[str],
        *,
        nbest: int | None = None,
        beam: int | None = None,
        overlong: Literal["cut", "refuse"] = "cut",
    ) -> list[str] | list[list[Translation]]:
        """The best translation of each line; with `nbest`, lists of that many, best first.

        Empty lines stay empty. Lines longer than training allowed are cut, with a warning that counts them, or refused.
        """
        if self.source is None:
            other = "captions images; use caption" if self.origin else "is a language model; use score"
            raise InputError(f"this run translates nothing: it {other}")
        count = 1 if nbest is None else nbest
        search = self._search(beam, count)
        sources = self._within_limit(self.source.encode_lines(lines), overlong)
        found = search_lines(
            self.model,
            self.target,
            sources,
            search,
            self.device,
            nbest=count,
            watch=lambda groups, count: progress(groups, "translating, batches", count) if count > 1 else groups,
        )
        translations = self._texts(found)
        return [best[0].text for best in translations] if nbest is None else translations

    def _search(self, beam: int | None, nbest: int) -> Search:
        """How to search: as the config says, but with this beam, or one that is wide enough."""
        beam = max(self.config.search.beam, nbest) if beam is None else beam
        if not 1 <= nbest <= beam:
            raise InputError(f"nbest {nbest}, beam {beam}: needs 1 <= nbest <= beam")
        return self.config.search.model_copy(update={"beam": beam})

    def _texts(self, found: list[list[Hypothesis]]) -> list[list[Translation]]:
        texts = iter(self.target.decode_lines([hypothesis.codes for best in found for hypothesis in best]))
        return [[Translation(next(texts), one.log_prob, one.score) for one in best] for best in found]

    def sample(self, lines: int, *, temperature: float = 1.0, top_p: float | None = None, seed: int = 0) -> list[str]:
        """Lines that a language model makes up."""
        if self.source is not None or self.origin is not None:
            raise InputError("lines are made up by a language model, which this run is not")
        batch = decoding_batch([[]] * lines).to(self.device)
        limit = self.config.search.max_length
        found = sample(
            self.model, self.target, batch, temperature=temperature, top_p=top_p, seed=seed, max_length=limit
        )
        return self.target.decode_lines([hypotheses[0].codes for hypotheses in found])

    # ---- captions

    @cached_property
    def backbone(self) -> Backbone:
        """The network whose features this captioner learnt from; another one is refused."""
        if self.origin is None:
            raise InputError(f"this run does {self.config.task}, and looks at no images")
        backbone = load_backbone(self.origin.backbone, self.device)
        self.origin.check(backbone.origin, self.origin.backbone)
        return backbone

    @overload
    def caption(self, images: Sequence["Image"], *, beam: int | None = None) -> list[str]: ...

    @overload
    def caption(self, images: Sequence["Image"], *, nbest: int, beam: int | None = None) -> list[list[Translation]]: ...

    def caption(
        self, images: Sequence["Image"], *, nbest: int | None = None, beam: int | None = None
    ) -> list[str] | list[list[Translation]]:
        """The best caption of each PIL image; with `nbest`, lists of that many, best first."""
        from PIL.Image import Image

        if not isinstance(images, Sequence) or not all(isinstance(image, Image) for image in images):
            raise InputError(f"a list of PIL images is captioned, not {images!r:.60}; see PIL.Image.open")
        found: list[list[Translation]] = []
        count = 1 if nbest is None else nbest
        for begin in range(0, len(images), IMAGES):
            group = enumerate(images[begin : begin + IMAGES], begin + 1)
            squares = [self.backbone.square(upright_rgb(image, f"image {number}")) for number, image in group]
            found += self.caption_features(self.backbone.features(squares), nbest=count, beam=beam)
        return [best[0].text for best in found] if nbest is None else found

    def caption_features(
        self, features: torch.Tensor, *, nbest: int = 1, beam: int | None = None
    ) -> list[list[Translation]]:
        """The best captions of images whose features [I, F] the run's backbone made."""
        search = self._search(beam, nbest)
        if self.origin is None:
            raise InputError(f"this run does {self.config.task}, and captions no images")
        width = len(self.model.body.mean)  # type: ignore[arg-type]
        if features.ndim != 2 or features.shape[1] != width or not features.isfinite().all():
            given = f"features of shape {list(features.shape)}{'' if features.isfinite().all() else ', not all finite'}"
            raise InputError(f"{given}; the run learnt from {width} numbers an image, of {self.origin.backbone}")
        return self._texts(search_pictures(self.model, self.target, features, search, self.device, nbest=nbest))

    def evaluate_captions(self, split: Split = "test", *, beam: int | None = None) -> CaptionEvaluation:
        """Likelihood of a split's captions, and BLEU, METEOR, ROUGE-L and CIDEr of the run's own."""
        if self.origin is None:
            raise InputError(f"this run does {self.config.task}, and captions no images")
        captions, features = split_captions(self.config, split, self.base), split_features(self.config, self.base)
        self.origin.check(features.origin, features.path)
        target = EncodedText.of(self.target.encode_lines(all_lines(captions)))
        pictures = Pictures.of(features, captions)
        nll = np.concatenate(score_lines(self.model, target, None, self.device, pictures))
        report = likelihood(nll, target, self.target).report()
        gallery = Gallery.of(features, captions)
        begin = time.perf_counter()
        found = [best[0].text for best in self.caption_features(gallery.features, beam=beam)]
        seconds = time.perf_counter() - begin
        return CaptionEvaluation(report, caption_scores(found, gallery.references), gallery.names, found, seconds)

    # ---- likelihood

    def score(self, sources: Sequence[str] | None, targets: Sequence[str]) -> list[float]:
        """The log-probability of each target line, eos included, given its source; a language model has no sources."""
        target, source = self._encoded(sources, targets)
        return [-float(line.sum()) for line in score_lines(self.model, target, source, self.device)]

    def evaluate(
        self,
        sources: Sequence[str] | None,
        references: Sequence[str],
        *,
        beam: int | None = None,
        language: str | None = None,
    ) -> "Evaluation":
        """Likelihood of the references (as running text, if trained so), and BLEU and chrF of translations.

        With the `language` of text that Moses has tokenised, also the two figures of BLEU that are usual for WMT.
        """
        if language is not None:
            check_language(language)
            if self.target.text.tokenise != "none":
                raise InputError("this run's text is raw, and its BLEU that of text (13a) already; leave language out")
        target, source = self._encoded(sources, references)
        window = self.config.training.window
        if window:
            nll = score_running_text(self.model, target, window, self.device)
        else:
            nll = np.concatenate(score_lines(self.model, target, source, self.device))
        report = likelihood(nll, target, self.target).report()
        if sources is None:
            return Evaluation(report)
        begin = time.perf_counter()
        translations = self.translate(sources, beam=beam)
        seconds = time.perf_counter() - begin
        scores = bleu_and_chrf(translations, references, self.target)
        usual = (None, None) if language is None else wmt_bleu(translations, references, self.target, language)
        return Evaluation(report, *scores, translations, seconds, *usual)

    def _encoded(self, sources: Sequence[str] | None, targets: Sequence[str]) -> tuple[EncodedText, EncodedText | None]:
        if not targets:
            raise InputError("no lines to score; give at least one")
        if self.origin is not None:
            raise InputError("this run captions images, and scores no text alone; evaluate it (fastmos evaluate)")
        if (sources is None) != (self.source is None):
            kind = "language model, which has no source" if self.source is None else "translation run; give sources too"
            raise InputError(f"this run is a {kind}")
        if sources is not None and len(sources) != len(targets):
            raise InputError(f"{len(sources):,} source lines and {len(targets):,} target lines; give as many of each")
        target = EncodedText.of(self.target.encode_lines(targets))
        if sources is None or self.source is None:
            return target, None
        return target, EncodedText.of(self.source.encode_lines(sources))

    def _within_limit(self, sources: list[list[int]], overlong: str) -> list[list[int]]:
        limit = self.config.data.max_length
        count = sum(len(codes) > limit for codes in sources)
        if count and overlong == "refuse":
            first = next(number for number, codes in enumerate(sources, 1) if len(codes) > limit)
            raise InputError(f"line {first}: {len(sources[first - 1]):,} codes, but the model was trained on {limit}")
        if count:
            warnings.warn(f"{count:,} of {len(sources):,} lines were cut to {limit} codes", stacklevel=3)
        return [codes[:limit] for codes in sources]


@dataclass(frozen=True)
class Evaluation:
    """How good a run is on some text; a language model has likelihood only."""

    likelihood: LikelihoodReport
    bleu: Score | None = None
    chrf: Score | None = None
    translations: list[str] | None = None
    seconds: float = 0.0  # that translating took
    text_bleu: Score | None = None  # of text put together again
    compound_bleu: Score | None = None  # of tokens with compounds split

    def record(self) -> dict[str, Any]:
        """All figures, for JSON."""
        record: dict[str, Any] = asdict(self.likelihood)
        for label, score in self._scores().items():
            name = label.lower().replace(" ", "_")
            record |= {name: score.value, f"{name}_signature": score.signature}
        if self.translations is not None:
            record |= {"seconds": self.seconds, "sentences_per_second": len(self.translations) / self.seconds}
        return record

    def summary(self) -> str:
        """All figures, for the reader."""
        lines = [f"{label} {score.value:.2f} ({score.signature})" for label, score in self._scores().items()]
        known = f"{self.likelihood.nats_per_known_word:.4f} for known words, {self.likelihood.oov_rate:.2%} unknown"
        lines.append(f"{self.likelihood.nats_per_word:.4f} nats per word ({known})")
        if self.translations is not None:
            lines.append(f"{len(self.translations) / self.seconds:,.1f} sentences/s ({len(self.translations):,} lines)")
        return "\n".join(lines)

    def _scores(self) -> dict[str, Score]:
        scores = {
            "BLEU": self.bleu,
            "text BLEU": self.text_bleu,
            "compound BLEU": self.compound_bleu,
            "chrF": self.chrf,
        }
        return {label: score for label, score in scores.items() if score is not None}


def average(folder: Path, output: Path, *, last: int = 0, best: int = 0) -> list[int]:
    """A new run folder whose weights are the mean of the last, or best, checkpoints of another; says of which steps."""
    where = RunFolder(folder)
    config, base = where.read()
    steps = where.checkpoints.steps()
    if best:
        values = {step: read_tensors(where.checkpoints.path(step))[1]["value"] for step in steps}
        steps.sort(key=lambda step: values[step])
    count, kept = best or last, config.training.keep_best if best else config.training.keep_last
    if not 1 <= count <= min(kept, len(steps)):
        have = f"keeps the {'best' if best else 'last'} {kept} checkpoints and has {len(steps)} in all"
        raise InputError(f"{folder}: {have}, so {count} cannot be averaged; see training.keep_last and keep_best")
    chosen = steps[len(steps) - count :]
    mean = average_weights([where.checkpoints.path(step) for step in chosen])
    if output.exists():
        raise InputError(f"{output}: exists; give another --output")
    source, target = load_codings(where)
    aside = output.with_name(f".{output.name}.{os.getpid()}.tmp")  # so that the folder appears whole or not at all
    new = RunFolder(aside)
    try:
        write_tensors(new.model, mean, {"averaged": sorted(chosen)})
        if where.features.exists():
            write_json(new.features, read_json(where.features))
        for coding, path in ((source, new.source), (target, new.target)):
            if coding is not None:
                coding.save(path)
        new.write(config, base)
        aside.rename(output)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return sorted(chosen)
