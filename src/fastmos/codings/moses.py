"""Moses' tokenisation and its undoing (sacremoses), on all cores for many lines, and never twice for the same text.

Lines are normalised as is usual for translation (Moses' punctuation normalisation), then tokenised with Moses'
defaults, which escape `'`, `&` and their like. The other cores are reached through plain child processes, which read
lines and write lines: they need no guarded main module and know nothing of the threads of this one.
"""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from fastmos.errors import InputError

LINES_WORTH_A_PROCESS = 4_000
WORDS_AT_ONCE = 1_000  # the rules take time quadratic in a line's words, so a longer line is treated in parts
CHARACTERS_REMEMBERED = 500_000_000

# (direction, language) -> line -> result
_remembered: dict[tuple[str, str], dict[str, str]] = {}


def tokenise(lines: Sequence[str], language: str) -> list[str]:
    """Tokens of each line, joined by spaces."""
    return _treat("tokenise", lines, language)


def detokenise(lines: Sequence[str], language: str) -> list[str]:
    """The text of each line of tokens."""
    return _treat("detokenise", lines, language)


def check_language(language: str | None) -> None:
    """Moses has word lists for some languages only; for others it would silently use English ones."""
    known = _languages()
    if language not in known:
        given = f"language '{language}' is unknown to Moses' rules" if language else "Moses' rules need a language"
        raise InputError(f"{given}; give one of {', '.join(known)}")


@cache
def _languages() -> list[str]:
    from sacremoses.corpus import NonbreakingPrefixes

    return sorted(set(NonbreakingPrefixes().available_langs.values()))


def _treat(direction: str, lines: Sequence[str], language: str) -> list[str]:
    """Look each line up; work on those not yet seen, on all cores if they are many."""
    known = _remembered.setdefault((direction, language), {})
    lines = [line.replace("\n", " ") for line in lines]
    new = [line for line in dict.fromkeys(lines) if line not in known]
    processes = min(_cores(), len(new) // LINES_WORTH_A_PROCESS)
    if processes > 1 and multiprocessing.parent_process() is None:  # a worker's cores are busy with its siblings
        size = -(-len(new) // processes)
        parts = [new[start : start + size] for start in range(0, len(new), size)]
        with ThreadPoolExecutor(processes) as pool:
            results = [
                line for part in pool.map(lambda part: _child(direction, part, language), parts) for line in part
            ]
    else:
        results = list(map(_rules(direction, language), new))
    fresh = dict(zip(new, results, strict=True))
    treated = [known[line] if line in known else fresh[line] for line in lines]
    _remember(known, fresh)
    return treated


def _remember(known: dict[str, str], fresh: dict[str, str]) -> None:
    """Keep results while they fit; when they no longer do, the older ones go."""
    if sum(map(len, known)) + sum(map(len, fresh)) > CHARACTERS_REMEMBERED:
        known.clear()
    known.update(fresh)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _child(direction: str, lines: list[str], language: str) -> list[str]:
    command = [sys.executable, "-m", "fastmos.codings.moses", direction, language]
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().split("\n")[:-1]


@cache
def _rules(direction: str, language: str) -> Callable[[str], str]:
    """The function of one line, in this process."""
    from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

    if direction == "detokenise":
        detokeniser = MosesDetokenizer(language)
        return lambda line: _in_parts(lambda words: str(detokeniser.detokenize(words)), line)
    normaliser, tokeniser = MosesPunctNormalizer(language), MosesTokenizer(language)
    return lambda line: _in_parts(
        lambda words: str(tokeniser.tokenize(normaliser.normalize(" ".join(words)), return_str=True)), line
    )


def _in_parts(treat: Callable[[list[str]], str], line: str) -> str:
    words = line.split(" ")
    parts = (treat(words[start : start + WORDS_AT_ONCE]) for start in range(0, len(words), WORDS_AT_ONCE))
    return " ".join(parts).replace("\n", " ")


def _filter(direction: str, language: str) -> None:
    """The child process: lines in, lines out."""
    treat = _rules(direction, language)
    for line in sys.stdin.buffer.read().decode().split("\n")[:-1]:
        sys.stdout.buffer.write(treat(line).encode() + b"\n")


if __name__ == "__main__":
    _filter(*sys.argv[1:])
