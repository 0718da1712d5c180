"""Caption files of datasets: images and their captions.

Three formats are read: Flickr8k's token file (`image#n<TAB>caption`, with lists of images for its splits), Karpathy's
JSON, which has splits, and the annotations of COCO.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastmos.errors import InputError
from fastmos.files import read_json, read_lines

WORD = re.compile(r"'?\w+(?:[-'’.]\w+)*")
SPLITS = {"train": ("train", "restval"), "valid": ("val",), "test": ("test",)}  # our split -> Karpathy's

Captions = dict[str, list[str]]  # image -> its captions


def caption_words(caption: str) -> str:
    """The words of a caption as models are trained on them: lowercased, without punctuation, joined by spaces."""
    return " ".join(WORD.findall(caption.lower()))


def read_captions(path: Path, split: str, images: Path | None = None) -> Captions:
    """The captions of the images that the file `images` lists, or without it of that split of `path`."""
    found = _json(path, split, whole=images is not None) if _is_json(path) else _flickr(path)
    if images is not None:
        names = [line.strip() for line in read_lines(images) if line.strip()]
        if not names:
            raise InputError(f"{images}: names no images; give one per line")
        missing = [name for name in names if name not in found]
        if missing:
            raise InputError(f"{images}: {len(missing):,} images have no captions in {path}, such as {missing[0]}")
        found = {name: found[name] for name in names}
    if not found:
        raise InputError(f"{path}: no captions of the split {split}; give a list of its images as data.{split}.source")
    for name, lines in found.items():
        if not lines or not all(isinstance(line, str) for line in lines):
            wrong = "a caption that is not text" if lines else "no captions"
            raise InputError(f"{path}: has {wrong} for {name}; correct the file")
    return found


def has_splits(path: Path) -> bool:
    """Does the file say which split each image belongs to?"""
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


def caption_lines(captions: Captions) -> list[str]:
    """The words of all captions, image by image."""
    return [caption_words(line) for lines in captions.values() for line in lines]
