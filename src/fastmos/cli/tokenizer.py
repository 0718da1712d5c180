"""`fastmos tokenizer ...`: learn a tokenizer from text, encode and decode as filters, look into it."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from random import Random
from typing import IO, TYPE_CHECKING, Any

from fastmos.cli.arguments import (
    Arguments,
    add_choice,
    add_count,
    add_files,
    add_flag,
    add_number,
    add_output,
    add_path,
    add_paths,
)
from fastmos.errors import InputError
from fastmos.files import check_output, read_lines, written_whole
from fastmos.processes import whole_number

if TYPE_CHECKING:
    from fastmos.tokenizers import Pretokenizer, TableTokenizer, Tokenizer

# Options that only some types of tokenizer have, and those that only learned tables have.
OPTIONS = {
    "words": ("vocab_size", "min_count", "unk_share"),
    "bpe": ("vocab_size", "merges", "threshold"),
    "table": ("vocab_size", "words", "min_count", "unk_share", "frequent", "rows", "columns", "layout", "seed"),
}
LEARNED = ("valid", "method", "rounds", "hidden_size")


def learn_arguments(parser: ArgumentParser) -> None:
    add_files(parser, "the text (several files are read as one, which gives a joint tokenizer)")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, required=True, help="the tokenizer's file (JSON)")
    parser.add_argument(
        "--type",
        choices=list(OPTIONS),
        required=True,
        help="words: a token for each word; bpe: pieces of words; table: frequent words have a token each, the others "
        "a row code and a column code",
    )
    parser.add_argument("--language", metavar="LL", help="of raw text, as de, which Moses' rules split into words")
    add_flag(parser, "--lowercase", "lowercase the text")
    add_count(parser, "--vocab-size", "number of tokens at most, beside the four special ones")
    both = parser.add_argument_group("words and table")
    add_count(both, "--min-count", "leave out words that occur less often")
    add_number(both, "--unk-share", "leave out this share of the words that occur once, so that a model learns unk")
    bpe = parser.add_argument_group("bpe")
    add_path(bpe, "--merges", "take the merges from a BPE tokenizer or a subword-nmt codes file")
    add_count(bpe, "--threshold", "leave out pieces that occur less often, for smaller ones", least=0)
    table = parser.add_argument_group("table")
    add_count(table, "--words", "words of the vocabulary; if not given, all")
    add_count(table, "--frequent", "words that have a token each, instead of --vocab-size", least=0)
    add_count(table, "--rows", "rows; if not given, the square root of the number of words")
    add_count(table, "--columns", "columns, likewise")
    table.add_argument(
        "--layout",
        metavar="HOW",
        help="which word is in which cell: frequency (default) goes row by row; diagonal spreads frequent words over "
        "all rows and columns; random. A learned table starts there, or from neighbors (its default: words with the "
        "same neighbors share rows), or from the file of a table tokenizer",
    )
    add_count(table, "--seed", "of a random or learned table; if not given, 0", least=0)
    add_flag(table, "--learn", "let a language model learn the table; if interrupted, it resumes")
    learned = parser.add_argument_group("table with --learn")
    add_paths(learned, "--valid", "held-out text, which chooses the best table")
    add_choice(learned, "--method", ["exact", "half"], "assign words to cells exactly, or as the paper does")
    add_count(learned, "--rounds", "at most so many; if not given, 8", least=0)
    add_count(learned, "--hidden-size", "of the language model; if not given, 200")


def learn(args: Namespace) -> None:
    """Learn a tokenizer from text (plain or gzip files, or standard input) and write it as one JSON file."""
    from fastmos.tokenizers import Pretokenizer, tokenizer_class

    _check_options(args)
    start = [Path(args.layout)] if args.learn and args.layout else []
    check_output(args.output, [*args.files, *args.valid, *start])
    given = {name: getattr(args, name) for name in OPTIONS[args.type] if getattr(args, name) is not None}
    pretokenizer = Pretokenizer(args.language, args.lowercase)
    if args.learn:
        tokenizer: Tokenizer = _learn_table(args, pretokenizer, given)
    else:
        if args.merges is not None:
            given["merges"] = _read_merges(args.merges)
        learner: Any = tokenizer_class(args.type)
        tokenizer = learner.learn(_lines(args.files), pretokenizer=pretokenizer, **given)
        tokenizer.save(args.output)
    if whole_number("RANK", 0) == 0:  # of torchrun's processes one speaks
        print(f"{args.output}: {tokenizer.summary()}")


def _check_options(args: Namespace) -> None:
    """Refuse options of other types of tokenizer."""
    from fastmos.tokenizers.table import LAYOUTS

    for name in dict.fromkeys(chain.from_iterable(OPTIONS.values())):
        if getattr(args, name) is not None and name not in OPTIONS[args.type]:
            types = " and ".join(type for type, names in OPTIONS.items() if name in names)
            raise InputError(f"{_option(name)} is for {types} only; drop it or change --type {args.type}")
    if args.learn and args.type != "table":
        raise InputError(f"--learn is for table only; drop it or change --type {args.type}")
    for name in LEARNED:
        if getattr(args, name) not in (None, []) and not args.learn:
            raise InputError(f"{_option(name)} is for learned tables only; drop it or add --type table --learn")
    if args.layout is not None and args.layout not in LAYOUTS and not args.learn:
        raise InputError(f"--layout is one of {', '.join(LAYOUTS)}, not '{args.layout}', unless the table is learned")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _learn_table(args: Namespace, pretokenizer: "Pretokenizer", given: dict[str, Any]) -> "Tokenizer":
    from fastmos.tables.learning import learn_table
    from fastmos.tables.rounds import TableLearning

    if not args.files or not args.valid:
        raise InputError("a learned table needs files of training text and --valid with held-out text; name both")
    for path in (*args.files, *args.valid):
        if str(path) == "-" or path.is_fifo() or path.is_char_device():
            raise InputError(
                f"a learned table reads its text again after an interruption, so not from '{path}'; give files"
            )
    names = ("method", "rounds", "hidden_size", "seed")
    settings = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    given.pop("seed", None)
    found = learn_table(
        args.files,
        args.valid,
        args.output,
        layout=given.pop("layout", "neighbors"),
        **given,
        # A table that is given brings its own pretokenizer.
        pretokenizer=None if pretokenizer == type(pretokenizer)() else pretokenizer,
        learning=TableLearning(**settings),
    )
    return found.tokenizer


def encode_arguments(parser: Arguments) -> None:
    add_path(parser, "tokenizer", "a tokenizer's file", "TOKENIZER")
    add_files(parser, "the text")
    add_flag(parser, "--text", "write tokens as text instead of numbers; for BPE as subword-nmt, with @@")
    add_number(parser, "--dropout", "bpe: leave out each merge with this probability (BPE-dropout)", 0.0)
    add_count(parser, "--seed", "of the dropout", 0, least=0)
    add_output(parser, "write to this file instead of standard output")


def encode(args: Namespace) -> None:
    """Text to tokens: numbers with spaces between them, a line for each line."""
    from fastmos.tokenizers import BPETokenizer, load_tokenizer
    from fastmos.tokenizers.pretokenizer import batches

    check_output(args.output, [args.tokenizer, *args.files])
    tokenizer = load_tokenizer(args.tokenizer)
    random = Random(args.seed)
    if args.dropout and not isinstance(tokenizer, BPETokenizer):
        raise InputError(f"--dropout is for BPE tokenizers; {args.tokenizer} is of type {tokenizer.type}")
    with _written(args.output) as out:
        for lines in batches(_lines(args.files)):
            tokenized: Sequence[Sequence[object]]
            if args.dropout and isinstance(tokenizer, BPETokenizer):
                tokens = tokenizer.encode_with_dropout(lines, args.dropout, random.getrandbits(64))
                tokenized = [list(map(tokenizer.id_to_token, line)) for line in tokens] if args.text else tokens
            else:
                tokenized = tokenizer.tokenize_lines(lines) if args.text else tokenizer.encode_lines(lines)
            _write(out, (" ".join(map(str, items)) for items in tokenized))


def decode_arguments(parser: Arguments) -> None:
    add_path(parser, "tokenizer", "a tokenizer's file", "TOKENIZER")
    add_files(parser, "lines of tokens")
    add_flag(parser, "--text", "the tokens are text, as encode --text writes them")
    add_output(parser, "write to this file instead of standard output")


def decode(args: Namespace) -> None:
    """Tokens to text, a line for each line."""
    from fastmos.tokenizers import load_tokenizer
    from fastmos.tokenizers.pretokenizer import batches

    check_output(args.output, [args.tokenizer, *args.files])
    tokenizer = load_tokenizer(args.tokenizer)
    with _written(args.output) as out:
        if args.text:
            for lines in batches(_lines(args.files)):
                _write(out, tokenizer.detokenize_lines([list(filter(None, line.split(" "))) for line in lines]))
        else:
            for tokens in batches(_tokens(args.files, len(tokenizer))):
                _write(out, tokenizer.decode_lines(tokens))


def show_arguments(parser: Arguments) -> None:
    add_path(parser, "tokenizer", "a tokenizer's file", "TOKENIZER")
    add_count(parser, "--rows", "rows of a table to show", 10, least=0)
    parser.add_argument("--nearest", metavar="WORD", help="table: the words in the row of this one, and in its column")
    add_output(parser, "table: write all of it to this file, as .csv, or as an .html page that can be searched")
    add_flag(parser, "--merges", "bpe: write the merges as a subword-nmt codes file, and nothing else")


def show(args: Namespace) -> None:
    """Look into a tokenizer: its sizes, some of its tokens, and for a table some of its rows."""
    from fastmos.tokenizers import BPETokenizer, TableTokenizer, load_tokenizer

    check_output(args.output, [args.tokenizer])
    tokenizer = load_tokenizer(args.tokenizer)
    about = f"{args.tokenizer} is of type {tokenizer.type}"
    if args.nearest is not None or args.output is not None:
        if not isinstance(tokenizer, TableTokenizer):
            raise InputError(f"--nearest and --output are for table tokenizers; {about}")
        _show_table(tokenizer, args.tokenizer.stem, args.nearest, args.output)
    elif args.merges:
        if not isinstance(tokenizer, BPETokenizer):
            raise InputError(f"--merges is for BPE tokenizers; {about}")
        _write(sys.stdout.buffer, tokenizer.merges_lines())
    else:
        _write(sys.stdout.buffer, [f"{args.tokenizer}: {tokenizer.summary()}", *_overview(tokenizer, args.rows)])


def _overview(tokenizer: "Tokenizer", rows: int) -> Iterator[str]:
    """How it splits text, its fingerprint, some of its tokens and of its rows."""
    from fastmos.tokenizers import TableTokenizer

    pretokenizer = tokenizer.pretokenizer
    split = "split at spaces" if pretokenizer.language is None else f"Moses' rules for {pretokenizer.language}"
    yield f"text: {split}{', lowercased' if pretokenizer.lowercase else ''}"
    yield f"fingerprint: {tokenizer.fingerprint()}"
    table = tokenizer if isinstance(tokenizer, TableTokenizer) else None
    words = len(tokenizer) - (table.rows + table.columns if table else 0)
    for start in range(0, words, max(8, words // 8)):
        shown = range(start, min(start + 8, words))
        yield f"{start:>7}  " + " ".join(map(tokenizer.id_to_token, shown))
    for row in range(min(rows, table.rows) if table else 0):
        filled = [word for word in table.row_words(row) if word is not None] if table else []
        yield f"row {row}: " + " ".join(filled[:12]) + (" ..." if len(filled) > 12 else "")


def _show_table(tokenizer: "TableTokenizer", title: str, word: str | None, output: Path | None) -> None:
    """Write a table to a file, and show the neighbors of a word in it."""
    from fastmos.report.table_page import nearest, table_csv, table_html

    if output is not None and output.suffix not in (".csv", ".html"):
        raise InputError(f"{output}: a table is written as .csv or .html; give a name that ends so")
    lines = []
    if word is not None:
        row, column = nearest(tokenizer, word)
        lines = [f"row: {' '.join(row)}", f"column: {' '.join(column)}"]
    if output is not None:
        page = table_csv(tokenizer) if output.suffix == ".csv" else table_html(tokenizer, title)
        with _written(output) as out:
            out.write(page.encode())
    _write(sys.stdout.buffer, lines)


def _read_merges(path: Path) -> list[tuple[str, str]]:
    """Merges of a BPE tokenizer's file or a subword-nmt codes file, told apart by their first character."""
    from fastmos.tokenizers import BPETokenizer, load_tokenizer, read_merges

    if not next(read_lines(path), "").startswith("{"):
        return read_merges(path)
    tokenizer = load_tokenizer(path)
    if not isinstance(tokenizer, BPETokenizer):
        raise InputError(f"{path}: a tokenizer of type {tokenizer.type} has no merges; give one of type bpe")
    return tokenizer.merges


