"""The parser of a command: argparse whose errors are one sentence, and the arguments that several commands share."""

import math
import sys
import warnings
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from fastmos.errors import InputError, did_you_mean, printable

if TYPE_CHECKING:
    from fastmos.inference.run import Run


class Parser(ArgumentParser):
    """An `ArgumentParser` that raises `InputError` with one sentence; help still prints and exits."""

    def __init__(self, command: str, description: str = "") -> None:
        super().__init__(f"fastmos {command}", description=description, allow_abbrev=False, conflict_handler="resolve")
        self.settings: Callable[[], Iterable[str]] | None = None  # names of the config's keys, if they are options too
        self.any_bytes = False  # may names be other than UTF-8?

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message.removeprefix('argument ')}; {self._see_help()}")

    def parse(self, words: Sequence[str]) -> Namespace:
        """The arguments; what has no place gets a sentence with the nearest option.

        All must be UTF-8, usually: a name of other bytes could be written neither into a run's files nor into the log.
        """
        for word in () if self.any_bytes else words:
            shown = word.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            if shown != word:
                raise InputError(f"'{shown}': not UTF-8 text; if it is the name of a file, rename it")
        settings: dict[str, str] = {}
        if self.settings is not None:
            words, settings = split_settings(words)
        found, unknown = self.parse_known_args(words, Namespace(settings=settings))
        if unknown and not unknown[0].startswith("-"):  # an option stands between the files
            found, unknown = self.parse_known_intermixed_args(words, Namespace(settings=settings))
        if unknown:
            raise InputError(self._no_place(unknown[0]))
        return found

    def option_names(self) -> list[str]:
        """The long options, as in `--beam-size`, and as in `--model.num_layers` if there are settings."""
        settings = [] if self.settings is None else [f"--{name}" for name in self.settings()]
        return [name for action in self._actions for name in action.option_strings if name[:2] == "--"] + settings

    def _no_place(self, word: str) -> str:
        if not word.startswith("-"):
            return f"no place for '{word}'; {self._see_help()}"
        name = word.split("=")[0]
        return f"no option '{name}'{did_you_mean(name, self.option_names(), self._see_help())}"

    def _see_help(self) -> str:
        return f"{self.prog} --help lists the options"


def split_settings(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Separate `--section.key value` (and --task) from the other words. No value means true, several a list."""
    others: list[str] = []
    settings: dict[str, list[str]] = {}
    values = others
    for word in words:
        name, equals, value = word.partition("=")
        if name == "--task" or (name.startswith("--") and "." in name):
            values = settings[name[2:].replace("-", "_")] = [value] if equals else []
        elif word.startswith("--") or word == "-h":
            values = others
            others.append(word)
        else:
            values.append(word)
    return others, {name: _yaml(given) for name, given in settings.items()}


def _yaml(values: list[str]) -> str:
    return "true" if not values else values[0] if len(values) == 1 else f"[{', '.join(values)}]"


# ---- arguments by the kind of their value


class Arguments(Protocol):
    """A parser, or a group of its arguments."""

    def add_argument(self, *names: str, **options: Any) -> Any: ...


def add_flag(parser: Arguments, name: str, help: str) -> None:
    parser.add_argument(name, action="store_true", help=help)


def add_choice(parser: Arguments, name: str, choices: Iterable[str], help: str, default: str | None = None) -> None:
    parser.add_argument(name, choices=list(choices), default=default, help=_with_default(help, default))


def add_count(parser: Arguments, name: str, help: str, default: int | None = None, least: int = 1) -> None:
    """A whole number from `least` on."""

    def parse(word: str) -> int:
        try:
            value = int(word)
        except ValueError:
            raise ArgumentTypeError(f"must be a whole number, not '{word}'") from None
        if value < least:
            raise ArgumentTypeError(f"must be at least {least}, not {value}")
        return value

    parser.add_argument(name, metavar="N", type=parse, default=default, help=_with_default(help, default))


def add_number(parser: Arguments, name: str, help: str, default: float | None = None) -> None:
    """A finite number."""

    def parse(word: str) -> float:
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise ArgumentTypeError(f"must be a number, not '{word}'")
        return value

    parser.add_argument(name, metavar="X", type=parse, default=default, help=_with_default(help, default))


def add_path(parser: Arguments, name: str, help: str, metavar: str = "FILE", default: str | None = None) -> None:
    path = None if default is None else Path(default)
    parser.add_argument(name, metavar=metavar, type=Path, default=path, help=_with_default(help, default))


def add_paths(parser: Arguments, name: str, help: str, metavar: str = "FILE", nargs: str = "+") -> None:
    """Several files; of an option or with `nargs` *, perhaps none, which is an empty list."""
    parser.add_argument(name, metavar=metavar, nargs=nargs, type=Path, default=[], help=help)


def _with_default(help: str, default: object) -> str:
    return help if default is None else f"{help} (default: {default})"


# ---- arguments that several commands have


def add_run(parser: Arguments) -> None:
    add_path(parser, "run", "folder that fastmos train made", "RUN")
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda, cuda:1, ...; if not given, a GPU if there is one")


def add_files(parser: Arguments, help: str) -> None:
    add_paths(parser, "files", f"{help}, plain or gzip; standard input if none is given", nargs="*")


def add_beam_size(parser: Arguments) -> None:
    add_count(parser, "--beam-size", "hypotheses kept; if not given, what the run's config says")


def add_split(parser: Arguments) -> None:
    add_choice(parser, "--split", ["valid", "test"], "which split of the run's config", "test")


def add_output(parser: Arguments, help: str, default: str | None = None) -> None:
    path = None if default is None else Path(default)
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, default=path, help=_with_default(help, default))


def add_int8(parser: Arguments) -> None:
    add_flag(parser, "--int8", "search with weights of 8 bits: faster on a CPU, outputs nearly the same")


def load_run(args: Namespace, int8: bool = False) -> "Run":
    """The run that RUN and --device name, with warnings shown as sentences."""
    from fastmos.inference.run import load

    def show(message: Warning | str, *rest: Any) -> None:
        print(f"fastmos: warning: {printable(message)}", file=sys.stderr)

    warnings.showwarning = show  # type: ignore[assignment]  # of the arguments only the message is used
    return load(args.run, args.device, int8=int8)
