"""Moses' tokenisation and its undoing (sacremoses), on all cores for many lines, and never twice for the same text.

Lines are normalised as is usual for translation (Moses' punctuation normalisation), then tokenised with Moses'
defaults, which escape `'`, `&` and their like. The other cores are reached through plain child processes, which read
lines and write lines: they need no guarded main module and know nothing of the threads of this one.
"""

import multiprocessing
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from fastmos.errors import InputError
from fastmos.processes import child_environment, cores, in_worker

LINES_WORTH_A_PROCESS = 4_000
CHARACTERS_REMEMBERED = 500_000_000


class _Memory(dict[str, str]):
    """Lines treated before and their results; when they no longer fit, the older ones go."""

    characters = 0

    def remember(self, fresh: dict[str, str]) -> None:
        self.characters += sum(map(len, fresh))
        if self.characters > CHARACTERS_REMEMBERED:
            self.clear()
            self.characters = sum(map(len, fresh))
        self.update(fresh)


_memories: dict[tuple[str, str], _Memory] = {}  # by direction and language


def tokenise(lines: Sequence[str], language: str, *, remember: bool = True) -> list[str]:
    """Tokens of each line, joined by spaces; a stream that is read once has no use for what we remember."""
    return _treat("tokenise", lines, language, remember)


def detokenise(lines: Sequence[str], language: str) -> list[str]:
    """The text of each line of tokens."""
    return _treat("detokenise", lines, language, remember=True)


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


def _treat(direction: str, lines: Sequence[str], language: str, remember: bool) -> list[str]:
    """Look each line up; work on those not yet seen, on all cores if they are many."""
    known = _memories.setdefault((direction, language), _Memory())
    lines = [line.replace("\n", " ") for line in lines]
    new = [line for line in dict.fromkeys(lines) if line not in known]
    processes = min(cores(), len(new) // LINES_WORTH_A_PROCESS)
    worker = in_worker()
    if processes > 1 and not worker and multiprocessing.parent_process() is None:  # else the other cores are busy
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
    if remember and not worker:
        known.remember(fresh)
    return treated


def _child(direction: str, lines: list[str], language: str) -> list[str]:
    command = [sys.executable, "-c", "from fastmos.codings import moses; moses.filter_lines()", direction, language]
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, env=child_environment(), check=True)
    return done.stdout.decode().split("\n")[:-1]


def filter_lines() -> None:
    """What a child process does: lines in, lines out."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # end without a word when the parent is interrupted
    treat = _rules(*sys.argv[1:])
    for line in sys.stdin.buffer.read().decode().split("\n")[:-1]:
        sys.stdout.buffer.write(treat(line).encode() + b"\n")


@cache
def _rules(direction: str, language: str) -> Callable[[str], str]:
    """The function of one line, in this process."""
    from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

    if direction == "detokenise":
        detokeniser = MosesDetokenizer(language)
        return lambda line: _one_line(detokeniser.detokenize(line.split(" ")))
    normaliser, tokeniser = MosesPunctNormalizer(language), MosesTokenizer(language)
    return lambda line: _one_line(tokeniser.tokenize(normaliser.normalize(line), return_str=True))


def _one_line(text: str) -> str:
    return text.replace("\n", " ")
