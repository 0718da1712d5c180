"""Captioned images: the datasets' own files to images and their captions, and batches of both.

Three kinds of files are known by their content: Flickr8k's token file (`image#n<TAB>caption`; lists of names make its
splits), Karpathy's JSON, which has splits of its own, and the annotations of COCO.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fastmos.data.batches import Batch, SentenceBatches
from fastmos.data.encoded import EncodedText
from fastmos.data.features import Features
from fastmos.errors import InputError
from fastmos.files import read_json, read_lines

WORD = re.compile(r"'?\w+(?:[-'’.]\w+)*")
SPLITS = {"train": ("train", "restval"), "valid": ("val",), "test": ("test",)}  # as Karpathy's file calls them

Array = np.ndarray[Any, np.dtype[Any]]
Captions = dict[str, list[str]]  # image -> its captions


def caption_words(caption: str) -> str:
    """The words of a caption, lowercased, without punctuation, joined by spaces: what is learnt from."""
    return " ".join(WORD.findall(caption.lower()))


def read_captions(path: Path, split: str, images: Path | None = None) -> Captions:
    """The captions of the images that the file `images` lists, or else of the split of that name that `path` has."""
    found = _json(path, split, whole=images is not None) if _is_json(path) else _flickr(path)
    if images is not None:
        names = [line.strip() for line in read_lines(images) if line.strip()]
        if not names:
            raise InputError(f"{images}: names no images; give one a line")
        missing = [name for name in names if name not in found]
        if missing:
            raise InputError(f"{images}: {len(missing):,} images have no captions in {path}, as {missing[0]}")
        found = {name: found[name] for name in names}
    if not found:
        raise InputError(f"{path}: no captions of the split {split}; give a list of its images as data.{split}.source")
    for name, lines in found.items():
        if not lines or not all(isinstance(line, str) for line in lines):
            raise InputError(f"{path}: {'a caption is no text' if lines else 'no captions'} of {name}; mend the file")
    return found


def has_splits(path: Path) -> bool:
    """Is it a file that says itself which image is for training and which for judging?"""
    return _is_json(path) and "annotations" not in read_json(path)


def _is_json(path: Path) -> bool:
    return path.name.endswith((".json", ".json.gz"))


def _flickr(path: Path) -> Captions:
    found: Captions = {}
    for number, line in enumerate(read_lines(path), 1):
        name, tab, caption = line.partition("\t")
        image, mark, _ = name.rpartition("#")
        if not (tab and mark):
            raise InputError(f"{path}, line {number}: not of the form image#number, a tab, and a caption")
        found.setdefault(image, []).append(caption)
    return found


def _json(path: Path, split: str, whole: bool) -> Captions:
    value = read_json(path)
    try:
        if "annotations" in value:
            return _coco(value, path)
        wanted = None if whole else SPLITS[split]
        return {
            "/".join(filter(None, [image.get("filepath"), image["filename"]])): [
                sentence["raw"] if "raw" in sentence else " ".join(sentence["tokens"])
                for sentence in image["sentences"]
            ]
            for image in value["images"]
            if wanted is None or image["split"] in wanted
        }
    except (KeyError, TypeError, AttributeError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else "its parts are of other types"
        raise InputError(f"{path}: neither Karpathy's file nor annotations of COCO ({reason})") from None


def _coco(value: Mapping[str, Any], path: Path) -> Captions:
    names = {image["id"]: image["file_name"] for image in value["images"]}
    found: Captions = {}
    for annotation in value["annotations"]:
        if annotation["image_id"] not in names:
            raise InputError(f"{path}: a caption of image {annotation['image_id']}, which is not among its images")
        found.setdefault(names[annotation["image_id"]], []).append(annotation["caption"])
    return found


# ---- batches


@dataclass(frozen=True)
class Pictures:
    """The image that each line is about."""

    features: Features
    rows: Array  # int64 [L] places in the features

    @classmethod
    def of(cls, features: Features, captions: Captions) -> "Pictures":
        """For captions one after the other, image by image."""
        rows = features.rows(list(captions))
        return cls(features, np.repeat(rows, [len(lines) for lines in captions.values()]))

    def mean(self) -> torch.Tensor:
        """The mean features [F] of the images, each counted once."""
        values = self.features.values[np.unique(self.rows)]
        return torch.from_numpy(values.mean(0, dtype=np.float64).astype(np.float32))

    def take(self, lines: Array) -> torch.Tensor:
        """Features [B, F] of some lines on the host, pinned if there is a GPU to copy them to, as the codes are."""
        tensor = image_features(self.features, self.rows[lines])
        return tensor.pin_memory() if torch.cuda.is_available() else tensor


def image_features(features: Features, rows: Array) -> torch.Tensor:
    """Features [B, F] of some images."""
    return torch.from_numpy(features.values[rows].astype(np.float32))


class CaptionBatches(SentenceBatches):
    """Captions in batches of similar length, each with the features of its image; arguments as `SentenceBatches`."""

    def __init__(
        self,
        target: EncodedText,
        pictures: Pictures,
        *,
        tokens: int | None = None,
        sentences: int | None = None,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        shuffle: bool = True,
        max_length: int | None = None,
    ) -> None:
        if len(target) != len(pictures.rows):
            raise InputError(f"{target.name}: {len(target):,} lines about {len(pictures.rows):,} images")
        self.pictures = pictures
        super().__init__(
            target,
            tokens=tokens,
            sentences=sentences,
            seed=seed,
            rank=rank,
            world=world,
            shuffle=shuffle,
            max_length=max_length,
        )

    def _batch(self, chosen: Array) -> Batch:
        batch = super()._batch(chosen)
        lines = batch.index.clamp(min=0).numpy()  # a row that only fills a batch has some image too
        return replace(batch, features=self.pictures.take(lines))


def picture_batch(features: torch.Tensor) -> Batch:
    """Images [B, F] to caption, without targets (T = 0)."""
    nothing = torch.empty(len(features), 0, dtype=torch.long)
    return Batch(nothing, nothing, None, torch.arange(len(features)), features=features, tokens=0)


def all_lines(captions: Captions) -> Sequence[str]:
    """The words of all captions, image by image."""
    return [caption_words(line) for lines in captions.values() for line in lines]
