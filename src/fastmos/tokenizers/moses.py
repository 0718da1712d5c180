"""Tokenization and detokenization by Moses' rules (sacremoses), on all cores for many lines, cached.

Lines are normalized (Moses' punctuation normalization), then tokenized with Moses' defaults, which escape `'`, `&` and
the like. The child processes are plain programs that read and write lines: unlike multiprocessing they need no guarded
main module.
"""

import multiprocessing
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from fastmos.errors import InputError
from fastmos.processes import child_command, child_environment, cores, in_worker

LINES_WORTH_A_PROCESS = 4_000
CHARACTERS_REMEMBERED = 500_000_000


class _Cache(dict[str, str]):
    """Lines processed before and their results; emptied when it is full."""

    characters = 0

    def remember(self, fresh: dict[str, str]) -> None:
        self.characters += sum(map(len, fresh))
        if self.characters > CHARACTERS_REMEMBERED:
            self.clear()
            self.characters = sum(map(len, fresh))
        self.update(fresh)


_caches: dict[tuple[str, str], _Cache] = {}  # by direction and language


def tokenize(lines: Sequence[str], language: str, *, remember: bool = True) -> list[str]:
    """The words of each line, joined by spaces; `remember=False` for a stream whose lines do not come again."""
    return _process("tokenize", lines, language, remember)


def detokenize(lines: Sequence[str], language: str) -> list[str]:
    """The text of each line of words."""
    return _process("detokenize", lines, language, remember=True)


def check_language(language: str) -> None:
    """Refuse a language that Moses has no word lists for; sacremoses would silently use the English ones."""
    known = _languages()
    if language not in known:
        raise InputError(f"language '{language}' is unknown to Moses' rules; give one of {', '.join(known)}")


@cache
def _languages() -> list[str]:
    from sacremoses.corpus import NonbreakingPrefixes

    return sorted(set(NonbreakingPrefixes().available_langs.values()))


def _process(direction: str, lines: Sequence[str], language: str, remember: bool) -> list[str]:
    """Take known lines from the cache and process the others, on all cores if they are many."""
    known = _caches.setdefault((direction, language), _Cache())
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
    processed = [known[line] if line in known else fresh[line] for line in lines]
    if remember and not worker:
        known.remember(fresh)
    return processed


def _child(direction: str, lines: list[str], language: str) -> list[str]:
    command = child_command("-c", "from fastmos.tokenizers import moses; moses.filter_lines()", direction, language)
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, env=child_environment(), check=True)
    return done.stdout.decode().split("\n")[:-1]


def filter_lines() -> None:
    """The main function of a child process: lines in, lines out."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback when the parent is interrupted
    process = _rules(*sys.argv[1:])
    for line in sys.stdin.buffer.read().decode().split("\n")[:-1]:
        sys.stdout.buffer.write(process(line).encode() + b"\n")


@cache
def _rules(direction: str, language: str) -> Callable[[str], str]:
    """The function that processes one line."""
    from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

    if direction == "detokenize":
        detokenizer = MosesDetokenizer(language)
        return lambda line: _one_line(detokenizer.detokenize(line.split(" ")))
    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    return lambda line: _one_line(tokenizer.tokenize(normalizer.normalize(line), return_str=True))


def _one_line(text: str) -> str:
    return text.replace("\n", " ")
