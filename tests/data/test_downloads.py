"""Downloads against a server on this machine that cuts, refuses, forgets and lies; archives that try to escape."""

import errno
import hashlib
import io
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from fastmos.data.downloads import FullDiskError, Remote, fetch, proved, recorded_sha256, unpack
from fastmos.errors import InputError

CONTENT = bytes(range(256)) * 5000
SHA = hashlib.sha256(CONTENT).hexdigest()


class Server:
    """What the server does: how many answers it cuts short, whether it knows Range, and which errors it gives first."""

    def __init__(self) -> None:
        self.files = {"/corpus.tgz": CONTENT}
        self.cuts: list[int] = []  # each answer ends after so many bytes
        self.errors: list[int] = []  # each answer is this error
        self.ranges = True
        self.heeds_if_range = True
        self.etag = '"one"'
        self.modified = ""
        self.asked: list[str] = []  # Range headers, in order

    def start(self) -> None:
        state = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                state.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        wanted = handler.headers.get("Range", "")
        self.asked.append(wanted)
        body = self.files.get(handler.path)
        if self.errors or body is None:
            handler.send_error(self.errors.pop(0) if self.errors else 404)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        strong = [self.modified] if self.etag.startswith("W/") else [self.etag, self.modified]
        current = not self.heeds_if_range or handler.headers.get("If-Range", strong[0]) in strong
        if wanted and self.ranges and current:
            if start >= len(body):
                handler.send_response(416)
                handler.send_header("Content-Range", f"bytes */{len(body)}")
                handler.send_header("Content-Length", "0")
                handler.end_headers()
                return
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            body = body[start:]
        else:
            handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        for name, value in (("ETag", self.etag), ("Last-Modified", self.modified)):
            if value:
                handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body[: self.cuts.pop(0)] if self.cuts else body)
        handler.close_connection = True


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    server.start()
    yield server
    server.http.shutdown()
    server.http.server_close()


def remote(server: Server, sha256: str | None = None, size: int | None = None) -> Remote:
    return Remote(f"{server.url}/corpus.tgz", size, sha256)


def never(seconds: float) -> None:
    raise AssertionError(f"slept {seconds} s")


def test_a_download_that_proved_good_has_its_hash_recorded(server: Server, tmp_path: Path) -> None:
    path = fetch(remote(server), tmp_path, sleep=never)
    assert path.read_bytes() == CONTENT
    assert recorded_sha256(path) is None
    with proved(path):
        pass
    assert (tmp_path / "corpus.tgz.sha256").read_text() == f"{SHA}  corpus.tgz\n"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["corpus.tgz", "corpus.tgz.sha256"]
    assert fetch(remote(server), tmp_path, sleep=never) == path
    assert len(server.asked) == 1


def test_a_cut_connection_is_resumed(server: Server, tmp_path: Path) -> None:
    server.cuts = [100_000, 400_000]
    sleeps: list[float] = []
    assert fetch(remote(server, SHA, len(CONTENT)), tmp_path, sleep=sleeps.append).read_bytes() == CONTENT
    assert server.asked == ["", "bytes=100000-", "bytes=500000-"]
    assert sleeps == [1.0, 2.0]


def test_the_next_run_resumes_where_the_last_gave_up(server: Server, tmp_path: Path) -> None:
    server.cuts = [1000, 0, 0]
    with pytest.raises(InputError, match=r"the connection was cut .* before the end, 3 times; run the command again"):
        fetch(remote(server, SHA), tmp_path, attempts=3, sleep=lambda _: None)
    assert not (tmp_path / "corpus.tgz").exists()
    assert fetch(remote(server, SHA), tmp_path, sleep=never).read_bytes() == CONTENT
    assert server.asked[-1] == "bytes=1000-"


