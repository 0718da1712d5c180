"""A contact sheet holds its pictures, small, and its texts escaped."""

import base64
import io
import re
from pathlib import Path

from PIL import Image

from fastmos.report.contact_sheet import THUMBNAIL, write_sheet


def test_pictures_are_inside_and_small(tmp_path: Path) -> None:
    for name, size in (("a.png", (1000, 500)), ("<b>.png", (30, 20))):
        Image.new("RGB", size, "red").save(tmp_path / name)
    write_sheet(tmp_path / "s.html", [(tmp_path / "a.png", ["x < y", "z"]), (tmp_path / "<b>.png", [])], "<title>")
    page = (tmp_path / "s.html").read_text()
    pictures = [Image.open(io.BytesIO(base64.b64decode(data))) for data in re.findall(r"base64,([^\"]+)", page)]
    assert [picture.size for picture in pictures] == [(THUMBNAIL, THUMBNAIL // 2), (30, 20)]
    assert "x &lt; y<br>z" in page and "&lt;b&gt;.png" in page and "<title>&lt;title&gt;</title>" in page
    assert re.findall(r"(?:src|href)=\"(?!data:)", page) == []
