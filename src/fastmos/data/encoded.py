"""Text to codes, once: memory-mapped arrays in a cache folder that is named by what went into them.

`cache/<hash>/` holds `codes.bin` (all codes in one row), `offsets.bin` (where each line begins), `coding.json` and
`about.json`. The hash covers the files' bytes, the coding and FORMAT, so a changed file or coding is coded anew, and an
old folder is never wrong, only unused: nothing deletes it but you.
"""

import errno
import hashlib
import os
import shutil
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

import numpy as np

from fastmos.codings import Coding, load_coding
from fastmos.errors import InputError
from fastmos.files import read_json, read_lines, write_json
from fastmos.processes import child_environment, cores
from fastmos.progress import progress

FORMAT = 1  # of the cache folder
CHUNK = 10_000  # lines coded at a time
POOL_FROM = 20  # chunks: below it, starting processes takes longer than they save
GZIP = b"\x1f\x8b"  # how such a file begins

Array = np.ndarray[Any, np.dtype[Any]]
Chunk = tuple[Array, Array]  # codes of some lines in one row, and the lines' lengths


@dataclass(frozen=True)
class EncodedText:
    """Lines of codes: line i is codes[offsets[i]:offsets[i + 1]], without bos and eos."""

    codes: Array  # uint16 or uint32
    offsets: Array  # int64 [L + 1]
    name: str = "text"  # for messages

    @classmethod
    def of(cls, lines: Iterable[Sequence[int]], name: str = "text") -> "EncodedText":
        """Lines that are codes already, in memory."""
        codes, lengths = _flatten(list(lines), np.dtype(np.uint32))
        return cls(codes, np.concatenate([[0], lengths.cumsum()]), name)

    @classmethod
    def open(cls, folder: Path, name: str) -> "EncodedText":
        """The text of a cache folder, memory-mapped."""
        about = read_json(folder / "about.json")
        codes = _mapped(folder / "codes.bin", about["dtype"], about["codes"])
        return cls(codes, _mapped(folder / "offsets.bin", "<i8", about["lines"] + 1), name)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, line: int) -> Array:
        if not -len(self) <= line < len(self):
            raise IndexError(f"line {line} of {self.name}, which has {len(self)}")
        line %= len(self)
        return self.codes[self.offsets[line] : self.offsets[line + 1]]

    @property
    def lengths(self) -> Array:
        """Codes of each line, int64 [L], counted anew at each call (it is as large as the offsets)."""
        return np.diff(self.offsets)


def check_pairs(source: EncodedText, target: EncodedText) -> None:
    """Refuse two sides that cannot be translations of each other."""
    for text in (source, target):
        if not len(text):
            raise InputError(f"{text.name}: no lines; give a file with text")
    if len(source) != len(target):
        counts = f"{source.name} has {len(source):,} lines and {target.name} has {len(target):,}"
        raise InputError(f"{counts}; the files of a pair must have as many lines")


def encode_files(
    files: Sequence[Path | str], coding: Coding, cache: Path | str, *, processes: int | None = None
) -> EncodedText:
    """The lines of the files, one file after the other, in codes; coded only if `cache` does not hold them yet.

    Uses all cores unless `processes` says otherwise, and memory that does not grow with the text. May be called by many
    processes at once: one of them codes while the others wait.
    """
    paths, cache = [Path(file) for file in files], Path(cache)
    before = _stamps(paths)
    folder = cache / _key(paths, coding)
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with _one_builder(cache):
            if not folder.exists():
                with _written_whole(folder) as aside:
                    _build(paths, coding, aside, processes or cores())
                    if _stamps(paths) != before:
                        raise InputError(f"{_name(paths)}: changed while it was read; start again")
    return EncodedText.open(folder, _name(paths))


# ---- the cache folder


def _name(files: Sequence[Path]) -> str:
    return " + ".join(str(file) for file in files)


def _stamps(files: Sequence[Path]) -> list[tuple[int, int]]:
    """Size and time of each file: enough to see that one changed under our hands."""
    if not files:
        raise InputError("no files to encode; name at least one")
    for file in files:
        if not file.is_file():
            raise InputError(f"{file}: {'not a regular file; give one' if file.exists() else 'no such file'}")
    return [(file.stat().st_size, file.stat().st_mtime_ns) for file in files]


def _key(files: Sequence[Path], coding: Coding) -> str:
    parts = [f"format {FORMAT}", coding.fingerprint()]
    for file in files:
        with open(file, "rb") as stream:
            parts.append(hashlib.file_digest(stream, "sha256").hexdigest())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


