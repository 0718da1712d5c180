"""Features of named images, and their files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fastmos.errors import InputError
from fastmos.vision.features import Features, FeatureSource, read_features, write_features

GRID = FeatureSource("color-grid", "short 64", "abc")
Array = np.ndarray[Any, np.dtype[Any]]


def some(names: list[str], source: FeatureSource = GRID) -> Features:
    values = np.arange(len(names) * 3, dtype=np.float16).reshape(len(names), 3)
    return Features(names, values, source)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f.safetensors"
    write_features(path, some(["a/x.jpg", "b/y.jpg"]))
    found = read_features(path, "color-grid")
    assert (found.names, found.source, found.width) == (["a/x.jpg", "b/y.jpg"], GRID, 3)
    assert found.values.dtype == np.float16
    assert (found.values == some(["", ""]).values).all()


def test_images_are_found_by_name_with_more_or_fewer_folders() -> None:
    features = some(["a/x.jpg", "b/y.jpg", "c/x.jpg"])
    assert features.rows(["c/x.jpg", "y.jpg", "other/b/y.jpg", "a/x.jpg"]).tolist() == [2, 1, 1, 0]
    with pytest.raises(InputError, match=r"1 of 1 images have no features, such as other/y\.jpg"):
        features.rows(["other/y.jpg"])  # another one of that name
    with pytest.raises(InputError, match=r"2 of 3 images have no features, such as q\.jpg; run fastmos features"):
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
    assert read_features(path, "efficientnet-lite0").source == FeatureSource("efficientnet-lite0")
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
        read_features(path, "color-grid")
    with pytest.raises(InputError, match="no such file"):
        read_features(tmp_path / f"none.{ending}")


def test_another_source_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.safetensors"
    write_features(path, some(["x"]))
    with pytest.raises(InputError, match=r"features of color-grid, but the config says data\.backbone resnet-101"):
        read_features(path, "resnet-101")
    GRID.check(FeatureSource("color-grid"), "x")  # what is not known is not compared
    for other in (
        FeatureSource("y"),
        FeatureSource("color-grid", "short 32"),
        FeatureSource("color-grid", "short 64", "abd"),
    ):
        with pytest.raises(InputError, match="but the run was trained on those of"):
            GRID.check(other, "x")


def test_names_and_features_must_be_as_many() -> None:
    with pytest.raises(InputError, match="2 names"):
        Features(["a", "b"], np.zeros((1, 3), np.float16), GRID)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.array([[1.0, 2.0], [np.nan, 0.0]]), "the features of b are not finite"),
        (np.array([[1.0, np.inf], [0.0, 0.0]], np.float16), "the features of a are not finite"),
        (np.zeros((2, 0)), r"of shape \(2, 0\)"),
        (np.array([["x"], ["y"]]), "they must be numbers"),
    ],
)
def test_features_that_are_none_are_refused(values: Array, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Features(["a", "b"], values, FeatureSource("x"))


def test_rows_are_taken_as_float32() -> None:
    assert some(["a", "b", "c"]).take(np.array([2, 0])).tolist() == [[6.0, 7.0, 8.0], [0.0, 1.0, 2.0]]
    assert some(["a"]).take(np.array([0])).dtype == torch.float32


@pytest.mark.parametrize("value", [None, [], {"network": "x"}])
def test_a_source_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="run: does not say what made the features"):
        FeatureSource.from_json(value, "run")
