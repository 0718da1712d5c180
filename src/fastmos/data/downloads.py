"""Downloads: resumed after an interruption, retried, checked by size and SHA-256, unpacked safely."""

import errno
import gzip
import hashlib
import http.client
import lzma
import shutil
import ssl
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from pathlib import Path, PurePosixPath
from typing import IO

from fastmos.errors import InputError
from fastmos.files import written_whole
from fastmos.progress import progress

CHUNK = 1 << 20
ATTEMPTS = 6
TIMEOUT_SECONDS = 60.0
PERMANENT = {400, 401, 403, 404, 405, 410}  # HTTP errors that another attempt will not change
PAGE = (b"<!doctype html", b"<html")  # how what a proxy or a login sends instead of a file begins


class FullDiskError(InputError):
    """There is no room; the download itself may be good."""


@dataclass(frozen=True)
class Remote:
    """A file to download; size and SHA-256 are checked if they are known."""

    url: str
    size: int | None = None
    sha256: str | None = None

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[-1]


def fetch(
    remote: Remote,
    folder: Path,
    *,
    mirror: str | None = None,
    attempts: int = ATTEMPTS,
    sleep: Callable[[float], None] = time.sleep,
) -> Path:
    """Download a file into a folder, unless it is there already; an interrupted download is resumed.

    A mirror is a URL under which the file has the same name. If the SHA-256 is unknown, that in NAME.sha256 beside the
    file is checked, which `record` writes once the file has proved good.
    """
    final = folder / remote.name
    if final.exists():
        _check(final, remote, "remove it, and it will be downloaded again")
        return final
    folder.mkdir(parents=True, exist_ok=True)
    url = f"{mirror.rstrip('/')}/{remote.name}" if mirror else remote.url
    partial = folder / f"{remote.name}.part"
    _download(url, partial, remote.size, attempts, sleep)
    try:
        _refuse_page(partial, url)
        recorded = f", or delete {_digest_file(final)} if it changed on purpose" if recorded_sha256(final) else ""
        _check(partial, remote, f"it was deleted; try again later, or another --mirror{recorded}", url)
    except InputError:
        partial.unlink()
        raise
    finally:
        _tag_file(partial).unlink(missing_ok=True)
    partial.replace(final)
    return final


def _refuse_page(partial: Path, url: str) -> None:
    with open(partial, "rb") as file:
        if file.read(1000).lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(PAGE):
            raise InputError(f"{url}: a web page came instead of the file; log in or try another network or --mirror")


def recorded_sha256(path: Path) -> str | None:
    """The SHA-256 in NAME.sha256 beside the file, if there is one."""
    try:
        return _digest_file(path).read_text("utf-8").split()[0]
    except (FileNotFoundError, IndexError):
        return None


def _digest_file(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".part") + ".sha256")


def _tag_file(partial: Path) -> Path:
    return partial.with_name(partial.name + ".tag")


def _check(path: Path, remote: Remote, advice: str, name: str | None = None) -> None:
    size = path.stat().st_size
    if remote.size is not None and size != remote.size:
        raise InputError(f"{name or path}: has {size:,} bytes, not {remote.size:,}; {advice}")
    expected = remote.sha256 or recorded_sha256(path)
    if expected is None:
        return
    found = _sha256(path)
    if found != expected:
        raise InputError(f"{name or path}: its SHA-256 is {found}, not {expected}; {advice}")


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def record(path: Path) -> None:
    """The file was unpacked and its content is right: write its hash in the format of `sha256sum -c`."""
    if recorded_sha256(path) is None:
        with written_whole(_digest_file(path)) as file:
            file.write(f"{_sha256(path)}  {path.name}\n")


def forget(path: Path) -> None:
    """The file is not what it should be: remove it and its hash, so that the next call downloads it again."""
    path.unlink(missing_ok=True)
    _digest_file(path).unlink(missing_ok=True)


@contextmanager
def proved(*paths: Path) -> Iterator[None]:
    """Around the work that shows whether downloads are good: keeps their hashes, or removes the files."""
    try:
        yield
    except FullDiskError:
        raise
    except InputError:
        for path in paths:
            forget(path)
        raise
    for path in paths:
        record(path)