def test_a_server_that_ignores_range_sends_all_again(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    server.cuts = [100_000]
    assert fetch(remote(server, SHA), tmp_path, sleep=lambda _: None).read_bytes() == CONTENT


def test_a_file_changed_between_two_tries_is_not_mixed(server: Server, tmp_path: Path) -> None:
    server.cuts = [100_000, 0]
    with pytest.raises(InputError):
        fetch(remote(server), tmp_path, attempts=2, sleep=lambda _: None)
    server.files["/corpus.tgz"], server.etag = b"new" * 100_000, '"two"'
    assert fetch(remote(server), tmp_path, sleep=never).read_bytes() == b"new" * 100_000


MONDAY, TUESDAY = "Mon, 06 Jul 2026 08:00:00 GMT", "Tue, 07 Jul 2026 08:00:00 GMT"


@pytest.mark.parametrize(
    ("before", "after", "heeds_if_range"),
    [
        (('"one"', MONDAY), ('"two"', MONDAY), True),
        (('"one"', MONDAY), ('"two"', MONDAY), False),
        (('W/"one"', MONDAY), ('W/"two"', TUESDAY), True),
        (("", MONDAY), ("", TUESDAY), True),
        (('W/"one"', ""), ('W/"two"', ""), True),
        (("", ""), ("", ""), True),
        (('"one"', ""), ("", ""), True),
    ],
    ids=["strong", "ignored", "weak and dated", "dated", "weak", "nothing", "no longer"],
)
def test_a_changed_file_comes_from_the_start_however_versions_are_told_apart(
    server: Server, tmp_path: Path, before: tuple[str, str], after: tuple[str, str], heeds_if_range: bool
) -> None:
    (server.etag, server.modified), server.heeds_if_range = before, heeds_if_range
    server.cuts = [100_000]
    with pytest.raises(InputError):
        fetch(remote(server), tmp_path, attempts=1)
    server.files["/corpus.tgz"], (server.etag, server.modified) = b"new" * 100_000, after
    server.cuts = [50_000]  # of the new file, too, only a part comes at first
    assert fetch(remote(server), tmp_path, sleep=lambda _: None).read_bytes() == b"new" * 100_000


@pytest.mark.parametrize(
    ("etag", "modified", "asked"),
    [('W/"one"', MONDAY, "bytes=100000-"), ("", MONDAY, "bytes=100000-"), ('W/"one"', "", ""), ("", "", "")],
)
def test_a_date_will_do_to_resume_and_a_weak_etag_will_not(
    server: Server, tmp_path: Path, etag: str, modified: str, asked: str
) -> None:
    server.etag, server.modified = etag, modified
    server.cuts = [100_000]
    assert fetch(remote(server), tmp_path, sleep=lambda _: None).read_bytes() == CONTENT
    assert server.asked == ["", asked]


def test_a_changed_file_without_space_is_not_mixed_later(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.cuts = [100_000]
    with pytest.raises(InputError):
        fetch(remote(server), tmp_path, attempts=1)
    server.files["/corpus.tgz"], server.etag = b"new" * 100_000, '"two"'
    with monkeypatch.context() as patch, pytest.raises(InputError, match="make room"):
        patch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1))
        fetch(remote(server), tmp_path, sleep=never)
    assert fetch(remote(server), tmp_path, sleep=never).read_bytes() == b"new" * 100_000


@pytest.mark.parametrize(("left", "tries"), [(CONTENT, 1), (CONTENT + b"more", 2)])
def test_a_partial_file_that_is_whole_or_too_long(server: Server, tmp_path: Path, left: bytes, tries: int) -> None:
    (tmp_path / "corpus.tgz.part").write_bytes(left)
    (tmp_path / "corpus.tgz.part.tag").write_text(server.etag)
    assert fetch(remote(server, SHA), tmp_path, sleep=lambda _: None).read_bytes() == CONTENT
    assert len(server.asked) == tries


@pytest.mark.parametrize("wrong", ["known", "recorded", "size"])
def test_wrong_content_is_refused(server: Server, tmp_path: Path, wrong: str) -> None:
    server.files["/corpus.tgz"] = CONTENT[:-1] + b"?"
    expected = remote(server, SHA if wrong == "known" else None, len(CONTENT) + 1 if wrong == "size" else None)
    if wrong == "recorded":
        (tmp_path / "corpus.tgz.sha256").write_text(f"{SHA}  corpus.tgz\n")
    with pytest.raises(
        InputError, match=r"(SHA-256 is \w+, not \w+|has 1,280,000 bytes, not 1,280,001); it was deleted"
    ):
        fetch(expected, tmp_path, sleep=never)
    assert {each.name for each in tmp_path.iterdir()} <= {"corpus.tgz.sha256"}


