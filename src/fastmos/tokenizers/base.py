"""Tokenizer: turns a line of text into tokens and tokens into a line."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from fastmos.errors import InputError
from fastmos.files import written_whole
from fastmos.tokenizers.pretokenizer import Pretokenizer

if TYPE_CHECKING:
    import torch

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIALS = ("⟨pad⟩", "⟨bos⟩", "⟨eos⟩", "⟨unk⟩")
UNK_TEXT = SPECIALS[UNK]  # what unk decodes to; this word in a text is encoded as unk
FORMAT, VERSION = "fastmos tokenizer", 1
Marks = np.ndarray[Any, np.dtype[np.bool_]]


class Tokenizer(ABC):
    """Text to tokens and back. Tokens 0 to 3 are pad, bos, eos and unk in every tokenizer; the others stand for text.

    A tokenizer marks where words start or where they end, so that words can be counted in tokens: it sets
    `starts_word` (every word has one such token, its first) or `ends_word` (every word has one, its last).
    """

    type: ClassVar[str]
    pad, bos, eos, unk = PAD, BOS, EOS, UNK
    pretokenizer: Pretokenizer
    starts_word: Marks | None = None  # [V]
    ends_word: Marks | None = None  # [V]
    _tokens_of: Mapping[str, tuple[int, ...]]  # word -> its tokens, for every word there is

    @abstractmethod
    def __len__(self) -> int:
        """The number of tokens V, the four special ones included."""

    @abstractmethod
    def id_to_token(self, token: int) -> str:
        """How one token is shown to a reader."""

    @abstractmethod
    def _words(self, tokens: list[int]) -> list[str]:
        """The words of these tokens, among which there is no pad, bos or eos."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The whole tokenizer as a JSON value."""

    @classmethod
    @abstractmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """The tokenizer whose `to_json` gave this value."""

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """The tokens of each line, without bos and eos."""
        find = self._tokens_of.__getitem__
        return [list(chain.from_iterable(map(find, words))) for words in self.pretokenizer.split(lines)]

    def encode(self, line: str) -> list[int]:
        return self.encode_lines([line])[0]

    def decode_lines(self, lines: Sequence[Iterable[int]]) -> list[str]:
        """The text of each list of tokens; pad and bos are skipped, and eos ends the line."""
        return self.pretokenizer.join(self.decode_words(lines))

    def decode_words(self, lines: Sequence[Iterable[int]]) -> list[list[str]]:
        """The words of each list of tokens, not detokenized."""
        return [self._words(self._content(tokens)) for tokens in lines]

    def decode(self, tokens: Iterable[int]) -> str:
        return self.decode_lines([tokens])[0]

    def tokenize_lines(self, lines: Sequence[str]) -> list[list[str]]:
        """The tokens of each line as strings."""
        return [[self.id_to_token(token) for token in tokens] for tokens in self.encode_lines(lines)]

    def detokenize_lines(self, lines: Sequence[Sequence[str]]) -> list[str]:
        """The text of each list of token strings."""
        token_to_id = {self.id_to_token(token): token for token in reversed(range(len(self)))}
        return self.decode_lines([[token_to_id.get(string, UNK) for string in strings] for strings in lines])

    def allowed(self, tokens: "torch.Tensor") -> "torch.Tensor | None":
        """Which tokens may follow each of these [N] tokens: bool [N, V], or None if every token may."""
        return None

    def word_starts(self, tokens: "torch.Tensor") -> "torch.Tensor":
        """Where words start in rows of tokens [B, T]: bool [B, T], True at the first token of each row.

        Special tokens count as words, except an unk that belongs to a longer word.
        """
        import torch

        if self.starts_word is not None:
            starts = torch.from_numpy(self.starts_word)[tokens]
        else:
            assert self.ends_word is not None  # a tokenizer sets one of the two
            starts = torch.from_numpy(self.ends_word)[tokens].roll(1, 1)  # a word starts after the end of another
        starts[:, :1] = True
        return starts

    def save(self, path: Path | str) -> None:
        """Write one readable JSON file, with a digest by which a change is noticed."""
        with written_whole(path) as file:
            file.write(_readable({**self.to_json(), "sha256": self.fingerprint()}))

    def summary(self) -> str:
        """Type and sizes, for a reader."""
        return f"{self.type}, {len(self):,} tokens with the {len(SPECIALS)} special ones"

    def fingerprint(self) -> str:
        """A hash that equal tokenizers share and different ones do not."""
        canonical = json.dumps(self.to_json(), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_json, (self.to_json(),)  # without caches and compiled models

    def _header(self) -> dict[str, Any]:
        return {"format": FORMAT, "version": VERSION, "type": self.type, "pretokenizer": self.pretokenizer.to_json()}

    def _content(self, tokens: Iterable[int]) -> list[int]:
        content = []
        for token in map(int, tokens):
            if token == EOS:
                break
            if not 0 <= token < len(self):
                raise InputError(
                    f"token {token} is outside this tokenizer of {len(self):,} tokens; is it the right tokenizer?"
                )
            if token not in (PAD, BOS):
                content.append(token)
        return content


class KnownWords(dict[str, tuple[int, ...]]):
    """Words and their tokens; every other word is unk."""

    def __missing__(self, word: str) -> tuple[int, ...]:
        return (UNK,)


def check_strings(strings: Sequence[str], what: str) -> None:
    """Refuse strings that are empty, occur twice, or have a space or line break, which separate strings in files."""
    joined = "".join(strings)
    if " " in joined or "\n" in joined or not all(strings):
        bad = next(string for string in strings if not string or " " in string or "\n" in string)
        raise InputError(f"{what} {bad!r} is empty or has a space or a line break, which no {what} can have")
    try:
        joined.encode()
    except UnicodeEncodeError:
        raise InputError(f"a {what} has half of a surrogate pair, which is not text; correct the text") from None
    if len(set(strings)) != len(strings):
        seen: set[str] = set()
        twice = next(string for string in strings if string in seen or seen.add(string))  # type: ignore[func-returns-value]
        raise InputError(f"{what} {twice!r} occurs twice; give each {what} once")


def field(value: dict[str, Any], name: str, item_type: type) -> Any:
    """A field of a tokenizer file, checked to be an int (`item_type` int) or a list of items of that type."""
    found = value.get(name)
    if item_type is int:
        right = isinstance(found, int) and not isinstance(found, bool)
    else:
        right = isinstance(found, list) and all(isinstance(item, item_type) for item in found)
    if not right:
        raise InputError(f"its field '{name}' is missing or damaged")
    return found


def _readable(value: dict[str, Any]) -> str:
    """JSON with one line for each field, and for each item of a list."""

    def compact(item: Any) -> str:
        return json.dumps(item, ensure_ascii=False)

    fields = []
    for name, item in value.items():
        if isinstance(item, list) and item:
            fields.append(f"{compact(name)}: [\n  " + ",\n  ".join(map(compact, item)) + "\n ]")
        else:
            fields.append(f"{compact(name)}: {compact(item)}")
    return "{\n " + ",\n ".join(fields) + "\n}\n"
