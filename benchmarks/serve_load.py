"""A server under load: is every answer right, how fast is it, does its memory grow, and what does it lose at the end?

    python benchmarks/serve_load.py out/demo/mixture --output out/serve_load.json --page docs/serving.md

One client and many in turns, then many for some minutes, each answer compared with what `translate` gives for the line
alone; more of them with a beam of 1, to see whether memory grows; strange requests; SIGTERM while all clients ask.
Server and clients share the machine, and speak over its loopback address. `--page` puts the figures into the marked
place of that page.
"""

import asyncio
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastmos.errors import InputError
from fastmos.files import write_json, written_whole
from fastmos.inference.run import load
from fastmos.provenance import provenance

SEED = 1
LINES = 300  # different ones
FUZZ = 5_000
WARM_UP = 500
TURNS, TURN_SECONDS = 5, 8.0  # of one client and of many in turns, since other work on the machine comes and goes
Expected = Mapping[str, tuple[str, float]]  # line -> its translation alone and the log-probability of that


@dataclass(frozen=True)
class Target:
    """The server, and what it should say."""

    child: "subprocess.Popen[str]"
    port: int
    name: str
    expected: Expected  # with the config's beam
    greedy: Expected  # with a beam of 1


class Connection:
    """A client's connection, opened again when the server has closed it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes, kind: str = "application/json") -> tuple[int, Any]:
        """Status and message of the answer."""
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        status_line, _, headers = (await reader.readuntil(b"\r\n\r\n")).lower().partition(b"\r\n")
        length = re.search(rb"content-length: (\d+)", headers)
        content = await reader.readexactly(int(length[1]) if length else 0)
        if b"connection: close" in headers:
            self.close()
        return int(status_line.split()[1]), json.loads(content)

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None


class Tally:
    """What happened to the requests."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.wrong: list[dict[str, Any]] = []

    def check(self, line: str, status: int, message: Any, expected: Expected) -> None:
        """Compare an answer with that of the line alone."""
        self.statuses[status] += 1
        if status != 200:
            return
        ((output,),) = message["outputs"]
        text, log_prob = expected[line]
        if output["text"] != text or abs(output["log_prob"] - log_prob) > 1e-3:
            self.wrong.append({"line": line, "expected": [text, log_prob], "got": output})


async def ask_for_ever(at: "Target", seed: int, tally: Tally, beam_size: int | None) -> None:
    """One client: a random line, its answer, the next."""
    choose, connection = random.Random(seed), Connection(at.port)
    expected = at.greedy if beam_size == 1 else at.expected
    lines = list(expected)
    try:
        while True:
            line = choose.choice(lines)
            asked = {"model": at.name, "lines": [line], "scores": True, "beam_size": beam_size}
            begin = time.perf_counter()
            status, message = await connection.post("/translate", json.dumps(asked).encode())
            tally.seconds.append(time.perf_counter() - begin)
            tally.check(line, status, message, expected)
    finally:
        connection.close()


async def load_for(
    at: "Target", clients: int, seconds: float, least: int = 0, beam_size: int | None = None
) -> tuple[Tally, float]:
    """So many clients at once, for some time and until `least` requests are answered."""
    tally, begin = Tally(), time.perf_counter()
    tasks = [asyncio.create_task(ask_for_ever(at, SEED + number, tally, beam_size)) for number in range(clients)]
    try:
        while time.perf_counter() - begin < seconds or len(tally.seconds) < least:
            await asyncio.sleep(0.1)
            if broken := [task for task in tasks if task.done()]:
                broken[0].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return tally, time.perf_counter() - begin


# ---- strange requests


