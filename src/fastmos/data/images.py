"""Images from outside: decoded defensively, turned upright, made RGB, and cut to the square that a network sees.

Whatever a file holds, it becomes an image or an `InputError` of one sentence. Only formats that Pillow decodes by
itself are read: some others would start programs.
"""

import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fastmos.errors import InputError
from fastmos.processes import cores

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ["JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "PPM"]
ENDINGS = {".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
PIXELS = 100_000_000  # more are refused: a small file can claim to hold any number of them
LOOKAHEAD = 4  # images a thread may be ahead

Array = np.ndarray[Any, np.dtype[Any]]


def find_images(paths: Iterable[Path]) -> list[Path]:
    """Files as they are given, and for a folder the images in it and below it, in order of their names."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.suffix.lower() in ENDINGS and file.is_file())
            if not inside:
                raise InputError(f"{path}: no images in this folder ({', '.join(sorted(ENDINGS))})")
            found += inside
        else:
            found.append(path)
    if not found:
        raise InputError("no images; give files or folders")
    return found


def read_image(path: Path) -> "Image":
    """An upright RGB image; of an animated one its first frame."""
    from PIL import Image, UnidentifiedImageError

    if path.exists() and not path.is_file() and not path.is_dir():  # a pipe would be waited for
        raise InputError(f"{path}: not a regular file; give an image")
    _silence_pillow()
    try:
        with Image.open(path, formats=FORMATS) as image:
            return upright_rgb(image, str(path))
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder; give a file") from None
    except UnidentifiedImageError:
        raise InputError(f"{path}: not an image of a kind that is read ({', '.join(FORMATS)})") from None
    except Image.DecompressionBombError:
        raise InputError(f"{path}: more than {PIXELS:,} pixels; make it smaller") from None
    except Exception as error:  # whatever else a file can do to its reader
        raise InputError(f"{path}: damaged or incomplete image ({error})") from None


@cache
def _silence_pillow() -> None:
    """Ignore Pillow's warnings of large images (we have our own limit) and of odd metadata, from now on.

    Once for the process, because `warnings.catch_warnings` is not for threads: what one restores may be another's.
    """
    from PIL.Image import DecompressionBombWarning

    warnings.filterwarnings("ignore", category=DecompressionBombWarning)
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")


def upright_rgb(image: "Image", name: str = "image") -> "Image":
    """An image of any mode as RGB, turned as its EXIF says, what is transparent on white."""
    width, height = image.size
    if width * height > PIXELS:
        raise InputError(f"{name}: {width:,} x {height:,} pixels are more than {PIXELS:,}; make it smaller")
    if not width * height:
        raise InputError(f"{name}: an image without pixels")
    try:
        return _upright_rgb(image)
    except Exception as error:  # it is decoded only now, and decoders raise whatever they like
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
    """Grey images of 16 or 32 bits, which Pillow would clip and not scale, as 8 bits; others unchanged."""
    from PIL import Image

    if not (image.mode.startswith("I") or image.mode == "F"):
        return image
    values = np.nan_to_num(np.asarray(image)).astype(np.float64)  # in this order, lest infinity overflow below
    low, high = float(values.min()), float(values.max())
    if image.mode != "F" and low >= 0 and high <= 65535:  # the range of 16 bits; other values fill what range they have
        low, high = 0.0, 65535.0
    scaled = (values - low) * (255 / max(high - low, 1e-9))
    return Image.fromarray(scaled.round().astype(np.uint8))


def centre_square(image: "Image", short: int, crop: int, resample: str = "bilinear") -> Array:
    """Scale the shorter side to `short` and cut out the middle `crop` x `crop`, in one go: uint8 [crop, crop, 3].

    Nothing outside the square is computed, so that an image of one row and many columns costs no more than others.
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
    """The square of each image, or why there is none, in order; decoded in threads while the caller does its work."""
    threads = min(8, cores())

    def decode(path: Path) -> Array | InputError:
        try:
            return centre_square(read_image(path), short, crop, resample)
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
