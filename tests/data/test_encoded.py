"""Text is coded once, whole or not at all, in one process or many, and again only when something changed."""

import gzip
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastmos.codings import Text, WordCoding
from fastmos.data import encoded
from fastmos.data.encoded import EncodedText, check_pairs, encode_files
from fastmos.errors import InputError

WORDS = [f"w{number}" for number in range(50)]
DEADLINE = 120.0  # seconds, for a loaded machine


@pytest.fixture
def coding() -> WordCoding:
    return WordCoding(WORDS)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool from 30 lines on."""
    monkeypatch.setattr(encoded, "CHUNK", 10)
    monkeypatch.setattr(encoded, "POOL_FROM", 3)


def some_lines(count: int) -> list[str]:
    random = np.random.default_rng(count)
    return [" ".join(random.choice(WORDS, random.integers(0, 9))) for _ in range(count)]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def rows(text: EncodedText) -> list[list[int]]:
    return [text[line].tolist() for line in range(len(text))]


def folders(cache: Path) -> list[str]:
    """What a cache holds beside its lock."""
    return sorted(path.name for path in cache.iterdir() if path.name != ".lock")


def is_worker(pid: int | str) -> bool:
    """Is this a process that codes text and has not ended? (Elsewhere than on Linux, nobody can tell.)"""
    try:
        return b"serve()" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def workers_of(pid: int) -> list[int]:
    def parent(process: str) -> int:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])

    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            if is_worker(path.name) and parent(path.name) == pid:
                found.append(int(path.name))
    return found


def test_lines_of_several_files_in_codes(tmp_path: Path, coding: WordCoding) -> None:
    first, second = some_lines(7), ["", "w1 no-such-word w2", "ends without a newline"]
    write(tmp_path / "a", first)
    with gzip.open(tmp_path / "b.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(second))
    text = encode_files([tmp_path / "a", tmp_path / "b.gz"], coding, tmp_path / "cache")
    assert rows(text) == coding.encode_lines(first + second)
    assert text.lengths.tolist() == [len(row) for row in rows(text)] and text.lengths.dtype == np.int64
    assert isinstance(text.codes, np.memmap) and text.codes.dtype == np.uint16
    assert text.offsets.dtype == np.int64 and len(text) == 10
    assert text[-1].tolist() == text[9].tolist() and text.name == f"{tmp_path / 'a'} + {tmp_path / 'b.gz'}"
    for line in (10, -11):
        with pytest.raises(IndexError):
            text[line]


@pytest.mark.parametrize(("words", "dtype"), [((1 << 16) - 4, np.uint16), ((1 << 16) - 3, np.uint32)])
def test_codes_take_two_bytes_while_they_fit(tmp_path: Path, words: int, dtype: type) -> None:
    coding = WordCoding([str(word) for word in range(words)])
    text = encode_files([write(tmp_path / "a", [f"0 {words - 1}"])], coding, tmp_path / "cache")
    assert text.codes.dtype == dtype and text[0].tolist() == [4, len(coding) - 1]


def test_lines_without_codes(tmp_path: Path, coding: WordCoding) -> None:
    text = encode_files([write(tmp_path / "a", ["", " ", ""])], coding, tmp_path / "cache")
    assert rows(text) == [[], [], []] and text.lengths.tolist() == [0, 0, 0]


@given(st.lists(st.lists(st.integers(0, 1 << 20), max_size=9), max_size=20))
def test_codes_in_memory(lines: list[list[int]]) -> None:
    text = EncodedText.of(lines)
    assert rows(text) == lines and len(text) == len(lines)


def test_coded_once_and_again_when_a_file_or_the_coding_changes(
    tmp_path: Path, coding: WordCoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Path] = []
    build = encoded._build

    def counted(files: list[Path], coding: WordCoding, folder: Path, processes: int) -> None:
        built.append(folder)
        build(files, coding, folder, processes)

    monkeypatch.setattr(encoded, "_build", counted)
    file, cache = write(tmp_path / "a", ["w1 w2"]), tmp_path / "cache"

    def counts_after(coding: WordCoding, files: list[Path]) -> int:
        encode_files(files, coding, cache)
        return len(built)

    assert counts_after(coding, [file]) == 1
    assert counts_after(WordCoding(WORDS), [file]) == 1, "an equal coding"
    assert counts_after(coding, [write(tmp_path / "elsewhere", ["w1 w2"])]) == 1, "an equal file"
    assert counts_after(WordCoding(WORDS[::-1]), [file]) == 2
    assert counts_after(coding, [write(file, ["w1 w3"])]) == 3
    assert counts_after(coding, [file, file]) == 4
    monkeypatch.setattr(encoded, "FORMAT", encoded.FORMAT + 1)
    assert counts_after(coding, [file]) == 5
    assert len(folders(cache)) == 5, "old folders stay"


def test_a_pool_gives_what_one_process_gives(tmp_path: Path, coding: WordCoding, small_chunks: None) -> None:
    file = write(tmp_path / "a", some_lines(157))
    alone = encode_files([file], coding, tmp_path / "alone", processes=1)
    pooled = encode_files([file], coding, tmp_path / "pooled", processes=2)
    assert rows(alone) == rows(pooled) == coding.encode_lines(some_lines(157))
    assert workers_of(os.getpid()) == []
    assert folders(tmp_path / "alone") == folders(tmp_path / "pooled")


# Read by Python at its start: a worker that reached for another process, or remembered a line, would die of it.
LONELY_AND_FORGETFUL = """
from fastmos.codings import moses

