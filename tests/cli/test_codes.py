"""`fastmos codes`: filters that keep every line, and sentences about what is wrong."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from fastmos.codings import BPECoding, TableCoding, load_coding
from fastmos.files import read_json

LINES = ["the cat sat on the mat", "", "  the  dog and the cat ran ", "a mat is\u00a0not a cat", "the end \x00 \x85 x"]
KINDS = {
    "words": ["--kind", "words"],
    "bpe": ["--kind", "bpe", "--size", "60"],
    "table": ["--kind", "table", "--size", "12"],
    "random": [
        "--kind",
        "table",
        "--table",
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
    command = [sys.executable, "-m", "fastmos", "codes", *map(str, words)]
    given = given.encode() if isinstance(given, str) else given
    return subprocess.run(command, input=given, capture_output=True, check=False)


def text_of(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text"
    path.write_text(text_of(LINES), encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_learn_apply_undo_show(kind: str, tmp_path: Path, text: Path) -> None:
    coding = tmp_path / "coding.json"
    done = fastmos("learn", *KINDS[kind], "-o", coding, text)
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"{coding}: {load_coding(coding).kind}, {len(load_coding(coding))} codes" in done.stdout.decode()
    expected = text_of([" ".join(filter(None, line.split(" "))) for line in LINES])
    for form in ([], ["--text"]):
        applied = fastmos("apply", coding, *form, given=text.read_bytes())
        assert applied.stderr == b""
        assert applied.stdout.count(b"\n") == len(LINES)
        assert fastmos("undo", coding, *form, given=applied.stdout).stdout.decode() == expected
    shown = fastmos("show", coding).stdout.decode()
    assert "⟨pad⟩ ⟨bos⟩ ⟨eos⟩ ⟨unk⟩" in shown
    assert ("row 0: " in shown) == (kind in ("table", "random"))


def test_plain_gzip_and_standard_input_are_alike(tmp_path: Path, text: Path) -> None:
    (tmp_path / "text.gz").write_bytes(gzip.compress(text.read_bytes()))
    fastmos("learn", *KINDS["bpe"], "-o", tmp_path / "plain.json", text)
    fastmos("learn", *KINDS["bpe"], "-o", tmp_path / "gzip.json", tmp_path / "text.gz")
    fastmos("learn", *KINDS["bpe"], "-o", tmp_path / "stdin.json", given=text.read_bytes())
    fastmos("learn", *KINDS["bpe"], "-o", tmp_path / "both.json", given=(tmp_path / "text.gz").read_bytes())
    plain = (tmp_path / "plain.json").read_bytes()
    for name in ("gzip", "stdin", "both"):
        assert (tmp_path / f"{name}.json").read_bytes() == plain
    out = fastmos("apply", tmp_path / "plain.json", text, tmp_path / "text.gz", "-o", tmp_path / "codes")
    assert (out.returncode, out.stdout) == (0, b"")
    assert (tmp_path / "codes").read_bytes() == 2 * fastmos("apply", tmp_path / "plain.json", text).stdout


def test_subword_nmt_files_are_kept(tmp_path: Path, text: Path) -> None:
    """Merges out, merges in, restricted to one text by a threshold."""
    first, second, codes = tmp_path / "first.json", tmp_path / "second.json", tmp_path / "codes"
    fastmos("learn", *KINDS["bpe"], "-o", first, text)
    codes.write_bytes(fastmos("show", first, "--merges").stdout)
    assert codes.read_text(encoding="utf-8").startswith("#version: 0.2\n")
    for merges in (codes, first):
        fastmos("learn", "--kind", "bpe", "--merges", merges, "-o", second, text)
        assert second.read_bytes() == first.read_bytes()
    fastmos("learn", "--kind", "bpe", "--merges", codes, "--threshold", "3", "-o", second, text)
    restricted, whole = load_coding(second), load_coding(first)
    assert isinstance(restricted, BPECoding) and isinstance(whole, BPECoding)
    assert restricted.merges == whole.merges
    assert set(restricted.pieces) < set(whole.pieces)


def test_dropout_follows_its_seed(tmp_path: Path, text: Path) -> None:
    fastmos("learn", *KINDS["bpe"], "-o", tmp_path / "coding.json", text)
    runs = [
        fastmos("apply", tmp_path / "coding.json", text, "--text", "--dropout", "0.5", "--seed", seed).stdout
        for seed in ("1", "1", "2")
    ]
    assert runs[0] == runs[1] != runs[2]
    assert fastmos("undo", tmp_path / "coding.json", "--text", given=runs[0]).stdout.count(b"\n") == len(LINES)


def test_moses_and_lowercase(tmp_path: Path) -> None:
    given = "Hello, World!\nIt's (nearly) done.\n"
    fastmos(
        "learn",
        "--kind",
        "words",
        "--tokenise",
        "moses",
        "--language",
        "en",
        "--lowercase",
        "-o",
        tmp_path / "c",
        given=given,
    )
    assert fastmos("apply", tmp_path / "c", "--text", given=given).stdout.decode().splitlines()[0] == "hello , world !"
    codes = fastmos("apply", tmp_path / "c", given=given).stdout
    assert fastmos("undo", tmp_path / "c", given=codes).stdout.decode() == given.lower()


def test_the_protocols_sizes(tmp_path: Path) -> None:
    given = text_of([" ".join(f"w{number}" for number in range(500))])
    fastmos("learn", "--kind", "table", "--size", "100", "--words", "400", "-o", tmp_path / "c", given=given)
    coding = load_coding(tmp_path / "c")
    assert isinstance(coding, TableCoding)
    assert (len(coding), len(coding.frequent), coding.rows, coding.columns) == (104, 60, 20, 20)
    assert len(coding.table_words) == 340


BAD_LEARN: list[tuple[str, list[str], bytes, str]] = [
    ("empty text", ["--kind", "words"], b"", "the text holds no words"),
    ("blank text", ["--kind", "bpe", "--size", "9"], b" \n\n", "the text holds no words"),
    ("few words", ["--kind", "table", "--size", "90"], b"a b c\n", "the text gives 3 words, too few for 86 frequent"),
    (
        "small table",
        ["--kind", "table", "--rows", "1", "--columns", "2"],
        b"a b c\n",
        "3 words do not fit into 1 x 2 cells",
    ),
    ("few codes", ["--kind", "bpe", "--size", "3"], b"a b c\n", "3 codes are too few"),
    ("no size", ["--kind", "bpe"], b"a\n", "give one of the two"),
    ("not UTF-8", ["--kind", "words"], b"a\nb\n\xff\n", "standard input, line 3: not UTF-8"),
    ("wrong option", ["--kind", "words", "--rows", "3"], b"a\n", "--rows is for table only"),
    ("other wrong option", ["--kind", "bpe", "--min-count", "3"], b"a\n", "--min-count is for words and table only"),
    ("no language", ["--kind", "words", "--tokenise", "moses"], b"a\n", "Moses' rules need a language"),
    ("no such file", ["--kind", "words", "absent"], b"", "absent: no such file"),
    ("folder", ["--kind", "words", "."], b"", ".: is a folder"),
    ("no merges", ["--kind", "bpe", "--merges", "absent"], b"a\n", "absent: no such file"),
    ("unknown kind", ["--kind", "bytes"], b"a\n", ""),
]


@pytest.mark.parametrize(("options", "given", "said"), [c[1:] for c in BAD_LEARN], ids=[c[0] for c in BAD_LEARN])
def test_learning_from_bad_input(options: list[str], given: bytes, said: str, tmp_path: Path) -> None:
    done = fastmos("learn", *options, "-o", tmp_path / "coding.json", given=given)
    assert done.returncode == 2
    assert said in done.stderr.decode()
    if said:
        assert done.stderr.startswith(b"fastmos: ") and done.stderr.count(b"\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_bad_input_to_filters(tmp_path: Path) -> None:
    fastmos("learn", "--kind", "words", "-o", tmp_path / "c", given="a b\n")
    (tmp_path / "foreign").write_text(json.dumps({"model": {}}))
    cases: list[tuple[list[str], bytes, str]] = [
        (["undo", "c"], b"4 5\n4 x\n", "standard input, line 2: not a line of codes; if it holds pieces, add --text"),
        (["undo", "c"], b"4 6\n", "standard input, line 1: codes lie between 0 and 5"),
        (["undo", "c"], b"-1\n", "standard input, line 1: codes lie between 0 and 5"),
        (["apply", "c"], b"a\n\xc3(\n", "standard input, line 2: not UTF-8"),
        (["apply", "foreign"], b"a\n", "not a coding file of fastmos"),
        (["apply", "absent"], b"a\n", "no such file"),
        (["apply", "c", "--dropout", "0.1"], b"a\n", "--dropout is for BPE codings"),
        (["show", "c", "--merges"], b"", "--merges is for BPE codings"),
    ]
    for (command, coding, *options), given, said in cases:
        output: list[str | Path] = [] if command == "show" else ["-o", tmp_path / "out"]
        done = fastmos(command, tmp_path / coding, *options, *output, given=given)
        assert (done.returncode, done.stdout) == (2, b""), said
        assert said in done.stderr.decode()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "foreign"]


def test_files_are_readable(tmp_path: Path, text: Path) -> None:
    fastmos("learn", *KINDS["table"], "-o", tmp_path / "coding.json", text)
    value = read_json(tmp_path / "coding.json")
    assert (value["format"], value["version"], value["kind"]) == ("fastmos coding", 1, "table")
    assert '\n  ["is\u00a0not", 1, 0],\n' in (tmp_path / "coding.json").read_text(encoding="utf-8")
