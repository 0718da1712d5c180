"""Reading a coding's file back, whatever its kind."""

from pathlib import Path
from typing import Any

from fastmos.codings.base import FORMAT, VERSION, Coding
from fastmos.codings.bpe import BPECoding
from fastmos.codings.table import TableCoding
from fastmos.codings.words import WordCoding
from fastmos.errors import InputError
from fastmos.files import read_json

CODINGS: dict[str, type[Coding]] = {coding.kind: coding for coding in (WordCoding, BPECoding, TableCoding)}


def load_coding(path: Path | str) -> Coding:
    """The coding of a file that `save` wrote, checked in full."""
    try:
        return coding_from_json(read_json(path))
    except RecursionError:
        raise InputError(f"{path}: not a coding file (nested too deeply); is it the right file?") from None
    except InputError as error:
        sentence = str(error)
        raise InputError(sentence if sentence.startswith(str(path)) else f"{path}: {sentence}") from None


def coding_from_json(value: Any) -> Coding:
    """The coding that `to_json` described."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise InputError("not a coding file of fastmos; make one with fastmos codes learn")
    if value.get("version") != VERSION:
        raise InputError(
            f"a coding of version {value.get('version')}, but this fastmos reads version {VERSION}; update it"
        )
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in CODINGS:
        raise InputError(f"a coding of unknown kind {kind!r}; this fastmos knows {', '.join(CODINGS)}")
    return CODINGS[kind].from_json(value)