def test_a_damaged_file_is_not_taken_for_a_download(server: Server, tmp_path: Path) -> None:
    (tmp_path / "corpus.tgz").write_bytes(b"half")
    with pytest.raises(InputError, match="remove it, and it will be downloaded again"):
        fetch(remote(server, SHA), tmp_path, sleep=never)
    assert server.asked == []


def test_not_found_is_said_at_once(server: Server, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the server says 404 Not Found; is the URL right\?"):
        fetch(Remote(f"{server.url}/other.tgz"), tmp_path, sleep=never)


def test_a_busy_server_is_asked_again_but_not_for_ever(server: Server, tmp_path: Path) -> None:
    server.errors = [503, 500]
    assert fetch(remote(server, SHA), tmp_path, sleep=lambda _: None).read_bytes() == CONTENT
    (tmp_path / "corpus.tgz").unlink()
    server.errors = [503] * 10
    sleeps: list[float] = []
    with pytest.raises(InputError, match=r"the server says 503 .*, 6 times"):
        fetch(remote(server, SHA), tmp_path, sleep=sleeps.append)
    assert sleeps == [1.0, 2.0, 4.0, 8.0, 16.0]


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.socket() as bound:  # holds the port, but nobody accepts
        bound.bind(("127.0.0.1", 0))
        silent = Remote(f"http://127.0.0.1:{bound.getsockname()[1]}/corpus.tgz")
        with pytest.raises(InputError, match="2 times; run the command again later"):
            fetch(silent, tmp_path, attempts=2, sleep=lambda _: None)


@pytest.mark.parametrize("url", ["corpus.tgz", "data/corpus.tgz"])
def test_a_name_is_not_a_url(tmp_path: Path, url: str) -> None:
    with pytest.raises(InputError, match="not a URL"):
        fetch(Remote(url), tmp_path, sleep=never)


def test_a_mirror_holds_files_by_name(server: Server, tmp_path: Path) -> None:
    mirrored = Remote("http://nowhere.invalid/deep/path/corpus.tgz", None, SHA)
    assert fetch(mirrored, tmp_path, mirror=f"{server.url}/", sleep=never).read_bytes() == CONTENT


def test_too_little_space_is_seen_before(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1))
    with pytest.raises(InputError, match=r"needs 1,280,000 bytes and 1 are free; make room"):
        fetch(remote(server, SHA), tmp_path, sleep=never)


