"""Reading text (plain, gzip, standard input), and writing files completely or not at all."""

import gzip
import json
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from fastmos.errors import InputError


def read_lines(path: Path | str) -> Iterator[str]:
    """Lines of a UTF-8 file without line ends; `-` is standard input. Gzip is recognized by its first two bytes."""
    name = "standard input" if str(path) == "-" else str(path)
    with _open_binary(path) as stream:
        try:
            for number, raw in enumerate(stream, 1):
                try:
                    line = raw.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise InputError(f"{name}, line {number}: not UTF-8 ({error.reason}); convert the file") from None
                yield line.removesuffix("\n").removesuffix("\r")
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise InputError(f"{name}: damaged gzip file ({error}); get it again") from None


@contextmanager
def _open_binary(path: Path | str) -> Iterator[IO[bytes]]:
    if str(path) == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed; name a file")
        magic = sys.stdin.buffer.peek(2)[:2]  # type: ignore[union-attr]  # it is a BufferedReader
        with _unzipped(sys.stdin.buffer, magic) as stream:
            yield stream
        return
    try:
        file = open(path, "rb")  # noqa: SIM115 (closed below, or wrapped)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder; give a file") from None
    with file, _unzipped(file, file.peek(2)[:2]) as stream:  # peek: a pipe cannot be read twice
        yield stream


@contextmanager
def _unzipped(file: IO[bytes], magic: bytes) -> Iterator[IO[bytes]]:
    """The stream itself, or its decompressed content if its first bytes are those of gzip."""
    if magic == b"\x1f\x8b":
        with gzip.open(file) as unzipped:
            yield unzipped  # type: ignore[misc]  # GzipFile reads like any binary stream
    else:
        yield file


def check_output(output: Path | None, read: Iterable[Path | None] = ()) -> None:
    """Refuse an output that cannot be written or that is among the files read, before any work."""
    if output is None:
        return
    if output.resolve() in [path.resolve() for path in read if path is not None]:
        raise InputError(f"{output}: is read, and would be replaced; give another output")
    if output.exists() and not output.is_dir() and not output.is_file():
        return  # a pipe or a device
    with _temporary(output) as path:
        path.touch()


def printable(path: Path | str) -> str:
    """A path on one line: characters that are not printable are escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(path))


@contextmanager
def written_whole(path: Path | str, mode: str = "w") -> Iterator[IO[Any]]:
    """A file that appears under its name only when complete: written under another name, synced, renamed."""
    path = Path(path)
    with _temporary(path) as temporary:
        with open(
            temporary, mode, encoding=None if "b" in mode else "utf-8", newline=None if "b" in mode else ""
        ) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)


@contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """The temporary name of a file that is being written; errors name the file itself."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give the name of a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
    except OSError as error:
        if error.filename in (None, str(temporary), temporary):  # a full disk names no file
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make a rename durable (on POSIX)."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read_json(path: Path | str) -> Any:
    """The JSON value of a file."""
    try:
        return json.loads("\n".join(read_lines(path)))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: not valid JSON (line {error.lineno}: {error.msg}); is it the right file?") from None


def write_json(path: Path | str, value: Any) -> None:
    """Write indented JSON, completely or not at all."""
    with written_whole(path) as file:
        json.dump(value, file, ensure_ascii=False, indent=1)
        file.write("\n")
