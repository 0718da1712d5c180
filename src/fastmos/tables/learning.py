"""Learning a table from text: `learn_table`, and the folder in which it can be interrupted and go on.

Beside the output T.json lies T.learning/ with

    about.json          the options that chose the vocabulary and the start
    start.json          the table it started from
    state.safetensors   all that is needed to go on
    rounds.json         what each round found, and who made it
    cache/              the text as numbers of words
    costs-1.safetensors ...    R and Q of each round, where asked for
"""

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from fastmos.codings import TableCoding, Text, load_coding
from fastmos.errors import InputError
from fastmos.files import provenance, read_json, read_lines, write_json
from fastmos.tables.rounds import Learning, Round, Rounds
from fastmos.tables.start import by_neighbours
from fastmos.tables.words import WordText
from fastmos.training.distributed import World, join_world, leave_world
from fastmos.training.folder import RunFolder

STARTS = ("neighbours", "diagonal", "frequency", "random")
SIDES = ("size", "words", "min_count", "unk_share", "frequent", "rows", "columns")
STATE = "state.safetensors"
UNK_SHARE = 0.1  # a language model that never met unk loses its place in a line, row or column, at the first one


@dataclass(frozen=True)
class LearntTable:
    """The best table, and how it came about."""

    coding: TableCoding
    rounds: list[Round]
    best: int  # the round whose table it is


def learn_table(
    train: Sequence[Path | str],
    valid: Sequence[Path | str],
    output: Path | str,
    *,
    start: str | Path | TableCoding = "neighbours",
    size: int | None = None,
    words: int | None = None,
    min_count: int | None = None,
    unk_share: float | None = None,
    frequent: int | None = None,
    rows: int | None = None,
    columns: int | None = None,
    text: Text | None = None,
    learning: Learning | None = None,
) -> LearntTable:
    """Learn which words of the training text share rows and columns, and write the table that suits `valid` best.

    The vocabulary and the table's sides are chosen as `TableCoding.learn` does, but a tenth of the words that occur
    once are left out unless `unk_share` says otherwise, so that unk is learnt, too. `start` fills the table by
    neighbours, frequency or at random, or is a table, or the file of one, that brings all that along. Called again
    after a kill it goes on, and under torchrun all processes share the work. The same seed gives the same table.
    """
    learning, output = learning or Learning(), Path(output)
    train_files, valid_files = list(map(Path, train)), list(map(Path, valid))
    if output.suffix != ".json":
        raise InputError(f"{output}: the file of a learnt table ends in .json; give such a name")
    if output.is_dir():
        raise InputError(f"{output}: is a folder; name a file for the table")
    folder = output.with_suffix(".learning")
    sides = dict(zip(SIDES, (size, words, min_count, unk_share, frequent, rows, columns), strict=True))
    world = join_world()
    try:
        with ExitStack() as stack:

            def begin() -> None:
                stack.enter_context(_opened(folder))
                _begin(folder, output, train_files, start, sides, text, learning.seed)

            world.first_does(begin)
            return _learn(folder, output, train_files, valid_files, learning, world)
    finally:
        leave_world(world)


@contextmanager
def _opened(folder: Path) -> Iterator[None]:
    """The folder, locked; one that was made here goes again if learning does not come to its first save."""
    new = not folder.exists()
    if not new and any(folder.iterdir()) and not (folder / ".lock").exists():
        raise InputError(f"{folder}: is there already, but not from learning a table; give another --output")
    with RunFolder(folder).lock():
        try:
            yield
        except Exception:
            if new and not (folder / STATE).exists():
                shutil.rmtree(folder)  # ours: a process that finds it locked does not come here
            raise


def _begin(
    folder: Path,
    output: Path,
    train: list[Path],
    start: str | Path | TableCoding,
    sides: dict[str, int | float | None],
    text: Text | None,
    seed: int,
) -> None:
    """Make the starting table, or see that learning began with it."""
    for left in output.parent.glob(f".{output.name}.*.tmp"):
        left.unlink()  # of a killed process; the folder's own are gone already
    if not isinstance(start, TableCoding) and str(start) not in STARTS:
        start = _given_table(Path(start))
    given = [name for name, value in {**sides, "text": text}.items() if value is not None]
    if isinstance(start, TableCoding) and given:
        raise InputError(f"the starting table settles {' and '.join(given)} already; leave them out")
    if not isinstance(start, TableCoding) and sides["unk_share"] is None:
        sides = {**sides, "unk_share": UNK_SHARE}
    fingerprint = start.fingerprint() if isinstance(start, TableCoding) else str(start)
    about = {"start": fingerprint, **sides, "text": text.to_json() if text else None, "seed": seed}
    if (folder / STATE).exists():
        before = read_json(folder / "about.json")
        for name, value in about.items():
            if before.get(name) != value:
                raise InputError(
                    f"{folder}: was begun with {name} {before.get(name)}, not {value}; give another --output"
                )
        return
    if isinstance(start, str | Path):
        start = _filled(folder, train, str(start), sides, text, seed)
    start.save(folder / "start.json")
    write_json(folder / "about.json", about)


