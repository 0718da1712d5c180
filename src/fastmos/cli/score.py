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
    """Log-probability of given translations, or of text for a language model; and, after a tab, perplexity per word."""
    from fastmos.metrics.likelihood import perplexity

    model = load_run(args)
    targets = list(read_lines(args.target))
    scores = model.score(None if args.source is None else list(read_lines(args.source)), targets)
    for log_prob, words in zip(scores, model.target.pretokenizer.split(targets), strict=True):
        print(f"{log_prob:.6f}\t{perplexity(-log_prob / (len(words) + 1)):.2f}")  # the end of a line is a word
