"""Reading text (plain, gzip, standard input) and JSON, and writing files completely or not at all."""

import glob
import gzip
import json
import os
import re
import secrets
import shutil
import stat
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from fastmos.errors import InputError, printable

MAX_LINE = 2**28  # bytes of a line of text, and
MAX_JSON = 2**28  # of a JSON file, unpacked
MAX_DEPTH = 100  # of JSON: lists in lists
SETTLED = 1.0  # seconds after which whoever writes a file has locked it
BOMB = 2**22, 200  # a gzip file of more bytes that unpacks to more times its size is refused


def read_lines(path: Path | str) -> Iterator[str]:
    """Lines of a UTF-8 file without line ends; `-` is standard input. Gzip is recognized by its first two bytes."""
    name = "standard input" if str(path) == "-" else str(path)
    with _open_binary(path) as stream:
        size, checked = 0, BOMB[0]
        try:
            for number, raw in enumerate(iter(partial(stream.readline, MAX_LINE + 1), b""), 1):
                size += len(raw)
                if size > checked:
                    _refuse_bomb(stream, name, len(raw))
                    checked = size + BOMB[0]
                try:
                    line = raw.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise InputError(f"{name}, line {number}: not UTF-8 ({error.reason}); convert the file") from None
                yield line.removesuffix("\n").removesuffix("\r")
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise InputError(f"{name}: damaged gzip file ({error}); get it again") from None


def _refuse_bomb(stream: IO[bytes], name: str, length: int) -> None:
    if length > MAX_LINE:
        raise InputError(f"{name}: a line of more than {MAX_LINE >> 20} MiB is no text; give a text file")
    if isinstance(stream, gzip.GzipFile):
        with suppress(OSError):  # a pipe does not tell
            if stream.tell() > BOMB[1] * stream.fileobj.tell():
                raise _bomb(name)


def _bomb(name: str) -> InputError:
    return InputError(f"{name}: unpacks to more than {BOMB[1]} times its size; unpack it yourself if that is right")


@contextmanager
def _open_binary(path: Path | str) -> Iterator[IO[bytes]]:
    if str(path) == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed; name a file")
        magic = sys.stdin.buffer.peek(2)[:2]  # type: ignore[union-attr]  # it is a BufferedReader
        with _unzipped(sys.stdin.buffer, magic, "standard input") as stream:
            yield stream
        return
    try:
        file = open(path, "rb")  # noqa: SIM115 (closed below, or wrapped)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder; give a file") from None
    with file, _unzipped(file, file.peek(2)[:2], str(path)) as stream:  # peek: a pipe cannot be read twice
        yield stream


