"""Captioning: features of images to captions, evaluated by the COCO caption metrics."""

import re
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch

from fastmos.config import Search
from fastmos.data.batches import Batch, FeaturesOf
from fastmos.data.tokenized import TokenizedText
from fastmos.errors import InputError
from fastmos.files import read_json, write_json, written_whole
from fastmos.metrics.captions import CaptionScores, caption_scores
from fastmos.models import Captioner, Generator
from fastmos.search import Hypothesis
from fastmos.tasks.base import Learn, Split, Task, Texts
from fastmos.tasks.dataset import Dataset, digest, select_lines
from fastmos.tasks.decoding import SENTENCES, search_outputs
from fastmos.tasks.evaluation import Evaluation, Evaluator
from fastmos.vision.backbones import Backbone, load_backbone
from fastmos.vision.batches import CaptionImages, image_batch
from fastmos.vision.captions import Captions, caption_lines, has_splits, read_captions
from fastmos.vision.features import Features, FeatureSource, read_features
from fastmos.vision.images import upright_rgb

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, kw_only=True)
class CaptionDataset(Dataset):
    """Captions, one a line and image by image, with the features of their images."""

    images: CaptionImages
    gallery: "Gallery | None" = None  # the images once each, where captions are searched for

    @property
    def features(self) -> FeaturesOf:
        return self.images.take

    def select(self, lines: range) -> Self:
        chosen = CaptionImages(self.images.features, self.images.rows[lines])
        return type(self)(select_lines(self.target, lines), images=chosen)

    def fingerprint(self) -> str:
        return digest((self.images.rows, self.images.features.values, self.target.offsets, self.target.tokens))


@dataclass(frozen=True)
class Gallery:
    """The images of a split, once each, with all references: what captions are evaluated on."""

    names: Sequence[str]
    features: torch.Tensor  # [I, F]
    references: list[list[str]]

    @classmethod
    def of(cls, features: Features, captions: Captions) -> "Gallery":
        rows = features.rows(list(captions))
        return cls(list(captions), features.take(rows), list(captions.values()))


@dataclass(frozen=True)
class ImageInputs:
    """Features [I, F] of images to caption."""

    features: torch.Tensor

    def __len__(self) -> int:
        return len(self.features)

    def groups(self) -> list[list[int]]:
        return [list(range(len(self)))[begin : begin + SENTENCES] for begin in range(0, len(self), SENTENCES)]

    def batch(self, rows: list[int]) -> Batch:
        return image_batch(self.features[rows])

    def max_length(self, rows: list[int], search: Search) -> int | torch.Tensor:
        return search.max_length


@dataclass(frozen=True)
class CaptionEvaluation(Evaluation):
    """The COCO caption metrics beside likelihood."""

    caption_scores: CaptionScores | None = None
    names: Sequence[str] = ()  # of the images

    def metric(self, name: str) -> float:
        if name == "nll":
            return super().metric(name)
        assert self.caption_scores is not None
        figure = self.caption_scores.cider if name == "cider" else self.caption_scores.bleu_4
        if figure is None:
            raise InputError(f"training.early_stopping_metric {name} needs Java, which failed; set it to nll")
        return 100 * figure

    def record(self) -> dict[str, Any]:
        assert self.caption_scores is not None
        return {**super().record(), **self.caption_scores.record()}

    def speed(self) -> dict[str, float]:
        return {"seconds": self.seconds, "images_per_second": len(self.outputs or ()) / self.seconds}

    def headline(self) -> str:
        found = self.caption_scores
        figures = (
            ""
            if found is None or found.bleu_4 is None or found.cider is None
            else (f"BLEU-4 {100 * found.bleu_4:.2f}, CIDEr {100 * found.cider:.2f}, ")
        )
        return figures + super().headline()

    def summary(self) -> str:
        assert self.caption_scores is not None
        return "\n".join([self.caption_scores.summary(), self._likelihood_line(), *self._speed_lines("images")])

    def write_outputs(self, path: Path) -> None:
        """The captions as COCO's tools read them: images by the number that COCO's names end in, others by name."""
        numbers = [re.fullmatch(r"(?:.*/)?(?:COCO_\w+_)?(\d{12})\.jpg", name) for name in self.names]
        results = [
            {"image_id": int(number[1]) if number else name, "caption": caption}
            for name, number, caption in zip(self.names, numbers, self.outputs or (), strict=True)
        ]
        write_json(path, results)