def _given_table(path: Path) -> TableCoding:
    if not path.exists():
        raise InputError(f"start '{path}' is no file and none of {', '.join(STARTS)}")
    coding = load_coding(path)
    if not isinstance(coding, TableCoding):
        raise InputError(f"{path}: a coding of kind {coding.kind} is no table to start from")
    return coding


def _filled(
    folder: Path, train: list[Path], start: str, sides: dict[str, int | float | None], text: Text | None, seed: int
) -> TableCoding:
    """A table over the words of the training text."""
    options: dict[str, Any] = {name: value for name, value in sides.items() if value is not None}
    table = "frequency" if start == "neighbours" else start
    lines = chain.from_iterable(map(read_lines, train))
    coding = TableCoding.learn(lines, **options, table=table, seed=seed, text=text)
    if start == "neighbours":
        coding = by_neighbours(coding, WordText.read(train, coding, folder / "cache"), seed)
    return coding


def _learn(
    folder: Path, output: Path, train_files: list[Path], valid_files: list[Path], learning: Learning, world: World
) -> LearntTable:
    start = load_coding(folder / "start.json")
    assert isinstance(start, TableCoding)

    def read() -> list[WordText]:
        return [WordText.read(files, start, folder / "cache") for files in (train_files, valid_files)]

    world.first_does(read)  # the others find the words numbered
    train, valid = read()
    rounds = Rounds(learning, start, train, valid, world)
    if (folder / STATE).exists():
        rounds.load(folder / STATE)
    else:
        world.first_does(lambda: _check_fit(start, train, valid))
    world.wait()  # nobody writes before everybody has read

    def publish() -> None:
        if world.first:
            rounds.best_coding.save(output)
            about = {"best": rounds.now.best, "oov_rate": valid.unknown / max(1, valid.running)}
            found = [asdict(one) for one in rounds.now.rounds]
            write_json(folder / "rounds.json", {**about, "rounds": found, "provenance": provenance(learning.seed)})
            _say(summary(rounds.now.rounds[-1], start))

    if world.first:
        counted = f"{len(start.table_words):,} words in {start.rows} x {start.columns} cells"
        _say(f"{counted}, {int(train.counts(len(start.table_words)).sum()) / train.running:.1%} of the running words")
        if valid.unknown and not train.unknown:
            _say(f"{valid.unknown:,} held-out words are unknown, but none to learn from: its figures will be poor")
    if rounds.now.best >= 0:
        publish()  # a kill may have come between the state and these files
    rounds.run(folder / STATE, publish)
    if world.first:
        _say(f"{output}: the table of round {rounds.now.best} ({rounds.ended()})")
    return LearntTable(rounds.best_coding, rounds.now.rounds, rounds.now.best)


def _check_fit(coding: TableCoding, train: WordText, valid: WordText) -> None:
    """A table is learnt from the places of its words, so most of them must occur, and judged by text of the kind."""
    words = len(coding.table_words)
    seen = int(np.count_nonzero(train.counts(words)))
    if not seen:
        raise InputError(
            f"{train.words.name}: no word of the table occurs in it, so nothing can be learnt; give other text"
        )
    if 2 * seen < words:
        raise InputError(
            f"{train.words.name}: only {seen:,} of the table's {words:,} words occur in it; "
            "start from a table over this text's words"
        )
    if 2 * valid.unknown > valid.running:
        raise InputError(
            f"{valid.words.name}: {valid.unknown / valid.running:.0%} of its words are not in the vocabulary, "
            "so it cannot judge a table; give held-out text of the same kind, or leave fewer words out"
        )


def summary(found: Round, coding: TableCoding) -> str:
    """A round in a line; the figures of a new table before it, straight after it and after training on it."""
    figures = [figure for figure in (found.before, found.straight_after, found.after_training) if figure is not None]
    kinds = {
        "word": [f"{figure.nats_per_word:.4f}" for figure in figures],
        "known word": [f"{figure.nats_per_known_word:.4f}" for figure in figures],
        "table word": [_nats(figure.nats_per_table_word) for figure in figures],
    }
    parts = ["held-out nats per " + ", per ".join(f"{kind} {' > '.join(nats)}" for kind, nats in kinds.items())]
    if found.objective_before is not None:
        parts.append(f"objective {found.objective_before:,.0f} > {found.objective_after:,.0f}")
        parts.append(f"{found.moved:,} of {len(coding.table_words):,} words moved")
    parts.append(", ".join(f"{part.replace('_', '-')} {value:.1f} s" for part, value in found.seconds.items()))
    return f"round {found.round}: {'; '.join(parts)}"


def _nats(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
