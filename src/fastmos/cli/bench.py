"""`fastmos bench ...`: measure this machine; ratios within one run are what to compare."""

import os
from argparse import Namespace

from fastmos.cli.arguments import Arguments, add_choice, add_count, add_flag, add_output, add_path, add_paths
from fastmos.errors import InputError

LAYOUTS = ["neighbors", "frequency", "diagonal", "random"]


def head_arguments(parser: Arguments) -> None:
    add_flag(parser, "--quick", "two small shapes, within a minute")
    add_output(parser, "write the figures here as JSON, and a plot beside it as PNG")


def head(args: Namespace) -> None:
    """Time and memory of the loss beside the formulas in use."""
    if args.output is not None:
        import matplotlib  # noqa: F401 (if it is missing, say so before the work)
    from fastmos.bench.head import run

    run(args.quick, args.output)


def step_arguments(parser: Arguments) -> None:
    add_flag(parser, "--quick", "a quarter of the tokens and three rounds, within a minute")
    add_output(parser, "write the figures here as JSON")


def step(args: Namespace) -> None:
    """Training steps of whole models with every head, as multiples of one softmax."""
    from fastmos.bench.step import run

    run(args.quick, args.output)


def decode_arguments(parser: Arguments) -> None:
    add_flag(parser, "--quick", "few steps and three rounds, within a minute")
    add_path(
        parser,
        "--peers",
        "compare the Transformer with CTranslate2 and Hugging Face, in an environment that is made in this folder",
        "FOLDER",
    )
    add_output(parser, "write the figures here as JSON")


def decode(args: Namespace) -> None:
    """Beam search of whole models with every head, as multiples of one softmax."""
    from fastmos.bench.decode import run

    run(args.quick, args.output, args.peers)


def tokenizers_arguments(parser: Arguments) -> None:
    add_path(parser, "--text", "a tokenized text to measure with; if not given, generated text")
    add_flag(parser, "--quick", "a small text, within half a minute")
    add_output(parser, "write the figures here as JSON")


def tokenizers(args: Namespace) -> None:
    """Speed of the tokenizers beside tokenizers, subword-nmt and sentencepiece, on one core."""
    from fastmos.bench.tokenizers import run

    run(args.quick, args.output, args.text)


def assignment_arguments(parser: Arguments) -> None:
    add_flag(parser, "--quick", "5,000 and 30,000 words, scipy at 5,000, within a minute; else 20,000 too, for minutes")
    add_output(parser, "write the figures here as JSON")
    add_count(parser, "--dense-to", "ask scipy up to N words; 30,000 take it 10 minutes and 7 GB")
    add_path(parser, "--costs", "instead, real costs of a table that fastmos bench tables --folder kept", "FOLDER")


def assignment(args: Namespace) -> None:
    """Speed and cost of the table solvers beside scipy."""
    # CPU seconds are compared: several threads of numpy's matrix products would be counted while they wait, too.
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    from fastmos.bench.assignment import run, run_on_costs

    if args.costs is None:
        run(args.quick, args.output, args.dense_to)
    else:
        run_on_costs(args.costs, args.output)


def tables_arguments(parser: Arguments) -> None:
    add_paths(parser, "train", "training text; if none is given, the embedded sample's", nargs="*")
    add_paths(parser, "--valid", "held-out text")
    add_count(parser, "--vocab-size", "tokens; if not given, rows and columns only (LightRNN)")
    add_count(parser, "--words", "words of the vocabulary; if not given, all")
    add_count(parser, "--min-count", "leave out words that occur less often")
    add_choice(parser, "--layout", LAYOUTS, "what learning starts from", LAYOUTS[0])
    add_count(parser, "--seeds", "how many seeds", 3)
    add_count(parser, "--rounds", "of learning, at most", 8)
    add_count(parser, "--epochs", "of the new language models", 3)
    kinds = [*LAYOUTS, "learned-half", "learned-exact"]
    parser.add_argument("--tables", choices=kinds, nargs="+", help="only these; if not given, all")
    add_path(parser, "--folder", "keep all tables and states here, and resume what is there", "FOLDER")
    add_flag(parser, "--quick", "one seed on little text, within a minute: to see that all works, not for figures")
    add_output(parser, "write the figures here as JSON")


def tables(args: Namespace) -> None:
    """Learned tables beside those by frequency and at random, each evaluated by a new language model of one budget."""
    from fastmos.bench.tables import TABLES, Sizes, run

    if bool(args.train) != bool(args.valid):
        raise InputError("give training text and --valid together, or neither for the embedded sample")
    sizes = Sizes(args.vocab_size, args.words, args.min_count)
    learning = args.layout, args.seeds, args.rounds, args.epochs
    run(args.quick, args.output, args.train, args.valid, sizes, *learning, args.folder, args.tables or TABLES)
