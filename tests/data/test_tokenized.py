"""Text is encoded once, completely or not at all, in one process or many, and again only if something changed."""

import gzip
import json
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

from fastmos.data import tokenized
from fastmos.data.tokenized import TokenizedText, check_pairs, encode_files
from fastmos.errors import InputError
from fastmos.tokenizers import Pretokenizer, WordTokenizer

WORDS = [f"w{number}" for number in range(50)]
DEADLINE = 120.0  # seconds, for a loaded machine


@pytest.fixture
def tokenizer() -> WordTokenizer:
    return WordTokenizer(WORDS)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool from 30 lines on."""
    monkeypatch.setattr(tokenized, "CHUNK", 10)
    monkeypatch.setattr(tokenized, "POOL_FROM", 3)


def some_lines(count: int) -> list[str]:
    random = np.random.default_rng(count)
    return [" ".join(random.choice(WORDS, random.integers(0, 9))) for _ in range(count)]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def rows(text: TokenizedText) -> list[list[int]]:
    return [text[line].tolist() for line in range(len(text))]


def folders(cache: Path) -> list[str]:
    """What a cache holds beside its lock."""
    return sorted(path.name for path in cache.iterdir() if path.name != ".lock")


def is_worker(pid: int | str) -> bool:
    """Is this a running worker? (Only Linux can tell.)"""
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


def test_tokens_of_several_files(tmp_path: Path, tokenizer: WordTokenizer) -> None:
    first, second = some_lines(7), ["", "w1 no-such-word w2", "ends without a newline"]
    write(tmp_path / "a", first)
    with gzip.open(tmp_path / "b.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(second))
    text = encode_files([tmp_path / "a", tmp_path / "b.gz"], tokenizer, tmp_path / "cache")
    assert rows(text) == tokenizer.encode_lines(first + second)
    assert text.lengths.tolist() == [len(row) for row in rows(text)] and text.lengths.dtype == np.int64
    assert isinstance(text.tokens, np.memmap) and text.tokens.dtype == np.uint16
    assert text.offsets.dtype == np.int64 and len(text) == 10
    assert text[-1].tolist() == text[9].tolist() and text.name == f"{tmp_path / 'a'} + {tmp_path / 'b.gz'}"
    for line in (10, -11):
        with pytest.raises(IndexError):
            text[line]


@pytest.mark.parametrize(("words", "dtype"), [((1 << 16) - 4, np.uint16), ((1 << 16) - 3, np.uint32)])
def test_tokens_take_two_bytes_while_they_fit(tmp_path: Path, words: int, dtype: type) -> None:
    tokenizer = WordTokenizer([str(word) for word in range(words)])
    text = encode_files([write(tmp_path / "a", [f"0 {words - 1}"])], tokenizer, tmp_path / "cache")
    assert text.tokens.dtype == dtype and text[0].tolist() == [4, len(tokenizer) - 1]


def test_lines_without_tokens(tmp_path: Path, tokenizer: WordTokenizer) -> None:
    text = encode_files([write(tmp_path / "a", ["", " ", ""])], tokenizer, tmp_path / "cache")
    assert rows(text) == [[], [], []] and text.lengths.tolist() == [0, 0, 0]


@given(st.lists(st.lists(st.integers(0, 1 << 20), max_size=9), max_size=20))
def test_tokens_in_memory(lines: list[list[int]]) -> None:
    text = TokenizedText.of(lines)
    assert rows(text) == lines and len(text) == len(lines)


def test_encoded_once_and_again_when_a_file_or_the_tokenizer_changes(
    tmp_path: Path, tokenizer: WordTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Path] = []
    build = tokenized._build

    def counted(files: list[Path], tokenizer: WordTokenizer, folder: Path, processes: int) -> None:
        built.append(folder)
        build(files, tokenizer, folder, processes)

    monkeypatch.setattr(tokenized, "_build", counted)
    file, cache = write(tmp_path / "a", ["w1 w2"]), tmp_path / "cache"

    def counts_after(tokenizer: WordTokenizer, files: list[Path]) -> int:
        encode_files(files, tokenizer, cache)
        return len(built)

    assert counts_after(tokenizer, [file]) == 1
    assert counts_after(WordTokenizer(WORDS), [file]) == 1, "an equal tokenizer"
    assert counts_after(tokenizer, [write(tmp_path / "elsewhere", ["w1 w2"])]) == 1, "an equal file"
    assert counts_after(WordTokenizer(WORDS[::-1]), [file]) == 2
    assert counts_after(tokenizer, [write(file, ["w1 w3"])]) == 3
    assert counts_after(tokenizer, [file, file]) == 4
    monkeypatch.setattr(tokenized, "FORMAT", tokenized.FORMAT + 1)
    assert counts_after(tokenizer, [file]) == 5
    assert len(folders(cache)) == 5, "old folders stay"


def test_a_pool_gives_what_one_process_gives(tmp_path: Path, tokenizer: WordTokenizer, small_chunks: None) -> None:
    file = write(tmp_path / "a", some_lines(157))
    alone = encode_files([file], tokenizer, tmp_path / "alone", processes=1)
    pooled = encode_files([file], tokenizer, tmp_path / "pooled", processes=2)
    assert rows(alone) == rows(pooled) == tokenizer.encode_lines(some_lines(157))
    assert workers_of(os.getpid()) == []
    assert folders(tmp_path / "alone") == folders(tmp_path / "pooled")


# Read by Python at its start: a worker that reached for another process, or remembered a line, would die of it.
LONELY_AND_FORGETFUL = """
from fastmos.tokenizers import moses

