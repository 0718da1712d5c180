"""Backbones: features of images, and preprocessing as the networks need it."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fastmos.errors import InputError
from fastmos.vision import backbones
from fastmos.vision.backbones import Preprocessing, load_backbone
from fastmos.vision.extraction import extract
from fastmos.vision.features import FeatureSource, read_features


def test_the_color_grid_is_the_mean_color_of_cells() -> None:
    backbone = load_backbone("color-grid")
    image = Image.new("RGB", (64, 64), "white")
    image.paste("black", (0, 0, 64, 32))
    features = backbone.features([backbone.square(image)]).view(3, backbones.GRID, backbones.GRID)
    assert (features[:, :8] == -1).all() and (features[:, 8:] == 1).all()


def test_lite0_does_not_depend_on_batch_mates() -> None:
    backbone = load_backbone("efficientnet-lite0")
    pixels = np.random.default_rng(0).integers(0, 256, (2, 224, 224, 3), dtype=np.uint8)
    both = backbone.features(list(pixels))
    assert both.shape == (2, 1280) and (both >= 0).all()
    torch.testing.assert_close(backbone.features([pixels[1]]), both[1:], rtol=1e-3, atol=1e-4)
    assert backbone.source == load_backbone("efficientnet-lite0").source


def test_resnet_of_hugging_face_with_random_weights(tmp_path: Path) -> None:
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="bottleneck")
    ResNetModel(config).save_pretrained(tmp_path)
    settings = '{"crop_pct": 0.875, "size": {"shortest_edge": 32}, "image_mean": [0.1, 0.2, 0.3]}'
    (tmp_path / "preprocessor_config.json").write_text(settings)
    backbone = load_backbone(str(tmp_path))
    assert backbone.preprocessing == Preprocessing(36, 32, (0.1, 0.2, 0.3), (0.229, 0.224, 0.225))
    image = Image.new("RGB", (50, 40), "red")
    assert backbone.features([backbone.square(image)] * 2).shape == (2, 16)


@pytest.mark.parametrize(
    ("settings", "short", "crop"),
    [
        ({"size": {"height": 384, "width": 384}}, 384, 384),
        ({"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}}, 256, 224),
        ({"size": 224, "crop_size": 224, "do_center_crop": False}, 224, 224),
        ({"size": {"shortest_edge": 224}, "crop_pct": 0.875}, 256, 224),
        ({"size": {"shortest_edge": 384}, "crop_pct": 0.875}, 384, 384),
        ({}, 224, 224),
    ],
)
def test_variants_of_preprocessing(settings: dict[str, object], short: int, crop: int) -> None:
    found = Preprocessing.from_config(settings, "b")
    assert (found.short, found.crop) == (short, crop)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("resample", [Image.Resampling.BICUBIC, Image.Resampling.BILINEAR, Image.Resampling.LANCZOS])
def test_a_network_sees_what_its_own_preprocessor_makes(
    resample: Image.Resampling, normalized: bool, tmp_path: Path
) -> None:
    from transformers import ConvNextImageProcessorPil, ResNetConfig, ResNetModel

    processor = ConvNextImageProcessorPil(
        size={"shortest_edge": 32},
        crop_pct=0.875,
        resample=resample,
        do_normalize=normalized,
        image_std=[0.2, 0.3, 0.4],
    )
    processor.save_pretrained(tmp_path)
    ResNetModel(ResNetConfig(embedding_size=8, hidden_sizes=[8], depths=[1])).save_pretrained(tmp_path)
    backbone = load_backbone(str(tmp_path))
    backbone.network = torch.nn.Flatten()
    pixels = np.random.default_rng(0).integers(0, 256, (30, 50, 3), dtype=np.uint8)
    image = Image.fromarray(pixels).resize((150, 90))  # becomes 60 x 36, and of that the middle
    expected = processor(image, return_tensors="pt")["pixel_values"]  # [1, 3, 32, 32]
    found = backbone.features([backbone.square(image)])
    std = torch.tensor([0.2, 0.3, 0.4] if normalized else [1.0] * 3)[:, None, None]
    assert ((found.view_as(expected) - expected) * std * 255).abs().max() < 1.01  # a byte, rounded otherwise
    (tmp_path / "photos").mkdir()
    image.save(tmp_path / "photos" / "x.png")
    extract(tmp_path / "photos", tmp_path / "f.safetensors", backbone)
    assert (read_features(tmp_path / "f.safetensors").values == found.numpy().astype(np.float16)).all()


def test_the_filter_is_part_of_the_source() -> None:
    lite0 = load_backbone("efficientnet-lite0")
    bilinear = "short 256, crop 224, mean 0.498039:0.498039:0.498039, std 0.501961:0.501961:0.501961, resample bilinear"
    assert lite0.source.preprocessing == bilinear
    bicubic = FeatureSource("efficientnet-lite0", str(replace(lite0.preprocessing, resample="bicubic")))
    with pytest.raises(InputError, match="resample bicubic, but the run was trained on those of short 256"):
        lite0.source.check(bicubic, "x")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"do_flip_channel_order": True}, r"^backbone b: needs BGR images \(do_flip_channel_order\)"),
        ({"resample": 17}, "^backbone b: its resample 17 is no filter of Pillow"),
        ({"resample": ["x"]}, r"^backbone b: its resample \['x'\] is no filter of Pillow"),
    ],
)
def test_unsupported_preprocessing_is_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Preprocessing.from_config(settings, "b")


def test_a_folder_without_a_model_is_no_backbone(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nor a vision model that can be loaded"):
        load_backbone(str(tmp_path))


def test_a_backbone_cannot_run_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its config names a module of its own; nobody is asked whether to trust it."""
    mark = tmp_path / "executed"
    settings = {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Evil", "AutoModel": "evil.EvilModel"}}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    (tmp_path / "evil.py").write_text(f"open({str(mark)!r}, 'w')")
    monkeypatch.setattr("builtins.input", lambda *asked: pytest.fail("somebody was asked"))
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 9))
    with pytest.raises(InputError, match=r"nor a vision model that can be loaded \(.*custom code"):
        load_backbone(str(tmp_path))
    assert not mark.exists()


@pytest.mark.parametrize("content", ["[]", "{", '{"model_type": "resnet", "depths": "x"}', "[" * 100_000])
def test_a_damaged_backbone_gets_a_sentence(content: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(InputError, match="nor a vision model that can be loaded"):
        load_backbone(str(tmp_path))
