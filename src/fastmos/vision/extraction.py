"""Features of all images in a folder, as `fastmos features` extracts them."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from fastmos.errors import InputError, printable
from fastmos.files import check_output
from fastmos.progress import progress
from fastmos.vision.backbones import Backbone
from fastmos.vision.features import Features, FeatureSource, read_features, write_features
from fastmos.vision.images import decode_images, find_images

BATCH = 32  # images
PART = 1024  # images whose features are saved together

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Extraction:
    """What `extract` did."""

    images: int  # images in the file of features
    gone: int  # of these, images of earlier calls that are no longer in the folder
    refused: list[InputError]  # why other images could not be read


def extract(photos: Path, output: Path, backbone: Backbone) -> Extraction:
    """Write the features of all images in a folder to a file.

    An interrupted call resumes; images that `output` has already are extracted again only if their files changed.
    """
    if not photos.is_dir():
        what = "is a file; give the folder that holds it" if photos.exists() else "no such folder"
        raise InputError(f"{photos}: {what}")
    if output.suffix == ".npz":
        raise InputError(f"{output}: the file of features is a safetensors file; give a name with that suffix")
    check_output(output)
    files = {file.relative_to(photos).as_posix(): file for file in find_images([photos])}
    stamps = {name: _stamp(file) for name, file in files.items()}
    parts = output.with_name(f"{output.name}.parts")
    source = backbone.source
    done = _done_before([output, *sorted(parts.glob("*.safetensors"))], source)
    done = {name: one for name, one in done.items() if one[1] in ("", stamps.get(name, one[1]))}
    names = {file: name for name, file in files.items() if name not in done}
    refused: list[InputError] = []
    shown = progress(_features_of(list(names), backbone, refused), "features", len(files), len(files) - len(names))
    number = 1 + len(list(parts.glob("*")))
    while rows := list(islice(shown, PART)):
        new = {names[file]: (row, stamps[names[file]]) for file, row in rows}
        write_features(parts / f"{number:06d}.safetensors", _features(new, source))
        done |= new
        number += 1
    if not done:
        raise InputError(f"{photos}: none of its {len(files):,} images can be read ({refused[0]})")
    write_features(output, _features(done, source))
    shutil.rmtree(parts, ignore_errors=True)
    return Extraction(len(done), len(done.keys() - files.keys()), refused)


Done = dict[str, tuple[Array, str]]  # image -> its features [F], and the stamp of its file


def _stamp(file: Path) -> str:
    about = file.stat()
    return f"{about.st_size}-{about.st_mtime_ns}"


def _features(done: Done, source: FeatureSource) -> Features:
    rows, stamps = zip(*done.values(), strict=True)
    return Features(list(done), np.stack(rows), source, stamps=stamps)


def _done_before(files: Sequence[Path], source: FeatureSource) -> Done:
    """What earlier calls have extracted; later files override earlier ones."""
    done: Done = {}
    for file in files:
        if file.is_file():
            features = read_features(file)
            source.check(features.source, features.path, "this backbone makes")
            stamps = features.stamps or [""] * len(features.names)
            done |= dict(zip(features.names, zip(features.values, stamps, strict=True), strict=True))
    return done


def _features_of(files: Sequence[Path], backbone: Backbone, refused: list[InputError]) -> Iterator[tuple[Path, Array]]:
    """Features, float16, of the files that can be read; the next images are decoded in threads meanwhile."""
    preprocessing = backbone.preprocessing
    decoded = decode_images(files, preprocessing.short, preprocessing.crop, preprocessing.resample)
    while batch := list(islice(decoded, BATCH)):
        good = [(file, square) for file, square in batch if not isinstance(square, InputError)]
        for _, square in batch:
            if isinstance(square, InputError):
                refused.append(square)
                print(f"fastmos: {printable(square)}", file=sys.stderr)
        if good:
            values = backbone.features([square for _, square in good]).cpu().numpy().astype(np.float16)
            yield from zip((file for file, _ in good), values, strict=True)