moses.LINES_WORTH_A_PROCESS, moses.cores, moses._child, moses._Cache.remember = 1, lambda: 2, None, None
"""


def test_a_worker_by_moses_rules_uses_one_core_and_constant_memory(
    tmp_path: Path, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(LONELY_AND_FORGETFUL)
    monkeypatch.syspath_prepend(tmp_path)
    tokenizer = WordTokenizer(WORDS, pretokenizer=Pretokenizer("en"))
    file = write(tmp_path / "a", some_lines(100))
    text = encode_files([file], tokenizer, tmp_path / "cache", processes=2)
    assert rows(text) == tokenizer.encode_lines(some_lines(100))


def test_progress_knows_the_number_of_chunks_of_plain_text(tmp_path: Path, small_chunks: None) -> None:
    plain, packed = write(tmp_path / "a", some_lines(41)), tmp_path / "a.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert tokenized._count_chunks([plain]) == 5 and tokenized._count_chunks([plain, plain]) == 9
    assert tokenized._count_chunks([plain, packed]) is None


def test_a_short_text_needs_no_pool(tmp_path: Path, tokenizer: WordTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenized, "_encode_in_pool", lambda *_: pytest.fail("started processes"))
    text = encode_files([write(tmp_path / "a", some_lines(50))], tokenizer, tmp_path / "cache", processes=8)
    assert rows(text) == tokenizer.encode_lines(some_lines(50))


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
    tmp_path: Path, tokenizer: WordTokenizer, content: bytes, sentence: str
) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        encode_files([tmp_path / "a"], tokenizer, tmp_path / "cache")
    assert folders(tmp_path / "cache") == []


def test_bad_text_ends_a_pool(tmp_path: Path, tokenizer: WordTokenizer, small_chunks: None) -> None:
    (tmp_path / "a").write_bytes(b"w1\n" * 120 + b"\xff\n")
    with pytest.raises(InputError, match="line 121: not UTF-8"):
        encode_files([tmp_path / "a"], tokenizer, tmp_path / "cache", processes=2)
    assert folders(tmp_path / "cache") == [] and workers_of(os.getpid()) == []


def test_files_that_are_none_are_refused(tmp_path: Path, tokenizer: WordTokenizer) -> None:
    for files, sentence in (
        ([], "no files"),
        ([tmp_path / "absent"], "absent: no such file"),
        ([tmp_path], "not a regular file"),
    ):
        with pytest.raises(InputError, match=sentence):
            encode_files(files, tokenizer, tmp_path / "cache")


def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, tokenizer: WordTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "a", ["w1"])
    build = tokenized._build

    def disturbed(files: list[Path], tokenizer: WordTokenizer, folder: Path, processes: int) -> None:
        build(files, tokenizer, folder, processes)
        write(file, ["w1", "w2"])

    monkeypatch.setattr(tokenized, "_build", disturbed)
    with pytest.raises(InputError, match="changed while it was read"):
        encode_files([file], tokenizer, tmp_path / "cache")
    assert folders(tmp_path / "cache") == []


def test_a_damaged_cache_is_named(tmp_path: Path, tokenizer: WordTokenizer) -> None:
    file = write(tmp_path / "a", some_lines(20))
    encode_files([file], tokenizer, tmp_path / "cache")
    (folder,) = folders(tmp_path / "cache")
    os.truncate(tmp_path / "cache" / folder / "tokens.bin", 3)
    with pytest.raises(InputError, match=f"{folder}: damaged cache folder .tokens.bin.; delete it"):
        encode_files([file], tokenizer, tmp_path / "cache")


@pytest.mark.parametrize("name", ["tokens.bin", "offsets.bin"])
def test_tokens_that_were_overwritten_are_refused(name: str, tmp_path: Path, tokenizer: WordTokenizer) -> None:
    file = write(tmp_path / "a", some_lines(20))
    encode_files([file], tokenizer, tmp_path / "cache")
    (folder,) = folders(tmp_path / "cache")
    path = tmp_path / "cache" / folder / name
    path.write_bytes(bytes([5, 0]) * (path.stat().st_size // 2))
    with pytest.raises(InputError, match=f"{folder}: damaged cache folder .tokens.bin.; delete it"):
        encode_files([file], tokenizer, tmp_path / "cache")


@pytest.mark.parametrize("about", [{}, {"dtype": "O", "tokens": 1, "lines": 1}, {"dtype": "<u2", "tokens": -1}])
def test_a_strange_record_of_a_cache_is_refused(about: object, tmp_path: Path, tokenizer: WordTokenizer) -> None:
    file = write(tmp_path / "a", some_lines(20))
    encode_files([file], tokenizer, tmp_path / "cache")
    (folder,) = folders(tmp_path / "cache")
    (tmp_path / "cache" / folder / "about.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match="damaged cache folder"):
        encode_files([file], tokenizer, tmp_path / "cache")


def test_a_cache_of_an_older_version_has_no_digest(tmp_path: Path, tokenizer: WordTokenizer) -> None:
    file = write(tmp_path / "a", some_lines(20))
    before = rows(encode_files([file], tokenizer, tmp_path / "cache"))
    (folder,) = folders(tmp_path / "cache")
    about = tmp_path / "cache" / folder / "about.json"
    record = json.loads(about.read_text())
    del record["sha256"]
    about.write_text(json.dumps(record))
    assert rows(encode_files([file], tokenizer, tmp_path / "cache")) == before


def test_pairs_must_match() -> None:
    three, two, none = (TokenizedText.of([[5]] * count, f"file{count}") for count in (3, 2, 0))
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
    tokenizer: WordTokenizer,
    small_chunks: None,
    monkeypatch: pytest.MonkeyPatch,
    processes: int,
    error: BaseException,
) -> None:
    file = write(tmp_path / "a", some_lines(100))

    def broken(items: Iterator[tokenized.Chunk], what: str, total: int) -> Iterator[tokenized.Chunk]:
        yield next(items)
        raise error

    with monkeypatch.context() as patch, pytest.raises(type(error)):
        patch.setattr(tokenized, "progress", broken)
        encode_files([file], tokenizer, tmp_path / "cache", processes=processes)
    assert folders(tmp_path / "cache") == [] and workers_of(os.getpid()) == []
    assert len(encode_files([file], tokenizer, tmp_path / "cache", processes=1)) == 100


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
def test_a_worker_that_dies_ends_the_build(
    tmp_path: Path, tokenizer: WordTokenizer, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deadly(items: Iterator[tokenized.Chunk], what: str, total: int) -> Iterator[tokenized.Chunk]:
        yield next(items)
        for worker in workers_of(os.getpid()):
            os.kill(worker, signal.SIGKILL)
        yield from items

    monkeypatch.setattr(tokenized, "progress", deadly)
    with pytest.raises(ChildProcessError, match="died with status -9; is there enough memory"):
        encode_files([write(tmp_path / "a", some_lines(500))], tokenizer, tmp_path / "cache", processes=2)
    assert folders(tmp_path / "cache") == [] and workers_of(os.getpid()) == []


def test_the_second_of_two_builders_takes_what_the_first_made(tmp_path: Path) -> None:
    folder = tmp_path / "key"
    with tokenized._written_whole(folder) as aside:
        (aside / "tokens.bin").write_text("second")
        folder.mkdir()
        (folder / "tokens.bin").write_text("first")
    assert folders(tmp_path) == ["key"] and (folder / "tokens.bin").read_text() == "first"


def test_a_builder_that_comes_when_another_has_ended_takes_what_that_made(tmp_path: Path) -> None:
    (tmp_path / "built").mkdir()
    (tmp_path / "built" / "tokens.bin").write_bytes(b"first")
    with tokenized._written_whole(tmp_path / "built") as aside:
        (aside / "tokens.bin").write_bytes(b"second")
    assert (tmp_path / "built" / "tokens.bin").read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["built"]


# A process that builds in a pool of two, says so once the first chunk is done, and then waits for its end.
BUILDER = """
import signal, time
from pathlib import Path
from fastmos.tokenizers import load_tokenizer
from fastmos.data import tokenized