@contextmanager
def _one_builder(cache: Path) -> Iterator[None]:
    """Let one process at a time build in this cache, and clear away what a killed one left.

    The lock saves work only; what makes two builders sound is the rename. So where there are no locks (Windows, some
    network disks) we go on without, and clear away nothing.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(cache / ".lock", "w") as file:  # closing it, or dying, unlocks
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            yield
            return
        for left in cache.glob(f".*.{socket.gethostname()}.*.tmp"):
            shutil.rmtree(left, ignore_errors=True)
        yield


@contextmanager
def _written_whole(folder: Path) -> Iterator[Path]:
    """A folder that appears under its name only when complete."""
    aside = folder.with_name(f".{folder.name}.{socket.gethostname()}.{os.getpid()}.tmp")
    try:
        aside.mkdir()
        yield aside
        try:
            aside.rename(folder)
        except OSError:
            if not folder.exists():  # else another process, of another machine, was first with the same content
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _mapped(file: Path, dtype: str, size: int) -> Array:
    if not file.is_file() or file.stat().st_size != size * np.dtype(dtype).itemsize:
        raise InputError(f"{file.parent}: damaged cache folder ({file.name}); delete it, and it will be built anew")
    return np.memmap(file, dtype, "r", shape=(size,)) if size else np.empty(0, dtype)


# ---- building


def _build(files: Sequence[Path], coding: Coding, folder: Path, processes: int) -> None:
    dtype = np.dtype("<u2" if len(coding) <= 1 << 16 else "<u4")
    coding.save(folder / "coding.json")
    lines = chain.from_iterable(read_lines(file) for file in files)
    chunks = iter(lambda: list(islice(lines, CHUNK)), [])
    count, total = 0, 0  # lines and codes so far
    with (
        open(folder / "codes.bin", "wb") as codes_file,
        open(folder / "offsets.bin", "wb") as offsets_file,
        closing(_encoded(chunks, folder / "coding.json", coding, dtype, processes)) as coded,
    ):
        offsets_file.write(bytes(8))  # the first line begins at 0
        what = f"coding {_name(files)}, units of {CHUNK:,} lines"
        for codes, lengths in progress(coded, what, _count_chunks(files)):
            codes_file.write(codes.tobytes())
            offsets_file.write((total + lengths.cumsum()).astype("<i8").tobytes())
            count, total = count + len(lengths), total + len(codes)
        for file in (codes_file, offsets_file):
            file.flush()
            os.fsync(file.fileno())
    if not count:
        raise InputError(f"{_name(files)}: no lines; give a file with text")
    about = {"format": FORMAT, "files": _name(files), "dtype": dtype.str, "lines": count, "codes": total}
    write_json(folder / "about.json", about)


def _count_chunks(files: Sequence[Path]) -> int | None:
    """How many chunks there will be, for the progress bar; None where only unpacking would tell."""
    lines = 0
    for file in files:
        with open(file, "rb") as stream:
            if stream.read(2) == GZIP:
                return None
            stream.seek(0)
            while block := stream.read(1 << 20):
                lines += block.count(b"\n")
    return -(-lines // CHUNK)


def _encoded(
    chunks: Iterator[list[str]], saved: Path, coding: Coding, dtype: np.dtype[Any], processes: int
) -> Generator[Chunk, None, None]:
    """The coded chunks in order: a short text here, a long one in a pool of processes."""
    first = list(islice(chunks, POOL_FROM if processes > 1 else 0))
    if processes == 1 or len(first) < POOL_FROM:
        for lines in chain(first, chunks):
            yield _flatten(coding.encode_lines(lines), dtype)
    else:
        yield from _encoded_in_pool(chain(first, chunks), saved, dtype, processes)


def _flatten(coded: Sequence[Sequence[int]], dtype: np.dtype[Any]) -> Chunk:
    lengths = np.fromiter(map(len, coded), np.int64, len(coded))
    return np.fromiter(chain.from_iterable(coded), dtype, int(lengths.sum())), lengths


# ---- the pool: plain child processes, which need no guarded main module and know nothing of the threads of this one


def _encoded_in_pool(
    chunks: Iterable[list[str]], saved: Path, dtype: np.dtype[Any], processes: int
) -> Generator[Chunk, None, None]:
    workers = [_Worker(saved, dtype) for _ in range(processes)]
    free: SimpleQueue[_Worker] = SimpleQueue()
    for worker in workers:
        free.put(worker)

    def encode(lines: list[str]) -> Chunk:
        worker = free.get()
        try:
            return worker.encode(lines)
        finally:
            free.put(worker)

    with ThreadPoolExecutor(processes) as threads:  # one waits for each worker
        waiting: deque[Future[Chunk]] = deque()
        try:
            for lines in chunks:
                waiting.append(threads.submit(encode, lines))
                if len(waiting) > 2 * processes:  # enough to keep all busy; more would only fill memory
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            for worker in workers:
                worker.end()


class _Worker:
    """A child process with the coding: lines go in, codes come out.

    It is a session of its own, so that a terminal's Ctrl-C is for us alone, and it ends when its input does: when we
    end, however we end.
    """

    def __init__(self, saved: Path, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        program = "from fastmos.data.encoded import serve; serve()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(saved), dtype.str],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=child_environment(),
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.input, self.output = self.process.stdin, self.process.stdout

    def encode(self, lines: list[str]) -> Chunk:
        try:
            _send(self.input, "\n".join(lines).encode())
            lengths = np.frombuffer(_receive(self.output), np.int64)
            return np.frombuffer(_receive(self.output), self.dtype), lengths
        except (BrokenPipeError, EOFError):
            died = f"a process that codes text died with status {self.process.wait()}; is there memory enough?"
            raise ChildProcessError(errno.ECHILD, died) from None

    def end(self) -> None:
        """It holds nothing of value, so it need not be asked."""
        self.process.kill()
        self.process.wait()
        with suppress(OSError):  # what it did not read
            self.input.close()
        self.output.close()


def serve() -> None:
    """What a worker does until its input ends."""
    coding, dtype = load_coding(sys.argv[1]), np.dtype(sys.argv[2])
    with suppress(EOFError, BrokenPipeError):
        while True:
            codes, lengths = _flatten(coding.encode_lines(_receive(sys.stdin.buffer).decode().split("\n")), dtype)
            _send(sys.stdout.buffer, lengths.tobytes())
            _send(sys.stdout.buffer, codes.tobytes())


def _send(stream: IO[bytes], message: bytes) -> None:
    stream.write(len(message).to_bytes(8, "little"))
    stream.write(message)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes:
    header = stream.read(8)
    size = int.from_bytes(header, "little")
    message = stream.read(size)
    if len(header) < 8 or len(message) < size:
        raise EOFError
    return message