def _lines(files: Sequence[Path]) -> Iterator[str]:
    return chain.from_iterable(map(read_lines, files or (Path("-"),)))


def _tokens(files: Sequence[Path], size: int) -> Iterator[list[int]]:
    """Lines of tokens, each checked to be one of the tokenizer."""
    for file in files or (Path("-"),):
        for row, line in enumerate(read_lines(file), 1):
            place = f"{'standard input' if str(file) == '-' else file}, line {row}"
            try:
                tokens = list(map(int, line.split()))
            except ValueError:
                raise InputError(f"{place}: not a line of tokens; if they are text, add --text") from None
            if tokens and not 0 <= min(tokens) <= max(tokens) < size:
                raise InputError(
                    f"{place}: tokens lie between 0 and {size - 1} in this tokenizer; is it the right one?"
                )
            yield tokens


@contextmanager
def _written(output: Path | None) -> Iterator[IO[bytes]]:
    """The output file, whole or not at all, or standard output."""
    if output is None:
        yield sys.stdout.buffer
    else:
        with written_whole(output, "wb") as file:
            yield file


def _write(out: IO[bytes], lines: Iterable[str]) -> None:
    if out is sys.stdout.buffer and sys.stdout.isatty():
        sys.stdout.writelines(f"{line}\n" for line in lines)
    else:
        out.writelines(line.encode() + b"\n" for line in lines)
