"""Standard input, output and error as a program finds them: perhaps closed, of another encoding, or a terminal."""

import io
import os
import sys

from fastmos.errors import printable


class Terminal(io.TextIOWrapper):
    """Standard output at which somebody looks: what is printed cannot move the cursor, or hide what it is."""

    def write(self, text: str) -> int:
        return super().write(printable(text, keep="\n\t"))


def prepare_streams() -> None:
    """Make the streams safe to use."""
    _occupy_closed()
    if sys.stdout is sys.__stdout__ and isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.isatty():
        sys.stdout = Terminal(sys.stdout.buffer, sys.stdout.encoding, "backslashreplace", line_buffering=True)
    elif isinstance(sys.stdout, io.TextIOWrapper):  # files and pipes get the encoding that all our files have
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors="backslashreplace")


def _occupy_closed() -> None:
    """Where a stream is closed, the next file that is opened would take its number, and what others print.

    Writing to closed output fails; reading closed input does (see `files.read_lines`).
    """
    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # it takes the lowest number that is free
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115 (for good)
