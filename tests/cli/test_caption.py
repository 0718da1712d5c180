"""`fastmos caption` and `fastmos features`: a line for each image, and a sentence for what is not one."""

import os
from pathlib import Path

from PIL import Image

from fastmos.vision.features import read_features
from tests.cli.calling import Command


def test_every_image_gets_its_captions(captioner: Path, tmp_path: Path, run_command: Command) -> None:
    photos = tmp_path / "photos & <more>"
    photos.mkdir()
    for name in ("a.png", "b.png"):
        Image.new("RGB", (30, 20), "red").save(photos / name)
    sheet = tmp_path / "sheet.html"
    done = run_command("caption", captioner, photos, "--nbest", 2, "--beam-size", 3, "--html", sheet)
    assert done.code == 0
    lines = [line.split("\t") for line in done.out.splitlines()]
    assert [path for path, _ in lines] == [str(photos / name) for name in ("a.png", "a.png", "b.png", "b.png")]
    page = sheet.read_text()
    assert page.count("data:image/jpeg;base64,") == 2 and all(text in page for _, text in lines)


def test_odd_names_keep_a_line_each(captioner: Path, tmp_path: Path, run_command: Command) -> None:
    sheet = tmp_path / "sheet.html"
    for name in ("tab\tname.png", os.fsdecode(b"bad\xff.png")):
        Image.new("RGB", (30, 20), "red").save(tmp_path / name)
        done = run_command("caption", captioner, tmp_path / name, "--html", sheet)
        assert (done.code, done.out.count("\t")) == (0, 1) and sheet.read_text().count("<img") == 1


def test_what_cannot_be_captioned_is_named(captioner: Path, tmp_path: Path, run_command: Command) -> None:
    good, broken, none = (tmp_path / name for name in ("b.png", "aa.png", "none.png"))
    Image.new("RGB", (30, 20), "red").save(good)
    broken.write_bytes(b"broken")
    done = run_command("caption", captioner, broken, good, none)
    assert done.code == 2
    assert [line.split("\t")[0] for line in done.out.splitlines()] == [str(good)]
    assert "aa.png: not an image" in done.err and "none.png: no such file" in done.err
    assert "2 of 3 images could not be captioned" in done.err
    refused = run_command("caption", captioner, good, "--html", good)
    assert refused.code == 2 and "is read, and would be replaced" in refused.err


def test_features_of_a_folder(tmp_path: Path, scenes: Path, run_command: Command) -> None:
    output = tmp_path / "out.safetensors"
    done = run_command("features", scenes / "images", "-o", output, "--backbone", "color-grid")
    assert (done.code, done.out) == (0, f"{output}: features of 23 images\n")
    assert (read_features(output).values == read_features(scenes / "f.safetensors").values).all()
