"""Files of features and the backbones that make them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fastmos.data import backbones
from fastmos.data.backbones import Extraction, Preprocessing, extract, load_backbone
from fastmos.data.features import Features, Origin, read_features, write_features
from fastmos.errors import InputError

GRID = Origin("colour-grid", "short 64", "abc")


def some(names: list[str], origin: Origin = GRID) -> Features:
    values = np.arange(len(names) * 3, dtype=np.float16).reshape(len(names), 3)
    return Features(names, values, origin)


def draw(folder: Path, count: int) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        Image.new("RGB", (8, 8), (number, 100, 200)).save(folder / f"{number:02d}.png")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f.safetensors"
    write_features(path, some(["a/x.jpg", "b/y.jpg"]))
    found = read_features(path, "colour-grid")
    assert (found.names, found.origin, found.width) == (["a/x.jpg", "b/y.jpg"], GRID, 3)
    assert found.values.dtype == np.float16
    assert (found.values == some(["", ""]).values).all()


def test_images_are_found_by_name_with_more_or_fewer_folders() -> None:
    features = some(["a/x.jpg", "b/y.jpg", "c/x.jpg"])
    assert features.rows(["c/x.jpg", "y.jpg", "other/b/y.jpg", "a/x.jpg"]).tolist() == [2, 1, 1, 0]
    with pytest.raises(InputError, match=r"1 of 1 images have no features, as other/y\.jpg"):
        features.rows(["other/y.jpg"])  # another one of that name
    with pytest.raises(InputError, match=r"2 of 3 images have no features, as q\.jpg; run fastmos features"):
        features.rows(["q.jpg", "y.jpg", "z.jpg"])
    with pytest.raises(InputError, match=r"x\.jpg may be a/x\.jpg or c/x\.jpg; name images with more of their folders"):
        features.rows(["y.jpg", "x.jpg"])


@pytest.mark.parametrize(
    ("stored", "name", "row"),
    [
        (["a/x.jpg", "b/x.jpg"], "root/a/x.jpg", 0),
        (["a/x.jpg", "b/x.jpg"], "/very/deep/root/b/x.jpg", 1),
        (["s/a/x.jpg", "s/b/x.jpg", "t/b/x.jpg"], "a/x.jpg", 0),
        (["s/a/x.jpg", "s/b/x.jpg", "t/b/x.jpg"], "root/t/b/x.jpg", 2),
        (["a/x.jpg", "x.jpg"], "x.jpg", 1),
        (["a/x.jpg", "x.jpg"], "root/a/x.jpg", 0),
        (["a/x.jpg", "x.jpg"], "b/x.jpg", 1),
        (["/a/x.jpg", "/b/x.jpg"], "b/x.jpg", 1),
    ],
)
def test_names_that_end_alike_are_told_apart_by_their_folders(stored: list[str], name: str, row: int) -> None:
    assert some(stored).rows([name]).tolist() == [row]


@pytest.mark.parametrize(
    ("stored", "name", "said"),
    [
        (["a/x.jpg", "b/x.jpg"], "c/x.jpg", "1 of 1 images have no features"),
        (["a/x.jpg", "ba/x.jpg"], "root/a/y.jpg", "1 of 1 images have no features"),
        (["s/b/x.jpg", "t/b/x.jpg"], "b/x.jpg", r"b/x\.jpg may be s/b/x\.jpg or t/b/x\.jpg"),
    ],
)
def test_names_of_no_image_or_of_several_are_refused(stored: list[str], name: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        some(stored).rows([name])


def test_an_npz_needs_a_backbone_and_no_pickle(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    np.savez(path, names=np.array(["x.jpg"]), feat=np.ones((1, 4), np.float16))
    assert read_features(path, "efficientnet-lite0").origin == Origin("efficientnet-lite0")
    with pytest.raises(InputError, match=r"set data\.backbone"):
        read_features(path)
    np.savez(path, names=np.array(["x.jpg"], dtype=object), feat=np.ones((1, 4)))
    with pytest.raises(InputError, match="not a file of features"):
        read_features(path, "efficientnet-lite0")


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x08" + bytes(7) + b'{"a":{}}', b"PK\x03\x04"])
@pytest.mark.parametrize("ending", ["safetensors", "npz"])
def test_damaged_files_are_refused(content: bytes, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"f.{ending}"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a file of features"):
        read_features(path, "colour-grid")
    with pytest.raises(InputError, match="no such file"):
        read_features(tmp_path / f"none.{ending}")


def test_another_origin_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.safetensors"
    write_features(path, some(["x"]))
    with pytest.raises(InputError, match=r"features of colour-grid, but the config says data\.backbone resnet-101"):
        read_features(path, "resnet-101")
    GRID.check(Origin("colour-grid"), "x")  # what is not known is not compared
    for other in (Origin("y"), Origin("colour-grid", "short 32"), Origin("colour-grid", "short 64", "abd")):
        with pytest.raises(InputError, match="but the run learnt from those of"):
            GRID.check(other, "x")


def test_names_and_features_must_be_as_many() -> None:
    with pytest.raises(InputError, match="2 names"):
        Features(["a", "b"], np.zeros((1, 3), np.float16), GRID)


# ---- backbones


def test_the_colour_grid_is_the_mean_colour_of_cells() -> None:
    backbone = load_backbone("colour-grid")
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
    assert backbone.origin == load_backbone("efficientnet-lite0").origin


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
def test_dialects_of_preprocessing(settings: dict[str, object], short: int, crop: int) -> None:
    found = backbones._preprocessing(settings)
    assert (found.short, found.crop) == (short, crop)


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("resample", [Image.Resampling.BICUBIC, Image.Resampling.BILINEAR, Image.Resampling.LANCZOS])
def test_a_network_sees_what_its_own_preprocessor_makes(
    resample: Image.Resampling, normalised: bool, tmp_path: Path
) -> None:
    from transformers import ConvNextImageProcessorPil, ResNetConfig, ResNetModel

    processor = ConvNextImageProcessorPil(
        size={"shortest_edge": 32},
        crop_pct=0.875,
        resample=resample,
        do_normalize=normalised,
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
    std = torch.tensor([0.2, 0.3, 0.4] if normalised else [1.0] * 3)[:, None, None]
    assert ((found.view_as(expected) - expected) * std * 255).abs().max() < 1.01  # a byte, rounded otherwise
    draw(tmp_path / "photos", 0)
    image.save(tmp_path / "photos" / "x.png")
    extract(tmp_path / "photos", tmp_path / "f.safetensors", backbone)
    assert (read_features(tmp_path / "f.safetensors").values == found.numpy().astype(np.float16)).all()


def test_the_filter_is_part_of_the_origin_and_bilinear_goes_without_saying() -> None:
    """Files of features from before there was a choice stay valid, and are not taken for those of another filter."""
    lite0 = load_backbone("efficientnet-lite0")
    old = "short 256, crop 224, mean 0.498039:0.498039:0.498039, std 0.501961:0.501961:0.501961"
    assert (lite0.origin.preprocessing, lite0.preprocessing.resample) == (old, "bilinear")
    lite0.origin.check(Origin("efficientnet-lite0", old, lite0.origin.weights), "x")
    bicubic = Origin("efficientnet-lite0", str(replace(lite0.preprocessing, resample="bicubic")))
    assert bicubic.preprocessing == f"{old}, resample bicubic"
    with pytest.raises(InputError, match="resample bicubic, but the run learnt from those of short 256"):
        lite0.origin.check(bicubic, "x")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"do_flip_channel_order": True}, r"^backbone b: wants blue before red \(do_flip_channel_order\)"),
        ({"resample": 17}, "^backbone b: its resample 17 is no filter of Pillow"),
        ({"resample": ["x"]}, r"^backbone b: its resample \['x'\] is no filter of Pillow"),
    ],
)
def test_preprocessing_that_is_not_made_is_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        backbones._preprocessing(settings, "b")


def test_a_backbone_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="nor a vision model that can be had"):
        load_backbone(str(tmp_path))


# ---- a folder of photos


def test_extraction_skips_what_it_cannot_read_and_names_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw(tmp_path / "photos", 5)
    (tmp_path / "photos" / "02.png").write_bytes(b"broken")
    (tmp_path / "photos" / "more").mkdir()
    Image.new("RGB", (9, 9)).save(tmp_path / "photos" / "more" / "x.jpg")
    output = tmp_path / "f.safetensors"
    done = extract(tmp_path / "photos", output, load_backbone("colour-grid"))
    assert (done.images, done.gone, len(done.refused)) == (5, 0, 1)
    assert "02.png: not an image" in capsys.readouterr().err
    found = read_features(output)
    assert list(found.names) == ["00.png", "01.png", "03.png", "04.png", "more/x.jpg"]
    assert found.values[2, 0] == pytest.approx(2 * 3 / 255 - 1, abs=1e-3)
    assert not (tmp_path / "f.safetensors.parts").exists()


def test_an_interrupted_extraction_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw(tmp_path / "photos", 10)
    output = tmp_path / "f.safetensors"
    backbone = load_backbone("colour-grid")
    monkeypatch.setattr(backbones, "BATCH", 2)
    monkeypatch.setattr(backbones, "PART", 2)
    whole = backbone.features
    seen: list[int] = []

    def features(squares: list[backbones.Array], limit: int = 6) -> torch.Tensor:
        if len(seen) >= limit:
            raise KeyboardInterrupt
        seen.extend(square[0, 0, 0] for square in squares)
        return whole(squares)

    monkeypatch.setattr(backbone, "features", features)
    with pytest.raises(KeyboardInterrupt):
        extract(tmp_path / "photos", output, backbone)
    assert seen == [0, 1, 2, 3, 4, 5] and not output.exists()
    seen.clear()
    monkeypatch.setattr(backbone, "features", lambda squares: features(squares, 100))
    assert extract(tmp_path / "photos", output, backbone) == Extraction(10, 0, [])
    assert seen == [6, 7, 8, 9]
    first = read_features(output)
    assert list(first.names) == [f"{number:02d}.png" for number in range(10)]
    assert [round((value + 1) * 127.5) for value in first.values[:, 0].tolist()] == list(range(10))

    for number in (10, 11):  # two more photos
        Image.new("RGB", (64, 64), (number, 0, 0)).save(tmp_path / "photos" / f"{number:02d}.png")
    seen.clear()
    assert extract(tmp_path / "photos", output, backbone) == Extraction(12, 0, [])
    assert seen == [10, 11]

    Image.new("RGB", (64, 64), (77, 0, 0)).save(tmp_path / "photos" / "03.png")  # another photo of an old name
    (tmp_path / "photos" / "05.png").unlink()
    seen.clear()
    assert extract(tmp_path / "photos", output, backbone) == Extraction(12, 1, [])
    assert seen == [77]
    last = read_features(output)
    assert round((float(last.values[last.rows(["03.png"])[0], 0]) + 1) * 127.5) == 77
    with pytest.raises(InputError, match="features of backbone colour-grid"):
        other = load_backbone("colour-grid")
        other.name = "another"
        extract(tmp_path / "photos", output, other)


def test_a_folder_without_readable_images_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"no")
    with pytest.raises(InputError, match="none of its 1 images can be read"):
        extract(tmp_path, tmp_path / "f.safetensors", load_backbone("colour-grid"))
    (tmp_path / "folder").mkdir()
    for photos, output, said in (
        ("none", "f.safetensors", "no such folder"),
        ("x.png", "f.safetensors", "is a file; give the folder"),
        ("", "f.npz", "a safetensors file is written"),
        ("", "folder", "is a folder; give the name of a file"),
    ):
        with pytest.raises(InputError, match=said):
            extract(tmp_path / photos, tmp_path / output, load_backbone("colour-grid"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "x.png"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.array([[1.0, 2.0], [np.nan, 0.0]]), "the features of b are not finite"),
        (np.array([[1.0, np.inf], [0.0, 0.0]], np.float16), "the features of a are not finite"),
        (np.zeros((2, 0)), r"of shape \(2, 0\)"),
        (np.array([["x"], ["y"]]), "they must be numbers"),
    ],
)
def test_features_that_are_none_are_refused(values: backbones.Array, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Features(["a", "b"], values, Origin("x"))
