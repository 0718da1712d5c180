"""Reading text and writing files whole."""

import errno
import gzip
import os
from pathlib import Path

import pytest

from fastmos.errors import InputError
from fastmos.files import check_output, printable, read_json, read_lines, write_json, written_whole


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\n\nb\n", ["a", "", "b"]),
        ("ä\u2028b\x0bc\x85d\n".encode(), ["ä\u2028b\x0bc\x85d"]),  # only \n ends a line
    ],
    ids=["empty", "two", "no-end", "dos", "unicode-breaks"],
)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_lines_of_plain_and_gzip_files(tmp_path: Path, content: bytes, lines: list[str], packed: bool) -> None:
    file = tmp_path / "text"
    file.write_bytes(gzip.compress(content, mtime=0) if packed else content)
    assert list(read_lines(file)) == lines


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_pipe_is_read_like_a_file(packed: bool) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as file:
        file.write(gzip.compress(b"a\nb\n", mtime=0) if packed else b"a\nb\n")
    assert list(read_lines(f"/dev/fd/{reader}")) == ["a", "b"]
    os.close(reader)


def test_closed_standard_input_gets_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="standard input is closed"):
        list(read_lines("-"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"fine\n\xff\n", "line 2: not UTF-8"),
        (gzip.compress(b"a line\n" * 1000, mtime=0)[:-20], "damaged gzip file"),
        (gzip.compress(b"a line\n" * 1000, mtime=0)[:10] + b"\xff" * 20, "damaged gzip file"),
    ],
    ids=["utf8", "gzip-cut", "gzip-garbage"],
)
def test_damaged_text_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "text"
    file.write_bytes(content)
    with pytest.raises(InputError, match=said) as caught:
        list(read_lines(file))
    assert str(file) in str(caught.value)


def test_missing_file_and_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        list(read_lines(tmp_path / "absent"))
    with pytest.raises(InputError, match="is a folder"):
        list(read_lines(tmp_path))


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "new" / "result"
    with written_whole(file) as stream:
        stream.write("first")
    with pytest.raises(RuntimeError), written_whole(file) as stream:
        stream.write("second, cut")
        raise RuntimeError
    assert file.read_text() == "first"
    assert list(file.parent.iterdir()) == [file]  # nothing left aside


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"No space left on device: '.*result'"), written_whole(tmp_path / "result"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert not list(tmp_path.iterdir())


def test_json_round_trip_and_damage(tmp_path: Path) -> None:
    file = tmp_path / "value.json"
    write_json(file, {"wörter": [1, 2.5, None]})
    assert read_json(file) == {"wörter": [1, 2.5, None]}
    file.write_text('{"a": 1,')
    with pytest.raises(InputError, match="not valid JSON"):
        read_json(file)


@pytest.mark.parametrize("name", [".", ""])
def test_no_file_is_written_over_a_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="is a folder; give the name of a file"), written_whole(name):
        pass
    assert list(tmp_path.iterdir()) == []


def test_an_output_is_tried_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    check_output(tmp_path / "new" / "file")
    check_output(tmp_path / "file", [tmp_path / "other", None])
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "new"]
    assert (tmp_path / "file").read_text() == "x"
    with pytest.raises(InputError, match="is read, and would be replaced"):
        check_output(tmp_path / "file", [tmp_path / "new" / ".." / "file"])
    with pytest.raises(InputError, match="is a folder"):
        check_output(tmp_path)
    with pytest.raises(OSError) as caught:
        check_output(tmp_path / "file" / "below")
    assert ".tmp" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("ä b.jpg", "ä b.jpg"), ("a\tb\nc", r"a\tb\nc"), (os.fsdecode(b"bad\xff.png"), r"bad\udcff.png")],
)
def test_names_stay_on_their_line(name: str, shown: str) -> None:
    assert printable(Path(name)) == shown
