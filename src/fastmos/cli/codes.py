"""`fastmos codes ...`: learn a coding from text, apply and undo it as filters, look into it."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from random import Random
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from fastmos.errors import InputError
from fastmos.files import check_output, read_lines, written_whole

if TYPE_CHECKING:
    from fastmos.codings import Coding, TableCoding, Text

Files = Positional[tuple[Path, ...]]
Output = Annotated[Path | None, arg(aliases=["-o"])]

# Options that only some kinds of coding know.
OPTIONS = {
    "words": {"size", "min_count", "unk_share"},
    "bpe": {"size", "merges", "threshold"},
    "table": {"size", "words", "min_count", "unk_share", "frequent", "rows", "columns", "table", "seed"},
}
LEARNT = ("valid", "start", "method", "rounds", "epochs", "width")  # options that only learnt tables know


def learn(
    files: Files = (),
    *,
    output: Annotated[Path, arg(aliases=["-o"])],
    kind: Literal["words", "bpe", "table"],
    size: int | None = None,
    min_count: int | None = None,
    words: int | None = None,
    unk_share: float | None = None,
    table: Literal["frequency", "diagonal", "random", "learnt"] | None = None,
    seed: int | None = None,
    valid: tuple[Path, ...] = (),
    start: str | None = None,
    method: Literal["exact", "half"] | None = None,
    rounds: int | None = None,
    epochs: int | None = None,
    width: int | None = None,
    frequent: int | None = None,
    rows: int | None = None,
    columns: int | None = None,
    merges: Path | None = None,
    threshold: int | None = None,
    tokenise: Literal["none", "moses"] = "none",
    language: str | None = None,
    lowercase: bool = False,
) -> None:
    """Learn a coding from text (plain or gzip files, or standard input) and write it as one JSON file.

    Args:
        files: The text. Several files are read as one, which gives a joint coding.
        output: The coding's file.
        kind: words: a code for each word; bpe: pieces of words; table: frequent words own a code each, others share
            row and column codes.
        size: How many codes at most, beside the four special ones.
        min_count: words, table: leave out words that occur less often.
        words: table: how many words the vocabulary holds; all by default.
        unk_share: words, table: leave out this share of the words that occur once, so that a model learns unk; 0 by
            default, 0.1 for learnt tables.
        table: table: fill it by frequency, row by row (the default) or along diagonals, which shares frequent words out
            to all rows and columns; at random; or as a language model learns it from the text, in rounds (the same
            command goes on after an interruption).
        seed: table: of a random or learnt table; 0 by default.
        valid: learnt: held-out text, by which the best table is chosen.
        start: learnt: the table to start from: neighbours (the default: words with the same neighbours share rows),
            diagonal, frequency, random, or a table coding's file.
        method: learnt: how words are assigned to cells, exact (the default) or half (the paper's approximation).
        rounds: learnt: at most so many, 8 by default.
        epochs: learnt: of training in each round, 1 by default.
        width: learnt: of the language model, 200 by default.
        frequent: table: how many words own a code, instead of size.
        rows: table: how many rows, by default the square root of the number of words, rounded up.
        columns: table: how many columns, likewise.
        merges: bpe: take the merges from this coding or subword-nmt codes file, and learn only what pieces there are.
        threshold: bpe: leave out pieces that occur less often; words are then spelt in smaller ones.
        tokenise: none: the text is tokenised, words stand between spaces; moses: use Moses' rules, and undo them.
        language: moses: the text's language, such as de.
        lowercase: Lowercase the text.
    """
    from fastmos import codings

    check_output(output, [*files, *valid, *([Path(start)] if start else [])])
    if seed is not None and seed < 0:
        raise InputError(f"--seed is {seed}; it must be at least 0")
    given: dict[str, Any] = {
        "size": size,
        "min_count": min_count,
        "words": words,
        "unk_share": unk_share,
        "table": table,
        "seed": seed,
        "frequent": frequent,
        "rows": rows,
        "columns": columns,
        "merges": merges,
        "threshold": threshold,
    }
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        if name not in OPTIONS[kind]:
            kinds = " and ".join(kind for kind, names in OPTIONS.items() if name in names)
            raise InputError(f"--{name.replace('_', '-')} is for {kinds} only; drop it or change --kind {kind}")
    if merges is not None:
        given["merges"] = _read_merges(merges)
    text = codings.Text(tokenise, language, lowercase)
    learnt = {"valid": valid, "start": start, "method": method, "rounds": rounds, "epochs": epochs, "width": width}
    if table == "learnt":
        _learn_table(files, output, text, given, learnt)
        return
    for name in LEARNT:
        if learnt[name] not in (None, ()):
            raise InputError(f"--{name} is for learnt tables only; drop it or add --kind table --table learnt")
    learners: dict[str, Callable[..., Coding]] = {
        "words": codings.WordCoding.learn,
        "bpe": codings.BPECoding.learn,
        "table": codings.TableCoding.learn,
    }
    coding = learners[kind](_lines(files), text=text, **given)
    coding.save(output)
    print(f"{output}: {_summary(coding)}")


def _learn_table(
    files: tuple[Path, ...], output: Path, text: "Text", given: dict[str, Any], learnt: dict[str, Any]
) -> None:
    from fastmos.tables import Learning, learn_table

    if not files or not learnt["valid"]:
        raise InputError("a learnt table needs files of training text and --valid with held-out text; name both")
    for path in (*files, *learnt["valid"]):
        if str(path) == "-" or path.is_fifo() or path.is_char_device():
            raise InputError(
                f"a learnt table reads its text again after an interruption, so not from '{path}'; give files"
            )
    start = learnt["start"] or "neighbours"
    settings = {name: learnt[name] for name in ("method", "rounds", "epochs", "width") if learnt[name] is not None}
    learning = Learning(**settings, seed=given.pop("seed", 0))
    given.pop("table")
    plain = type(text)()  # a table that is given brings its own treatment of text
    found = learn_table(
        files, learnt["valid"], output, start=start, **given, text=None if text == plain else text, learning=learning
    )
    if os.environ.get("RANK", "0") == "0":  # of torchrun's processes one speaks
        print(f"{output}: {_summary(found.coding)}")


def apply(
    coding: Positional[Path],
    files: Files = (),
    *,
    text: bool = False,
    dropout: float = 0.0,
    seed: int = 0,
    output: Output = None,
) -> None:
    """Text to codes: numbers with spaces between them, a line for each line.

    Args:
        coding: A coding's file.
        files: The text, plain or gzip; standard input by default.
        text: Write readable pieces instead of numbers; for BPE as subword-nmt does, with @@.
        dropout: bpe: leave out each merge with this probability (BPE-dropout, for training text only).
        seed: Of the dropout.
        output: Write to this file instead of standard output.
    """
    from fastmos.codings import BPECoding, load_coding
    from fastmos.codings.text import batches

    check_output(output, [coding, *files])
    loaded = load_coding(coding)
    random = Random(seed)
    if dropout and not isinstance(loaded, BPECoding):
        raise InputError(f"--dropout is for BPE codings; {coding} is of kind {loaded.kind}")
    with _written(output) as out:
        for lines in batches(_lines(files)):
            coded: list[list[Any]]
            if dropout and isinstance(loaded, BPECoding):
                coded = loaded.sample_lines(lines, dropout, random.getrandbits(64))
                if text:
                    coded = [[loaded.token(code) for code in codes] for codes in coded]
            else:
                coded = loaded.pieces_lines(lines) if text else loaded.encode_lines(lines)
            _write(out, (" ".join(map(str, items)) for items in coded))


def undo(coding: Positional[Path], files: Files = (), *, text: bool = False, output: Output = None) -> None:
    """Codes to text, a line for each line.

    Args:
        coding: A coding's file.
        files: Lines of codes, plain or gzip; standard input by default.
        text: The lines are readable pieces, as apply --text writes them.
        output: Write to this file instead of standard output.
    """
    from fastmos.codings import load_coding
    from fastmos.codings.text import batches

    check_output(output, [coding, *files])
    loaded = load_coding(coding)
    with _written(output) as out:
        if text:
            for lines in batches(_lines(files)):
                _write(out, loaded.join_pieces_lines([list(filter(None, line.split(" "))) for line in lines]))
        else:
            for codes in batches(_codes(files, len(loaded))):
                _write(out, loaded.decode_lines(codes))


def show(
    coding: Positional[Path],
    *,
    rows: int = 10,
    nearest: str | None = None,
    output: Output = None,
    merges: bool = False,
) -> None:
    """Look into a coding: its sizes, some of its codes, and for a table some of its rows.

    Args:
        coding: A coding's file.
        rows: How many rows of a table to show.
        nearest: table: show the words that share this word's row, and those that share its column.
        output: table: write all of it to this file, as .csv, or as an .html page that can be searched.
        merges: bpe: write the merges as a subword-nmt codes file, and nothing else.
    """
    from fastmos.codings import BPECoding, TableCoding, load_coding

    check_output(output, [coding])
    if rows < 0:
        raise InputError(f"--rows is {rows}; it must be at least 0")
    loaded = load_coding(coding)
    if nearest is not None or output is not None:
        if not isinstance(loaded, TableCoding):
            raise InputError(f"--nearest and --output are for table codings; {coding} is of kind {loaded.kind}")
        _show_table(loaded, coding.stem, nearest, output)
        return
    if merges:
        if not isinstance(loaded, BPECoding):
            raise InputError(f"--merges is for BPE codings; {coding} is of kind {loaded.kind}")
        _write(sys.stdout.buffer, loaded.merges_lines())
        return
    text = loaded.text
    treatment = "split at spaces" if text.tokenise == "none" else f"Moses' rules for {text.language}"
    lines = [
        f"{coding}: {_summary(loaded)}",
        f"text: {treatment}{', lowercased' if text.lowercase else ''}",
        f"fingerprint: {loaded.fingerprint()}",
    ]
    words = len(loaded) - (loaded.rows + loaded.columns if isinstance(loaded, TableCoding) else 0)
    for start in range(0, words, max(8, words // 8)):
        shown = range(start, min(start + 8, words))
        lines.append(f"{start:>7}  " + " ".join(loaded.token(code) for code in shown))
    if isinstance(loaded, TableCoding):
        for row in range(min(rows, loaded.rows)):
            filled = [word for word in loaded.row_words(row) if word is not None]
            lines.append(f"row {row}: " + " ".join(filled[:12]) + (" ..." if len(filled) > 12 else ""))
    _write(sys.stdout.buffer, lines)


def _show_table(coding: "TableCoding", title: str, word: str | None, output: Path | None) -> None:
    """Write a table to a file, and show the neighbours of a word in it."""
    from fastmos.codings.table_page import nearest, table_csv, table_html

    if output is not None and output.suffix not in (".csv", ".html"):
        raise InputError(f"{output}: a table is written as .csv or .html; give a name that ends so")
    lines = []
    if word is not None:
        row, column = nearest(coding, word)
        lines = [f"row: {' '.join(row)}", f"column: {' '.join(column)}"]
    if output is not None:
        page = table_csv(coding) if output.suffix == ".csv" else table_html(coding, title)
        with _written(output) as out:
            out.write(page.encode())
    _write(sys.stdout.buffer, lines)


def _summary(coding: "Coding") -> str:
    from fastmos.codings import BPECoding, TableCoding

    about = ""
    if isinstance(coding, TableCoding):
        cells = coding.rows * coding.columns
        about = (
            f": {len(coding.frequent):,} frequent words, {coding.rows:,} rows, {coding.columns:,} columns; "
            f"{len(coding.table_words):,} words in {cells:,} cells"
        )
    elif isinstance(coding, BPECoding):
        about = f": {len(coding.pieces):,} pieces, {len(coding.merges):,} merges"
    return f"{coding.kind}, {len(coding):,} codes with the 4 special ones{about}"


def _read_merges(path: Path) -> list[tuple[str, str]]:
    """Merges of a BPE coding's file or a subword-nmt codes file, told apart by their first character."""
    from fastmos.codings import BPECoding, load_coding, read_merges

    if not next(read_lines(path), "").startswith("{"):
        return read_merges(path)
    coding = load_coding(path)
    if not isinstance(coding, BPECoding):
        raise InputError(f"{path}: a coding of kind {coding.kind} has no merges; give one of kind bpe")
    return coding.merges


def _lines(files: tuple[Path, ...]) -> Iterator[str]:
    return chain.from_iterable(map(read_lines, files or (Path("-"),)))


def _codes(files: tuple[Path, ...], size: int) -> Iterator[list[int]]:
    """Lines of codes, each checked to be a code."""
    for file in files or (Path("-"),):
        for number, line in enumerate(read_lines(file), 1):
            words = line.split()
            try:
                codes = list(map(int, words))
            except ValueError:
                place = f"{'standard input' if str(file) == '-' else file}, line {number}"
                raise InputError(f"{place}: not a line of codes; if it holds pieces, add --text") from None
            if codes and not 0 <= min(codes) <= max(codes) < size:
                place = f"{'standard input' if str(file) == '-' else file}, line {number}"
                raise InputError(f"{place}: codes lie between 0 and {size - 1} in this coding; is it the right one?")
            yield codes


@contextmanager
def _written(output: Path | None) -> Iterator[IO[bytes]]:
    """The output file, whole or not at all, or standard output."""
    if output is None:
        yield sys.stdout.buffer
    else:
        with written_whole(output, "wb") as file:
            yield file


def _write(out: IO[bytes], lines: Iterable[str]) -> None:
    out.writelines(line.encode() + b"\n" for line in lines)
