"""`fastmos tokenizer`: filters that keep every line, and sentences about what is wrong."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from fastmos.files import read_json
from fastmos.tokenizers import BPETokenizer, TableTokenizer, load_tokenizer

LINES = ["the cat sat on the mat", "", "  the  dog and the cat ran ", "a mat is\u00a0not a cat", "the end \x00 \x85 x"]
TYPES = {
    "words": ["--type", "words"],
    "bpe": ["--type", "bpe", "--vocab-size", "60"],
    "table": ["--type", "table", "--vocab-size", "12"],
    "random": [
        "--type",
        "table",
        "--layout",
        "random",
        "--seed",
        "3",
        "--frequent",
        "2",
        "--rows",
        "3",
        "--columns",
        "6",
    ],
}


def fastmos(*words: str | Path, given: str | bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "fastmos", "tokenizer", *map(str, words)]
    given = given.encode() if isinstance(given, str) else given
    return subprocess.run(command, input=given, capture_output=True, check=False)


def text_of(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text"
    path.write_text(text_of(LINES), encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize("type", TYPES)
def test_learn_encode_decode_show(type: str, tmp_path: Path, text: Path) -> None:
    tokenizer = tmp_path / "tokenizer.json"
    done = fastmos("learn", *TYPES[type], "-o", tokenizer, text)
    assert (done.returncode, done.stderr) == (0, b"")
    loaded = load_tokenizer(tokenizer)
    assert f"{tokenizer}: {loaded.type}, {len(loaded)} tokens" in done.stdout.decode()
    expected = text_of([" ".join(filter(None, line.split(" "))) for line in LINES])
    for form in ([], ["--text"]):
        applied = fastmos("encode", tokenizer, *form, given=text.read_bytes())
        assert applied.stderr == b""
        assert applied.stdout.count(b"\n") == len(LINES)
        assert fastmos("decode", tokenizer, *form, given=applied.stdout).stdout.decode() == expected
    shown = fastmos("show", tokenizer).stdout.decode()
    assert "⟨pad⟩ ⟨bos⟩ ⟨eos⟩ ⟨unk⟩" in shown
    assert ("row 0: " in shown) == (type in ("table", "random"))


def test_plain_gzip_and_standard_input_are_alike(tmp_path: Path, text: Path) -> None:
    (tmp_path / "text.gz").write_bytes(gzip.compress(text.read_bytes()))
    fastmos("learn", *TYPES["bpe"], "-o", tmp_path / "plain.json", text)
    fastmos("learn", *TYPES["bpe"], "-o", tmp_path / "gzip.json", tmp_path / "text.gz")
    fastmos("learn", *TYPES["bpe"], "-o", tmp_path / "stdin.json", given=text.read_bytes())
    fastmos("learn", *TYPES["bpe"], "-o", tmp_path / "both.json", given=(tmp_path / "text.gz").read_bytes())
    plain = (tmp_path / "plain.json").read_bytes()
    for name in ("gzip", "stdin", "both"):
        assert (tmp_path / f"{name}.json").read_bytes() == plain
    out = fastmos("encode", tmp_path / "plain.json", "-o", tmp_path / "tokens", text, tmp_path / "text.gz")
    assert (out.returncode, out.stdout) == (0, b"")
    assert (tmp_path / "tokens").read_bytes() == 2 * fastmos("encode", tmp_path / "plain.json", text).stdout


def test_subword_nmt_files_are_kept(tmp_path: Path, text: Path) -> None:
    """Merges out, merges in, restricted to one text by a threshold."""
    first, second, tokens = tmp_path / "first.json", tmp_path / "second.json", tmp_path / "tokens"
    fastmos("learn", *TYPES["bpe"], "-o", first, text)
    tokens.write_bytes(fastmos("show", first, "--merges").stdout)
    assert tokens.read_text(encoding="utf-8").startswith("#version: 0.2\n")
    for merges in (tokens, first):
        fastmos("learn", "--type", "bpe", "--merges", merges, "-o", second, text)
        assert second.read_bytes() == first.read_bytes()
    fastmos("learn", "--type", "bpe", "--merges", tokens, "--threshold", "3", "-o", second, text)
    restricted, whole = load_tokenizer(second), load_tokenizer(first)
    assert isinstance(restricted, BPETokenizer) and isinstance(whole, BPETokenizer)
    assert restricted.merges == whole.merges
    assert set(restricted.pieces) < set(whole.pieces)


def test_dropout_follows_its_seed(tmp_path: Path, text: Path) -> None:
    fastmos("learn", *TYPES["bpe"], "-o", tmp_path / "tokenizer.json", text)
    runs = [
        fastmos("encode", tmp_path / "tokenizer.json", text, "--text", "--dropout", "0.5", "--seed", seed).stdout
        for seed in ("1", "1", "2")
    ]
    assert runs[0] == runs[1] != runs[2]
    assert fastmos("decode", tmp_path / "tokenizer.json", "--text", given=runs[0]).stdout.count(b"\n") == len(LINES)


def test_moses_and_lowercase(tmp_path: Path) -> None:
    given = "Hello, World!\nIt's (nearly) done.\n"
    fastmos("learn", "--type", "words", "--language", "en", "--lowercase", "-o", tmp_path / "c", given=given)
    assert fastmos("encode", tmp_path / "c", "--text", given=given).stdout.decode().splitlines()[0] == "hello , world !"
    tokens = fastmos("encode", tmp_path / "c", given=given).stdout
    assert fastmos("decode", tmp_path / "c", given=tokens).stdout.decode() == given.lower()


def test_the_protocols_sizes(tmp_path: Path) -> None:
    given = text_of([" ".join(f"w{number}" for number in range(500))])
    fastmos("learn", "--type", "table", "--vocab-size", "100", "--words", "400", "-o", tmp_path / "c", given=given)
    tokenizer = load_tokenizer(tmp_path / "c")
    assert isinstance(tokenizer, TableTokenizer)
    assert (len(tokenizer), len(tokenizer.frequent), tokenizer.rows, tokenizer.columns) == (104, 60, 20, 20)
    assert len(tokenizer.table_words) == 340


BAD_LEARN: list[tuple[str, list[str], bytes, str]] = [
    ("empty text", ["--type", "words"], b"", "the text has no words"),
    ("blank text", ["--type", "bpe", "--vocab-size", "9"], b" \n\n", "the text has no words"),
    (
        "few words",
        ["--type", "table", "--vocab-size", "90"],
        b"a b c\n",
        "the text has 3 words, too few for 86 frequent",
    ),
    (
        "small table",
        ["--type", "table", "--rows", "1", "--columns", "2"],
        b"a b c\n",
        "3 words do not fit into 1 x 2 cells",
    ),
    ("few tokens", ["--type", "bpe", "--vocab-size", "3"], b"a b c\n", "a vocab_size of 3 is too small"),
    ("no size", ["--type", "bpe"], b"a\n", "give exactly one of the two"),
    ("not UTF-8", ["--type", "words"], b"a\nb\n\xff\n", "standard input, line 3: not UTF-8"),
    ("wrong option", ["--type", "words", "--rows", "3"], b"a\n", "--rows is for table only"),
    ("other wrong option", ["--type", "bpe", "--min-count", "3"], b"a\n", "--min-count is for words and table only"),
    ("unknown language", ["--type", "words", "--language", "xx"], b"a\n", "language 'xx' is unknown to Moses' rules"),
    (
        "unlearned layout",
        ["--type", "table", "--layout", "neighbors"],
        b"a\n",
        "--layout is one of frequency, diagonal",
    ),
    ("learned words", ["--type", "words", "--learn"], b"a\n", "--learn is for table only"),
    ("unknown layout", ["--type", "table", "--layout", "x"], b"a\n", "--layout is one of frequency, diagonal, random"),
    ("no such file", ["--type", "words", "absent"], b"", "absent: no such file"),
    ("folder", ["--type", "words", "."], b"", ".: is a folder"),
    ("no merges", ["--type", "bpe", "--merges", "absent"], b"a\n", "absent: no such file"),
    ("unknown type", ["--type", "bytes"], b"a\n", "--type: invalid choice: 'bytes'"),
]


@pytest.mark.parametrize(("options", "given", "said"), [c[1:] for c in BAD_LEARN], ids=[c[0] for c in BAD_LEARN])
def test_learning_from_bad_input(options: list[str], given: bytes, said: str, tmp_path: Path) -> None:
    done = fastmos("learn", *options, "-o", tmp_path / "tokenizer.json", given=given)
    assert done.returncode == 2
    assert said in done.stderr.decode()
    assert done.stderr.startswith(b"fastmos: ") and done.stderr.count(b"\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_bad_input_to_filters(tmp_path: Path) -> None:
    fastmos("learn", "--type", "words", "-o", tmp_path / "c", given="a b\n")
    (tmp_path / "foreign").write_text(json.dumps({"model": {}}))
    cases: list[tuple[list[str], bytes, str]] = [
        (["decode", "c"], b"4 5\n4 x\n", "standard input, line 2: not a line of tokens; if they are text, add --text"),
        (["decode", "c"], b"4 6\n", "standard input, line 1: tokens lie between 0 and 5"),
        (["decode", "c"], b"-1\n", "standard input, line 1: tokens lie between 0 and 5"),
        (["encode", "c"], b"a\n\xc3(\n", "standard input, line 2: not UTF-8"),
        (["encode", "foreign"], b"a\n", "not a tokenizer file of fastmos"),
        (["encode", "absent"], b"a\n", "no such file"),
        (["encode", "c", "--dropout", "0.1"], b"a\n", "--dropout is for BPE tokenizers"),
        (["show", "c", "--merges"], b"", "--merges is for BPE tokenizers"),
    ]
    for (command, tokenizer, *options), given, said in cases:
        output: list[str | Path] = [] if command == "show" else ["-o", tmp_path / "out"]
        done = fastmos(command, tmp_path / tokenizer, *options, *output, given=given)
        assert (done.returncode, done.stdout) == (2, b""), said
        assert said in done.stderr.decode()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "foreign"]


def test_files_are_readable(tmp_path: Path, text: Path) -> None:
    fastmos("learn", *TYPES["table"], "-o", tmp_path / "tokenizer.json", text)
    value = read_json(tmp_path / "tokenizer.json")
    assert (value["format"], value["version"], value["type"]) == ("fastmos tokenizer", 1, "table")
    assert '\n  ["is\u00a0not", 1, 0],\n' in (tmp_path / "tokenizer.json").read_text(encoding="utf-8")