def strange(choose: random.Random) -> tuple[str, bytes, str]:
    """A path, a body and its type: mostly not what the server wants."""
    path = choose.choice(["/translate", "/translate", "/score", "/generate", "/caption", "/models", "/../etc/passwd"])
    form = path == "/caption" and choose.random() < 0.8
    kind = "multipart/form-data; boundary=x" if form else choose.choice(["application/json"] * 9 + ["text/plain", "\t"])
    body = json.dumps(value(choose, 3)) if choose.random() < 0.4 else json.dumps(asked(choose))
    raw = body.encode()
    if form:
        raw = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n\r\n' + raw + b"\r\n--x--\r\n"
    damage = choose.random()
    if damage < 0.1:
        raw = raw[: choose.randrange(len(raw) + 1)]
    elif damage < 0.2:
        raw = choose.randbytes(choose.randrange(200))
    elif damage < 0.25 and raw:
        place = choose.randrange(len(raw))
        raw = raw[:place] + choose.randbytes(1) + raw[place + 1 :]
    elif damage < 0.26:
        raw = b"[" * choose.choice([100, 10_000, 300_000])
    elif damage < 0.262:
        raw = b" " * 10_000_000
    return path, raw, kind


def asked(choose: random.Random) -> dict[str, Any]:
    """A request with some odd fields."""
    message: dict[str, Any] = {"lines": [text(choose) for _ in range(choose.randrange(4))]}
    for name in ("model", "nbest", "beam_size", "scores", "inside", "targets", "sources", "prompt", "temperature", "x"):
        if choose.random() < 0.15:
            message[name] = value(choose, 2)
    return message


def value(choose: random.Random, depth: int) -> Any:
    kinds = [None, True, 0, -1, 3, 1.5, 1e308, 2**70, "", text(choose), text(choose)]
    if depth and choose.random() < 0.4:
        inner = [value(choose, depth - 1) for _ in range(choose.randrange(4))]
        return inner if choose.random() < 0.5 else {text(choose): one for one in inner}
    return choose.choice(kinds)


def text(choose: random.Random) -> str:
    alphabet = [
        "a",
        "ü",
        "漢",
        "🙂",
        " ",
        "\0",
        "\x1b",
        "\n",
        "\u2028",
        "\ud800",
        "\u202e",
        "</script>",
        "%s",
        "../",
        "'",
    ]
    return "".join(choose.choices(alphabet[: choose.choice([5, 15])], k=choose.randrange(12)))


async def fuzz(port: int, clients: int) -> tuple[Counter[int], list[str]]:
    """Statuses of strange requests; and what was not a status below 500 with one sentence."""
    statuses: Counter[int] = Counter()
    bad: list[str] = []
    choose = random.Random(SEED)
    requests = iter([strange(choose) for _ in range(FUZZ)])

    async def client() -> None:
        connection = Connection(port)
        for path, body, kind in requests:
            try:
                status, message = await connection.post(path, body, kind)
            except (OSError, asyncio.IncompleteReadError) as error:
                bad.append(f"{path} {body[:80]!r}: {error!r}")
                connection.close()
                continue
            statuses[status] += 1
            if status >= 500 or (status >= 400 and not message.get("error")):
                bad.append(f"{path} {body[:80]!r}: {status} {message}")
        connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return statuses, bad


# ---- the end


async def end_under_load(at: Target, clients: int) -> dict[str, int]:
    """SIGTERM while all clients ask, each time over a new connection. What came back of what the server had read?"""
    found: Counter[str] = Counter()
    lines = list(at.expected)

    async def client(number: int) -> None:
        for turn in itertools.count():
            connection = Connection(at.port)
            body = json.dumps({"model": at.name, "lines": [lines[(number + turn) % len(lines)]]}).encode()
            try:
                connection.streams = await asyncio.open_connection("127.0.0.1", at.port)
            except OSError:
                return  # it does not listen any more
            try:
                status, _ = await connection.post("/translate", body)
                found["answered" if status == 200 else "refused"] += 1
            except (OSError, asyncio.IncompleteReadError):
                found["closed"] += 1  # in the queue of the system, not read by the server
            finally:
                connection.close()

    tasks = [asyncio.create_task(client(number)) for number in range(clients)]
    await asyncio.sleep(3)
    at.child.send_signal(signal.SIGTERM)
    begin = time.perf_counter()
    await asyncio.gather(*tasks)
    code = await asyncio.to_thread(at.child.wait, 60)
    return {**found, "exit code": code, "milliseconds": round(1000 * (time.perf_counter() - begin))}


# ---- all of it


