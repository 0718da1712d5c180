"""Reading text and writing files whole."""

import errno
import gzip
import json
import math
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fastmos import files
from fastmos.errors import InputError, printable
from fastmos.files import (
    check_output,
    clear_temporary,
    csv_cell,
    folder_written_whole,
    read_bytes,
    read_json,
    read_json_lines,
    read_lines,
    write_json,
    written_whole,
)


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


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("[" * 500 + "]" * 500, "nested too deeply"),
        ('{"a":' * 200 + "1" + "}" * 200, "nested too deeply"),
        ("9" * 5000, "a number of too many digits"),
        (r'["\ud800"]', "half of a surrogate pair"),
        (r'{"\udfff": 1}', "half of a surrogate pair"),
        (b'{"a":\n"\xff"}', "line 2: not UTF-8"),
        ('{"a": 1', "line 1: Expecting"),
        ("", "not valid JSON"),
    ],
)
def test_json_that_is_none_gets_a_sentence(content: str | bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=rf"x\.json.*{said}"):
        read_json(tmp_path / "x.json")


@pytest.mark.parametrize("value", [{"a": ["😀", "\0", "\\ud800"]}, [[[1]]] * 3, None, -1.5, "[" * 1000])
def test_json_that_is_odd_but_right_is_read(value: object, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps(value))
    assert read_json(tmp_path / "x.json") == value


def test_lines_of_json_that_were_cut_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b'{"step": 1}\n[2]\n{"st\xc3\n{"step": NaN}\n{"step": 4, "text": "\xc3')
    found = list(read_json_lines(tmp_path / "log"))
    assert len(found) == 2 and found[0] == {"step": 1} and math.isnan(found[1]["step"])
    assert list(read_json_lines(tmp_path / "none")) == []


@pytest.mark.parametrize("read", [read_json, lambda path: read_bytes(path, 9)], ids=["json", "bytes"])
def test_what_is_no_regular_file_is_not_waited_for(read: Callable[[Path], object], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for path, said in [
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path / "link", "not a regular file"),
        (tmp_path, "is a folder"),
        (tmp_path / "none", "no such file"),
        (Path("a\0b"), "no name of a file"),
    ]:
        with pytest.raises(InputError, match=said):
            read(path)


@pytest.mark.parametrize("content", [b"\0", b"\n", b"a line\n"], ids=["zeros", "line ends", "lines"])
def test_a_gzip_bomb_is_refused(content: bytes, tmp_path: Path) -> None:
    noise = random.Random(0).randbytes(20_000).hex().encode() + b"\n"
    for name, before in (("at once", b""), ("later", noise)):
        (tmp_path / name).write_bytes(gzip.compress(before + content * (2**24 // len(content))))
        with pytest.raises(InputError, match="unpacks to more than 200 times its size"):
            for _ in read_lines(tmp_path / name):
                pass
    with pytest.raises(InputError, match="unpacks to more than"):
        read_json(tmp_path / "at once")


def test_large_text_that_compresses_well_is_read(tmp_path: Path) -> None:
    words = random.Random(0).choices("abcdefghij", k=2**20)
    (tmp_path / "text.gz").write_bytes(gzip.compress("".join(f"{word * 5}\n" for word in words).encode()))
    assert sum(1 for _ in read_lines(tmp_path / "text.gz")) == 2**20


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINE", 2**23)
    with pytest.raises(InputError, match=r"/dev/zero: a line of more than 8 MiB is no text"):
        next(read_lines("/dev/zero"))


def test_what_a_killed_process_left_is_cleared_by_the_next(tmp_path: Path) -> None:
    """And nothing of a process that is still writing."""
    old = time.time() - 60
    for name in (".result.1.tmp", ".other.1.tmp"):
        (tmp_path / name).write_text("half")
        os.utime(tmp_path / name, (old, old))
    (tmp_path / ".result.2.tmp").mkdir()
    (tmp_path / ".result.2.tmp" / "part").write_text("half")
    os.utime(tmp_path / ".result.2.tmp", (old, old))
    with written_whole(tmp_path / "result") as first:
        (being_written,) = tmp_path.glob(".result.*.tmp")
        os.utime(being_written, (old, old))
        with written_whole(tmp_path / "result") as second:
            second.write("second")
        first.write("first")
    assert (tmp_path / "result").read_text() == "first"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other.1.tmp", "result"]
    clear_temporary(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["result"]


def test_temporary_names_do_not_depend_on_the_number_of_the_process(tmp_path: Path) -> None:
    """Two containers on one disk have the same numbers."""
    with written_whole(tmp_path / "a"), written_whole(tmp_path / "a"):
        assert len(list(tmp_path.glob(".a.*.tmp"))) == 2


def test_a_folder_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    with folder_written_whole(tmp_path / "new" / "folder") as aside:
        (aside / "part").write_text("x")
        assert not (tmp_path / "new" / "folder").exists()
    assert (tmp_path / "new" / "folder" / "part").read_text() == "x"
    with pytest.raises(RuntimeError), folder_written_whole(tmp_path / "other"):
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


@pytest.mark.parametrize(
    ("word", "cell"), [("=1+1", "'=1+1"), ("+x", "'+x"), ("-", "'-"), ("@a", "'@a"), ("'t", "''t"), ("word", "word")]
)
def test_no_cell_of_a_spreadsheet_starts_a_formula(word: str, cell: str) -> None:
    assert csv_cell(word) == cell