class Captioning(Task):
    """Images and their captions."""

    metrics: ClassVar[tuple[str, ...]] = ("cider", "bleu", "nll")
    use: ClassVar[str] = "see fastmos caption"
    train_files: ClassVar[dict[str, str]] = {"source": "train-images.txt", "target": "captions.txt"}
    usual_settings: ClassVar[dict[str, Any]] = {
        "data.features": "features.safetensors",
        "training.early_stopping_metric": "nll",
        "search.beam_size": 5,
        "search.length_penalty": 0.6,
    }

    # ---- before any work

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        metric = self.config.training.early_stopping_metric
        if not self.config.data.features:
            yield "data.features is missing; name the file of features that fastmos features made"
        if self.config.tokenizers.joint:
            yield "tokenizers.joint needs a source text, which captioning does not have"
        if self.config.training.bptt_length:
            yield "training.bptt_length is for language modeling; leave it out"
        if metric != "nll" and shutil.which("java") is None:
            yield f"training.early_stopping_metric {metric} needs java on PATH; install it, or set it to nll"

    def files(self) -> list[str]:
        return [*super().files(), self.config.data.features]

    # ---- tokenizer and data

    def prepare(self, learn: Learn) -> None:
        """Write down what made the features, lay out the captions as lines, learn the tokenizer."""
        self._check_splits()
        features = self._features
        if self.folder.features.exists():
            self.feature_source.check(features.source, features.path)
            if features.width != self.feature_size:
                given = f"{features.path}: {features.width} features an image"
                raise InputError(f"{given}, but the run was trained on {self.feature_size}")
        else:
            write_json(self.folder.features, {"width": features.width, "source": asdict(features.source)})
        for split in ("train", "valid"):
            with written_whole(self.text(split)) as file:
                file.writelines(f"{line}\n" for line in caption_lines(self._captions(split)))
        if not self.folder.state.exists():
            learn(self.config.tokenizers.target, [self.text("train")], "target").save(self.folder.target)

    def _check_splits(self) -> None:
        """Refuse two splits that are both all of a file, for want of lists of images."""
        whole: dict[Path, str] = {}
        data = self.config.data
        for split, files in (("train", data.train), ("valid", data.valid), ("test", data.test)):
            if files.target and not files.source:
                path = self.path(files.target).resolve()
                if path in whole and not has_splits(path):
                    both = f"{path}: would be all of {whole[path]} and of {split}"
                    raise InputError(f"{both}; list the images of each in data.*.source")
                whole[path] = split

    def _captions(self, split: str) -> Captions:
        files = getattr(self.config.data, split)
        if not files.target:
            raise InputError(f"the run's config names no captions: data.{split}.target is empty")
        return read_captions(self.path(files.target), split, self.path(files.source) if files.source else None)

    @classmethod
    def texts(cls, split: str, source: Path | None, target: Path) -> dict[str, Texts]:
        captions = read_captions(target, split, source)
        return {"reference": {image: " / ".join(lines) for image, lines in captions.items()}}

    def text(self, split: Split, side: str = "target") -> Path:
        """Captions as text, a line each, image by image."""
        cache = self.config.data.cache
        folder = self.path(cache) if cache else self.folder.cache
        return folder / f"captions-{self.folder.root.name}-{split}.txt"

    @cached_property
    def _features(self) -> Features:
        """The features of all images."""
        return read_features(self.path(self.config.data.features), self.config.data.backbone)

    @cached_property
    def _about_features(self) -> dict[str, Any]:
        about = read_json(self.folder.features)
        if not isinstance(about, dict) or "source" not in about or type(about.get("width")) is not int:
            raise InputError(f"{self.folder.features}: does not say what made the features; is the file complete?")
        return about

    @property
    def feature_source(self) -> FeatureSource:
        """What made the features that the run is trained on."""
        return FeatureSource.from_json(self._about_features["source"], str(self.folder.features))

    @property
    def feature_size(self) -> int:
        return int(self._about_features["width"])

    def dataset(self, split: Split) -> Dataset:
        captions = self._captions(split)
        target = self.encoded(self.text(split), self.target)
        gallery = None if split == "train" else Gallery.of(self._features, captions)
        return CaptionDataset(target, images=CaptionImages.of(self._features, captions), gallery=gallery)

    def evaluation_data(self, split: Split, sources: Sequence[str] | None, references: Sequence[str] | None) -> Dataset:
        if sources is not None or references is not None:
            raise InputError("this run captions the images of its config; leave out --source and --reference")
        captions = self._captions(split)
        self.feature_source.check(self._features.source, self._features.path)
        target = TokenizedText.of(self.target.encode_lines(caption_lines(captions)))
        images = CaptionImages.of(self._features, captions)
        return CaptionDataset(target, images=images, gallery=Gallery.of(self._features, captions))

    # ---- the model

    def sizes(self) -> dict[str, int]:
        return {"vocab_size": len(self.target), "feature_size": self.feature_size}

    def start_from(self, dataset: Dataset, model: Generator) -> None:
        """The mean of the features, which the model takes off."""
        if isinstance(model.body, Captioner) and isinstance(dataset, CaptionDataset):
            model.body.mean.data = dataset.images.mean()

    # ---- evaluation and use

    def evaluate(self, dataset: Dataset, evaluator: Evaluator, language: str | None = None) -> Evaluation:
        if language is not None:
            raise InputError("this run captions images, for which language means nothing; leave it out")
        assert isinstance(dataset, CaptionDataset) and dataset.gallery is not None
        gallery = dataset.gallery
        likelihood, usage = evaluator.likelihood(dataset), evaluator.usage(dataset)
        begin = time.perf_counter()
        outputs = evaluator.outputs(lambda rows: ImageInputs(gallery.features[list(rows)]), len(gallery.features))
        seconds = time.perf_counter() - begin
        found = evaluator.first(lambda: caption_scores(outputs, gallery.references, meteor=not evaluator.quick))
        return CaptionEvaluation(likelihood, {}, outputs, seconds, usage, found, gallery.names)

    def caption(
        self, model: Generator, images: "Sequence[Image]", search: Search, nbest: int
    ) -> list[list[Hypothesis]]:
        """Captions of PIL images."""
        from PIL.Image import Image

        if not isinstance(images, Sequence) or not all(isinstance(image, Image) for image in images):
            raise InputError(f"a list of PIL images is captioned, not {images!r:.60}; see PIL.Image.open")
        found: list[list[Hypothesis]] = []
        self.backbone.network.to(next(model.parameters()).device)
        for begin in range(0, len(images), SENTENCES):
            group = enumerate(images[begin : begin + SENTENCES], begin + 1)
            squares = [self.backbone.square(upright_rgb(image, f"image {number}")) for number, image in group]
            found += self.caption_features(model, self.backbone.features(squares), search, nbest)
        return found

    @cached_property
    def backbone(self) -> Backbone:
        """The network whose features the run is trained on; another one is refused."""
        backbone = load_backbone(self.feature_source.backbone)
        self.feature_source.check(backbone.source, self.feature_source.backbone)
        return backbone

    def caption_features(
        self, model: Generator, features: torch.Tensor, search: Search, nbest: int
    ) -> list[list[Hypothesis]]:
        """Captions of images whose features [I, F] the run's backbone made."""
        size = self.feature_size
        if features.ndim != 2 or features.shape[1] != size or not features.isfinite().all():
            given = f"features of shape {list(features.shape)}{'' if features.isfinite().all() else ', not all finite'}"
            raise InputError(f"{given}; the run needs {size} numbers an image, of {self.feature_source.backbone}")
        device = next(model.parameters()).device
        return search_outputs(model, self.target, ImageInputs(features), search, device, nbest=nbest)