def waiting(items, what, total):
    yield next(items)
    Path("ready").touch()
    while True:
        time.sleep(0.1)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin without it
tokenized.CHUNK, tokenized.POOL_FROM, tokenized.progress = 10, 3, waiting
tokenized.encode_files(["a"], load_tokenizer("tokenizer.json"), "cache", processes=2)
"""


def wait_until(done: Callable[[], bool], otherwise: str) -> None:
    end = time.monotonic() + DEADLINE
    while not done():
        assert time.monotonic() < end, otherwise
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill"])
def test_an_ended_builder_takes_its_workers_with_it(
    tmp_path: Path, tokenizer: WordTokenizer, how: signal.Signals
) -> None:
    write(tmp_path / "a", some_lines(100))
    tokenizer.save(tmp_path / "tokenizer.json")
    (tmp_path / "builder.py").write_text(BUILDER)
    builder = subprocess.Popen(
        [sys.executable, "builder.py"], cwd=tmp_path, start_new_session=True, stderr=subprocess.DEVNULL
    )
    try:
        wait_until((tmp_path / "ready").exists, "no chunk was encoded")
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
    text = encode_files([tmp_path / "a"], tokenizer, tmp_path / "cache", processes=1)
    assert rows(text) == tokenizer.encode_lines(some_lines(100))
    assert len(folders(tmp_path / "cache")) == 1, "what the killed one left is removed"


def test_processes_that_build_at_once_agree(tmp_path: Path, tokenizer: WordTokenizer) -> None:
    lines = some_lines(2_000)
    write(tmp_path / "a", lines)
    tokenizer.save(tmp_path / "tokenizer.json")
    program = (
        "from fastmos.tokenizers import load_tokenizer; from fastmos.data.tokenized import encode_files; "
        "print(encode_files(['a'], load_tokenizer('tokenizer.json'), 'cache', processes=1).tokens.sum())"
    )
    ranks = [
        subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = [rank.communicate(timeout=DEADLINE)[0].strip() for rank in ranks]
    assert said == [str(sum(map(sum, tokenizer.encode_lines(lines))))] * 3
    assert len(folders(tmp_path / "cache")) == 1
