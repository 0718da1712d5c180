"""What stands behind a command, parsed by tyro; what is wrong with it, in one sentence instead of tyro's box."""

import contextlib
import functools
import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import tyro

from fastmos.errors import InputError, did_you_mean, lower_first

if TYPE_CHECKING:
    from fastmos.training.config import Config

T = TypeVar("T")
TYPES = {"int": "a whole number", "float": "a number"}


def bind(command: Callable[..., None], name: str, arguments: list[str]) -> Callable[[], None]:
    """The command with its arguments, parsed by its signature, ready to be called."""

    @functools.wraps(command)
    def bound(*positional: Any, **options: Any) -> Callable[[], None]:
        return functools.partial(command, *positional, **options)

    return _quietly(lambda: tyro.cli(bound, prog=f"fastmos {name}", args=arguments), name)


def override(config: "Config", arguments: list[str]) -> "Config":
    """The config with values from the command line, as in `--model.layers 2`, on top."""
    from fastmos.training.config import Config, options

    if {"-h", "--help"} & set(arguments):
        tyro.cli(Config, default=config, args=["--help"], prog="fastmos train CONFIG.yaml [--folder RUN]")
    names = [name.replace("_", "-") for name in options(config)]
    for word in arguments:
        name = word[2:].split("=")[0].replace("_", "-")
        if word.startswith("--") and name not in names and name.replace(".no-", ".") not in names:
            near = did_you_mean(f"--{name}", [f"--{known}" for known in names], _see_help("train"))
            raise InputError(f"no option '{word}'{near}")
    return _quietly(lambda: tyro.cli(Config, default=config, args=arguments, prog="fastmos train"), "train")


def _quietly(parse: Callable[[], T], name: str) -> T:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return parse()
    except SystemExit as end:
        if not end.code:  # help was asked for
            raise
        raise InputError(_one_sentence(said.getvalue(), name)) from None


def _one_sentence(box: str, name: str) -> str:
    """What tyro says in its box, without the box and the help under it."""
    lines = [line.strip("│|").rstrip() for line in box.splitlines()[1:-1]]
    text = "\n".join(line if line.strip("─- ") else "<rule>" for line in lines if line)
    first, *rest = [part for part in text.split("<rule>") if part.strip()] or [box]
    said = " ".join(first.split())
    if match := re.match(r"Unrecognized options: (.+?)(?:, |$)", said):
        near = re.search(r"Perhaps you meant:.*?(--[\w.-]+)", " ".join(rest), re.DOTALL)
        kind = "option" if match[1].startswith("-") else "place for"
        return f"no {kind} '{match[1]}'; " + (f"did you mean '{near[1]}'?" if near else _see_help(name))
    if match := re.match(r"Missing from [^:]+:\n +(.+)\n((?: {9,}.+\n?)*)", first.strip()):
        about = " ".join(match[2].split()).removesuffix("(required)").rstrip(". ")
        return f"missing {match[1].split(', ')[-1]}{f' ({lower_first(about)})' if about else ''}; {_see_help(name)}"
    if match := re.match(r"Error parsing (\S+): no type matching (\S+) could be instantiated from \[(.*?)\]", said):
        return f"{match[1]}: must be {match[2].replace('{None}|', '')}, not {match[3]}"
    if match := re.match(r"Error parsing (\S+): .*?\b(int|float)\b[^:]*: (.*)", said):
        return f"{match[1]}: must be {TYPES[match[2]]}, not {match[3].rstrip('.')}"
    if match := re.match(
        r"Error parsing (\S+): \d+ validation errors? for \S+ (\S+) (.*?) \[.*?input_value=(.*?),", said
    ):
        return f"--{match[1]}.{match[2]}: {lower_first(match[3])}, not {match[4]}"
    return f"{lower_first(said.rstrip('.').replace('. Expected', ', expected'))}; {_see_help(name)}"


def _see_help(name: str) -> str:
    return f"fastmos {name} --help lists the options"
