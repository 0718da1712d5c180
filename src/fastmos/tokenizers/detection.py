"""Is a text tokenized, and is it lowercased? Guessed from its first lines."""

from collections.abc import Iterable
from itertools import islice

PUNCTUATION = frozenset(".,;:!?。，；：！？")
LINES = 1000


def looks_raw(lines: Iterable[str]) -> bool:
    """Does punctuation mostly end a word, as in `Yes, it is.`, rather than stand alone, as in `Yes , it is .`?"""
    attached = alone = 0
    for line in islice(lines, LINES):
        for word in line.split():
            if word in PUNCTUATION:
                alone += 1
            elif word[-1] in PUNCTUATION and word[-2].isalnum():
                attached += 1
    return attached > alone


def is_lowercase(lines: Iterable[str]) -> bool:
    """Is there no upper case?"""
    return all(line == line.lower() for line in islice(lines, LINES))
