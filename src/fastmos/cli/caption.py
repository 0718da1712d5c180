"""`fastmos features`, `fastmos caption` and `fastmos demo caption`."""

import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from fastmos.errors import InputError
from fastmos.files import check_output, printable

if TYPE_CHECKING:
    from fastmos.training.run import Run

IMAGES_AT_ONCE = 64


def features(
    photos: Positional[Path],
    output: Annotated[Path, arg(aliases=["-o"])] = Path("features.safetensors"),
    backbone: str = "",
) -> None:
    """Features of all images in a folder and below it; files that cannot be read are named and left out.

    Args:
        photos: folder of images.
        output: the file of features; what it has already is done again only where an image has changed.
        backbone: efficientnet-lite0 if not given; or resnet-101, colour-grid, or a vision model for transformers.
    """
    from fastmos.data.backbones import extract, load_backbone

    found = extract(photos, output, load_backbone(backbone or "efficientnet-lite0"))
    gone = f", {found.gone:,} of them no longer in {photos}" if found.gone else ""
    left = f"; {len(found.refused):,} could not be read" if found.refused else ""
    print(f"{output}: features of {found.images:,} images{gone}{left}")


def caption(
    run: Positional[Path],
    photos: Positional[tuple[Path, ...]],
    beam: int | None = None,
    nbest: int = 1,
    html_output: Annotated[Path | None, arg(name="html")] = None,
) -> None:
    """Caption images: the path, a tab and the caption a line.

    Args:
        run: folder that fastmos train made.
        photos: images, or folders of them.
        beam: hypotheses kept; what the run's config says if not given.
        nbest: print so many captions of each image, best first.
        html_output: write a contact sheet of pictures and captions too.
    """
    from fastmos.cli.train import load_run
    from fastmos.data.images import find_images
    from fastmos.data.sheet import write_sheet

    files = find_images(photos)
    check_output(html_output, files)
    model = load_run(run)
    done: list[tuple[Path, list[str]]] = []
    for path, captions in _captions(model, files, nbest, beam):
        for text in captions:
            print(f"{printable(path)}\t{text}", flush=True)
        done.append((path, captions))
    if html_output is not None:
        write_sheet(html_output, done, f"captions by {run}")
    if len(done) < len(files):
        raise InputError(f"{len(files) - len(done):,} of {len(files):,} images could not be captioned, as said above")


def _captions(model: "Run", files: Sequence[Path], nbest: int, beam: int | None) -> Iterator[tuple[Path, list[str]]]:
    """The captions of each image that can be read; of the others standard error says why not."""
    from fastmos.data.images import decode_images

    preprocessing = model.backbone.preprocessing
    decoded = decode_images(files, preprocessing.short, preprocessing.crop, preprocessing.resample)
    while group := list(islice(decoded, IMAGES_AT_ONCE)):
        good = []
        for path, square in group:
            if isinstance(square, InputError):
                print(f"fastmos: {square}", file=sys.stderr, flush=True)
            else:
                good.append((path, square))
        if good:
            found = model.caption_features(
                model.backbone.features([square for _, square in good]), nbest=nbest, beam=beam
            )
            for (path, _), best in zip(good, found, strict=True):
                yield path, [one.text for one in best]


def demo(folder: Path = Path("out/demo-caption")) -> None:
    """Learn to caption generated drawings, caption new ones, and make a contact sheet; minutes on two cores.

    Args:
        folder: where drawings, run and sheet go; what is done there already is not done again.
    """
    from fastmos.experiments.caption_demo import demo as run

    run(folder)
