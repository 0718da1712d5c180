"""What every tokenizer does, whatever its type."""

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fastmos.config.tokenizers import TOKENIZERS, TokenizerConfig
from fastmos.errors import InputError
from fastmos.tokenizers import (
    BOS,
    EOS,
    PAD,
    SPECIALS,
    UNK,
    UNK_TEXT,
    BPETokenizer,
    Pretokenizer,
    TableTokenizer,
    Tokenizer,
    WordTokenizer,
    load_tokenizer,
)

TYPES = ["words", "bpe", "table", "lightrnn"]
words_of_any_text = st.text(min_size=1, max_size=6).filter(lambda word: " " not in word and "\n" not in word)
lines_of_any_text = st.lists(st.lists(words_of_any_text, max_size=6).map(" ".join), min_size=1, max_size=6)


def learn(name: str, lines: list[str], pretokenizer: Pretokenizer | None = None) -> Tokenizer:
    """The largest tokenizer of a type for these lines, whatever they are."""
    if name == "words":
        return WordTokenizer.learn(lines, pretokenizer=pretokenizer)
    if name == "bpe":
        return BPETokenizer.learn(lines, vocab_size=10_000, pretokenizer=pretokenizer)
    return TableTokenizer.learn(
        lines, frequent=min(2, len({*" ".join(lines).split(" ")}) - 2) if name == "table" else 0
    )


def words_in(tokenizer: Tokenizer, tokens: list[int]) -> int:
    return int(tokenizer.word_starts(torch.tensor([tokens], dtype=torch.long)).sum())


TEXT = ["the cat sat on the mat", "the dog and the cat ran", "a mat is not a cat or a dog but a thing to sit on"]


@pytest.mark.parametrize("name", TYPES)
@given(lines=lines_of_any_text)
def test_text_it_was_learned_from_round_trips(name: str, lines: list[str]) -> None:
    lines = ["zwei drei vier", *lines]
    tokenizer = learn(name, lines)
    tokens = tokenizer.encode_lines(lines)
    assert tokenizer.decode_lines(tokens) == lines
    assert [tokenizer.encode(line) for line in lines] == tokens
    assert all(3 <= token < len(tokenizer) for line in tokens for token in line)
    for line, its in zip(lines, tokens, strict=True):
        assert words_in(tokenizer, its) == len(list(filter(None, line.split(" "))))


@pytest.mark.parametrize("name", TYPES)
@given(lines=lines_of_any_text)
def test_any_other_text_keeps_its_words(name: str, lines: list[str]) -> None:
    tokenizer = learn(name, TEXT)
    for line, tokens, back in zip(
        lines, tokenizer.encode_lines(lines), tokenizer.decode_lines(tokenizer.encode_lines(lines)), strict=True
    ):
        words = list(filter(None, line.split(" ")))
        assert words_in(tokenizer, tokens) == len(words)
        for word, its in zip(words, back.split(" "), strict=False):
            assert its == word or its.endswith(UNK_TEXT)
        assert tokenizer.encode(back) == tokens


@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
def test_any_tokens_decode(name: str, data: st.DataObject) -> None:
    tokenizer = learn(name, TEXT)
    tokens = data.draw(st.lists(st.integers(0, len(tokenizer) - 1)))
    assert isinstance(tokenizer.decode(tokens), str)
    until = tokens[: tokens.index(EOS)] if EOS in tokens else tokens
    assert tokenizer.decode(tokens) == tokenizer.decode([token for token in until if token not in (PAD, BOS)])