FILLS_UP = """
import resource, signal, sys
from pathlib import Path
from fastmos.data.downloads import Remote, fetch
from fastmos.errors import InputError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
try:
    fetch(Remote(sys.argv[1]), Path(sys.argv[2]))
except InputError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_disk_that_fills_up_keeps_the_part(server: Server, tmp_path: Path) -> None:
    """A limit on the file's size stands for a full disk: the same error path, with a write cut in the middle."""
    words = [sys.executable, "-c", FILLS_UP, remote(server).url, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert re.search(r"the disk is full while writing corpus\.tgz\.part; make room", done.stdout), done
    assert (tmp_path / "corpus.tgz.part").stat().st_size == 500_000
    assert not (tmp_path / "corpus.tgz").exists()
    assert fetch(remote(server, SHA), tmp_path, sleep=never).read_bytes() == CONTENT
    assert server.asked[-1] == "bytes=500000-"


def tar_with(path: Path, *members: tuple[str, bytes | str]) -> Path:
    """An archive of files (bytes) and links (where they point)."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return path


def test_unpack_takes_what_is_asked(tmp_path: Path) -> None:
    archive = tar_with(tmp_path / "a.tgz", ("./x/a.de", b"a"), ("x/b.en", b"b"), ("x/c", b"c"))
    out = tmp_path / "out"
    assert unpack(archive, ["x/b.en", "x/a.de"], out) == [out / "b.en", out / "a.de"]
    assert (out / "a.de").read_bytes() == b"a"
    assert sorted(each.name for each in out.iterdir()) == ["a.de", "b.en"]


def test_unpack_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x/a.de", "hallo")
        link = zipfile.ZipInfo("x/link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    assert unpack(tmp_path / "a.zip", ["x/a.de"], tmp_path / "out")[0].read_text() == "hallo"
    with pytest.raises(InputError, match="has no regular file x/link"):
        unpack(tmp_path / "a.zip", ["x/link"], tmp_path / "out")


@pytest.mark.parametrize("name", ["../evil", "/evil", "x/../../evil"])
def test_paths_never_lead_out(tmp_path: Path, name: str) -> None:
    archive = tar_with(tmp_path / "a.tgz", (name, b"evil"), ("good", b"good"))
    unpack(archive, ["good"], tmp_path / "deep" / "out")
    unpack(archive, [name], tmp_path / "deep" / "out")  # even asked for, it stays in the folder
    assert sorted(each.name for each in (tmp_path / "deep").rglob("*")) == ["evil", "good", "out"]
    assert not (tmp_path / "evil").exists() and not Path("/evil").exists()


def test_links_are_no_plain_files(tmp_path: Path) -> None:
    archive = tar_with(tmp_path / "a.tgz", ("train.de", "/etc/passwd"))
    with pytest.raises(InputError, match=r"has no regular file train\.de; is it the right archive\?"):
        unpack(archive, ["train.de"], tmp_path / "out")


@pytest.mark.parametrize("damage", ["cut", "garbage", "header"])
def test_damaged_archives(tmp_path: Path, damage: str) -> None:
    archive = tar_with(tmp_path / "a.tgz", ("train.de", hashlib.shake_128(b"noise").digest(200_000)))
    whole = archive.read_bytes()
    bad = {"cut": whole[:50_000], "garbage": b"no archive", "header": whole[:3] + b"\xff" * 60}
    archive.write_bytes(bad[damage])
    with pytest.raises(InputError, match="damaged archive"):
        unpack(archive, ["train.de"], tmp_path / "out")
    assert not list(tmp_path.glob("out/*"))


def test_unpack_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tar_with(tmp_path / "a.tgz", ("train.de", b"text"))

    def full(source: IO[bytes], target: IO[bytes], length: int) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(InputError, match=r"the disk is full while writing train\.de"):
        unpack(archive, ["train.de"], tmp_path / "out")
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.parametrize("page", [b"<!DOCTYPE html><p>Log in", b"\xef\xbb\xbf\n <HTML>busy</HTML>"])
def test_a_page_with_status_200_is_not_kept(page: bytes, server: Server, tmp_path: Path) -> None:
    server.files["/corpus.tgz"] = page
    with pytest.raises(InputError, match="a web page came instead of the file"):
        fetch(remote(server), tmp_path, sleep=never)
    assert list(tmp_path.iterdir()) == []
    server.files["/corpus.tgz"] = CONTENT
    assert fetch(remote(server), tmp_path, sleep=never).read_bytes() == CONTENT


@pytest.mark.parametrize(("error", "left"), [(InputError("bad"), []), (FullDiskError("full"), ["a", "a.sha256"])])
def test_a_file_that_proves_bad_goes_with_its_hash(error: InputError, left: list[str], tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "a.sha256").write_text("0  a\n")
    with pytest.raises(InputError), proved(tmp_path / "a"):
        raise error
    assert sorted(path.name for path in tmp_path.iterdir()) == left


@pytest.mark.parametrize("length", ["²", "9" * 5000, "-1", "x", ""])
def test_an_odd_content_length_is_as_none(length: str, server: Server, tmp_path: Path) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(f"HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n".encode("latin-1") + CONTENT)
        handler.close_connection = True

    server.answer = answer  # type: ignore[method-assign]
    try:
        assert fetch(remote(server, SHA), tmp_path, attempts=1, sleep=never).read_bytes() == CONTENT
    except InputError as refused:  # http.client reads nothing of a length that is no length
        assert "SHA-256" in str(refused) or "times" in str(refused)


def test_an_encrypted_archive_gets_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr("train.de", "text")
    content = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # the flag that says so, in both headers
        content[content.index(mark) + place] |= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"damaged archive .*encrypted"):
        unpack(path, ["train.de"], tmp_path / "out")
