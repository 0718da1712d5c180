"""Closed and odd streams, odd environments, and Ctrl-C: one sentence each, and nothing moves the cursor."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fastmos.cli.streams import Terminal
from fastmos.errors import printable
from tests.cli.calling import Command

FASTMOS = [sys.executable, "-m", "fastmos"]
ESCAPES = "a\x1b[2J\x1b]0;title\x07b\r\x9b1m\u202ec\x08"


def call(words: str, redirect: str = "", **environment: str) -> "subprocess.CompletedProcess[bytes]":
    """A command in a shell, which can close streams."""
    command = f"{sys.executable} -m fastmos {words} {redirect}"
    child = {**os.environ, **environment}
    return subprocess.run(["sh", "-c", command], env=child, capture_output=True, check=False, timeout=120)


def test_closed_streams() -> None:
    done = call("--version", ">&-")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"fastmos: standard output is closed; redirect it to a file, or to /dev/null\n"
    done = call("train none.yaml", "2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"")
    done = call("tokenizer learn --type words -o never.json", "<&-")
    assert (done.returncode, done.stderr) == (2, b"fastmos: standard input is closed; name a file\n")
    assert not Path("never.json").exists()


def test_what_is_opened_does_not_take_the_place_of_closed_output(tmp_path: Path) -> None:
    """Else the file would get what is printed."""
    (tmp_path / "text").write_text("a b\nb\n")
    done = call(f"tokenizer learn {tmp_path}/text --type words -o {tmp_path}/t.json", ">&- 2>&-")
    assert done.returncode == 2 and b"standard output" not in (tmp_path / "t.json").read_bytes()
    assert call(f"tokenizer show {tmp_path}/t.json").returncode == 0


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_output_is_utf8_whatever_the_locale(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("größe 漢字 😀\n", encoding="utf-8")
    path = tmp_path / "t.json"
    environment = {"PYTHONIOENCODING": encoding, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert call(f"tokenizer learn {tmp_path}/text --type words -o {path}", **environment).returncode == 0
    done = call(f"tokenizer encode {path} {tmp_path}/text --text", **environment)
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, "größe 漢字 😀\n", b"")
    done = call(f"train {tmp_path}/größe.yaml", **environment)
    assert done.returncode == 2 and b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"WORLD_SIZE": ""}, ""),
        ({"WORLD_SIZE": "two"}, "the environment has WORLD_SIZE=two; it must be a whole number: unset it"),
        ({"WORLD_SIZE": "²"}, "the environment has WORLD_SIZE="),
        ({"WORLD_SIZE": "-1"}, "the environment has WORLD_SIZE=-1"),
    ],
)
def test_odd_numbers_of_processes(environment: dict[str, str], said: str) -> None:
    done = call("--version", **environment)
    assert done.returncode == (2 if said else 0) and said in done.stderr.decode() and b"Traceback" not in done.stderr


def test_an_empty_number_of_processes_is_none() -> None:
    done = call("reproduce words --scale nowhere", WORLD_SIZE="")
    assert done.returncode == 2 and b"nowhere" in done.stderr and b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    "environment",
    [
        {"WORLD_SIZE": "2"},
        {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"},
        {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "99999"},
        {"WORLD_SIZE": "2", "RANK": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"},
    ],
    ids=lambda environment: " ".join(environment),
)
def test_processes_that_cannot_find_each_other(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    from fastmos.distributed import join_world
    from fastmos.errors import InputError

    for name in ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=r"^WORLD_SIZE is 2, but .* do not fit; start with torchrun, or unset"):
        join_world()


def test_an_early_interrupt_says_nothing(tmp_path: Path) -> None:
    """At any time of the first second: no traceback."""
    for number in range(12):
        process = subprocess.Popen([*FASTMOS, "train", "none.yaml"], stderr=subprocess.PIPE, text=True, cwd=tmp_path)
        time.sleep(0.05 + 0.03 * number)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        # Before our first line Python itself says what it was doing; this is not about that.
        assert "Traceback" not in said or "fastmos/cli" not in said, said
        assert process.returncode != 0


def test_importing_the_command_line_leaves_ctrl_c_as_it_was() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain größe 漢字 😀", "plain größe 漢字 😀"),
        ("ideographic\u3000space", "ideographic\u3000space"),
        (ESCAPES, r"a\x1b[2J\x1b]0;title\x07b\r\x9b1m\u202ec\x08"),
        ("two\nlines\tand a tab", r"two\nlines\tand a tab"),
        ("half \ud800", r"half \ud800"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_keeping_line_ends() -> None:
    assert printable("a\n\tb\x1b", keep="\n\t") == "a\n\tb\\x1b"


def test_errors_and_warnings_cannot_move_the_cursor(run_command: Command, tmp_path: Path) -> None:
    for words in (
        ("train", tmp_path / f"{ESCAPES}.yaml"),
        ("translate", tmp_path / ESCAPES),
        ("score", tmp_path, "--target", ESCAPES),
        (ESCAPES,),
        ("train", "sample", f"--{ESCAPES}", "x"),
    ):
        done = run_command(*words)
        assert done.code == 2 and done.err.endswith("\n")
        assert not set(done.err[:-1]) & set("\x1b\x07\r\x9b\u202e\x08\n"), repr(done.err)


def test_keys_of_a_config_cannot_either(run_command: Command, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text('"a\\e[2J": 1\n')
    done = run_command("train", tmp_path / "c.yaml")
    assert done.code == 2 and "\x1b" not in done.err and r"\x1b[2J" in done.err


def test_results_on_a_terminal_are_escaped_and_in_a_pipe_they_are_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a \x1b[31mred b\n")
    path = tmp_path / "t.json"
    assert call(f"tokenizer learn {tmp_path}/text --type words -o {path}").returncode == 0
    words = [*FASTMOS, "tokenizer", "encode", str(path), str(tmp_path / "text"), "--text"]
    assert subprocess.run(words, capture_output=True, check=True).stdout == b"a \x1b[31mred b\n"
    parent, child = pty.openpty()
    subprocess.run(words, stdout=child, check=True)
    os.close(child)
    assert os.read(parent, 1000) == b"a \\x1b[31mred b\r\n"
    os.close(parent)


def test_the_terminal_keeps_lines_and_columns(tmp_path: Path) -> None:
    with open(tmp_path / "shown", "wb") as file:
        terminal = Terminal(file, "utf-8", "backslashreplace", line_buffering=True)
        print("1\tgrün\x1b[0m", file=terminal)
        terminal.detach()
    assert (tmp_path / "shown").read_bytes() == "1\tgrün\\x1b[0m\n".encode()


def test_a_path_like_markup_is_shown_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """rich would raise an error at a closing mark without an opening one."""
    from fastmos import progress

    monkeypatch.setattr(progress, "draws_bars", lambda: True)
    assert list(progress.progress([1, 2], "encoding [/b]/text[red]", 2)) == [1, 2]