moses.LINES_WORTH_A_PROCESS, moses.cores, moses._child, moses._Memory.remember = 1, lambda: 2, None, None
"""


def test_a_worker_by_moses_rules_uses_one_core_and_constant_memory(
    tmp_path: Path, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(LONELY_AND_FORGETFUL)
    monkeypatch.syspath_prepend(tmp_path)
    coding = WordCoding(WORDS, text=Text("moses", "en"))
    file = write(tmp_path / "a", some_lines(100))
    text = encode_files([file], coding, tmp_path / "cache", processes=2)
    assert rows(text) == coding.encode_lines(some_lines(100))


def test_progress_knows_the_number_of_chunks_of_plain_text(tmp_path: Path, small_chunks: None) -> None:
    plain, packed = write(tmp_path / "a", some_lines(41)), tmp_path / "a.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert encoded._count_chunks([plain]) == 5 and encoded._count_chunks([plain, plain]) == 9
    assert encoded._count_chunks([plain, packed]) is None


def test_a_short_text_needs_no_pool(tmp_path: Path, coding: WordCoding, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded, "_encoded_in_pool", lambda *_: pytest.fail("started processes"))
    encode_files([write(tmp_path / "a", some_lines(50))], coding, tmp_path / "cache", processes=8)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "a: no lines"),
        (b"fine\n\xff\xfe\n", "a, line 2: not UTF-8"),
        (gzip.compress(b"w1\n" * 1000)[:-9], "a: damaged gzip"),
    ],
    ids=["empty", "invalid", "damaged"],
)
def test_bad_text_is_refused_and_leaves_nothing(
    tmp_path: Path, coding: WordCoding, content: bytes, sentence: str
) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        encode_files([tmp_path / "a"], coding, tmp_path / "cache")
    assert folders(tmp_path / "cache") == []


def test_bad_text_ends_a_pool(tmp_path: Path, coding: WordCoding, small_chunks: None) -> None:
    (tmp_path / "a").write_bytes(b"w1\n" * 120 + b"\xff\n")
    with pytest.raises(InputError, match="line 121: not UTF-8"):
        encode_files([tmp_path / "a"], coding, tmp_path / "cache", processes=2)
    assert folders(tmp_path / "cache") == [] and workers_of(os.getpid()) == []


def test_files_that_are_none_are_refused(tmp_path: Path, coding: WordCoding) -> None:
    for files, sentence in (
        ([], "no files"),
        ([tmp_path / "absent"], "absent: no such file"),
        ([tmp_path], "not a regular file"),
    ):
        with pytest.raises(InputError, match=sentence):
            encode_files(files, coding, tmp_path / "cache")


def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, coding: WordCoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "a", ["w1"])
    build = encoded._build

    def disturbed(files: list[Path], coding: WordCoding, folder: Path, processes: int) -> None:
        build(files, coding, folder, processes)
        write(file, ["w1", "w2"])

    monkeypatch.setattr(encoded, "_build", disturbed)
    with pytest.raises(InputError, match="changed while it was read"):
        encode_files([file], coding, tmp_path / "cache")
    assert folders(tmp_path / "cache") == []


def test_a_damaged_cache_is_named(tmp_path: Path, coding: WordCoding) -> None:
    file = write(tmp_path / "a", some_lines(20))
    encode_files([file], coding, tmp_path / "cache")
    (folder,) = folders(tmp_path / "cache")
    os.truncate(tmp_path / "cache" / folder / "codes.bin", 3)
    with pytest.raises(InputError, match=f"{folder}: damaged cache folder .codes.bin.; delete it"):
        encode_files([file], coding, tmp_path / "cache")


def test_pairs_must_match() -> None:
    three, two, none = (EncodedText.of([[5]] * count, f"file{count}") for count in (3, 2, 0))
    check_pairs(three, three)
    with pytest.raises(InputError, match="file3 has 3 lines and file2 has 2;"):
        check_pairs(three, two)
    for sides in ((none, three), (three, none), (none, none)):
        with pytest.raises(InputError, match="file0: no lines"):
            check_pairs(*sides)


# ---- interruptions


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")], ids=["ctrl-c", "full"])
def test_a_broken_off_build_leaves_nothing_and_can_be_done_again(
    tmp_path: Path,
    coding: WordCoding,
    small_chunks: None,
    monkeypatch: pytest.MonkeyPatch,
    processes: int,
    error: BaseException,
) -> None:
    file = write(tmp_path / "a", some_lines(100))

    def broken(items: Iterator[encoded.Chunk], what: str, total: int) -> Iterator[encoded.Chunk]:
        yield next(items)
        raise error

    with monkeypatch.context() as patch, pytest.raises(type(error)):
        patch.setattr(encoded, "progress", broken)
        encode_files([file], coding, tmp_path / "cache", processes=processes)
    assert folders(tmp_path / "cache") == [] and workers_of(os.getpid()) == []
    assert len(encode_files([file], coding, tmp_path / "cache", processes=1)) == 100


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
def test_a_worker_that_dies_ends_the_build(
    tmp_path: Path, coding: WordCoding, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deadly(items: Iterator[encoded.Chunk], what: str, total: int) -> Iterator[encoded.Chunk]:
        yield next(items)
        for worker in workers_of(os.getpid()):
            os.kill(worker, signal.SIGKILL)
        yield from items

    monkeypatch.setattr(encoded, "progress", deadly)
    with pytest.raises(ChildProcessError, match="died with status -9; is there memory enough"):
        encode_files([write(tmp_path / "a", some_lines(500))], coding, tmp_path / "cache", processes=2)
    assert folders(tmp_path / "cache") == [] and workers_of(os.getpid()) == []


def test_the_second_of_two_builders_takes_what_the_first_made(tmp_path: Path) -> None:
    folder = tmp_path / "key"
    with encoded._written_whole(folder) as aside:
        (aside / "codes.bin").write_text("second")
        folder.mkdir()
        (folder / "codes.bin").write_text("first")
    assert folders(tmp_path) == ["key"] and (folder / "codes.bin").read_text() == "first"


# A process that builds in a pool of two, says so once the first chunk is done, and then waits for its end.
BUILDER = """
import signal, time
from pathlib import Path
from fastmos.codings import load_coding
from fastmos.data import encoded

