"""What every coding promises, whatever its kind."""

import json
import pickle
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fastmos.codings import (
    BOS,
    EOS,
    PAD,
    SPECIALS,
    UNK,
    UNK_TEXT,
    BPECoding,
    Coding,
    TableCoding,
    Text,
    WordCoding,
    load_coding,
)
from fastmos.errors import InputError

KINDS = ["words", "bpe", "table", "lightrnn"]
words_of_any_text = st.text(min_size=1, max_size=6).filter(lambda word: " " not in word and "\n" not in word)
lines_of_any_text = st.lists(st.lists(words_of_any_text, max_size=6).map(" ".join), min_size=1, max_size=6)


def learn(kind: str, lines: list[str], text: Text | None = None) -> Coding:
    """The largest coding of a kind for these lines, whatever they are."""
    if kind == "words":
        return WordCoding.learn(lines, text=text)
    if kind == "bpe":
        return BPECoding.learn(lines, size=10_000, text=text)
    return TableCoding.learn(lines, frequent=min(2, len({*" ".join(lines).split(" ")}) - 2) if kind == "table" else 0)


TEXT = ["the cat sat on the mat", "the dog and the cat ran", "a mat is not a cat or a dog but a thing to sit on"]


@pytest.mark.parametrize("kind", KINDS)
@given(lines=lines_of_any_text)
def test_text_it_was_learnt_from_round_trips(kind: str, lines: list[str]) -> None:
    lines = ["zwei drei vier", *lines]
    coding = learn(kind, lines)
    codes = coding.encode_lines(lines)
    assert coding.decode_lines(codes) == lines
    assert [coding.encode(line) for line in lines] == codes
    assert all(3 <= code < len(coding) for line in codes for code in line)
    for line, its_codes in zip(lines, codes, strict=True):  # words can be counted in codes
        assert coding.ends_word[its_codes].sum() == len(list(filter(None, line.split(" "))))


@pytest.mark.parametrize("kind", KINDS)
@given(lines=lines_of_any_text)
def test_any_other_text_keeps_its_words(kind: str, lines: list[str]) -> None:
    coding = learn(kind, TEXT)
    for line, codes, back in zip(
        lines, coding.encode_lines(lines), coding.decode_lines(coding.encode_lines(lines)), strict=True
    ):
        words = list(filter(None, line.split(" ")))
        assert coding.ends_word[codes].sum() == len(words)
        for word, its in zip(words, back.split(" "), strict=False):
            assert its == word or its.endswith(UNK_TEXT)
        assert coding.encode(back) == codes


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_any_codes_decode(kind: str, data: st.DataObject) -> None:
    coding = learn(kind, TEXT)
    codes = data.draw(st.lists(st.integers(0, len(coding) - 1)))
    assert isinstance(coding.decode(codes), str)
    until = codes[: codes.index(EOS)] if EOS in codes else codes
    assert coding.decode(codes) == coding.decode([code for code in until if code not in (PAD, BOS)])


