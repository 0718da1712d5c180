"""Learning a table from text, in a folder from which an interrupted process resumes:

about.json          fingerprint of the starting table, and the settings
table-0.json        the table it started from; table-1.json ... of each round
rounds.json         figures of each round, and what made them
state.safetensors, log.jsonl    of the language model's training
cache/              the text as numbers of words
costs-1.safetensors ...    R and Q of each round, with `keep_costs`
"""

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from fastmos.distributed import World, join_world, leave_world
from fastmos.errors import InputError, printable
from fastmos.files import read_json, read_lines, write_json
from fastmos.run_folder import RunFolder
from fastmos.tables.neighbors import by_neighbors
from fastmos.tables.rounds import Round, Rounds, TableLearning
from fastmos.tables.words import WordText
from fastmos.tokenizers import Pretokenizer, TableTokenizer, load_tokenizer
from fastmos.tokenizers.table import LAYOUTS

START_LAYOUTS = ("neighbors", *LAYOUTS)
MAY_CHANGE = {"rounds", "early_stopping_patience", "save_every", "log_every", "log_to", "keep_costs"}
UNK_SHARE = 0.1  # without unk in training, a language model takes rows for columns after the first unknown word


@dataclass(frozen=True)
class LearnedTable:
    """The best table, and the rounds that led to it."""

    tokenizer: TableTokenizer
    rounds: list[Round]
    best: int  # the round whose table it is


def learn_table(
    train: Sequence[Path | str],
    valid: Sequence[Path | str],
    output: Path | str,
    *,
    layout: str | Path | TableTokenizer = "neighbors",
    vocab_size: int | None = None,
    words: int | None = None,
    min_count: int | None = None,
    unk_share: float | None = None,
    frequent: int | None = None,
    rows: int | None = None,
    columns: int | None = None,
    pretokenizer: Pretokenizer | None = None,
    learning: TableLearning | None = None,
) -> LearnedTable:
    """Learn which words of the training text share rows and columns, and write the table that is best on `valid`.

    `layout` is where learning starts: neighbors, frequency, diagonal or random, or a table tokenizer or its file, which
    has a vocabulary already. Otherwise vocabulary and sides are chosen as by `TableTokenizer.learn`, but `unk_share`
    is 0.1 unless given. After a kill the same call resumes, in the folder OUTPUT.learning. Under torchrun all processes
    share the work. The same seed gives the same table.
    """
    learning, output = learning or TableLearning(), Path(output)
    train_files = list(map(Path, train))
    if output.suffix != ".json":
        raise InputError(f"{output}: the file of a learned table ends in .json; give such a name")
    if output.is_dir():
        raise InputError(f"{output}: is a folder; name a file for the table")
    names = ("vocab_size", "words", "min_count", "unk_share", "frequent", "rows", "columns", "pretokenizer")
    values = (vocab_size, words, min_count, unk_share, frequent, rows, columns, pretokenizer)
    given = {name: value for name, value in zip(names, values, strict=True) if value is not None}
    world = join_world()
    try:
        found = learn_in_folder(
            output.with_suffix(".learning"),
            lambda: _start(layout, train_files, given, learning.seed),
            train_files,
            list(map(Path, valid)),
            learning,
            world,
            neighbors=layout == "neighbors",
        )
        if world.first:
            found.tokenizer.save(output)
        world.wait()
        return found
    finally:
        leave_world(world)


def _start(layout: str | Path | TableTokenizer, train: list[Path], given: dict[str, Any], seed: int) -> TableTokenizer:
    """The starting table; with the layout neighbors, its words, whose cells are chosen later."""
    if str(layout) in START_LAYOUTS:
        lines = chain.from_iterable(map(read_lines, train))
        static = "frequency" if layout == "neighbors" else str(layout)
        return TableTokenizer.learn(lines, **{"unk_share": UNK_SHARE, **given}, layout=static, seed=seed)
    table = layout if isinstance(layout, TableTokenizer) else table_of(Path(layout))
    if given:
        raise InputError(f"the starting table settles {' and '.join(given)} already; leave them out")
    return table


def table_of(path: Path) -> TableTokenizer:
    """The table of a file, to start from."""
    if not path.exists():
        raise InputError(f"layout '{path}' is no file and none of {', '.join(START_LAYOUTS)}")
    tokenizer = load_tokenizer(path)
    if not isinstance(tokenizer, TableTokenizer):
        raise InputError(f"{path}: a tokenizer of type {tokenizer.type} is no table to start from")
    return tokenizer