def waiting(items, what, total):
    yield next(items)
    Path("ready").touch()
    while True:
        time.sleep(0.1)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin without it
encoded.CHUNK, encoded.POOL_FROM, encoded.progress = 10, 3, waiting
encoded.encode_files(["a"], load_coding("coding.json"), "cache", processes=2)
"""


def wait_until(done: Callable[[], bool], otherwise: str) -> None:
    end = time.monotonic() + DEADLINE
    while not done():
        assert time.monotonic() < end, otherwise
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill"])
def test_an_ended_builder_takes_its_workers_with_it(tmp_path: Path, coding: WordCoding, how: signal.Signals) -> None:
    write(tmp_path / "a", some_lines(100))
    coding.save(tmp_path / "coding.json")
    (tmp_path / "builder.py").write_text(BUILDER)
    builder = subprocess.Popen(
        [sys.executable, "builder.py"], cwd=tmp_path, start_new_session=True, stderr=subprocess.DEVNULL
    )
    try:
        wait_until((tmp_path / "ready").exists, "no chunk was coded")
        workers = workers_of(builder.pid)
        assert len(workers) == 2
        if how == signal.SIGINT:
            os.killpg(builder.pid, how)  # as a terminal does
        else:
            builder.kill()
        assert builder.wait(DEADLINE) != 0
        wait_until(lambda: not any(map(is_worker, workers)), "workers outlived the builder")
    finally:
        builder.kill()
        builder.wait()
    left = folders(tmp_path / "cache")
    assert all(name.startswith(".") for name in left) and (how == signal.SIGKILL or not left)
    text = encode_files([tmp_path / "a"], coding, tmp_path / "cache", processes=1)
    assert rows(text) == coding.encode_lines(some_lines(100))
    assert len(folders(tmp_path / "cache")) == 1, "what the killed one left is cleared away"


def test_processes_that_build_at_once_agree(tmp_path: Path, coding: WordCoding) -> None:
    lines = some_lines(2_000)
    write(tmp_path / "a", lines)
    coding.save(tmp_path / "coding.json")
    program = (
        "from fastmos.codings import load_coding; from fastmos.data.encoded import encode_files; "
        "print(encode_files(['a'], load_coding('coding.json'), 'cache', processes=1).codes.sum())"
    )
    ranks = [
        subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = [rank.communicate(timeout=DEADLINE)[0].strip() for rank in ranks]
    assert said == [str(sum(map(sum, coding.encode_lines(lines))))] * 3
    assert len(folders(tmp_path / "cache")) == 1
