"""Images of every awkward kind become RGB squares, or a sentence."""

import io
import os
import struct
import threading
import warnings
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fastmos.errors import InputError
from fastmos.vision import images
from fastmos.vision.images import center_square, decode_images, find_images, read_image, upright_rgb


@pytest.fixture(autouse=True)
def new_filters() -> None:
    """Pytest gives each test its own filters of warnings."""
    images._silence_pillow.cache_clear()


def noise(width: int = 20, height: int = 10) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def saved(image: Image.Image, kind: str) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind)
    return stream.getvalue()


def animated() -> bytes:
    stream = io.BytesIO()
    frames = [Image.new("RGB", (8, 8), color) for color in ("red", "blue")]
    frames[0].save(stream, "GIF", save_all=True, append_images=frames[1:])
    return stream.getvalue()


def sixteen_bits() -> bytes:
    return saved(Image.fromarray(np.full((6, 6), 0x8080, np.uint16)), "PNG")


def rotated() -> bytes:
    """Left half red, right half blue, to be turned clockwise: red comes to the top."""
    image = Image.new("RGB", (20, 10), "red")
    image.paste("blue", (10, 0, 20, 10))
    exif = Image.Exif()
    exif[0x0112] = 6
    stream = io.BytesIO()
    image.save(stream, "PNG", exif=exif)
    return stream.getvalue()


def bomb(width: int, height: int) -> bytes:
    """A PNG of a hundred bytes that claims to have so many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def transparent() -> bytes:
    return saved(Image.new("RGBA", (4, 4), (255, 0, 0, 0)), "PNG")


@pytest.mark.parametrize(
    ("make", "size", "corner"),
    [
        (lambda: saved(noise().convert("CMYK"), "JPEG"), (20, 10), None),
        (lambda: saved(noise().convert("1"), "PNG"), (20, 10), None),
        (lambda: saved(noise().convert("P"), "GIF"), (20, 10), None),
        (lambda: saved(noise().convert("L"), "TIFF"), (20, 10), None),
        (lambda: saved(noise(), "WEBP"), (20, 10), None),
        (animated, (8, 8), (255, 0, 0)),
        (sixteen_bits, (6, 6), (128, 128, 128)),
        (rotated, (10, 20), (255, 0, 0)),
        (transparent, (4, 4), (255, 255, 255)),
        (lambda: saved(noise(1, 1), "PNG"), (1, 1), None),
    ],
    ids=["cmyk", "one bit", "palette", "gray", "webp", "animated", "16 bits", "rotated", "transparent", "one pixel"],
)
def test_awkward_images_are_read(
    make: Callable[[], bytes], size: tuple[int, int], corner: tuple[int, int, int] | None, tmp_path: Path
) -> None:
    path = tmp_path / "photo"
    path.write_bytes(make())
    image = read_image(path)
    assert (image.mode, image.size) == ("RGB", size)
    assert corner is None or np.abs(np.subtract(image.getpixel((0, 0)), corner)).max() <= 1  # type: ignore[arg-type]
    assert center_square(image, 16, 14).shape == (14, 14, 3)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: b"", "not an image"),
        (lambda: b"hello, I am text", "not an image"),
        (lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image"),
        (lambda: saved(noise(64, 64), "JPEG")[:500], "damaged|not an image"),
        (lambda: saved(noise(64, 64), "PNG")[:2000], "damaged"),
        (lambda: saved(noise(64, 64), "PNG").replace(b"IDAT", b"IDAX"), "damaged|not an image"),
        (lambda: bomb(11_000, 10_000), r"11,000 x 10,000 pixels are more than 100,000,000; make it smaller"),
        (lambda: bomb(60_000, 60_000), "more than 100,000,000 pixels; make it smaller"),
    ],
    ids=["empty", "text", "eps", "half jpeg", "half png", "bad png", "large", "bomb"],
)
def test_bad_images_are_refused_in_a_sentence(make: Callable[[], bytes], said: str, tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(make())
    with pytest.raises(InputError, match=said) as caught:
        read_image(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


def odd_metadata() -> bytes:
    """A JPEG with a description that is said to lie far behind the file's end."""
    exif = Image.Exif()
    exif[0x010E] = "a description"
    stream = io.BytesIO()
    noise().save(stream, "JPEG", exif=exif)
    where = bytes(3) + b"\x1a"  # 26 bytes from the start of the metadata
    assert stream.getvalue().count(where) == 1
    return stream.getvalue().replace(where, b"\x00\xff\x00\x00")


