"""`fastmos score`."""

from argparse import Namespace
from pathlib import Path

from fastmos.cli.arguments import Arguments, add_path, add_run, load_run
from fastmos.files import read_lines


def add_arguments(parser: Arguments) -> None:
    add_run(parser)
    parser.add_argument("--target", metavar="FILE", type=Path, required=True, help="the lines to score")
    add_path(parser, "--source", "what they translate; a language model has none")


def run(args: Namespace) -> None:
    """Log-probability of given translations, or of text for a language model: one number a line."""
    model = load_run(args)
    targets = list(read_lines(args.target))
    for value in model.score(None if args.source is None else list(read_lines(args.source)), targets):
        print(f"{value:.6f}")
