"""Features of images, and their files.

A file of features is a safetensors file with one tensor, `features` [I, F]. Its metadata names the images and what made
the features (backbone, preprocessing, a digest of the weights), so that a model is never given other ones.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fastmos.errors import InputError
from fastmos.files import parse_json, written_whole

if TYPE_CHECKING:
    import torch

FORMAT = 1
MISSING, AMBIGUOUS = -1, -2  # in place of a row

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class FeatureSource:
    """The network and preprocessing that made features."""

    backbone: str
    preprocessing: str = ""  # empty: unknown
    weights: str = ""  # digest of the network's weights; empty: unknown

    @classmethod
    def from_json(cls, value: Any, name: str) -> "FeatureSource":
        """From the dict that `asdict` gives; `name` is for messages."""
        try:
            return cls(**{key: str(text) for key, text in value.items()})
        except (TypeError, AttributeError):
            raise InputError(f"{name}: does not say what made the features; is the file complete?") from None

    def check(self, other: "FeatureSource", name: str, whose: str = "the run was trained on") -> None:
        """Refuse features of another source."""
        for what in ("backbone", "preprocessing", "weights"):
            ours, theirs = getattr(self, what), getattr(other, what)
            if ours and theirs and ours != theirs:
                raise InputError(f"{name}: features of {what} {theirs}, but {whose} those of {ours}")


@dataclass(frozen=True)
class Features:
    """Features of named images."""

    names: Sequence[str]
    values: Array  # [I, F] float16 or float32
    source: FeatureSource
    path: str = "features"  # for messages
    stamps: Sequence[str] = ()  # size and time of each image's file, if known, by which a change is noticed

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or len(self.names) != len(self.values) or not self.values.shape[1]:
            raise InputError(f"{self.path}: {len(self.names):,} names for features of shape {self.values.shape}")
        if self.values.dtype.kind not in "fiu":
            raise InputError(f"{self.path}: features of type {self.values.dtype}; they must be numbers")
        wrong = np.flatnonzero(~np.isfinite(self.values).all(1))
        if len(wrong):
            raise InputError(f"{self.path}: the features of {self.names[wrong[0]]} are not finite; extract them again")

    @property
    def width(self) -> int:
        return int(self.values.shape[1])

    def rows(self, names: Sequence[str]) -> Array:
        """The row of each image: int64 [len(names)]. Leading folders of a name may be missing on either side."""
        whole = {name: row for row, name in enumerate(self.names)}
        ends: dict[str, int] = {}  # names without some leading folders
        for row, name in enumerate(self.names):
            for end in _ends(name):
                ends[end] = AMBIGUOUS if end in ends else row
        places = ends | whole  # a whole name is preferred to the end of another

        def place(name: str) -> int:
            if name in places:
                return places[name]
            return next((whole[end] for end in _ends(name) if end in whole), MISSING)

        found = np.array([place(name) for name in names], np.int64)
        missing, ambiguous = (np.flatnonzero(found == what) for what in (MISSING, AMBIGUOUS))
        if len(missing):
            count = f"{len(missing):,} of {len(names):,} images have no features"
            raise InputError(f"{self.path}: {count}, such as {names[missing[0]]}; run fastmos features on them")
        if len(ambiguous):
            name = names[ambiguous[0]]
            one, other = islice((known for known in self.names if known.endswith(f"/{name}")), 2)
            raise InputError(f"{self.path}: {name} may be {one} or {other}; name images with more of their folders")
        return found

    def take(self, rows: Array) -> "torch.Tensor":
        """Features [B, F] of some rows, float32."""
        import torch

        return torch.from_numpy(self.values[rows].astype(np.float32))


def _ends(name: str) -> Iterator[str]:
    """The name without its first folder, without its first two, and so on."""
    while "/" in name:
        name = name.partition("/")[2]
        yield name


def write_features(path: Path, features: Features) -> None:
    """Write a file of features, completely or not at all."""
    from safetensors.numpy import save

    about = {"format": FORMAT, "source": asdict(features.source), "names": list(features.names)}
    if features.stamps:
        about["stamps"] = list(features.stamps)
    with written_whole(path, "wb") as file:
        file.write(save({"features": np.ascontiguousarray(features.values)}, metadata={"fastmos": json.dumps(about)}))


def read_features(path: Path, backbone: str = "") -> Features:
    """Features of a safetensors file, or of an .npz with `names` and `feat`, which `backbone` made."""
    if not path.is_file():
        raise InputError(f"{path}: {'is a folder; give a file' if path.is_dir() else 'no such file'}")
    return _read_npz(path, backbone) if path.suffix == ".npz" else _read_safetensors(path, backbone)


def _read_safetensors(path: Path, backbone: str) -> Features:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            about = parse_json((file.metadata() or {})["fastmos"], str(path))
            values = file.get_tensor("features")
        names, source = [str(name) for name in about["names"]], FeatureSource(**about["source"])
        stamps = [str(stamp) for stamp in about.get("stamps", [])]
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a file of features ({error}); make one with fastmos features") from None
    if about.get("format") != FORMAT:
        raise InputError(f"{path}: features of format {about.get('format')}, but this fastmos reads {FORMAT}")
    if backbone and backbone != source.backbone:
        raise InputError(f"{path}: features of {source.backbone}, but the config says data.backbone {backbone}")
    return Features(names, values, source, str(path), stamps)


def _read_npz(path: Path, backbone: str) -> Features:
    import zipfile

    if not backbone:
        raise InputError(f"{path}: does not say which backbone made it; set data.backbone, such as efficientnet-lite0")
    try:
        with np.load(path, allow_pickle=False) as file:
            names, values = [str(name) for name in file["names"]], file["feat"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: not a file of features with names and feat ({error})") from None
    return Features(names, values, FeatureSource(backbone), str(path))
