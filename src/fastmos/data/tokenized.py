"""Text files to memory-mapped tokens, encoded once and cached.

`cache/<hash>/` has `tokens.bin` (the tokens of all lines), `offsets.bin` (where each line begins), `tokenizer.json` and
`about.json`. The hash covers the bytes of the files, the tokenizer and FORMAT: a changed file or tokenizer gets a new
folder. Old folders are never deleted.
"""

import errno
import hashlib
import os
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

from fastmos.errors import InputError
from fastmos.files import clear_temporary, folder_written_whole, read_json, read_lines, write_json
from fastmos.processes import child_command, child_environment, cores
from fastmos.progress import progress
from fastmos.tokenizers import Tokenizer, load_tokenizer

FORMAT = 1  # of the cache folder
CHUNK = 10_000  # lines encoded at a time
POOL_FROM = 20  # chunks; for fewer, starting processes takes longer than they save
GZIP = b"\x1f\x8b"  # the first bytes of a gzip file

Array = np.ndarray[Any, np.dtype[Any]]
Chunk = tuple[Array, Array]  # the tokens of some lines, joined, and the lengths of the lines


@dataclass(frozen=True)
class TokenizedText:
    """Lines of tokens: line i is tokens[offsets[i]:offsets[i + 1]], without bos and eos."""

    tokens: Array  # uint16 or uint32
    offsets: Array  # int64 [L + 1]
    name: str = "text"  # for messages

    @classmethod
    def of(cls, lines: Iterable[Sequence[int]], name: str = "text") -> "TokenizedText":
        """Lines of tokens in memory."""
        tokens, lengths = _flatten(list(lines), np.dtype(np.uint32))
        return cls(tokens, np.concatenate([[0], lengths.cumsum()]), name)

    @classmethod
    def open(cls, folder: Path, name: str) -> "TokenizedText":
        """The text of a cache folder, memory-mapped."""
        about = read_json(folder / "about.json")
        try:
            tokens = _mapped(folder / "tokens.bin", np.dtype(about["dtype"]), about["tokens"])
            offsets = _mapped(folder / "offsets.bin", np.dtype("<i8"), about["lines"] + 1)
        except InputError:
            raise
        except (KeyError, TypeError, ValueError):
            raise _damaged(folder / "about.json") from None
        if about.get("sha256", found := _digest(tokens, offsets)) != found:  # older folders have none
            raise _damaged(folder / "tokens.bin")
        return cls(tokens, offsets, name)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, line: int) -> Array:
        if not -len(self) <= line < len(self):
            raise IndexError(f"line {line} of {self.name}, which has {len(self):,} lines")
        line %= len(self)
        return self.tokens[self.offsets[line] : self.offsets[line + 1]]

    @property
    def lengths(self) -> Array:
        """The number of tokens of each line, int64 [L]; computed at each call."""
        return np.diff(self.offsets)


def check_pairs(source: TokenizedText, target: TokenizedText) -> None:
    """Refuse a source and a target that have no lines or different numbers of lines."""
    for text in (source, target):
        if not len(text):
            raise InputError(f"{text.name}: no lines; give a file with text")
    if len(source) != len(target):
        counts = f"{source.name} has {len(source):,} lines and {target.name} has {len(target):,}"
        raise InputError(f"{counts}; give files that match line by line")


def encode_files(
    files: Sequence[Path | str], tokenizer: Tokenizer, cache: Path | str, *, processes: int | None = None
) -> TokenizedText:
    """The tokens of the lines of the files, one file after the other; encoded only if they are not in `cache` yet.

    Uses all cores unless `processes` is given, and memory that does not grow with the text. Many processes may call it
    at once: one of them encodes while the others wait.
    """
    paths, cache = [Path(file) for file in files], Path(cache)
    before = _stamps(paths)
    folder = cache / _key(paths, tokenizer)
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with _one_builder(cache):
            if not folder.exists():
                with _written_whole(folder) as aside:
                    _build(paths, tokenizer, aside, processes or cores())
                    if _stamps(paths) != before:
                        raise InputError(f"{_name(paths)}: changed while it was read; run the command again")
    return TokenizedText.open(folder, _name(paths))


# ---- the cache folder


def _name(files: Sequence[Path]) -> str:
    return " + ".join(str(file) for file in files)


def _stamps(files: Sequence[Path]) -> list[tuple[int, int]]:
    """Size and time of each file, by which a change is noticed."""
    if not files:
        raise InputError("no files to encode; give at least one")
    for file in files:
        if not file.is_file():
            raise InputError(f"{file}: {'not a regular file; give a text file' if file.exists() else 'no such file'}")
    return [(file.stat().st_size, file.stat().st_mtime_ns) for file in files]


def _key(files: Sequence[Path], tokenizer: Tokenizer) -> str:
    parts = [f"format {FORMAT}", tokenizer.fingerprint()]
    for file in files:
        with open(file, "rb") as stream:
            parts.append(hashlib.file_digest(stream, "sha256").hexdigest())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


