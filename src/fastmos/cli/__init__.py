"""The command line: find the command, parse its arguments, call it, and say in one sentence what went wrong.

A command is a pair of functions, `add_arguments(parser)` and `run(args)`. The modules of this package import torch and
the rooms inside these functions, so that help is quick.
"""

import signal
from contextlib import suppress

# Until `main` can say so, Ctrl-C ends the program without a word: before it are a third of a second of imports.
_INTERRUPTED = signal.getsignal(signal.SIGINT)
with suppress(ValueError):  # not in the main thread
    if _INTERRUPTED is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

import difflib
import errno
import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from inspect import cleandoc
from typing import NamedTuple

from fastmos import __version__
from fastmos.cli import (
    average,
    bench,
    caption,
    completion,
    data,
    demo,
    doctor,
    evaluate,
    init,
    report,
    reproduce,
    sample,
    score,
    serve,
    tokenizer,
    train,
    translate,
)
from fastmos.cli.arguments import Parser
from fastmos.cli.streams import prepare_streams
from fastmos.errors import InputError, missing_extra, printable
from fastmos.processes import safe_children, whole_number


class Command(NamedTuple):
    """What a command does, in a few words, and its two functions."""

    about: str
    add_arguments: Callable[[Parser], None]
    run: Callable[[Namespace], None]


COMMANDS = {
    "init": Command("write a commented config for your own files", init.add_arguments, init.run),
    "train": Command("train a model as a config says; an interrupted run resumes", train.add_arguments, train.run),
    "translate": Command("translate lines with a run", translate.add_arguments, translate.run),
    "caption": Command("caption images with a run", caption.add_arguments, caption.run),
    "score": Command("log-probability and perplexity of given translations or text", score.add_arguments, score.run),
    "sample": Command("lines that a language model makes up", sample.add_arguments, sample.run),
    "serve": Command("a server for runs, with a page to try them", serve.add_arguments, serve.run),
    "evaluate": Command("scores, NLL and perplexity, speed of a run", evaluate.add_arguments, evaluate.run),
    "average": Command("average checkpoints of a run into a new run", average.add_arguments, average.run),
    "compare": Command("scores of runs side by side, with p-values", report.compare_arguments, report.compare),
    "runs": Command("list run folders with their best score", report.runs_arguments, report.runs),
    "report": Command("runs and results as one HTML page", report.add_arguments, report.run),
    "tokenizer learn": Command("learn a tokenizer from text", tokenizer.learn_arguments, tokenizer.learn),
    "tokenizer encode": Command("text to tokens, as a filter", tokenizer.encode_arguments, tokenizer.encode),
    "tokenizer decode": Command("tokens to text, as a filter", tokenizer.decode_arguments, tokenizer.decode),
    "tokenizer show": Command("look into a tokenizer", tokenizer.show_arguments, tokenizer.show),
    "features": Command("features of images, for captioning", caption.features_arguments, caption.features),
    "data sample": Command("write the embedded German-English sample", data.sample_arguments, data.sample),
    "data list": Command("list the corpora of the paper", data.list_arguments, data.list_corpora),
    "data get": Command("download and prepare a corpus of the paper", data.get_arguments, data.get),
    "demo": Command(
        "train one softmax and a mixture of nine on the sample, compare, translate", demo.add_arguments, demo.run
    ),
    "demo head": Command("fit a high-rank task with one softmax and with mixtures", demo.head_arguments, demo.head),
    "demo caption": Command("learn to caption generated drawings", demo.caption_arguments, demo.caption),
    "bench head": Command("time and memory of the loss beside other formulas", bench.head_arguments, bench.head),
    "bench step": Command("training steps of whole models with every head", bench.step_arguments, bench.step),
    "bench decode": Command("beam search of whole models with every head", bench.decode_arguments, bench.decode),
    "bench tokenizers": Command("speed beside other packages", bench.tokenizers_arguments, bench.tokenizers),
    "bench assignment": Command("table solvers beside scipy", bench.assignment_arguments, bench.assignment),
    "bench tables": Command("learned tables beside others", bench.tables_arguments, bench.tables),
    "reproduce": Command("train and measure for a table of the paper", reproduce.add_arguments, reproduce.run),
    "doctor": Command("versions, devices and a self-check, for a bug report", doctor.add_arguments, doctor.run),
    "completion": Command("completion of the shell", completion.add_arguments, completion.run),
}


CLOSED = "standard output is closed; redirect it to a file, or to /dev/null"
TOO_LARGE = "allocate memory|out of memory|Storage size calculation overflowed|array is too big|Unable to allocate"


def main() -> None:
    """Entry point of `fastmos`."""
    try:
        prepare_streams()
        with safe_children():
            dispatch(sys.argv[1:])
        sys.stdout.flush()  # a closed pipe shows here, not in the interpreter's last breath
        if whole_number("WORLD_SIZE", 1) > 1:  # gloo's threads sometimes abort the interpreter's tear-down
            sys.stderr.flush()
            os._exit(0)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)  # as if ended by SIGPIPE
    except KeyboardInterrupt:
        print("fastmos: interrupted", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        sentence = explain(error)
        if sentence is None:
            raise
        print(f"fastmos: {printable(sentence)}", file=sys.stderr)
        if sentence == CLOSED:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what is still to be written
        sys.exit(2)


def explain(error: Exception) -> str | None:
    """One sentence about an error that the user can mend; None of any other."""
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        return missing_extra(error)
    if isinstance(error, MemoryError) or re.search(TOO_LARGE, str(error)):
        return "there is not enough memory for this; choose smaller sizes or batches"
    if isinstance(error, OSError) and error.errno == errno.EBADF and error.filename is None:
        return CLOSED
    if isinstance(error, OSError) and (error.filename is not None or error.errno is not None):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    return None


def dispatch(words: Sequence[str]) -> None:
    """Run the command that the words begin with, or list the commands."""
    if words == ["--version"]:
        print(f"fastmos {__version__}")
        return
    name = command_of(words)
    if name is not None:
        COMMANDS[name].run(parser_of(name).parse(words[len(name.split()) :]))
        return
    group = words[0] if words and not words[0].startswith("-") else ""
    listed = {name: command.about for name, command in COMMANDS.items() if not group or name.startswith(f"{group} ")}
    if not listed or words[bool(group) :] not in ([], ["-h"], ["--help"]):
        raise InputError(_unknown(words))
    print("usage: fastmos COMMAND ... (fastmos COMMAND --help says more)\n")
    for name, about in listed.items():
        print(f"  {name:18} {about}")


def _unknown(words: Sequence[str]) -> str:
    """No command begins with these words; which one is near by two words, or by one?"""
    for asked in (" ".join(words[:2]), words[0]):
        if near := difflib.get_close_matches(asked, COMMANDS, n=1, cutoff=0.7):
            return f"no command '{asked}'; did you mean '{near[0]}'?"
    return f"no command '{words[0]}'; see fastmos --help"


def command_of(words: Sequence[str]) -> str | None:
    """The command that these words begin with; of `demo` and `demo head` the longer one."""
    names = (" ".join(words[:length]) for length in (2, 1))
    return next((name for name in names if name in COMMANDS), None)


def parser_of(name: str) -> Parser:
    """The parser of a command's arguments."""
    command = COMMANDS[name]
    parser = Parser(name, cleandoc(command.run.__doc__ or command.about))
    command.add_arguments(parser)
    return parser


with suppress(ValueError):
    signal.signal(signal.SIGINT, _INTERRUPTED)
