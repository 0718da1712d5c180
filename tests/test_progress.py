"""Progress on standard error: lines where it is no terminal, a bar where it is one."""

import io
import sys

import pytest

from fastmos.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_short_work_passes_the_items_through_and_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress(iter("abc"), "letters")) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("total", "done", "line"),
    [(None, 0, "letters: 2 (1.0/s)"), (4, 0, "letters: 2 of 4, 2 s left (1.0/s)"), (9, 5, "letters: 7 of 9, 2 s left")],
)
def test_long_work_says_now_and_then_how_far_it_is(
    total: int | None, done: int, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = iter(range(100))
    monkeypatch.setattr("fastmos.progress.time.monotonic", lambda: float(next(seconds)))
    monkeypatch.setattr("fastmos.progress.LOG_EVERY_SECONDS", 2.0)
    assert list(progress("abc", "letters", total, done)) == ["a", "b", "c"]
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and said[0].startswith(line)


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert list(progress("abc", "letters", 3)) == ["a", "b", "c"]
    assert "letters" in terminal.getvalue() and "3/3" in terminal.getvalue()
