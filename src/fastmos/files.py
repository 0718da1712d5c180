"""Files: text in (plain, gzip, standard input), results out (whole or not at all), and who made them."""

import datetime
import gzip
import json
import os
import platform
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from fastmos.errors import InputError


def read_lines(path: Path | str) -> Iterator[str]:
    """Lines of a UTF-8 file without their ends; `-` is standard input. Gzip is known by its first two bytes."""
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
            raise InputError(f"{name}: damaged gzip file ({error}); fetch it again") from None


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
    with file, _unzipped(file, file.peek(2)[:2]) as stream:  # a pipe cannot be read again
        yield stream


@contextmanager
def _unzipped(file: IO[bytes], magic: bytes) -> Iterator[IO[bytes]]:
    """The stream itself, or what it holds if its first bytes are those of gzip."""
    if magic == b"\x1f\x8b":
        with gzip.open(file) as unzipped:
            yield unzipped  # type: ignore[misc]  # GzipFile reads like any binary stream
    else:
        yield file


def check_output(output: Path | None, read: Iterable[Path | None] = ()) -> None:
    """Before the work: refuse an output that cannot be written, or would replace what it is made of."""
    if output is None:
        return
    if output.resolve() in [path.resolve() for path in read if path is not None]:
        raise InputError(f"{output}: is read, and would be replaced; name another output")
    if output.exists() and not output.is_dir() and not output.is_file():
        return  # a pipe or a device
    with _aside(output) as path:
        path.touch()


def printable(path: Path | str) -> str:
    """A name on one line: tabs, line breaks and bytes that are no text are written as escapes."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(path))


@contextmanager
def written_whole(path: Path | str, mode: str = "w") -> Iterator[IO[Any]]:
    """A file that appears under its name only when complete: written aside, flushed to disk, renamed."""
    path = Path(path)
    with _aside(path) as aside:
        with open(aside, mode, encoding=None if "b" in mode else "utf-8", newline=None if "b" in mode else "") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
        _sync_folder(path.parent)


@contextmanager
def _aside(path: Path) -> Iterator[Path]:
    """Where a file is written before it gets its name; gone in the end, and not named by errors."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give the name of a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield aside
    except OSError as error:
        if error.filename in (None, str(aside), aside):  # a full disk does not say where it is
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut (POSIX; elsewhere the rename alone must do)."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read_json(path: Path | str) -> Any:
    """The JSON value of a file, or a sentence about what is wrong with it."""
    try:
        return json.loads("\n".join(read_lines(path)))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: not valid JSON (line {error.lineno}: {error.msg}); is it the right file?") from None


def write_json(path: Path | str, value: Any) -> None:
    """Write indented JSON, whole or not at all."""
    with written_whole(path) as file:
        json.dump(value, file, ensure_ascii=False, indent=1)
        file.write("\n")


def provenance(seed: int) -> dict[str, Any]:
    """What a figure needs beside it to be trusted: command, date, machine, versions, commit, seed."""
    import numpy
    import torch

    preloaded = os.environ.get("LD_PRELOAD", "").replace(":", " ").split()  # such as other matrix kernels
    return {
        "command": " ".join([_program(), *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": _machine(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "preload": " ".join(Path(name).name for name in preloaded),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "commit": _commit(),
        "seed": seed,
    }


def _program() -> str:
    """What was called: `python -m fastmos` is fastmos, too."""
    path = Path(sys.argv[0])
    return path.parent.name if path.name == "__main__.py" else path.name


def _machine() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _commit() -> str:
    """The commit of the source tree that runs, marked `+` if it has uncommitted changes; empty where none is known."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists() or shutil.which("git") is None:
        return ""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "--no-optional-locks", "-C", str(root), *words], capture_output=True, text=True, check=False
        ).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
