"""`fastmos evaluate`."""

import json
from argparse import Namespace
from pathlib import Path

from fastmos.cli.arguments import (
    Arguments,
    add_beam_size,
    add_flag,
    add_int8,
    add_output,
    add_path,
    add_run,
    add_split,
    load_run,
)
from fastmos.errors import InputError
from fastmos.files import check_output, read_lines
from fastmos.provenance import provenance


def add_arguments(parser: Arguments) -> None:
    add_run(parser)
    add_path(parser, "--source", "text to translate; if not given, a split of the run's config")
    add_path(parser, "--reference", "its translation; for a language model, the text")
    add_split(parser)
    add_beam_size(parser)
    add_int8(parser)
    parser.add_argument(
        "--language",
        metavar="LL",
        help="of text that Moses has tokenized, as de: adds BLEU of the detokenized text (13a), and of tokens with "
        "compounds split, as papers of 2017 and 2018 report it for WMT",
    )
    add_output(parser, "write the translations to this file; captions as JSON in COCO's form of results")
    add_flag(parser, "--json", "print everything as JSON, with what made it")


def run(args: Namespace) -> None:
    """BLEU and chrF with signatures (captions: BLEU, METEOR, ROUGE-L, CIDEr), NLL per word, perplexity, speed."""
    check_output(args.output, [args.source, args.reference])
    model = load_run(args, args.int8)
    for name, given in (("--output", args.output), ("--int8", args.int8)):
        if given and model.task.metrics == ("nll",):  # nothing is searched for
            raise InputError(f"{args.run}: a language model has no outputs; leave out {name}")
    found = model.evaluate(
        args.split,
        sources=_lines(args.source),
        references=_lines(args.reference),
        beam_size=args.beam_size,
        language=args.language,
    )
    if args.json:
        beam_size = args.beam_size or model.config.search.beam_size
        about = {
            "beam_size": beam_size,
            "int8": args.int8,
            "run": str(args.run),
            "about": provenance(model.config.training.seed),
        }
        print(json.dumps({**found.record(), **found.speed(), **about}, ensure_ascii=False, indent=1))
    else:
        print(found.summary())
    if args.output is not None:
        found.write_outputs(args.output)


def _lines(file: Path | None) -> list[str] | None:
    return None if file is None else list(read_lines(file))