def memory(child: "subprocess.Popen[str]") -> float:
    """Resident megabytes."""
    pages = int(Path(f"/proc/{child.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def mixed_lines(run: Any) -> list[str]:
    """Lines of the run's test text: as they are, two joined, and their first words."""
    split = run.config.data.test
    if not split.source:
        raise InputError("the run's config names no test text; give a run that has one")
    whole = list(dict.fromkeys(run.task.path(split.source).read_text("utf-8").splitlines()))
    choose = random.Random(SEED)
    choose.shuffle(whole)
    joined = [f"{one} {other}" for one, other in itertools.pairwise(whole[: LINES // 4])]
    short = [" ".join(line.split()[: choose.randint(1, 4)]) for line in whole[: LINES // 4]]
    return list(dict.fromkeys([*joined, *short, *whole]))[:LINES]


async def measure(at: Target, clients: int, minutes: float, requests: int) -> dict[str, Any]:
    await load_for(at, clients, 5, WARM_UP, beam_size=1)
    turns = [[await load_for(at, count, TURN_SECONDS) for count in (1, clients)] for _ in range(TURNS)]
    rates = np.array([[len(tally.seconds) / seconds for tally, seconds in turn] for turn in turns])  # [turns, 2]
    sizes = [memory(at.child)]

    async def watch() -> None:
        while True:
            await asyncio.sleep(5)
            sizes.append(memory(at.child))

    watching = asyncio.create_task(watch())
    many, seconds = await load_for(at, clients, 60 * minutes)
    more, _ = await load_for(at, clients, 1, requests - len(many.seconds), beam_size=1)
    watching.cancel()
    statuses, bad = await fuzz(at.port, clients)
    sizes_end = memory(at.child)
    again, _ = await load_for(at, clients, 2)
    ratios = rates[:, 1] / rates[:, 0]
    p50, p95, p99 = (float(np.quantile(many.seconds, q)) for q in (0.5, 0.95, 0.99))
    everything = [*(tally for turn in turns for tally, _ in turn), many, more, again]
    return {
        "clients": clients,
        "seconds": seconds,
        "requests": len(many.seconds),
        "more requests": len(more.seconds),
        "statuses": dict(sum((tally.statuses for tally in everything), Counter())),
        "wrong": [one for tally in everything for one in tally.wrong],
        "turns": {
            "per_second": np.median(rates, 0).tolist(),
            "ratio": float(np.median(ratios)),
            "ratios": ratios.tolist(),
            "p50 of one": float(np.median([second for turn in turns for second in turn[0][0].seconds])),
        },
        "many": {"per_second": len(many.seconds) / seconds, "p50": p50, "p95": p95, "p99": p99},
        "megabytes": {
            "first": sizes[0],
            "quarters": [sizes[len(sizes) * quarter // 4] for quarter in (1, 2, 3)],
            "last": sizes[-1],
            "after fuzz": sizes_end,
        },
        "fuzz": {"statuses": dict(sorted(statuses.items())), "bad": bad},
        "end": await end_under_load(at, clients),
    }


def start(folder: Path) -> tuple["subprocess.Popen[str]", int]:
    child = subprocess.Popen(
        [sys.executable, "-m", "fastmos", "serve", str(folder), "--port", "0"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    found = re.search(r":(\d+) serves", line := child.stdout.readline())
    if found is None:
        raise InputError(f"the server did not start: {line}")
    return child, int(found[1])


def main(
    folder: Path, clients: int, minutes: float, requests: int, output: Path | None, page: Path | None
) -> dict[str, Any]:
    run = load(folder, "cpu")
    lines = mixed_lines(run)
    alone: dict[int | None, dict[str, tuple[str, float]]] = {None: {}, 1: {}}
    for beam_size, found in alone.items():
        for line in lines:
            best = run.translate([line], nbest=1, beam_size=beam_size)[0][0]
            found[line] = best.text, best.log_prob
    child, port = start(folder)
    at = Target(child, port, folder.resolve().name, alone[None], alone[1])
    try:
        figures = asyncio.run(measure(at, clients, minutes, requests))
        assert child.stdout is not None
        counted = re.search(r"answered ([\d,]+) requests", child.stdout.read())
        figures["counted by the server"] = int(counted[1].replace(",", "")) if counted else None
    finally:
        with suppress(ProcessLookupError):
            child.kill()
    lengths = [len(line.split()) for line in lines]
    figures["words"] = {"shortest": min(lengths), "median": float(np.median(lengths)), "longest": max(lengths)}
    report = {"figures": figures, "provenance": provenance(SEED)}
    shown = "\n".join(table(figures, report["provenance"]))
    print(shown)
    if output is not None:
        write_json(output, report)
    if page is not None:
        put(page, shown)
    return figures


def table(figures: Mapping[str, Any], about: Mapping[str, Any]) -> Iterator[str]:
    """The figures for a page."""
    turns, many, end = figures["turns"], figures["many"], figures["end"]
    clients, words = figures["clients"], figures["words"]
    yield f"| | one client | {clients} clients |"
    yield "|---|---:|---:|"
    one, all_of_them = turns["per_second"]
    span = f"{min(turns['ratios']):.1f} to {max(turns['ratios']):.1f}"
    yield f"| requests a second, in {TURNS} turns | {one:.1f} | {all_of_them:.1f} ({turns['ratio']:.1f} x; {span}) |"
    yield f"| latency, median | {1000 * turns['p50 of one']:.0f} ms | {1000 * many['p50']:.0f} ms |"
    yield f"| latency, p95 and p99 | | {1000 * many['p95']:.0f} ms, {1000 * many['p99']:.0f} ms |"
    yield ""
    statuses = ", ".join(f"{count:,} x {status}" for status, count in sorted(figures["statuses"].items()))
    yield (
        f"{figures['requests']:,} requests in {figures['seconds']:.0f} s, one line each, of {words['shortest']} to "
        f"{words['longest']} words (median {words['median']:.0f}), with the config's beam, and "
        f"{figures['more requests']:,} more with a beam of 1. Statuses of all: {statuses}. "
        f"{len(figures['wrong'])} answers were other than those of `translate` of the line alone."
    )
    megabytes, fuzz = figures["megabytes"], figures["fuzz"]
    course = ", ".join(f"{size:.0f}" for size in (megabytes["first"], *megabytes["quarters"], megabytes["last"]))
    yield f"Memory of the server, from the first {WARM_UP} requests on, at each quarter of the time: {course} MB."
    statuses = ", ".join(f"{count:,} x {status}" for status, count in fuzz["statuses"].items())
    yield f"{FUZZ:,} strange requests: {statuses}; {len(fuzz['bad'])} without an answer or with a status from 500 on."
    yield (
        f"SIGTERM while {clients} clients asked: exit code {end['exit code']} after {end['milliseconds']} ms, "
        f"{end.get('answered', 0):,} requests answered, {end.get('refused', 0)} refused with 503; "
        f"{end.get('closed', 0)} connections that the server had not read from were closed."
    )
    yield (
        f"`{about['command']}`, {about['date']}, {about['machine']}, {about['cores']} cores, one thread, "
        f"torch {about['torch']}, seed {about['seed']}, commit {about['commit']}"
    )


def put(page: Path, shown: str) -> None:
    """Replace what stands in the marked place of the page."""
    begin, end = "<!-- serve_load.py writes here -->", "<!-- up to here -->"
    content = page.read_text("utf-8")
    if begin not in content or end not in content:
        raise InputError(f"{page}: has no place for the figures; put {begin} and {end} on lines of their own")
    head, rest = content.split(begin, 1)
    with written_whole(page) as file:
        file.write(f"{head}{begin}\n{shown}\n{end}{rest.split(end, 1)[1]}")


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="a run folder that translates")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--requests", type=int, default=20_000, help="however many minutes they take, for the memory")
    parser.add_argument("--output", type=Path, help="a file for the figures as JSON")
    parser.add_argument("--page", type=Path, help="a page with a marked place for the figures")
    given = parser.parse_args()
    main(given.run, given.clients, given.minutes, given.requests, given.output, given.page)
