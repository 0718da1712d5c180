"""`fastmos translate`."""

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from fastmos.cli.arguments import (
    Arguments,
    add_beam_size,
    add_choice,
    add_count,
    add_files,
    add_flag,
    add_int8,
    add_run,
    load_run,
)
from fastmos.files import read_lines

if TYPE_CHECKING:
    from fastmos.inference.run import Output

NBEST = "print, after its number and a tab, the N best different translations of each line (an empty line has one)"
LINES_AT_ONCE = 2000  # read, sorted by length, translated, written


def add_arguments(parser: Arguments) -> None:
    add_run(parser)
    add_files(parser, "text")
    add_beam_size(parser)
    add_int8(parser)
    add_count(parser, "--nbest", NBEST, 1)
    add_flag(parser, "--scores", "put log-probability and score, with tabs, before each translation")
    add_choice(parser, "--overlong", ["cut", "refuse"], "what to do with lines longer than in training", "cut")


def run(args: Namespace) -> None:
    """Translate lines of files, of standard input, or typed at a prompt."""
    model = load_run(args, args.int8)
    model.translate([])  # a run of another task is refused before anything is read
    lines: Iterable[str] = chain.from_iterable(read_lines(file) for file in args.files or [Path("-")])
    size = LINES_AT_ONCE
    if not args.files and sys.stdin is not None and sys.stdin.isatty():
        lines, size = _typed(), 1
    number = 0
    stream = iter(lines)
    while chunk := list(islice(stream, size)):
        for best in model.translate(chunk, beam_size=args.beam_size, nbest=args.nbest, overlong=args.overlong):
            number += 1
            for output in best:
                print(_row(output, number if args.nbest > 1 else None, args.scores))
        sys.stdout.flush()


def _row(output: "Output", number: int | None, scores: bool) -> str:
    columns = [] if number is None else [str(number)]
    if scores:
        columns += [f"{output.log_prob:.4f}", f"{output.score:.4f}"]
    return "\t".join([*columns, output.text])


def _typed() -> Iterator[str]:
    """Lines typed at a prompt, until Ctrl-D."""
    print("type a sentence (Ctrl-D ends)", file=sys.stderr)
    while True:
        try:
            yield input("> ")
        except EOFError:
            print(file=sys.stderr)  # the shell's own prompt begins a line
            return
