"""Reading images: decoded safely, turned upright, converted to RGB, cropped to the square that a network sees.

Every file gives an image or an `InputError`. Only formats that Pillow decodes by itself are read; for some others it
would start programs.
"""

import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fastmos.errors import InputError
from fastmos.processes import cores

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ["JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "PPM"]
SUFFIXES = {".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
MAX_PIXELS = 100_000_000  # a small file can claim any number of them
LOOKAHEAD = 4  # images decoded ahead, per thread

Array = np.ndarray[Any, np.dtype[Any]]


def find_images(paths: Iterable[Path]) -> list[Path]:
    """The files given, and for a folder all images in it and below it, sorted by name."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
            if not inside:
                raise InputError(f"{path}: no images in this folder ({', '.join(sorted(SUFFIXES))})")
            found += inside
        else:
            found.append(path)
    if not found:
        raise InputError("no images; give files or folders")
    return found


def read_image(path: Path) -> "Image":
    """An upright RGB image; of an animation the first frame."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give a file")
    if path.exists() and not path.is_file():  # reading a pipe would block
        raise InputError(f"{path}: not a regular file; give an image")
    return _decode(path, str(path), MAX_PIXELS)


def decode_image(data: bytes, name: str = "image", max_pixels: int = MAX_PIXELS) -> "Image":
    """The upright RGB image that these bytes of a file are."""
    return _decode(BytesIO(data), name, max_pixels)


def _decode(source: Path | BytesIO, name: str, max_pixels: int) -> "Image":
    from PIL import Image, UnidentifiedImageError

    _silence_pillow()
    try:
        with Image.open(source, formats=FORMATS) as image:
            check_pixels(image, name, max_pixels)
            return upright_rgb(image, name)
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{name}: no such file") from None
    except UnidentifiedImageError:
        raise InputError(f"{name}: not an image, or of another format than {', '.join(FORMATS)}") from None
    except Image.DecompressionBombError:
        raise InputError(f"{name}: more than {max_pixels:,} pixels; make it smaller") from None
    except Exception as error:  # decoders raise all kinds of errors
        raise InputError(f"{name}: damaged or incomplete image ({error})") from None


@cache
def _silence_pillow() -> None:
    """Ignore Pillow's warnings of large images (we have our own limit) and of odd metadata.

    Once for the process, because `warnings.catch_warnings` is not thread-safe.
    """
    from PIL.Image import DecompressionBombWarning

    warnings.filterwarnings("ignore", category=DecompressionBombWarning)
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")


def check_pixels(image: "Image", name: str, most: int) -> None:
    """Refuse a large image, before it is decoded."""
    width, height = image.size
    if width * height > most:
        raise InputError(f"{name}: {width:,} x {height:,} pixels are more than {most:,}; make it smaller")


def upright_rgb(image: "Image", name: str = "image") -> "Image":
    """An image of any mode as RGB, rotated by its EXIF orientation, transparency on white."""
    check_pixels(image, name, MAX_PIXELS)
    width, height = image.size
    if not width * height:
        raise InputError(f"{name}: an image without pixels")
    try:
        return _upright_rgb(image)
    except Exception as error:  # it is decoded only now, and decoders raise all kinds of errors
        raise InputError(f"{name}: damaged or incomplete image ({error})") from None


def _upright_rgb(image: "Image") -> "Image":
    from PIL import ImageOps

    image = _eight_bits(ImageOps.exif_transpose(image))
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        from PIL import Image

        if image.mode == "La":
            image = image.convert("LA")
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def _eight_bits(image: "Image") -> "Image":
    """Gray images of 16 or 32 bits scaled to 8 bits (Pillow would clip them); others unchanged."""
    from PIL import Image

    if not (image.mode.startswith("I") or image.mode == "F"):
        return image
    values = np.nan_to_num(np.asarray(image)).astype(np.float64)  # first, so that infinity does not overflow below
    low, high = float(values.min()), float(values.max())
    if image.mode != "F" and low >= 0 and high <= 65535:  # the range of 16 bits; else the range of the values
        low, high = 0.0, 65535.0
    scaled = (values - low) * (255 / max(high - low, 1e-9))
    return Image.fromarray(scaled.round().astype(np.uint8))


def center_square(image: "Image", short: int, crop: int, resample: str = "bilinear") -> Array:
    """Scale the shorter side to `short` and crop the middle `crop` x `crop`, in one step: uint8 [crop, crop, 3].

    Nothing outside the square is computed, so an image of one row and many columns costs no more than others.
    """
    from PIL.Image import Resampling

    width, height = image.size
    side = min(width, height) * crop / short
    left, top = (width - side) / 2, (height - side) / 2
    square = image.resize((crop, crop), Resampling[resample.upper()], box=(left, top, left + side, top + side))
    return np.asarray(square)


def decode_images(
    paths: Iterable[Path], short: int, crop: int, resample: str = "bilinear"
) -> Iterator[tuple[Path, Array | InputError]]:
    """The square of each image, or the error of reading it, in order; decoded in threads ahead of the caller."""
    threads = min(8, cores())

    def decode(path: Path) -> Array | InputError:
        try:
            return center_square(read_image(path), short, crop, resample)
        except InputError as error:
            return error

    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[tuple[Path, Future[Array | InputError]]] = deque()
        try:
            for path in paths:
                waiting.append((path, pool.submit(decode, path)))
                if len(waiting) >= LOOKAHEAD * threads:
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
        finally:
            for _, future in waiting:
                future.cancel()
