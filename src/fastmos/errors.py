"""The one kind of error that is the user's to mend, and what helps to mend it."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input, said in one sentence: what was given, what is wrong, what to do. The command line exits with 2."""


def did_you_mean(word: str, known: Iterable[str], otherwise: str) -> str:
    """`; did you mean ...?` of the nearest of the known dotted names, by all of it or by its last part alone."""
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.7)
    if not near:
        tails = {name.rsplit(".", 1)[-1]: name for name in reversed(names)}
        near = [tails[tail] for tail in difflib.get_close_matches(word.rsplit(".", 1)[-1], list(tails), n=1)]
    return f"; did you mean '{near[0]}'?" if near else f"; {otherwise}"


def lower_first(sentence: str) -> str:
    """The sentence as a part of another."""
    return sentence[:1].lower() + sentence[1:]