def _download(url: str, partial: Path, size: int | None, attempts: int, sleep: Callable[[float], None]) -> None:
    """Try until the whole file is there; an attempt that downloads a chunk resets the count of failures."""
    failures = 0
    while True:
        before = _length(partial)
        try:
            _transfer(url, partial, size)
            return
        except urllib.error.HTTPError as error:
            if error.code in PERMANENT:
                raise InputError(f"{url}: the server says {error.code} {error.reason}; is the URL right?") from None
            reason = f"the server says {error.code} {error.reason}"
        except (urllib.error.URLError, http.client.HTTPException, ssl.SSLError, ConnectionError, TimeoutError) as error:
            reason = str(getattr(error, "reason", error)) or type(error).__name__
        failures = 1 if _length(partial) >= before + CHUNK else failures + 1
        if failures >= attempts:
            raise InputError(f"{url}: {reason}, {attempts} times; run the command again later to resume")
        sleep(2.0 ** (failures - 1))


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _transfer(url: str, partial: Path, size: int | None) -> None:
    """One attempt: request what is missing, and append it."""
    done, tag = _length(partial), _tag_file(partial)
    if size is not None and done == size:
        return
    version = tag.read_text("utf-8") if tag.exists() else ""
    done = done if version else 0  # else a change of the file would go unnoticed
    headers = {"User-Agent": "fastmos", "Accept-Encoding": "identity"}
    if done:
        headers |= {"Range": f"bytes={done}-", "If-Range": version}  # a changed file is sent whole
    try:
        request = urllib.request.Request(url, headers=headers)
        response = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except ValueError as error:
        raise InputError(f"{url}: not a URL ({error}); it should begin with http:// or https://") from None
    except urllib.error.HTTPError as error:
        if error.code == 416 and done:  # no bytes after ours: complete already, or another file
            total = error.headers.get("Content-Range", "").rpartition("/")[2]
            if total == str(done):
                return
            raise _misfit(partial) from None
        raise
    with response:
        if response.status == 206:
            rest = response.headers.get("Content-Range", "").startswith(f"bytes {done}-")
            if not rest or _version(response.headers) not in ("", version):  # some servers ignore If-Range
                raise _misfit(partial)
        else:
            done = 0
            partial.unlink(missing_ok=True)  # first, so that bytes of one version are never beside the tag of another
            tag.write_text(_version(response.headers), "utf-8")
        length = response.headers.get("Content-Length")
        expected = int(length) if length and length.isascii() and length.isdigit() and len(length) < 20 else None
        _check_space(partial.parent, expected or 0, url)
        received = _append(response, partial, done, expected)
    if expected is not None and received < expected:
        raise ConnectionError(f"the connection was cut {expected - received:,} bytes before the end")


def _version(headers: Message) -> str:
    """What identifies this version of a file: a strong ETag, or else the time of its last change."""
    etag = headers.get("ETag", "W/")
    return headers.get("Last-Modified", "") if etag.startswith("W/") else etag


def _misfit(partial: Path) -> ConnectionError:
    partial.unlink(missing_ok=True)
    return ConnectionError("the partial file does not match the file on the server")


def _append(response: IO[bytes], partial: Path, done: int, expected: int | None) -> int:
    """Write the response after the first `done` bytes; returns the number of bytes written."""
    received = 0
    total = -(-(done + expected) // CHUNK) if expected is not None else None
    with open(partial, "r+b" if done else "wb") as file:
        file.seek(done)
        file.truncate()
        chunks = iter(lambda: response.read(CHUNK), b"")
        for chunk in progress(chunks, f"{partial.stem}, MiB", total, done // CHUNK):
            try:
                file.write(chunk)
                file.flush()
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise _full(partial.parent, partial.name) from None
                raise
            received += len(chunk)
    return received


def _full(folder: Path, name: str) -> InputError:
    return FullDiskError(f"{folder}: the disk is full while writing {name}; make room and run the command again")


def _check_space(folder: Path, needed: int, what: str) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise FullDiskError(f"{folder}: {what} needs {needed:,} bytes and {free:,} are free; make room or use --folder")


# What the packages raise for files that are cut, changed, encrypted, or packed in an unknown way.
DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError),
    *(RuntimeError, NotImplementedError, ValueError, OverflowError),
)


def unpack(archive: Path, members: Sequence[str], folder: Path) -> list[Path]:
    """Extract some files of a tar or zip archive into `folder`, without their folders.

    Only the given members are read, and only if they are regular files: links are never followed.
    """
    found: dict[str, Path] = {}
    try:
        for name, size, stream in _regular_files(archive, set(members)):
            target = folder / PurePosixPath(name).name
            _check_space(archive.parent, size, f"{name} of {archive.name}")
            try:
                with written_whole(target, "wb") as file:
                    shutil.copyfileobj(stream, file, CHUNK)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise _full(folder, target.name) from None
                raise
            found[name] = target
            if len(found) == len(set(members)):
                break
    except InputError:
        raise
    except DAMAGE as error:
        raise InputError(f"{archive}: damaged archive ({error}); get it again") from None
    missing = [member for member in members if member not in found]
    if missing:
        raise InputError(f"{archive}: has no regular file {missing[0]}; is it the right archive?")
    return [found[member] for member in members]


def _regular_files(archive: Path, wanted: set[str]) -> Iterator[tuple[str, int, IO[bytes]]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for entry in zipped.infolist():
                link = (entry.external_attr >> 16) & 0o170000 == 0o120000
                if entry.filename in wanted and not entry.is_dir() and not link:
                    with zipped.open(entry) as stream:
                        yield entry.filename, entry.file_size, stream
        return
    with tarfile.open(archive, "r:*") as tar:
        for member in tar:
            name = member.name.removeprefix("./")
            if name in wanted and member.isreg():
                content = tar.extractfile(member)
                assert content is not None
                yield name, member.size, content
