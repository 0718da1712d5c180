"""`fastmos caption` and `fastmos features`."""

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from fastmos.cli.arguments import (
    Arguments,
    Parser,
    add_beam_size,
    add_count,
    add_int8,
    add_output,
    add_path,
    add_paths,
    add_run,
    load_run,
)
from fastmos.errors import InputError, printable
from fastmos.files import check_output
from fastmos.processes import cores

if TYPE_CHECKING:
    from PIL.Image import Image

    from fastmos.inference.run import Run

IMAGES_AT_ONCE = 16  # in memory, however large


def add_arguments(parser: Parser) -> None:
    add_run(parser)
    add_paths(parser, "images", "images, or folders of them", "IMAGE")
    add_beam_size(parser)
    add_int8(parser)
    add_count(parser, "--nbest", "print the N best captions of each image", 1)
    add_path(parser, "--html", "write a contact sheet of images and captions too")
    parser.any_bytes = True  # cameras and archives name photos as they like, and nothing is written under these names


def run(args: Namespace) -> None:
    """Caption images: the path, a tab and the caption a line."""
    from fastmos.report.contact_sheet import write_sheet
    from fastmos.vision.images import find_images

    files = find_images(args.images)
    check_output(args.html, files)
    done: list[tuple[Path, list[str]]] = []
    for path, captions in _captions(load_run(args, args.int8), files, args.nbest, args.beam_size):
        for text in captions:
            print(f"{printable(path)}\t{text}", flush=True)
        done.append((path, captions))
    if args.html is not None:
        write_sheet(args.html, done, f"captions by {args.run}")
    if len(done) < len(files):
        raise InputError(f"{len(files) - len(done):,} of {len(files):,} images could not be captioned, as said above")


def _captions(
    model: "Run", files: Sequence[Path], nbest: int, beam_size: int | None
) -> Iterator[tuple[Path, list[str]]]:
    """The captions of each image that can be read; of the others standard error says why not."""
    with ThreadPoolExecutor(cores()) as pool:
        for begin in range(0, len(files), IMAGES_AT_ONCE):
            group = files[begin : begin + IMAGES_AT_ONCE]
            read = zip(group, pool.map(_read, group), strict=True)
            good = [(path, image) for path, image in read if image is not None]
            found = model.caption([image for _, image in good], nbest=nbest, beam_size=beam_size)
            for (path, _), best in zip(good, found, strict=True):
                yield path, [output.text for output in best]


def _read(path: Path) -> "Image | None":
    from fastmos.vision.images import read_image

    try:
        return read_image(path)
    except InputError as error:
        print(f"fastmos: {printable(error)}", file=sys.stderr, flush=True)
        return None


def features_arguments(parser: Arguments) -> None:
    add_path(parser, "images", "folder of images", "FOLDER")
    add_output(parser, "what it has is kept, except for images that have changed", "features.safetensors")
    parser.add_argument(
        "--backbone",
        metavar="NAME",
        default="efficientnet-lite0",
        help="efficientnet-lite0 (default), resnet-101, color-grid, or a vision model for transformers",
    )


def features(args: Namespace) -> None:
    """Features of all images in a folder and below it; files that cannot be read are named and left out.

    An interrupted call resumes.
    """
    from fastmos.vision.backbones import load_backbone
    from fastmos.vision.extraction import extract

    found = extract(args.images, args.output, load_backbone(args.backbone))
    gone = f", {found.gone:,} of them no longer in {args.images}" if found.gone else ""
    left = f"; {len(found.refused):,} could not be read" if found.refused else ""
    print(f"{args.output}: features of {found.images:,} images{gone}{left}")
