"""The process: it says where it listens, answers, and ends well when it is told to."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from fastmos.serve.models import Served, load_served
from tests.cli.calling import Command
from tests.cli.conftest import run_command as run_command  # a fixture
from tests.serve.running import Client
from tests.serve.test_app import LINES, run_of


@contextmanager
def process(*words: object) -> Iterator[tuple[subprocess.Popen[str], Client]]:
    """`fastmos serve` with these arguments at a free port."""
    child = subprocess.Popen(
        [sys.executable, "-m", "fastmos", "serve", *map(str, words), "--port", "0"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        line = child.stdout.readline()
        found = re.match(r"http://127\.0\.0\.1:(\d+) serves ", line)
        assert found, (line, child.stderr and child.stderr.read())
        client = Client(int(found[1]))
        begin = time.monotonic()
        while time.monotonic() - begin < 30:
            try:
                if client.get("/health").status == 200:
                    break
            except OSError:
                time.sleep(0.02)
        yield child, client
    finally:
        child.kill()
        child.communicate()


@pytest.mark.filterwarnings("ignore:.* lines were cut")
def test_a_signal_under_load_loses_no_accepted_request(folders: list[Path], served: list[Served]) -> None:
    run = run_of(served, "mixture")
    expected = dict(zip(LINES, run.translate(LINES), strict=True))
    with process(*folders[:2]) as (child, client):
        answers: list[bool] = []
        lost: list[BaseException] = []
        ready = threading.Barrier(17)

        def ask(number: int) -> None:
            """One request after the other over one connection, until the server takes no more."""
            ready.wait()
            for turn in range(10_000):
                line = LINES[(number + turn) % len(LINES)]
                body = json.dumps({"model": "mixture", "lines": [line]})
                connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
                try:
                    connection.connect()
                except OSError:
                    return  # it does not listen any more
                try:
                    connection.request("POST", "/translate", body, {"content-type": "application/json"})
                    response = connection.getresponse()
                    message = json.loads(response.read())
                except (OSError, http.client.HTTPException) as error:
                    lost.append(error)  # of these the server must not have read anything
                    return
                if response.status == 503:
                    return
                answers.append(response.status == 200 and message["outputs"][0][0]["text"] == expected[line])
                connection.close()

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        ready.wait()
        while len(answers) < 50:
            time.sleep(0.01)
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=60)
        for thread in threads:
            thread.join(60)
    assert child.returncode == 0, err
    answered = re.search(r"answered ([\d,]+) requests", out)
    assert answered is not None and all(answers)
    # Whatever the server has read it has answered, and the answers have arrived. (Some /health, and perhaps some 503.)
    assert len(answers) < int(answered[1].replace(",", "")) <= len(answers) + 40
    assert "Traceback" not in err
    assert len(lost) <= 16


def test_it_ends_at_once_when_nothing_is_asked(folders: list[Path]) -> None:
    for sent in (signal.SIGTERM, signal.SIGINT):
        with process(folders[2]) as (child, client), socket.create_connection(("127.0.0.1", client.port)):
            child.send_signal(sent)
            _, err = child.communicate(timeout=20)
            assert (child.returncode, err) == (0, "")


def test_it_listens_on_this_machine_alone(folders: list[Path]) -> None:
    with process(folders[2]) as (child, _):
        listening = [
            line.split()[1]
            for name in ("tcp", "tcp6")
            for line in Path(f"/proc/{child.pid}/net/{name}").read_text().splitlines()[1:]
            if line.split()[3] == "0A" and line.split()[9] in inodes(child.pid)
        ]
    assert listening and all(place.startswith("0100007F:") for place in listening)


def inodes(pid: int) -> set[str]:
    """Of the sockets of a process."""
    links = (os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink())
    return {found[1] for link in links if (found := re.fullmatch(r"socket:\[(\d+)\]", link))}


def test_what_cannot_be_served_is_said_in_a_sentence(folders: list[Path], run_command: Command, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_command("serve", folders[0], "--port", port)
    assert done.code == 2
    assert done.err == (
        f"fastmos: cannot listen at 127.0.0.1, port {port} (address already in use); give another --host or --port\n"
    )
    for words, said in [
        ([folders[0], "--port", "99999"], "port 99999 does not exist; give one up to 65535"),
        (
            [folders[0], "--host", "no.such.host.invalid", "--port", "0"],
            "cannot listen at no.such.host.invalid, port 0",
        ),
        ([tmp_path / "none", "--port", "0"], "no such folder; give the folder that fastmos train made"),
        ([folders[0], "--timeout", "0", "--port", "0"], "--timeout is 0; give a positive number up to 86400"),
        ([folders[0], "--timeout", "1e308", "--port", "0"], "--timeout is 1e+308; give a positive number up to 86400"),
        ([folders[0], "--max-image-mb", "0", "--port", "0"], "--max-image-mb is 0; give a positive number up to 200"),
        ([folders[0], "--max-image-mb", "1e308", "--port", "0"], "--max-image-mb is 1e+308; give a positive number"),
        ([folders[0], "--max-image-mb", "200.1", "--port", "0"], "--max-image-mb is 200.1; give a positive number"),
        ([folders[0], "--host", "a..b", "--port", "0"], "'a..b' is no name or address of a host; give another --host"),
        ([folders[0], "--host", "a" * 300, "--port", "0"], "a' is no name or address of a host; give another --host"),
        ([folders[0], "--host", "\udcff", "--port", "0"], "'\\xff': not UTF-8 text"),
        ([folders[0], "--device", "cuda:99", "--port", "0"], "device 'cuda:99' cannot be used here"),
        ([], "the following arguments are required: RUN"),
    ]:
        done = run_command("serve", *words)
        assert done.code == 2 and said in done.err and done.err.count("\n") == 1, done.err


def test_a_run_with_too_wide_a_beam_is_not_served(folders: list[Path], run_command: Command, tmp_path: Path) -> None:
    wide = shutil.copytree(folders[1], tmp_path / "wide")
    config = yaml.safe_load((wide / "config.yaml").read_text())
    config["search"]["beam_size"] = 32
    (wide / "config.yaml").write_text(yaml.safe_dump(config))
    assert [one.name for one in load_served([wide], "cpu")] == ["wide"]
    config["search"]["beam_size"] = 1_000_000_000
    (wide / "config.yaml").write_text(yaml.safe_dump(config))
    done = run_command("serve", folders[0], wide, "--port", "0")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"fastmos: {wide}: search.beam_size is 1000000000, more than 32; make it smaller in the run's config.yaml\n"
    )


@pytest.mark.parametrize("package", ["fastapi", "uvicorn", "python_multipart"])
def test_a_missing_package_is_said(
    package: str, folders: list[Path], run_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    done = run_command("serve", folders[0], "--port", "0")
    assert (done.code, done.err) == (
        2,
        f"fastmos: this needs the package {package}, which is not installed; pip install 'fastmos[serve]'\n",
    )