@pytest.mark.parametrize("name", TYPES)
@given(lines=lines_of_any_text)
def test_file_round_trip(name: str, lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    tokenizer = learn(name, [*TEXT, *lines])
    path = tmp_path_factory.getbasetemp() / "tokenizer.json"
    tokenizer.save(path)
    loaded = load_tokenizer(path)
    assert loaded.to_json() == tokenizer.to_json()
    assert loaded.fingerprint() == tokenizer.fingerprint()
    assert loaded.encode_lines(lines) == tokenizer.encode_lines(lines)
    assert json.loads(path.read_text(encoding="utf-8"))["version"] == 1


@pytest.mark.parametrize("name", TYPES)
def test_special_tokens(name: str) -> None:
    tokenizer = learn(name, TEXT)
    assert (tokenizer.pad, tokenizer.bos, tokenizer.eos, tokenizer.unk) == (0, 1, 2, 3)
    assert [tokenizer.id_to_token(token) for token in range(4)] == list(SPECIALS)
    assert len({tokenizer.id_to_token(token) for token in range(len(tokenizer))}) == len(tokenizer)
    assert tokenizer.decode([BOS, *tokenizer.encode("the cat"), UNK, EOS, PAD, 5]) == f"the cat {UNK_TEXT}"
    assert tokenizer.decode(torch.tensor(tokenizer.encode("the cat"))) == "the cat"
    assert tokenizer.encode_lines([]) == []
    assert tokenizer.encode("") == []
    assert tokenizer.decode([]) == ""


@pytest.mark.parametrize("name", TYPES)
def test_words_that_look_special(name: str) -> None:
    lines = [
        f"{word} the x"
        for word in (*SPECIALS, "</w>", "a</w>", "@@", "a@@", "⟨row0⟩", "\x00", "a\u00a0b", "\r", "\x85")
    ]
    tokenizer = learn(name, [*TEXT, *lines, *lines])
    assert tokenizer.decode_lines(tokenizer.encode_lines(lines)) == lines
    assert tokenizer.encode(UNK_TEXT) == [UNK]
    for special in SPECIALS[:3]:
        assert min(tokenizer.encode(special)) > UNK


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("line", ["x" * 1_000_000, "cat " * 250_000, " " * 1_000_000], ids=["word", "words", "spaces"])
def test_a_line_of_a_million_characters(name: str, line: str) -> None:
    tokenizer = learn(name, TEXT)
    tokens = tokenizer.encode(line)
    assert tokenizer.decode(tokens) == " ".join(word if word == "cat" else UNK_TEXT for word in line.split())


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("token", [-1, 10_000])
def test_a_token_outside_the_vocabulary_is_refused(name: str, token: int) -> None:
    tokenizer = learn(name, TEXT)
    with pytest.raises(InputError, match=f"token {token} is outside this tokenizer of {len(tokenizer)} tokens"):
        tokenizer.decode([4, token])


@pytest.mark.parametrize("name", TYPES)
def test_pickled_for_other_processes(name: str) -> None:
    tokenizer = learn(name, TEXT)
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.fingerprint() == tokenizer.fingerprint()
    assert copy.encode_lines(TEXT) == tokenizer.encode_lines(TEXT)


@pytest.mark.parametrize("name", ["words", "bpe"])
def test_the_pretokenizer_is_saved(name: str, tmp_path: Path) -> None:
    pretokenizer = Pretokenizer("en", lowercase=True)
    tokenizer = learn(name, ["Hello, world! It's me.", "hello"], pretokenizer)
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = load_tokenizer(tmp_path / "tokenizer.json")
    assert loaded.pretokenizer == pretokenizer
    assert loaded.decode(loaded.encode("Hello, world!")) == "hello, world!"
    assert loaded.decode_words(loaded.encode_lines(["Hello, world!"])) == [["hello", ",", "world", "!"]]


@pytest.mark.parametrize("name", TYPES)
def test_token_strings_round_trip(name: str) -> None:
    tokenizer = learn(name, TEXT)
    assert tokenizer.detokenize_lines(tokenizer.tokenize_lines([*TEXT, ""])) == [*TEXT, ""]


class Letters(Tokenizer):
    """Marks the starts of words, as SentencePiece does: each word is `▁` and its letters."""

    type = "letters"
    pieces: tuple[str, ...] = (*SPECIALS, "▁", *ascii_lowercase)
    starts_word = np.array([piece in ("▁", *SPECIALS[:UNK]) for piece in pieces])

    def __init__(self, pretokenizer: Pretokenizer | None = None) -> None:
        self.pretokenizer = pretokenizer or Pretokenizer()

    def __len__(self) -> int:
        return len(self.pieces)

    def id_to_token(self, token: int) -> str:
        return self.pieces[token]

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        ids = {piece: token for token, piece in enumerate(self.pieces)}
        split = self.pretokenizer.split(lines)
        return [[ids.get(letter, UNK) for word in words for letter in f"▁{word}"] for words in split]

    def _words(self, tokens: list[int]) -> list[str]:
        return "".join(map(self.id_to_token, tokens)).replace("▁", " ").split()

    def to_json(self) -> dict[str, Any]:
        return self._header()

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Letters":
        return cls(Pretokenizer.from_json(value["pretokenizer"]))


class LettersConfig(TokenizerConfig):
    """Marks the starts of words."""

    factory: ClassVar[str] = f"{__name__}.Letters"
    type: Literal["letters"] = "letters"


def test_a_tokenizer_that_marks_the_starts_of_words_is_one_class_and_one_section(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TOKENIZERS, "letters", LettersConfig)
    Letters(Pretokenizer(lowercase=True)).save(tmp_path / "letters.json")
    tokenizer = load_tokenizer(tmp_path / "letters.json")
    assert tokenizer.decode(tokenizer.encode("The cat")) == "the cat"
    assert tokenizer.tokenize_lines(["a c☃t"]) == [["▁", "a", "▁", "c", UNK_TEXT, "t"]]
    rows = torch.tensor([[*tokenizer.encode("the c☃t"), EOS, PAD, PAD], [*tokenizer.encode("a dog ran"), EOS]])
    assert [words_in(tokenizer, tokenizer.encode(line)) for line in TEXT] == [6, 6, 15]
    assert tokenizer.word_starts(rows).int().tolist() == [
        [1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1],
        [1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1],
    ]


def saved(name: str) -> dict[str, object]:
    return learn(name, TEXT).to_json()


PRETOKENIZER = {"language": None, "lowercase": False}
DAMAGED: list[tuple[str, object, str]] = [
    ("list", [], "not a tokenizer file of fastmos"),
    ("foreign", {"model": {"type": "BPE"}}, "not a tokenizer file of fastmos"),
    ("version", {**saved("words"), "version": 2}, "a tokenizer of version 2, but this fastmos reads version 1"),
    ("no version", {"format": "fastmos tokenizer"}, "a tokenizer of version None"),
    ("type", {**saved("words"), "type": "bytes"}, "a tokenizer of unknown type 'bytes'"),
    ("odd type", {**saved("words"), "type": []}, r"a tokenizer of unknown type \[\]"),
    ("no words", {**saved("words"), "words": None}, "its field 'words' is missing or damaged"),
    ("empty", {**saved("words"), "words": []}, "a vocabulary needs at least one word"),
    ("number", {**saved("words"), "words": ["a", 1]}, "its field 'words' is missing or damaged"),
    ("twice", {**saved("words"), "words": ["a", "b", "a"]}, "word 'a' occurs twice"),
    ("space", {**saved("words"), "words": ["a b"]}, "word 'a b' is empty or has a space"),
    ("line break", {**saved("words"), "words": ["a\nb"]}, "is empty or has a space or a line break"),
    ("empty word", {**saved("words"), "words": [""]}, "word '' is empty"),
    ("unk", {**saved("words"), "words": [UNK_TEXT]}, "leave it out of the vocabulary"),
    ("surrogate", {**saved("words"), "words": ["\ud800"]}, "half of a surrogate pair"),
    ("no pretokenizer", {**saved("words"), "pretokenizer": None}, "its field 'pretokenizer' is damaged"),
    (
        "lowercase",
        {**saved("words"), "pretokenizer": {**PRETOKENIZER, "lowercase": "no"}},
        "its field 'pretokenizer' is damaged",
    ),
    ("language", {**saved("words"), "pretokenizer": {**PRETOKENIZER, "language": "xx"}}, "language 'xx' is unknown"),
    ("merge", {**saved("bpe"), "merges": ["a b", "c"]}, "its merge 2: a merge is two symbols with a space between"),
    ("pieces", {**saved("bpe"), "pieces": []}, "a BPE tokenizer needs at least one piece"),
    ("piece", {**saved("bpe"), "pieces": ["a", "a"]}, "piece 'a' occurs twice"),
    ("rows", {**saved("table"), "rows": True}, "its field 'rows' is missing or damaged"),
    ("no rows", {**saved("table"), "rows": 0, "table": []}, "a table of 0 x"),
    ("many rows", {**saved("table"), "rows": 10**15}, "a table of 1000000000000000 x"),
    ("few rows", {**saved("table"), "rows": 1}, "its field 'table' is damaged at"),
    ("column", {**saved("table"), "table": [["z", 0, 99]]}, "its field 'table' is damaged at"),
    ("cell", {**saved("table"), "table": [["z", -1, 0]]}, "its field 'table' is damaged at"),
    ("huge cell", {**saved("table"), "table": [["z", 10**30, 0]]}, "its field 'table' is damaged at"),
    ("shared", {**saved("table"), "table": [["z", 0, 0], ["y", 0, 0]]}, "two words share a cell"),
    ("both", {**saved("table"), "frequent": ["a"], "table": [["a", 0, 0]]}, "word 'a' occurs twice"),
]


@pytest.mark.parametrize(("value", "said"), [case[1:] for case in DAMAGED], ids=[case[0] for case in DAMAGED])
def test_damaged_file(value: object, said: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(InputError, match=f"^{path}: .*{said}"):
        load_tokenizer(path)


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
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        load_tokenizer(path)
    with pytest.raises(InputError, match="no such file"):
        load_tokenizer(tmp_path / "absent.json")


@pytest.mark.parametrize("name", ["words", "bpe", "table"])
def test_a_changed_file_is_refused_and_an_older_one_has_no_digest(name: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    learn(name, TEXT).save(path)
    value = json.loads(path.read_text(encoding="utf-8"))
    field = {"words": "words", "bpe": "pieces", "table": "frequent"}[name]
    changed = {**value, field: value[field][::-1]}
    assert changed != value
    path.write_text(json.dumps(changed))
    with pytest.raises(InputError, match="its contents do not match its digest"):
        load_tokenizer(path)
    del value["sha256"]
    path.write_text(json.dumps(value))
    assert load_tokenizer(path).fingerprint() == learn(name, TEXT).fingerprint()