@contextmanager
def _unzipped(file: IO[bytes], magic: bytes, name: str) -> Iterator[IO[bytes]]:
    """The stream itself, or its decompressed content if its first bytes are those of gzip."""
    if magic == b"\x1f\x8b":
        with suppress(zlib.error, OSError, AttributeError):  # of damage it is told later, and a pipe has no places
            head = os.pread(file.fileno(), BOMB[0] // BOMB[1], 0)
            if len(zlib.decompressobj(31).decompress(head, BOMB[0])) == BOMB[0]:
                raise _bomb(name)
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
    _refuse_folder(output)
    with _temporary(output) as path:
        path.touch()


def _refuse_folder(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give the name of a file")


@contextmanager
def written_whole(path: Path | str, mode: str = "w") -> Iterator[IO[Any]]:
    """A file that appears under its name only when complete: written under another name, synced, renamed."""
    path = Path(path)
    _refuse_folder(path)
    with _temporary(path) as temporary:
        with open(
            temporary, mode, encoding=None if "b" in mode else "utf-8", newline=None if "b" in mode else ""
        ) as file:
            _lock(file.fileno())
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, path)
        _sync_folder(path.parent)


@contextmanager
def folder_written_whole(folder: Path) -> Iterator[Path]:
    """A folder that appears under its name only when complete; gives the folder to fill."""
    with _temporary(folder) as temporary:
        temporary.mkdir()
        handle = os.open(temporary, os.O_RDONLY)
        try:
            _lock(handle)
            yield temporary
            temporary.rename(folder)
        finally:
            os.close(handle)


@contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """The temporary name of a file or folder that is being written; errors name the thing itself.

    The name is random: two containers on one disk have the same process numbers.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    clear_temporary(path.parent, path.name)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        yield temporary
    except OSError as error:
        if error.filename in (None, str(temporary), temporary):  # a full disk names no file
            error.filename = str(path)
        raise
    finally:
        _remove(temporary)


def clear_temporary(folder: Path, name: str = "*", settled: float = SETTLED) -> None:
    """Remove what killed processes left while they wrote: it is not locked, as what is being written is."""
    for left in folder.glob(f".{name if name == '*' else glob.escape(name)}.*.tmp"):
        with suppress(OSError):  # another process was faster, or the disk has no locks
            handle = os.open(left, os.O_RDONLY)
            try:
                if time.time() - os.fstat(handle).st_mtime >= settled and _lock(handle):
                    _remove(left)
            finally:
                os.close(handle)


def _lock(handle: int) -> bool:
    """Lock an open file or folder until it is closed or the process ends; False if somebody else has, or nobody can."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make a rename durable (on POSIX)."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read_bytes(path: Path | str, limit: int) -> bytes:
    """The content of a regular file, unpacked; a pipe or a device would be waited for, or never end."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except ValueError as error:  # a NUL in its name
        raise InputError(f"{printable(path)}: no name of a file ({error})") from None
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise InputError(f"{path}: {'is a folder' if stat.S_ISDIR(mode) else 'not a regular file'}; give a file")
    with open(handle, "rb") as file:
        try:
            with _unzipped(file, file.peek(2)[:2], str(path)) as stream:
                content = stream.read(limit + 1)
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise InputError(f"{path}: damaged gzip file ({error}); get it again") from None
    if len(content) > limit:
        raise InputError(f"{path}: has more than {limit:,} bytes; is it the right file?")
    return content


def read_json(path: Path | str) -> Any:
    """The JSON value of a file."""
    return parse_json(read_bytes(path, MAX_JSON), str(path))


def read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file, one a line; of a killed process the last line may be cut, and is left out."""
    if not path.is_file():
        return
    with open(path, "rb") as file:
        for line in file:
            with suppress(InputError):
                value = parse_json(line, str(path))
                if isinstance(value, dict):
                    yield value


def parse_json(text: str | bytes, name: str) -> Any:
    """The value of JSON that anybody may have written; `name` is for messages."""
    try:
        text = text if isinstance(text, str) else text.decode("utf-8")
        value = json.loads(text)
        if not _shallow(value):
            raise RecursionError
    except json.JSONDecodeError as error:
        raise InputError(f"{name}: not valid JSON (line {error.lineno}: {error.msg}); is it the right file?") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(f"{name}, line {line}: not UTF-8 ({error.reason}); convert the file") from None
    except RecursionError:
        raise InputError(f"{name}: JSON that is nested too deeply; is it the right file?") from None
    except ValueError:  # Python reads no number of more digits
        raise InputError(f"{name}: JSON with a number of too many digits; is it the right file?") from None
    if re.search(r"\\u[dD][89a-fA-F]", text) and any(re.search("[\ud800-\udfff]", one) for one in _strings(value)):
        raise InputError(f"{name}: has half of a surrogate pair, which is not text; correct the file")
    return value


def _shallow(value: Any) -> bool:
    """Is no part nested deeper than MAX_DEPTH? Otherwise working with the value would end in a RecursionError."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [part for item in level for part in _parts(item) if type(part) in (dict, list)]
    return not level


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if type(value) is dict else value if type(value) is list else ()


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for part in [*_parts(value), *(value if isinstance(value, dict) else ())]:
        yield from _strings(part)


def write_json(path: Path | str, value: Any) -> None:
    """Write indented JSON, completely or not at all."""
    with written_whole(path) as file:
        json.dump(value, file, ensure_ascii=False, indent=1)
        file.write("\n")


def csv_cell(text: str) -> str:
    """Text for a cell of a CSV file, after an apostrophe where a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r", "'")) else text
