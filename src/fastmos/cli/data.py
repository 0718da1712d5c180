"""`fastmos data ...`: write the embedded sample, list the corpora of the paper, download and prepare one."""

from argparse import Namespace
from pathlib import Path

from fastmos.cli.arguments import Arguments, add_count, add_path


def sample_arguments(parser: Arguments) -> None:
    add_path(parser, "folder", "where the six files go", "FOLDER")
    add_count(parser, "--pairs", "training pairs", 20_000)
    add_count(parser, "--valid", "validation pairs", 500)
    add_count(parser, "--test", "test pairs; the training text has none of them", 500)
    add_count(parser, "--seed", "the same seed gives the same text", 0, least=0)


def sample(args: Namespace) -> None:
    """Write the embedded German-English sample: train, valid and test (.de and .en), tokenized and lowercased."""
    from fastmos.samples.grammar import write_sample

    _say(args.folder, write_sample(args.folder, pairs=args.pairs, valid=args.valid, test=args.test, seed=args.seed))


def list_arguments(parser: Arguments) -> None:
    """It has none."""


def list_corpora(args: Namespace) -> None:
    """List the corpora that `fastmos data get` knows, and their sizes."""
    from fastmos.data.preprocess import CORPORA

    for name, corpus in CORPORA.items():
        sizes = [remote.size for remote in corpus.remotes]
        weight = f"{sum(size or 0 for size in sizes) / 1e9:.1f} GB" if all(sizes) else "under 0.1 GB"
        print(f"{name:16} {weight:>12}  {corpus.about}")


def get_arguments(parser: Arguments) -> None:
    parser.add_argument("name", metavar="NAME", help="one of fastmos data list")
    add_path(parser, "--folder", "where it goes; if not given, data/NAME", "FOLDER")
    parser.add_argument("--mirror", metavar="URL", help="an address under which the original files lie by their names")


def get(args: Namespace) -> None:
    """Download a corpus of the paper and prepare it as the paper did; an interrupted download resumes."""
    from fastmos.data.preprocess import get_corpus

    folder = args.folder or Path("data", args.name)
    _say(folder, get_corpus(args.name, folder, mirror=args.mirror))


def _say(folder: Path, counts: dict[str, int]) -> None:
    held = ", ".join(f"{part} {count:,}" for part, count in sorted(counts.items(), key=lambda item: -item[1]))
    print(f"{folder}: pairs: {held}")
