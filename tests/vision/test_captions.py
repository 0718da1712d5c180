"""Caption files of three formats."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from fastmos.errors import InputError
from fastmos.vision.captions import (
    caption_lines,
    caption_words,
    has_splits,
    read_captions,
)

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
    assert caption_lines(found) == ["a cat", "a dog", "one dog"]
    with pytest.raises(InputError, match=r"1 images have no captions in .*, such as c\.jpg"):
        read_captions(token, "train", write(tmp_path / "test.txt", "a.jpg\nc.jpg\n"))
    with pytest.raises(InputError, match=r"none\.txt: names no images; give one per line"):
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
        ({**KARPATHY, "images": [{**KARPATHY["images"][0], "sentences": []}]}, "no captions for val2014/dog.jpg"),
        (
            {"images": [{**KARPATHY["images"][0], "sentences": [{"raw": None}]}]},
            "a caption that is not text for val2014",
        ),
        ({**COCO, "annotations": [{"image_id": 99, "caption": "x"}]}, "a caption of image 99, which is not among"),
        ("{", "not valid JSON"),
    ],
)
def test_other_files_are_refused(value: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        read_captions(write(tmp_path / "x.json", value), "train")


def test_only_karpathys_file_has_splits(tmp_path: Path) -> None:
    assert has_splits(write(tmp_path / "karpathy.json", KARPATHY))
    assert not has_splits(write(tmp_path / "coco.json", COCO))
    assert not has_splits(write(tmp_path / "flickr.txt", "a.jpg#0\tA dog .\n"))


def test_real_flickr8k(real_data: Path) -> None:
    folder = real_data / "flickr8k"
    if not folder.is_dir():
        pytest.skip("no flickr8k in FASTMOS_DATA")
    captions = read_captions(folder / "Flickr8k.token.txt.gz", "train", folder / "Flickr_8k.trainImages.txt")
    lines = caption_lines(captions)
    assert (len(captions), len(lines)) == (6000, 30000)
    assert len({word for line in lines for word in line.split()}) == 7690
