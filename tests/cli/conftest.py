"""Calling `fastmos ...` in this process."""

import io
import sys

import pytest

from fastmos.cli import main
from tests.cli.calling import Command, Done, Terminal


@pytest.fixture
def run_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Call `fastmos ...` in this process."""

    def run(*words: object, stdin: bytes | None = b"") -> Done:
        """`stdin` is what is piped in; None: a terminal."""
        monkeypatch.setattr(sys, "argv", ["fastmos", *map(str, words)])
        piped = io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin or b"")))
        monkeypatch.setattr(sys, "stdin", Terminal() if stdin is None else piped)
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        return Done(code, *capsys.readouterr())

    return run
