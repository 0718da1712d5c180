"""`fastmos report`, `fastmos compare` and `fastmos runs`: results as a page, side by side, and as a list."""

import sys
from argparse import Namespace
from pathlib import Path

from fastmos.cli.arguments import Arguments, add_output, add_paths, add_split
from fastmos.errors import printable


def add_arguments(parser: Arguments) -> None:
    about = "run folders, files that fastmos reproduce wrote, or folders of them; the folder results if none is given"
    add_paths(parser, "paths", about, "PATH", nargs="*")
    add_output(parser, "the page; named .md, the tables alone as Markdown", "report.html")


def run(args: Namespace) -> None:
    """One HTML page of runs and results that needs no network: scores, curves, outputs, tables beside the paper's."""
    from fastmos.report.page import write_report

    for sentence in write_report(args.paths or [Path("results")], args.output):
        print(f"fastmos: warning: left out {printable(sentence)}", file=sys.stderr)
    how = "" if args.output.suffix.lower() == ".md" else "; open it in a browser"
    print(f"{printable(args.output)}: {args.output.stat().st_size / 1000:,.0f} kB{how}")


def compare_arguments(parser: Arguments) -> None:
    add_paths(parser, "runs", "run folders; the first is the baseline", "RUN")
    add_split(parser)


def compare(args: Namespace) -> None:
    """Scores of runs side by side on the same text, with p-values of a paired bootstrap against the first run."""
    from fastmos.report.compare import compare

    print(printable(compare(args.runs, args.split), keep="\n"))


def runs_arguments(parser: Arguments) -> None:
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs"), help="where to look (default: runs)")


def runs(args: Namespace) -> None:
    """List the run folders in a folder and below it, with their task, head and best validation."""
    from fastmos.report.runs import list_runs

    print(printable(list_runs(args.folder), keep="\n"))
