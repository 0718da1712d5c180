"""The command line: find the command, let tyro parse its signature, call it, say what went wrong in one sentence.

A command is a function of a module in this package. Those modules import torch and the rooms inside their functions, so
that help is quick.
"""

import difflib
import importlib
import os
import re
import sys
from collections.abc import Callable

from fastmos import __version__
from fastmos.cli.parsing import bind
from fastmos.errors import InputError

# Command -> (its module, its function, what it does).
COMMANDS: dict[str, tuple[str, str, str]] = {
    "doctor": ("head", "doctor", "versions, devices and a self-check of the loss, ready to paste into a bug report"),
    "demo": ("demo", "demo", "train a baseline and BPE-MoS on the embedded sample, compare, translate; minutes"),
    "demo head": ("head", "demo_head", "fit a high-rank task with one softmax, mixed contexts and mixed softmaxes"),
    "demo caption": ("caption", "demo", "learn to caption generated drawings, and caption new ones; minutes"),
    "train": ("train", "train", "train as a YAML file says; an interrupted run goes on"),
    "translate": ("train", "translate", "translate lines with a run"),
    "evaluate": ("train", "evaluate", "BLEU, chrF, nats per word and speed of a run"),
    "features": ("caption", "features", "features of a folder of photos, for captioning; an interrupted call goes on"),
    "caption": ("caption", "caption", "caption photos with a run"),
    "score": ("train", "score", "log-probability of given translations or text"),
    "sample": ("train", "sample", "lines that a language model makes up"),
    "average": ("train", "average", "average checkpoints of a run into a new one"),
    "bench head": ("bench", "head", "time and memory of the loss beside the formulas in use"),
    "bench codings": ("bench", "codings", "speed of the codings beside subword-nmt and sentencepiece"),
    "bench assignment": ("bench", "assignment", "speed and cost of the table solvers beside scipy"),
    "bench tables": ("bench", "tables", "learnt tables beside those by frequency and at random"),
    "codes learn": ("codes", "learn", "learn a word, BPE or table coding from text"),
    "codes apply": ("codes", "apply", "text to codes, as a filter"),
    "codes undo": ("codes", "undo", "codes to text, as a filter"),
    "codes show": ("codes", "show", "look into a coding"),
    "reproduce": ("reproduce", "reproduce", "train and measure for a table of the paper, and print ours beside it"),
    "report": ("report", "report", "results as one page: tables beside the paper's, figures, words, outputs"),
    "data sample": ("data", "sample", "write the embedded German-English sample"),
    "data list": ("data", "list_corpora", "list the corpora of the paper"),
    "data get": ("data", "get", "download and prepare a corpus of the paper"),
}


def main() -> None:
    """Entry point of `fastmos`."""
    try:
        _dispatch(sys.argv[1:])
        sys.stdout.flush()  # a closed pipe shows here, not in the interpreter's last breath
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:  # gloo's threads sometimes abort the interpreter's tear-down
            sys.stderr.flush()
            os._exit(0)
    except InputError as error:
        print(f"fastmos: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)  # as if ended by SIGPIPE
    except KeyboardInterrupt:
        print("fastmos: interrupted", file=sys.stderr)
        sys.exit(130)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not re.search("allocate memory|out of memory", str(error)):
            raise
        print("fastmos: there is not enough memory for this; choose smaller sizes or batches", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if error.filename is None and error.errno is None:
            raise
        place = f"{error.filename}: " if error.filename else ""
        print(f"fastmos: {place}{error.strerror}", file=sys.stderr)
        sys.exit(2)


def _dispatch(words: list[str]) -> None:
    if words == ["--version"]:
        print(f"fastmos {__version__}")
        return
    if found := command_of(words):
        _run(load_command(found), found, words[len(found.split()) :])
        return
    group = " ".join(word for word in words[:1] if not word.startswith("-"))
    listed = {name: about for name, (_, _, about) in COMMANDS.items() if not group or name.startswith(f"{group} ")}
    if not listed or (words[len(group.split()) :] not in ([], ["-h"], ["--help"])):
        asked = " ".join(words[:2])
        near = difflib.get_close_matches(asked, COMMANDS, n=1) or difflib.get_close_matches(words[0], COMMANDS, n=1)
        raise InputError(f"no command '{asked}'" + (f"; did you mean '{near[0]}'?" if near else "; see fastmos --help"))
    print("usage: fastmos COMMAND ... (fastmos COMMAND --help says more)\n")
    for name, about in listed.items():
        print(f"  {name:18} {about}")


def command_of(words: list[str]) -> str | None:
    """The command that these words begin with; of `demo` and `demo head` the longer one."""
    names = (" ".join(words[:length]) for length in (2, 1))
    return next((name for name in names if name in COMMANDS), None)


def load_command(name: str) -> Callable[..., None]:
    """The function of a command."""
    module, function, _ = COMMANDS[name]
    command: Callable[..., None] = getattr(importlib.import_module(f"fastmos.cli.{module}"), function)
    return command


def _run(command: Callable[..., None], name: str, arguments: list[str]) -> None:
    """Call a command with its arguments parsed by its signature; one that takes `arguments` reads them itself."""
    if list(command.__annotations__) == ["arguments", "return"]:
        command(arguments)
    else:
        bind(command, name, arguments)()