@pytest.fixture
def all_warnings() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def test_warnings_of_pillow_are_ignored_and_others_are_not(
    tmp_path: Path, all_warnings: list[warnings.WarningMessage]
) -> None:
    path = tmp_path / "photo"
    path.write_bytes(odd_metadata())
    assert read_image(path).size == (20, 10)
    path.write_bytes(saved(Image.fromarray(np.array([[-np.inf, 0, np.inf]], np.float32)), "TIFF"))
    assert np.asarray(read_image(path))[0, :, 0].tolist() == [0, 128, 255]
    path.write_bytes(bomb(9_500, 9_500))
    with pytest.raises(InputError, match="damaged"):  # it is not too large for us
        read_image(path)
    assert all_warnings == []
    for kind in (UserWarning, RuntimeWarning, DeprecationWarning):
        warnings.warn("mine", kind, stacklevel=1)
    assert [one.category for one in all_warnings] == [UserWarning, RuntimeWarning, DeprecationWarning]


def test_threads_that_read_leave_warnings_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, all_warnings: list[warnings.WarningMessage]
) -> None:
    """Two overlap, and the one that began first ends first."""
    path = tmp_path / "photo.png"
    path.write_bytes(saved(noise(), "PNG"))
    first_began, second_began = threading.Event(), threading.Event()

    def overlapping(image: Image.Image, name: str) -> Image.Image:
        if not first_began.is_set():
            first_began.set()
            assert second_began.wait(60)
        else:
            second_began.set()
            first.result(60)
        return image

    monkeypatch.setattr(images, "upright_rgb", overlapping)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(read_image, path)
        assert first_began.wait(60)
        pool.submit(read_image, path).result(60)
    warnings.warn("mine", stacklevel=1)
    assert [str(one.message) for one in all_warnings] == ["mine"]


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_image(tmp_path / "none.jpg")
    with pytest.raises(InputError, match="is a folder"):
        read_image(tmp_path)
    with pytest.raises(InputError, match="no images in this folder"):
        find_images([tmp_path])
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(InputError, match="not a regular file"):  # and nobody waits for it
        read_image(tmp_path / "pipe.jpg")


@pytest.mark.parametrize(
    "mode", ["1", "L", "La", "LA", "P", "PA", "RGBa", "RGBA", "RGBX", "CMYK", "HSV", "I", "I;16", "F"]
)
def test_every_mode_becomes_rgb(mode: str) -> None:
    assert upright_rgb(Image.new(mode, (3, 2))).mode == "RGB"


def test_the_square_is_that_of_scaling_and_cropping() -> None:
    image = noise(64, 32).resize((640, 320))
    scaled = image.resize((128, 64), Image.Resampling.BILINEAR).crop((36, 4, 92, 60))
    assert np.abs(np.subtract(center_square(image, 64, 56), np.asarray(scaled), dtype=np.int64)).max() <= 1


@pytest.mark.parametrize("resample", ["nearest", "box", "bicubic", "lanczos"])
def test_the_square_is_scaled_by_the_filter_asked_for(resample: str) -> None:
    image = noise(64, 32).resize((640, 320))
    scaled = image.resize((128, 64), Image.Resampling[resample.upper()]).crop((36, 4, 92, 60))
    found = center_square(image, 64, 56, resample)
    assert np.abs(np.subtract(found, np.asarray(scaled), dtype=np.int64)).max() <= 1
    assert np.abs(np.subtract(found, center_square(image, 64, 56), dtype=np.int64)).max() > 5


def test_a_long_thin_image_costs_no_more() -> None:
    assert center_square(Image.new("RGB", (1_000_000, 1)), 256, 224).shape == (224, 224, 3)


def test_decoding_keeps_order_and_skips_what_is_broken(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    for number in range(40):
        path = tmp_path / ("below" if number % 2 else "") / f"{number:02d}.png"
        path.write_bytes(b"no" if number % 10 == 3 else saved(Image.new("RGB", (4, 4), (number, 0, 0)), "PNG"))
    (tmp_path / "notes.txt").write_text("not looked at")
    files = find_images([tmp_path])
    assert len(files) == 40 and files == sorted(files)
    found = dict(decode_images(files, 4, 4))
    assert list(found) == files
    for path, square in found.items():
        if int(path.stem) % 10 == 3:
            assert isinstance(square, InputError)
        else:
            assert not isinstance(square, InputError)
            assert square[0, 0, 0] == int(path.stem)


def test_as_many_threads_as_cores_we_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[str] = set()

    def read(path: Path) -> Image.Image:
        threads.add(threading.current_thread().name)
        return Image.new("RGB", (2, 2))

    monkeypatch.setattr(images, "read_image", read)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5}, raising=False)
    assert len(list(decode_images([tmp_path] * 100, 2, 2))) == 100
    assert len(threads) == 1


def test_leaving_early_leaves_no_threads_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Path] = []

    def read(path: Path) -> Image.Image:
        begun.append(path)
        return Image.new("RGB", (2, 2))

    monkeypatch.setattr(images, "read_image", read)
    decoded = decode_images([tmp_path / str(number) for number in range(10_000)], 2, 2)
    next(decoded)
    decoded.close()  # type: ignore[attr-defined]
    assert len(begun) < 1000