def learn_in_folder(
    root: Path,
    start: Callable[[], TableTokenizer],
    train_files: list[Path],
    valid_files: list[Path],
    learning: TableLearning,
    world: World,
    *,
    neighbors: bool,
) -> LearnedTable:
    """Learn a table from the table that `start` makes, laid out by neighbors if asked to, or resume in the folder."""
    folder = RunFolder(root)
    with ExitStack() as stack:

        def begin() -> None:
            stack.enter_context(_opened(folder))
            _begin(folder, start(), train_files, learning, neighbors)

        world.first_only(begin)
        tokenizer = load_tokenizer(root / "table-0.json")
        assert isinstance(tokenizer, TableTokenizer)

        def read() -> list[WordText]:
            return [WordText.read(files, tokenizer, folder.cache) for files in (train_files, valid_files)]

        world.first_only(read)  # the others find the text in the cache
        train, valid = read()
        if not folder.state.exists():
            world.first_only(lambda: _check_fit(tokenizer, train, valid))
        world.wait()  # nobody writes before everybody has looked
        if world.first:
            _introduce(tokenizer, train, valid)
        rounds = Rounds(learning, folder, tokenizer, train, valid, world)
        rounds.run()
        if world.first:
            _say(f"{root}: the table of round {rounds.best} is the best ({rounds.reason_to_end()})")
        return LearnedTable(rounds.table(rounds.best), rounds.rounds, rounds.best)


@contextmanager
def _opened(folder: RunFolder) -> Iterator[None]:
    """The folder, locked; one that was made here is removed if an error comes before the first save."""
    root = folder.root
    new = not root.exists()
    if not new and any(root.iterdir()) and not (root / ".lock").exists():
        raise InputError(f"{root}: is there already, but not from learning a table; name another output")
    with folder.lock():
        try:
            yield
        except Exception:
            if new and not folder.state.exists():
                shutil.rmtree(root)  # ours: a process that finds it locked does not come here
            raise


def _begin(
    folder: RunFolder, start: TableTokenizer, train: list[Path], learning: TableLearning, neighbors: bool
) -> None:
    """Write the starting table, or check that learning began with it."""
    path, settings = folder.root / "about.json", learning.model_dump(mode="json", exclude=MAY_CHANGE)
    about = {"start": start.fingerprint(), "neighbors": neighbors, **settings}
    if folder.state.exists():
        before = read_json(path)
        for name, value in about.items():
            if before.get(name) == value:
                continue
            changed = f"was begun with {name} {before.get(name)}, not {value}"
            if name == "start":
                changed = "was begun with other words: the text, or the options of the table, changed"
            raise InputError(f"{folder.root}: {changed}; delete it, or name another output")
        return
    if neighbors:
        start = by_neighbors(start, WordText.read(train, start, folder.cache), learning.seed)
    start.save(folder.root / "table-0.json")
    write_json(path, about)


def _check_fit(tokenizer: TableTokenizer, train: WordText, valid: WordText) -> None:
    """Refuse training text without most of the table's words, and held-out text of another kind."""
    words = len(tokenizer.table_words)
    seen = int(np.count_nonzero(train.counts(words)))
    if not seen:
        raise InputError(
            f"{train.words.name}: no word of the table occurs in it, so nothing can be learned; give other text"
        )
    if 2 * seen < words:
        raise InputError(
            f"{train.words.name}: only {seen:,} of the table's {words:,} words occur in it; "
            "start from a table over this text's words"
        )
    if 2 * valid.unknown > valid.running:
        raise InputError(
            f"{valid.words.name}: {valid.unknown / valid.running:.0%} of its words are not in the vocabulary, "
            "so no table can be evaluated on it; give held-out text of the same kind, or leave fewer words out"
        )


def _introduce(tokenizer: TableTokenizer, train: WordText, valid: WordText) -> None:
    words = len(tokenizer.table_words)
    share = int(train.counts(words).sum()) / train.running
    _say(f"{words:,} words in {tokenizer.rows} x {tokenizer.columns} cells, {share:.1%} of the running words")
    if valid.unknown and not train.unknown:
        _say(f"warning: {valid.words.name}: {valid.unknown:,} unknown words, but none in training; set unk_share")


def _say(line: str) -> None:
    print(printable(line), file=sys.stderr, flush=True)