@pytest.mark.parametrize("kind", KINDS)
@given(lines=lines_of_any_text)
def test_file_round_trip(kind: str, lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    coding = learn(kind, [*TEXT, *lines])
    path = tmp_path_factory.getbasetemp() / "coding.json"
    coding.save(path)
    loaded = load_coding(path)
    assert loaded.to_json() == coding.to_json()
    assert loaded.fingerprint() == coding.fingerprint()
    assert loaded.encode_lines(lines) == coding.encode_lines(lines)
    assert json.loads(path.read_text(encoding="utf-8"))["version"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_special_codes_and_tokens(kind: str) -> None:
    coding = learn(kind, TEXT)
    assert (coding.pad, coding.bos, coding.eos, coding.unk) == (0, 1, 2, 3)
    assert [coding.token(code) for code in range(4)] == list(SPECIALS)
    assert len({coding.token(code) for code in range(len(coding))}) == len(coding)
    assert coding.ends_word.shape == (len(coding),)
    assert coding.ends_word[:4].all()
    assert coding.decode([BOS, *coding.encode("the cat"), UNK, EOS, PAD, 5]) == f"the cat {UNK_TEXT}"
    assert coding.decode(torch.tensor(coding.encode("the cat"))) == "the cat"
    assert coding.encode_lines([]) == []
    assert coding.encode("") == []
    assert coding.decode([]) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_words_that_look_special(kind: str) -> None:
    lines = [
        f"{word} the x"
        for word in (*SPECIALS, "</w>", "a</w>", "@@", "a@@", "⟨row0⟩", "\x00", "a\u00a0b", "\r", "\x85")
    ]
    coding = learn(kind, [*TEXT, *lines, *lines])
    assert coding.decode_lines(coding.encode_lines(lines)) == lines
    assert coding.encode(UNK_TEXT) == [UNK]
    for special in SPECIALS[:3]:
        assert min(coding.encode(special)) > UNK


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("line", ["x" * 1_000_000, "cat " * 250_000, " " * 1_000_000], ids=["word", "words", "spaces"])
def test_a_line_of_a_million_characters(kind: str, line: str) -> None:
    coding = learn(kind, TEXT)
    codes = coding.encode(line)
    assert coding.decode(codes) == " ".join(word if word == "cat" else UNK_TEXT for word in line.split())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("code", [-1, 10_000])
def test_code_outside(kind: str, code: int) -> None:
    coding = learn(kind, TEXT)
    with pytest.raises(InputError, match=f"code {code} is outside this coding of {len(coding)} codes"):
        coding.decode([4, code])


@pytest.mark.parametrize("kind", KINDS)
def test_pickled_for_other_processes(kind: str) -> None:
    coding = learn(kind, TEXT)
    copy = pickle.loads(pickle.dumps(coding))
    assert copy.fingerprint() == coding.fingerprint()
    assert copy.encode_lines(TEXT) == coding.encode_lines(TEXT)


@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_text_treatment_is_kept(kind: str, tmp_path: Path) -> None:
    text = Text("moses", "en", lowercase=True)
    coding = learn(kind, ["Hello, world! It's me.", "hello"], text)
    coding.save(tmp_path / "coding.json")
    loaded = load_coding(tmp_path / "coding.json")
    assert loaded.text == text
    assert loaded.decode(loaded.encode("Hello, world!")) == "hello, world!"
    assert loaded.words_lines(loaded.encode_lines(["Hello, world!"])) == [["hello", ",", "world", "!"]]


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_round_trip(kind: str) -> None:
    coding = learn(kind, TEXT)
    assert coding.join_pieces_lines(coding.pieces_lines([*TEXT, ""])) == [*TEXT, ""]


def saved(kind: str) -> dict[str, object]:
    return learn(kind, TEXT).to_json()


TEXT_FIELD = {"tokenise": "none", "language": None, "lowercase": False}
DAMAGED: list[tuple[str, object, str]] = [
    ("list", [], "not a coding file of fastmos"),
    ("foreign", {"model": {"type": "BPE"}}, "not a coding file of fastmos"),
    ("version", {**saved("words"), "version": 2}, "a coding of version 2, but this fastmos reads version 1"),
    ("no version", {"format": "fastmos coding"}, "a coding of version None"),
    ("kind", {**saved("words"), "kind": "bytes"}, "a coding of unknown kind 'bytes'"),
    ("odd kind", {**saved("words"), "kind": []}, r"a coding of unknown kind \[\]"),
    ("no words", {**saved("words"), "words": None}, "its field 'words' is missing or damaged"),
    ("empty", {**saved("words"), "words": []}, "a vocabulary needs at least one word"),
    ("number", {**saved("words"), "words": ["a", 1]}, "its field 'words' is missing or damaged"),
    ("twice", {**saved("words"), "words": ["a", "b", "a"]}, "word 'a' stands twice"),
    ("space", {**saved("words"), "words": ["a b"]}, "word 'a b' is empty or holds a space"),
    ("line break", {**saved("words"), "words": ["a\nb"]}, "is empty or holds a space or a line break"),
    ("empty word", {**saved("words"), "words": [""]}, "word '' is empty"),
    ("unk", {**saved("words"), "words": [UNK_TEXT]}, "cannot be in a vocabulary"),
    ("surrogate", {**saved("words"), "words": ["\ud800"]}, "half of a surrogate pair"),
    ("no text", {**saved("words"), "text": None}, "its field 'text' is damaged"),
    ("text", {**saved("words"), "text": {**TEXT_FIELD, "lowercase": "no"}}, "its field 'text' is damaged"),
    ("tokenise", {**saved("words"), "text": {**TEXT_FIELD, "tokenise": 3}}, "tokenise is '3'"),
    ("merge", {**saved("bpe"), "merges": ["a b", "c"]}, "its merge 2: a merge is two symbols with a space between"),
    ("pieces", {**saved("bpe"), "pieces": []}, "a BPE coding needs at least one piece"),
    ("piece", {**saved("bpe"), "pieces": ["a", "a"]}, "piece 'a' stands twice"),
    ("rows", {**saved("table"), "rows": True}, "its field 'rows' is missing or damaged"),
    ("no rows", {**saved("table"), "rows": 0, "table": []}, "a table of 0 x"),
    ("many rows", {**saved("table"), "rows": 10**15}, "a table of 1000000000000000 x"),
    ("few rows", {**saved("table"), "rows": 1}, "its field 'table' is damaged at"),
    ("column", {**saved("table"), "table": [["z", 0, 99]]}, "its field 'table' is damaged at"),
    ("cell", {**saved("table"), "table": [["z", -1, 0]]}, "its field 'table' is damaged at"),
    ("huge cell", {**saved("table"), "table": [["z", 10**30, 0]]}, "its field 'table' is damaged at"),
    ("shared", {**saved("table"), "table": [["z", 0, 0], ["y", 0, 0]]}, "two words share a cell"),
    ("both", {**saved("table"), "frequent": ["a"], "table": [["a", 0, 0]]}, "word 'a' stands twice"),
]


@pytest.mark.parametrize(("value", "said"), [case[1:] for case in DAMAGED], ids=[case[0] for case in DAMAGED])
def test_damaged_file(value: object, said: str, tmp_path: Path) -> None:
    path = tmp_path / "coding.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(InputError, match=f"^{path}: .*{said}"):
        load_coding(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe", "line 1: not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\x1f\x8bjunk", "damaged gzip file"),
    ],
)
def test_file_that_is_no_json(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "coding.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        load_coding(path)
    with pytest.raises(InputError, match="no such file"):
        load_coding(tmp_path / "absent.json")