@contextmanager
def _one_builder(cache: Path) -> Iterator[None]:
    """Let one process at a time build in this cache, and remove what a killed one left.

    The lock only saves work: two builders at once would be correct, too, because a folder appears by a rename. So where
    there are no locks (Windows, some network disks) there is none, and nothing is removed.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(cache / ".lock", "w") as file:  # unlocked when it is closed or the process ends
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            yield
            return
        clear_temporary(cache, settled=0.0)  # nobody else begins to build here
        yield


@contextmanager
def _written_whole(folder: Path) -> Iterator[Path]:
    """As `folder_written_whole`, but another machine may be first with the same content."""
    try:
        with folder_written_whole(folder) as aside:
            yield aside
    except OSError:
        if not folder.exists():
            raise


def _damaged(file: Path) -> InputError:
    return InputError(f"{file.parent}: damaged cache folder ({file.name}); delete it, and it will be built again")


def _digest(tokens: Array, offsets: Array) -> str:
    return hashlib.sha256(hashlib.sha256(tokens.data).digest() + hashlib.sha256(offsets.data).digest()).hexdigest()


def _mapped(file: Path, dtype: np.dtype[Any], size: int) -> Array:
    if dtype.kind not in "iu" or not file.is_file() or file.stat().st_size != size * dtype.itemsize:
        raise _damaged(file)
    return np.memmap(file, dtype, "r", shape=(size,)) if size else np.empty(0, dtype)


# ---- building


def _build(files: Sequence[Path], tokenizer: Tokenizer, folder: Path, processes: int) -> None:
    dtype = np.dtype("<u2" if len(tokenizer) <= 1 << 16 else "<u4")
    tokenizer.save(folder / "tokenizer.json")
    lines = chain.from_iterable(read_lines(file) for file in files)
    chunks = iter(lambda: list(islice(lines, CHUNK)), [])
    count, total = 0, 0  # lines and tokens so far
    digests = hashlib.sha256(), hashlib.sha256(bytes(8))  # of tokens and offsets
    with (
        open(folder / "tokens.bin", "wb") as tokens_file,
        open(folder / "offsets.bin", "wb") as offsets_file,
        closing(_encode(chunks, folder / "tokenizer.json", tokenizer, dtype, processes)) as encoded,
    ):
        offsets_file.write(bytes(8))  # the first line begins at 0
        what = f"encoding {_name(files)}, chunks of {CHUNK:,} lines"
        for tokens, lengths in progress(encoded, what, _count_chunks(files)):
            parts = tokens.tobytes(), (total + lengths.cumsum()).astype("<i8").tobytes()
            for file, digest, part in zip((tokens_file, offsets_file), digests, parts, strict=True):
                file.write(part)
                digest.update(part)
            count, total = count + len(lengths), total + len(tokens)
        for file in (tokens_file, offsets_file):
            file.flush()
            os.fsync(file.fileno())
    if not count:
        raise InputError(f"{_name(files)}: no lines; give a file with text")
    about = {"format": FORMAT, "files": _name(files), "dtype": dtype.str, "lines": count, "tokens": total}
    about["sha256"] = hashlib.sha256(b"".join(digest.digest() for digest in digests)).hexdigest()
    write_json(folder / "about.json", about)


def _count_chunks(files: Sequence[Path]) -> int | None:
    """How many chunks there will be, for the progress bar; None if a file is compressed."""
    lines = 0
    for file in files:
        with open(file, "rb") as stream:
            if stream.read(2) == GZIP:
                return None
            stream.seek(0)
            while block := stream.read(1 << 20):
                lines += block.count(b"\n")
    return -(-lines // CHUNK)


def _encode(
    chunks: Iterator[list[str]], saved: Path, tokenizer: Tokenizer, dtype: np.dtype[Any], processes: int
) -> Generator[Chunk, None, None]:
    """The encoded chunks in order: a short text in this process, a long one in a pool of processes."""
    first = list(islice(chunks, POOL_FROM if processes > 1 else 0))
    if processes == 1 or len(first) < POOL_FROM:
        for lines in chain(first, chunks):
            yield _flatten(tokenizer.encode_lines(lines), dtype)
    else:
        yield from _encode_in_pool(chain(first, chunks), saved, dtype, processes)


def _flatten(lines: Sequence[Sequence[int]], dtype: np.dtype[Any]) -> Chunk:
    lengths = np.fromiter(map(len, lines), np.int64, len(lines))
    return np.fromiter(chain.from_iterable(lines), dtype, int(lengths.sum())), lengths


# ---- the pool: plain child processes, which need no guarded main module


def _encode_in_pool(
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

    with ThreadPoolExecutor(processes) as threads:  # one thread for each worker
        waiting: deque[Future[Chunk]] = deque()
        try:
            for lines in chunks:
                waiting.append(threads.submit(encode, lines))
                if len(waiting) > 2 * processes:  # keeps all workers busy, and memory small
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            for worker in workers:
                worker.end()


class _Worker:
    """A child process that encodes lines.

    It has its own session, so that Ctrl-C in a terminal reaches only this process, and it ends when its input ends,
    which is when this process ends in whatever way.
    """

    def __init__(self, saved: Path, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.process = subprocess.Popen(
            child_command("-c", "from fastmos.data.tokenized import serve; serve()", str(saved), dtype.str),
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
            died = f"a process that encodes text died with status {self.process.wait()}; is there enough memory?"
            raise ChildProcessError(errno.ECHILD, died) from None

    def end(self) -> None:
        """End the process at once: it has nothing to save."""
        self.process.kill()
        self.process.wait()
        with suppress(OSError):  # what it did not read
            self.input.close()
        self.output.close()


def serve() -> None:
    """The main function of a worker."""
    tokenizer, dtype = load_tokenizer(sys.argv[1]), np.dtype(sys.argv[2])
    with suppress(EOFError, BrokenPipeError):
        while True:
            tokens, lengths = _flatten(tokenizer.encode_lines(_receive(sys.stdin.buffer).decode().split("\n")), dtype)
            _send(sys.stdout.buffer, lengths.tobytes())
            _send(sys.stdout.buffer, tokens.tobytes())


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
