"""A German-English corpus that needs no download: written by a grammar, the same for the same seed everywhere."""

from pathlib import Path

from fastmos.errors import InputError
from fastmos.files import written_whole
from fastmos.samples.grammar.dice import Dice
from fastmos.samples.grammar.sentences import sentence


def sample_pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """`count` distinct (German, English) pairs; a longer list of the same seed begins with the shorter one."""
    if count < 0:
        raise InputError(f"{count} sample pairs asked for; give a count of 0 or more")
    pairs: list[tuple[str, str]] = []
    seen: set[str] = set()
    index = 0
    while len(pairs) < count:
        de, en = sentence(Dice(seed, index))
        index += 1
        if de not in seen and en not in seen:
            seen.update((de, en))
            pairs.append((de, en))
    return pairs


def write_sample(
    folder: Path | str, *, pairs: int = 20_000, valid: int = 500, test: int = 500, seed: int = 0
) -> dict[str, int]:
    """Write train, valid and test (.de and .en) into a folder and say how many pairs each holds; no sentence recurs."""
    counts = {"test": test, "valid": valid, "train": pairs}
    for name, count in counts.items():
        if count < 1:
            raise InputError(f"{count} {name} pairs asked for; give 1 or more")
    made = iter(sample_pairs(sum(counts.values()), seed))
    for name, count in counts.items():  # held-out pairs first: they stay the same when training grows
        part = [next(made) for _ in range(count)]
        for side, language in enumerate(("de", "en")):
            with written_whole(Path(folder) / f"{name}.{language}") as file:
                file.writelines(f"{pair[side]}\n" for pair in part)
    return counts
