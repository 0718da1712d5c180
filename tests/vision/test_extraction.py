"""Features of a folder of images: unreadable files, interruptions, changed files."""

from pathlib import Path

import pytest
import torch
from PIL import Image

from fastmos.errors import InputError
from fastmos.vision import extraction
from fastmos.vision.backbones import load_backbone
from fastmos.vision.extraction import Extraction, extract
from fastmos.vision.features import read_features


def draw(folder: Path, count: int) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        Image.new("RGB", (8, 8), (number, 100, 200)).save(folder / f"{number:02d}.png")


def test_extraction_skips_what_it_cannot_read_and_names_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw(tmp_path / "photos", 5)
    (tmp_path / "photos" / "02.png").write_bytes(b"broken")
    (tmp_path / "photos" / "more").mkdir()
    Image.new("RGB", (9, 9)).save(tmp_path / "photos" / "more" / "x.jpg")
    output = tmp_path / "f.safetensors"
    done = extract(tmp_path / "photos", output, load_backbone("color-grid"))
    assert (done.images, done.gone, len(done.refused)) == (5, 0, 1)
    assert "02.png: not an image" in capsys.readouterr().err
    found = read_features(output)
    assert list(found.names) == ["00.png", "01.png", "03.png", "04.png", "more/x.jpg"]
    assert found.values[2, 0] == pytest.approx(2 * 3 / 255 - 1, abs=1e-3)
    assert not (tmp_path / "f.safetensors.parts").exists()


def test_an_interrupted_extraction_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw(tmp_path / "photos", 10)
    output = tmp_path / "f.safetensors"
    backbone = load_backbone("color-grid")
    monkeypatch.setattr(extraction, "BATCH", 2)
    monkeypatch.setattr(extraction, "PART", 2)
    whole = backbone.features
    seen: list[int] = []

    def features(squares: list[extraction.Array], limit: int = 6) -> torch.Tensor:
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
    with pytest.raises(InputError, match="features of backbone color-grid"):
        other = load_backbone("color-grid")
        other.name = "another"
        extract(tmp_path / "photos", output, other)


def test_a_folder_without_readable_images_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"no")
    with pytest.raises(InputError, match="none of its 1 images can be read"):
        extract(tmp_path, tmp_path / "f.safetensors", load_backbone("color-grid"))
    (tmp_path / "folder").mkdir()
    for photos, output, said in (
        ("none", "f.safetensors", "no such folder"),
        ("x.png", "f.safetensors", "is a file; give the folder"),
        ("", "f.npz", "the file of features is a safetensors file"),
        ("", "folder", "is a folder; give the name of a file"),
    ):
        with pytest.raises(InputError, match=said):
            extract(tmp_path / photos, tmp_path / output, load_backbone("color-grid"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "x.png"]
