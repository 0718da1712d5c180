"""Text to tokens and back: words, BPE, tables. The registry of tokenizers is that of their config sections."""

from pathlib import Path
from typing import Any

from fastmos.config.base import load_class
from fastmos.config.tokenizers import TOKENIZERS
from fastmos.errors import InputError
from fastmos.files import read_json
from fastmos.tokenizers.base import BOS, EOS, FORMAT, PAD, SPECIALS, UNK, UNK_TEXT, VERSION, Tokenizer
from fastmos.tokenizers.bpe import BPETokenizer
from fastmos.tokenizers.merges import read_merges
from fastmos.tokenizers.pretokenizer import Pretokenizer
from fastmos.tokenizers.table import TableTokenizer
from fastmos.tokenizers.words import WordTokenizer

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "SPECIALS",
    "UNK",
    "UNK_TEXT",
    "BPETokenizer",
    "Pretokenizer",
    "TableTokenizer",
    "Tokenizer",
    "WordTokenizer",
    "load_tokenizer",
    "read_merges",
    "tokenizer_class",
    "tokenizer_from_json",
]


def load_tokenizer(path: Path | str) -> Tokenizer:
    """The tokenizer that `save` wrote to a file, whatever its type; a changed file is refused."""
    try:
        value = read_json(path)
        tokenizer = tokenizer_from_json(value)
        if value.get("sha256", found := tokenizer.fingerprint()) != found:  # files of older versions have none
            raise InputError("its contents do not match its digest; get it again, or delete its line sha256 to keep it")
        return tokenizer
    except InputError as error:
        sentence = str(error)
        raise InputError(sentence if sentence.startswith(str(path)) else f"{path}: {sentence}") from None


def tokenizer_from_json(value: Any) -> Tokenizer:
    """The tokenizer whose `to_json` gave this value."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise InputError("not a tokenizer file of fastmos; make one with fastmos tokenizer learn")
    if value.get("version") != VERSION:
        raise InputError(
            f"a tokenizer of version {value.get('version')}, but this fastmos reads version {VERSION}; update it"
        )
    name = value.get("type")
    known = [name for name in TOKENIZERS if name != "file"]
    if name not in known:
        raise InputError(f"a tokenizer of unknown type {name!r}; this fastmos knows {', '.join(known)}")
    return tokenizer_class(name).from_json(value)


def tokenizer_class(name: str) -> type[Tokenizer]:
    """The class of a type of tokenizer, by its config section."""
    found: type[Tokenizer] = load_class(TOKENIZERS[name].factory)
    return found
