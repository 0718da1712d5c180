"""Coding: the contract between text and models. A line becomes codes, codes become a line."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from fastmos.codings.text import Text
from fastmos.errors import InputError
from fastmos.files import written_whole

if TYPE_CHECKING:
    import torch

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIALS = ("⟨pad⟩", "⟨bos⟩", "⟨eos⟩", "⟨unk⟩")
UNK_TEXT = SPECIALS[UNK]  # what unk decodes to; the same word in a text is read as unk
FORMAT, VERSION = "fastmos coding", 1


class Coding(ABC):
    """Text to codes and back. Codes 0 to 3 are pad, bos, eos and unk in every coding; the others stand for text.

    Each word of a line ends in exactly one code for which `ends_word` holds, so words can be counted in codes.
    """

    kind: ClassVar[str]
    pad, bos, eos, unk = PAD, BOS, EOS, UNK
    text: Text
    ends_word: "np.ndarray[Any, np.dtype[np.bool_]]"  # [V]
    _codes_of: Mapping[str, tuple[int, ...]]  # word -> its codes; a word it does not hold it must make up

    @abstractmethod
    def __len__(self) -> int:
        """The number of codes V, the four special ones included."""

    @abstractmethod
    def token(self, code: int) -> str:
        """How one code is shown to a reader."""

    @abstractmethod
    def _words(self, codes: list[int]) -> list[str]:
        """The words that these codes (no pad, bos or eos among them) spell."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Everything the coding is, as a JSON value."""

    @classmethod
    @abstractmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """The coding that `to_json` described."""

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """The codes of each line, with neither bos nor eos. This is the call that everything uses."""
        find = self._codes_of.__getitem__
        return [list(chain.from_iterable(map(find, words))) for words in self.text.split(lines)]

    def encode(self, line: str) -> list[int]:
        return self.encode_lines([line])[0]

    def decode_lines(self, lines: Sequence[Iterable[int]]) -> list[str]:
        """The text of each list of codes; pad and bos are passed over, and eos ends the line."""
        return self.text.join(self.words_lines(lines))

    def words_lines(self, lines: Sequence[Iterable[int]]) -> list[list[str]]:
        """The words of each list of codes, not yet detokenised: what metrics on tokens compare."""
        return [self._words(self._content(codes)) for codes in lines]

    def decode(self, codes: Iterable[int]) -> str:
        return self.decode_lines([codes])[0]

    def pieces_lines(self, lines: Sequence[str]) -> list[list[str]]:
        """Each line's codes as readable pieces."""
        return [[self.token(code) for code in codes] for codes in self.encode_lines(lines)]

    def join_pieces_lines(self, lines: Sequence[Sequence[str]]) -> list[str]:
        """The text of each line of readable pieces."""
        codes = {self.token(code): code for code in range(len(self) - 1, -1, -1)}
        return self.decode_lines([[codes.get(piece, UNK) for piece in pieces] for pieces in lines])

    def allowed(self, codes: "torch.Tensor") -> "torch.Tensor | None":
        """Which codes may follow each of these [N] codes: bool [N, V], or None where everything may."""
        return None

    def save(self, path: Path | str) -> None:
        """Write one readable JSON file."""
        with written_whole(path) as file:
            file.write(_readable(self.to_json()))

    def fingerprint(self) -> str:
        """A name that equal codings share and different ones do not."""
        canonical = json.dumps(self.to_json(), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_json, (self.to_json(),)  # caches and compiled models stay behind

    def _header(self) -> dict[str, Any]:
        return {"format": FORMAT, "version": VERSION, "kind": self.kind, "text": self.text.to_json()}

    def _content(self, codes: Iterable[int]) -> list[int]:
        content = []
        for code in map(int, codes):
            if code == EOS:
                break
            if not 0 <= code < len(self):
                raise InputError(f"code {code} is outside this coding of {len(self):,} codes; is it the right coding?")
            if code not in (PAD, BOS):
                content.append(code)
        return content


class KnownWords(dict[str, tuple[int, ...]]):
    """Words and their codes, where every other word is unk."""

    def __missing__(self, word: str) -> tuple[int, ...]:
        return (UNK,)


def check_strings(strings: Sequence[str], what: str) -> None:
    """Every string once, none empty, and none that could not be parted from its neighbours in a line or file."""
    joined = "".join(strings)
    if " " in joined or "\n" in joined or not all(strings):
        bad = next(string for string in strings if not string or " " in string or "\n" in string)
        raise InputError(f"{what} {bad!r} is empty or holds a space or a line break, which no {what} can")
    try:
        joined.encode()
    except UnicodeEncodeError:
        raise InputError(f"a {what} holds half of a surrogate pair, which is not text; mend the text") from None
    if len(set(strings)) != len(strings):
        seen: set[str] = set()
        twice = next(string for string in strings if string in seen or seen.add(string))  # type: ignore[func-returns-value]
        raise InputError(f"{what} {twice!r} stands twice, but each {what} has one place")


def field(value: dict[str, Any], name: str, kind: type) -> Any:
    """A field of a coding file, checked to be a number or a list of strings, numbers or lists."""
    found = value.get(name)
    if kind is int:
        right = isinstance(found, int) and not isinstance(found, bool)
    else:
        right = isinstance(found, list) and all(isinstance(item, kind) for item in found)
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
