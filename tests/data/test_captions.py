"""Caption datasets in their own formats, and batches that carry each line's image."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fastmos.data import EncodedText
from fastmos.data.captions import (
    CaptionBatches,
    Pictures,
    all_lines,
    caption_words,
    picture_batch,
    read_captions,
)
from fastmos.data.features import Features, Origin
from fastmos.errors import InputError

KARPATHY = {
    "images": [
        {
            "filename": f"{name}.jpg",
            "filepath": "val2014",
            "split": split,
            "sentences": [{"tokens": ["a", name], "raw": f"A {name}."}, {"tokens": ["some", name]}],
        }
        for name, split in [("dog", "train"), ("cat", "val"), ("cow", "restval"), ("hen", "test")]
    ]
}
COCO = {
    "images": [{"id": 7, "file_name": "dog.jpg"}, {"id": 8, "file_name": "cat.jpg"}],
    "annotations": [{"image_id": 8, "caption": "A cat."}, {"image_id": 7, "caption": "A dog."}],
}


def write(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


@pytest.mark.parametrize(
    ("caption", "words"),
    [
        ("A child , in a PINK dress .", "a child in a pink dress"),
        ("Race dog # 2 !", "race dog 2"),
        ("The dog 's t-shirt isn't on statefarm.com", "the dog 's t-shirt isn't on statefarm.com"),
        ('" & ; --', ""),
        ("Ein Bär läuft", "ein bär läuft"),
    ],
)
def test_words_of_captions(caption: str, words: str) -> None:
    assert caption_words(caption) == words


def test_flickr8k(tmp_path: Path) -> None:
    token = tmp_path / "token.txt.gz"
    token.write_bytes(gzip.compress(b"a.jpg#0\tA dog .\nb.jpg#0\tA cat .\na.jpg#1\tOne dog\n"))
    names = write(tmp_path / "train.txt", "b.jpg\na.jpg\n\n")
    found = read_captions(token, "train", names)
    assert found == {"b.jpg": ["A cat ."], "a.jpg": ["A dog .", "One dog"]}
    assert list(found) == ["b.jpg", "a.jpg"]
    assert all_lines(found) == ["a cat", "a dog", "one dog"]
    with pytest.raises(InputError, match=r"1 images have no captions in .*, as c\.jpg"):
        read_captions(token, "train", write(tmp_path / "test.txt", "a.jpg\nc.jpg\n"))
    with pytest.raises(InputError, match=r"none\.txt: names no images; give one a line"):
        read_captions(token, "train", write(tmp_path / "none.txt", "\n"))
    with pytest.raises(InputError, match="line 2: not of the form"):
        read_captions(write(tmp_path / "bad.txt", "a.jpg#0\tA dog .\nb.jpg A cat\n"), "train")


def test_karpathy(tmp_path: Path) -> None:
    path = write(tmp_path / "dataset_coco.json", KARPATHY)
    expected = {"train": ["dog", "cow"], "valid": ["cat"], "test": ["hen"]}
    for split, names in expected.items():
        found = read_captions(path, split)
        assert found == {f"val2014/{name}.jpg": [f"A {name}.", f"some {name}"] for name in names}
    listed = read_captions(path, "test", write(tmp_path / "names.txt", "val2014/dog.jpg\n"))
    assert list(listed) == ["val2014/dog.jpg"]


def test_coco_annotations(tmp_path: Path) -> None:
    path = write(tmp_path / "captions_val2014.json", COCO)
    assert read_captions(path, "valid") == {"cat.jpg": ["A cat."], "dog.jpg": ["A dog."]}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"images": [{"filename": "x"}]}, "neither Karpathy's file nor annotations of COCO"),
        ({"images": []}, "no captions of the split train"),
        ({"annotations": [{"id": 3}], "images": []}, "neither Karpathy's"),
        ([1, 2], r"nor annotations of COCO \(its parts are of other types\)"),
        ({"images": [1]}, "its parts are of other types"),
        ({**KARPATHY, "images": [{**KARPATHY["images"][0], "sentences": []}]}, "no captions of val2014/dog.jpg"),
        ({"images": [{**KARPATHY["images"][0], "sentences": [{"raw": None}]}]}, "a caption is no text of val2014/dog"),
        ({**COCO, "annotations": [{"image_id": 99, "caption": "x"}]}, "a caption of image 99, which is not among"),
        ("{", "not valid JSON"),
    ],
)
def test_other_files_are_refused(value: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        read_captions(write(tmp_path / "x.json", value), "train")


def gallery() -> tuple[EncodedText, Pictures]:
    """Nine lines about three images; the features of image i are all i, and a line's codes name its image."""
    features = Features(["a", "b", "c"], np.repeat(np.arange(3, dtype=np.float16), 4).reshape(3, 4), Origin("x"))
    captions = {"c": ["x"] * 2, "a": ["x"] * 4, "b": ["x"] * 3}
    pictures = Pictures.of(features, captions)
    assert pictures.rows.tolist() == [2, 2, 0, 0, 0, 0, 1, 1, 1]
    lines = [[10 + row] * (1 + number % 3) for number, row in enumerate(pictures.rows.tolist())]
    return EncodedText.of(lines), pictures


@pytest.mark.parametrize("world", [1, 2, 4])
def test_each_line_comes_with_its_image(world: int) -> None:
    text, pictures = gallery()
    seen = []
    for rank in range(world):
        for batch in CaptionBatches(text, pictures, sentences=2, rank=rank, world=world).epoch(0):
            assert batch.features is not None
            assert batch.features.dtype.is_floating_point and batch.features.shape == (len(batch), 4)
            for row, line in enumerate(batch.index.tolist()):
                if line >= 0:
                    assert batch.features[row].tolist() == [int(batch.target[row, 0]) - 10] * 4
                    seen.append(line)
    assert sorted(seen) == list(range(9))


def test_all_that_is_copied_to_a_gpu_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned: list[torch.Tensor] = []

    def pin(tensor: torch.Tensor) -> torch.Tensor:
        pinned.append(tensor)
        return tensor

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    text, pictures = gallery()
    for batch in CaptionBatches(text, pictures, sentences=2, rank=1, world=2).epoch(0):
        for part in (batch.inputs, batch.target, batch.features):
            assert any(part is one for one in pinned)


def test_lines_and_images_must_be_as_many() -> None:
    text, pictures = gallery()
    with pytest.raises(InputError, match="9 lines about 8 images"):
        CaptionBatches(text, Pictures(pictures.features, pictures.rows[:8]), sentences=2)


def test_images_to_caption_have_no_targets() -> None:
    _, pictures = gallery()
    batch = picture_batch(pictures.take(np.arange(5)))
    assert (len(batch), batch.tokens, tuple(batch.inputs.shape)) == (5, 0, (5, 0))


def test_real_flickr8k(real_data: Path) -> None:
    folder = real_data / "flickr8k"
    if not folder.is_dir():
        pytest.skip("no flickr8k in FASTMOS_DATA")
    captions = read_captions(folder / "Flickr8k.token.txt.gz", "train", folder / "Flickr_8k.trainImages.txt")
    lines = all_lines(captions)
    assert (len(captions), len(lines)) == (6000, 30000)
    assert len({word for line in lines for word in line.split()}) == 7690
