"""`fastmos reproduce`: the paper's tables and figures."""

from argparse import Namespace

from fastmos.cli.arguments import Arguments, add_count, add_flag, add_path


def add_arguments(parser: Arguments) -> None:
    parser.add_argument(
        "suite",
        metavar="SUITE",
        help="overall, words, oov, same-budget, same-softmaxes, rank, mixtures, tables, heads, language, recipe, wmt; "
        "or all",
    )
    parser.add_argument(
        "--scale",
        metavar="NAME",
        default="multi30k",
        help="multi30k (default), flickr8k, msctd, ted, europarl, wikitext2 or sample; paper: as the paper did (or a "
        "part of it: iwslt14, coco, wmt14)",
    )
    add_count(parser, "--seeds", "runs of each row; if not given, what is usual for suite and scale")
    parser.add_argument("--only", metavar="TEXT", default="", help="rows with this in their name")
    add_path(parser, "--runs", "folder of run folders, tables and text", "FOLDER", "runs")
    add_path(parser, "--results", "folder of results, one JSON file a run", "FOLDER", "results")
    add_flag(parser, "--list", "train nothing; list what is done and what is to do, and print the tables so far")


def run(args: Namespace) -> None:
    """Train what a table of the paper needs and is not there yet, and print our figures beside the paper's.

    An interrupted run resumes. The same command may be started twice: each takes what the other has not begun.
    """
    from fastmos.reproduce.reproduce import reproduce

    options = {"seeds": args.seeds, "only": args.only, "runs": args.runs, "results": args.results, "show": args.list}
    reproduce(args.suite, args.scale, **options)
