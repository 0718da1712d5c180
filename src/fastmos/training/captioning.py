"""Captioning in training and use: captions as lines of text with pictures, and figures of captions."""

import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from fastmos.codings import Coding
from fastmos.data import encode_files
from fastmos.data.captions import Captions, Pictures, all_lines, has_splits, image_features, read_captions
from fastmos.data.features import Features, Origin, origin_from, read_features
from fastmos.errors import InputError
from fastmos.files import read_json, write_json, written_whole
from fastmos.metrics import LikelihoodReport
from fastmos.metrics.captions import CaptionScores
from fastmos.training.build import Pair, cache_folder, learn_coding
from fastmos.training.config import Config, data_path
from fastmos.training.folder import RunFolder

Split = Literal["train", "valid", "test"]


def split_captions(config: Config, split: Split, base: Path) -> Captions:
    """The images of a split and their captions."""
    texts = getattr(config.data, split)
    if not texts.target:
        raise InputError(f"the run's config names no captions: data.{split}.target is empty")
    images = data_path(texts.source, base) if texts.source else None
    return read_captions(data_path(texts.target, base), split, images)


def split_features(config: Config, base: Path) -> Features:
    """The features of all images."""
    return read_features(data_path(config.data.features, base), config.data.backbone)


def prepare(config: Config, base: Path, folder: RunFolder) -> None:
    """Write down what made the features, learn the coding, and lay out the captions as lines."""
    if config.training.measure != "nats" and shutil.which("java") is None:
        raise InputError(
            f"training.measure {config.training.measure} needs java on PATH; install it, or set it to nats"
        )
    _check_splits(config, base)
    features = split_features(config, base)
    if folder.features.exists():
        origin, width = read_origin(folder)
        origin.check(features.origin, features.path)
        if width != features.width:
            raise InputError(f"{features.path}: {features.width} features an image, but the run learnt from {width}")
    else:
        write_json(folder.features, {"width": features.width, "origin": asdict(features.origin)})
    for split in ("train", "valid"):
        lines = all_lines(split_captions(config, split, base))
        with written_whole(_lines_file(config, split, base, folder)) as file:
            file.writelines(f"{line}\n" for line in lines)
    if not folder.state.exists():  # until then nothing depends on it
        text = _lines_file(config, "train", base, folder)
        learn_coding(config.codings.target, [text], base).save(folder.target)


def _check_splits(config: Config, base: Path) -> None:
    """Refuse two splits that are both all of a file, for want of lists of images."""
    whole: dict[Path, str] = {}
    for split, texts in (("train", config.data.train), ("valid", config.data.valid), ("test", config.data.test)):
        if texts.target and not texts.source:
            path = data_path(texts.target, base).resolve()
            if path in whole and not has_splits(path):
                raise InputError(
                    f"{path}: would be all of {whole[path]} and of {split}; list the images of each in data.*.source"
                )
            whole[path] = split


def read_origin(folder: RunFolder) -> tuple[Origin, int]:
    """What made a run's features, and how many an image has."""
    about = read_json(folder.features)
    return origin_from(about["origin"], str(folder.features)), int(about["width"])


def _lines_file(config: Config, split: str, base: Path, folder: RunFolder) -> Path:
    """Captions as text, a line each, image by image."""
    return cache_folder(config, base, folder) / f"captions-{folder.root.name}-{split}.txt"


def encode_captions(config: Config, split: Split, target: Coding, base: Path, folder: RunFolder) -> Pair:
    """A split in codes with its pictures."""
    captions = split_captions(config, split, base)
    text = encode_files([_lines_file(config, split, base, folder)], target, cache_folder(config, base, folder))
    return Pair(None, text, Pictures.of(split_features(config, base), captions))


@dataclass(frozen=True)
class Gallery:
    """The images of a split, once each, with all references: what captions are judged on."""

    names: Sequence[str]
    features: torch.Tensor  # [I, F]
    references: list[list[str]]

    @classmethod
    def of(cls, features: Features, captions: Captions) -> "Gallery":
        rows = features.rows(list(captions))
        return cls(list(captions), image_features(features, np.asarray(rows)), list(captions.values()))


@dataclass(frozen=True)
class CaptionEvaluation:
    """How good a captioner is on some images."""

    likelihood: LikelihoodReport
    scores: CaptionScores
    names: Sequence[str]
    translations: list[str]  # the captions
    seconds: float  # that captioning took

    def record(self) -> dict[str, Any]:
        """All figures, for JSON."""
        speed = {"seconds": self.seconds, "images_per_second": len(self.translations) / self.seconds}
        return {**asdict(self.likelihood), **self.scores.record(), **speed}

    def coco_results(self) -> list[dict[str, str | int]]:
        """The captions as COCO's tools read them: images by the number that COCO's names end in, others by name."""
        numbers = [re.fullmatch(r"(?:.*/)?(?:COCO_\w+_)?(\d{12})\.jpg", name) for name in self.names]
        return [
            {"image_id": int(number[1]) if number else name, "caption": caption}
            for name, number, caption in zip(self.names, numbers, self.translations, strict=True)
        ]

    def summary(self) -> str:
        """All figures, for the reader."""
        known = f"{self.likelihood.nats_per_known_word:.4f} for known words, {self.likelihood.oov_rate:.2%} unknown"
        count = len(self.translations)
        return "\n".join(
            [
                self.scores.summary(),
                f"{self.likelihood.nats_per_word:.4f} nats per word ({known})",
                f"{count / self.seconds:,.1f} images/s ({count:,} images)",
            ]
        )
