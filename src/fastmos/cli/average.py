"""`fastmos average`."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from fastmos.cli.arguments import add_count, add_path


def add_arguments(parser: ArgumentParser) -> None:
    add_path(parser, "run", "folder that fastmos train made", "RUN")
    which = parser.add_mutually_exclusive_group(required=True)
    add_count(which, "--last", "average the last N checkpoints")
    add_count(which, "--best", "average the best N checkpoints")
    parser.add_argument("-o", "--output", metavar="FOLDER", type=Path, help="the new run; if not given, RUN-average")


def run(args: Namespace) -> None:
    """Average checkpoints of a run into a new run folder."""
    from fastmos.inference.run import average

    folder = args.run if args.run.name not in ("", "..") else args.run.resolve()
    output = args.output or folder.with_name(f"{folder.name}-average")
    steps = average(args.run, output, last=args.last or 0, best=args.best or 0)
    print(f"{output}: mean of the checkpoints at steps {', '.join(f'{step:,}' for step in steps)}")
