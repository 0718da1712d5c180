"""How a command ended."""

import io
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Done:
    """Exit code, standard output and standard error."""

    code: int
    out: str
    err: str


class Terminal(io.StringIO):
    """Standard input at which somebody sits."""

    def isatty(self) -> bool:
        return True


Command = Callable[..., Done]
