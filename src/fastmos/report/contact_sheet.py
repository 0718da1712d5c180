"""A contact sheet: pictures and their captions on one page, which needs no other file."""

import base64
import html
import io
from collections.abc import Sequence
from pathlib import Path

from fastmos.errors import printable
from fastmos.files import written_whole
from fastmos.vision.images import read_image

THUMBNAIL = 240  # pixels, on a contact sheet
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 15px/1.4 sans-serif; margin: 2em; display: flex; flex-wrap: wrap; gap: 1.5em }}
figure {{ margin: 0; width: {size}px }} img {{ max-width: 100% }} small {{ color: #666; overflow-wrap: anywhere }}
</style>
{figures}
</html>
"""


def write_sheet(output: Path, captions: Sequence[tuple[Path, Sequence[str]]], title: str) -> None:
    """A page of pictures, small and inside the file itself, with their captions."""
    figures = [
        f'<figure><img src="data:image/jpeg;base64,{_thumbnail(path)}" alt="">'
        f"<figcaption>{'<br>'.join(map(html.escape, texts))}<br>"
        f"<small>{html.escape(printable(path.name))}</small></figcaption></figure>"
        for path, texts in captions
    ]
    with written_whole(output) as file:
        file.write(PAGE.format(title=html.escape(printable(title)), size=THUMBNAIL, figures="\n".join(figures)))


def _thumbnail(path: Path) -> str:
    image = read_image(path)
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    stream = io.BytesIO()
    image.save(stream, "JPEG")
    return base64.b64encode(stream.getvalue()).decode()
