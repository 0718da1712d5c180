"""`fastmos sample`."""

from argparse import Namespace

from fastmos.cli.arguments import Arguments, add_count, add_number, add_run, load_run


def add_arguments(parser: Arguments) -> None:
    add_run(parser)
    add_count(parser, "--lines", "how many", 5)
    add_number(parser, "--temperature", "below 1, likelier lines", 1.0)
    add_number(parser, "--top-p", "draw from the likeliest tokens that have this probability together")
    add_count(parser, "--seed", "the same seed gives the same lines", 0, least=0)


def run(args: Namespace) -> None:
    """Lines that a language model makes up."""
    model = load_run(args)
    for line in model.sample(args.lines, temperature=args.temperature, top_p=args.top_p, seed=args.seed):
        print(line)
