"""What is written beside every result."""

import sys

import pytest

from fastmos.provenance import provenance


@pytest.mark.parametrize("program", ["/env/bin/fastmos", "/env/lib/fastmos/__main__.py"])
def test_the_command_is_named(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [program, "bench", "head"])
    assert provenance(3)["command"] == "fastmos bench head"


def test_git_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert provenance(3)["commit"] == ""
