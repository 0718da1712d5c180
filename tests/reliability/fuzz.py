"""`make fuzz MINUTES=10`: hostile files, texts, images and command lines, which Hypothesis makes from the corpus.

Every input must be taken, or refused in one sentence with exit code 2: no other error, no hang of over ten seconds, no
half-written file. Each target runs in a process of its own, so that a crash is counted too.
"""

import argparse
import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

CORPUS = Path(__file__).parent / "corpus"
SECONDS = 10  # that an input may take
BATCH = 25  # inputs of one seed
HOSTILE = [
    *(b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\x1b[2J", b"NaN", b"-1", b"1e400", b"null", b"[]", b"{}", b'""', b"true"),
    *(b"9" * 5000, b"0x" + b"f" * 5000, str(2**62).encode(), b"[" * 2000, b"{a: " * 2000, b"&a [*a, *a]", b"<<: *a"),
    *(b"!!python/name:os.system", b"!!binary x", b"../" * 20, b"/dev/zero", b"\\ud800", b"\\u0000", b"=cmd()", b"\r\n"),
]


class TooLongError(BaseException):
    """Not an Exception, so that nobody handles it."""


def mutated(valid: bytes, data: st.DataObject) -> bytes:
    """The content with some of its parts replaced, removed, repeated, or made hostile."""
    content = bytearray(valid)
    for _ in range(data.draw(st.integers(0, 4))):
        start = data.draw(st.integers(0, max(len(content), 1)))
        length = data.draw(st.sampled_from([0, 1, 1, 4, 30, 1000]))
        new = data.draw(
            st.one_of(st.sampled_from(HOSTILE), st.binary(max_size=8), st.just(bytes(content[:start][-40:])))
        )
        content[start : start + length] = new
    return bytes(content)


def one_of_corpus(folder: str, data: st.DataObject) -> tuple[str, bytes]:
    path = data.draw(st.sampled_from(sorted((CORPUS / folder).iterdir())))
    return path.name, path.read_bytes()


def text(data: st.DataObject) -> bytes:
    lines = st.text(st.characters(codec="utf-8"), max_size=30).map(str.encode)
    return b"\n".join(
        data.draw(st.lists(st.one_of(lines, st.binary(max_size=20), st.sampled_from(HOSTILE)), max_size=6))
    )


# ---- targets: each gets an empty folder, a trained run, and data to draw from


def config(folder: Path, run: Path, data: st.DataObject) -> None:
    from fastmos.config import check, read_config, write_config

    (folder / "x.yaml").write_bytes(mutated(one_of_corpus("config", data)[1], data))
    found = read_config(folder / "x.yaml")
    check(found)
    (folder / "again.yaml").write_text(write_config(found), encoding="utf-8")
    assert read_config(folder / "again.yaml") == found


def tokenizer_json(folder: Path, run: Path, data: st.DataObject) -> None:
    from fastmos.tokenizers import load_tokenizer

    (folder / "t.json").write_bytes(mutated(one_of_corpus("tokenizer", data)[1], data))
    tokenizer = load_tokenizer(folder / "t.json")
    tokenizer.decode(tokenizer.encode("a b ⟨unk⟩ ü"))


def run_folder(folder: Path, run: Path, data: st.DataObject) -> None:
    import fastmos
    from fastmos.report.runs import list_runs

    names = ["run.json", "config.yaml", "source.json", "target.json", "model.safetensors", "log.jsonl"]
    shutil.copytree(run, folder / "run", ignore=shutil.ignore_patterns("cache", "checkpoints", "*state*"))
    path = folder / "run" / data.draw(st.sampled_from(names))
    path.write_bytes(mutated(path.read_bytes(), data))
    list_runs(folder)
    fastmos.load(folder / "run").translate(["3 1", ""], nbest=2)


def results(folder: Path, run: Path, data: st.DataObject) -> None:
    from fastmos.report.page import write_report

    (folder / "in").mkdir()
    (folder / "in" / "x.json").write_bytes(mutated(one_of_corpus("results", data)[1], data))
    write_report([folder / "in"], folder / "report.html")


def image(folder: Path, run: Path, data: st.DataObject) -> None:
    from fastmos.vision.images import center_square, read_image

    name, content = one_of_corpus("image", data)
    (folder / name).write_bytes(mutated(content, data))
    assert center_square(read_image(folder / name), 16, 8).shape == (8, 8, 3)


def features(folder: Path, run: Path, data: st.DataObject) -> None:
    from fastmos.vision.features import read_features

    name, content = one_of_corpus("features", data)
    (folder / name).write_bytes(mutated(content, data))
    read_features(folder / name, "x" if name.endswith("npz") else "")


def plain_text(folder: Path, run: Path, data: st.DataObject) -> None:
    (folder / "text").write_bytes(text(data))
    kind = data.draw(st.sampled_from(["words", "bpe", "table"]))
    call(
        [
            "tokenizer",
            "learn",
            "text",
            "--type",
            kind,
            "--vocab-size",
            data.draw(st.sampled_from(["9", "99"])),
            "-o",
            "t",
        ]
    )
    call(["tokenizer", "encode", "t", "text", "-o", "tokens"])
    call(["tokenizer", "decode", "t", "tokens"])


def translation(folder: Path, run: Path, data: st.DataObject) -> None:
    (folder / "text").write_bytes(text(data))
    call(["translate", str(run), "text", "--nbest", "2"])
    call(["score", str(run), "--target", "text", "--source", "text"])


def command_line(folder: Path, run: Path, data: st.DataObject) -> None:
    from fastmos.cli import COMMANDS, parser_of

    long = ("demo", "bench", "data", "reproduce", "doctor")  # which rightly take longer
    names = [name for name in COMMANDS if not name.startswith(long)]
    name = data.draw(st.sampled_from(names))
    (folder / "x.yaml").write_text("data: {train: {source: x.yaml, target: x.yaml}}\n")
    odd = st.one_of(st.text(max_size=12), st.sampled_from([one.decode("utf-8", "surrogateescape") for one in HOSTILE]))
    place = st.sampled_from(["x.yaml", str(run), ".", "none", "-", "1", "0", "-5", "out/x"])
    options = st.sampled_from([*parser_of(name).option_names(), "--model.type", "--head.mixtures", "--x"])
    words = data.draw(st.lists(st.one_of(place, options, odd), max_size=6))
    call([*name.split(), *(word.replace("\0", "") for word in words)])


TARGETS: dict[str, Callable[[Path, Path, st.DataObject], None]] = {
    "config": config,
    "tokenizer": tokenizer_json,
    "run folder": run_folder,
    "results": results,
    "image": image,
    "features": features,
    "text": plain_text,
    "translation": translation,
    "command line": command_line,
}


def call(words: list[str]) -> None:
    """A command in this process; it must end with 0 or 2, and with 2 say one line."""
    from fastmos.cli import main

    sys.argv = ["fastmos", *words]
    said = io.StringIO()
    code: Any = 0
    with contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    assert code in (0, 2), f"exit code {code} of {words}"
    assert code == 0 or said.getvalue().count("fastmos: ") >= 1, f"nothing said of {words}"
    assert "Traceback" not in said.getvalue()


# ---- one process a target


def fuzz_target(name: str, run: Path, seconds: float, first_seed: int) -> None:
    """Print how many inputs were tried and how many went wrong, as JSON."""
    import torch

    from fastmos.errors import InputError

    if name == "command line":  # which imports it for a backbone: that is not what is timed
        import transformers.image_processing_utils  # noqa: F401
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    counts = {"inputs": 0, "failures": 0}
    found: dict[str, str] = {}
    deadline = time.monotonic() + seconds

    def too_long(*_: object) -> None:
        raise TooLongError

    signal.signal(signal.SIGALRM, too_long)

    def once(data: st.DataObject) -> None:
        counts["inputs"] += 1
        with empty_folder() as folder:
            try:
                signal.alarm(SECONDS)
                with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
                    TARGETS[name](folder, run, data)
            except InputError as error:
                problem = "" if str(error) and "\n" not in str(error) else "not one sentence"
            except TooLongError:
                problem = f"over {SECONDS} s\n{traceback.format_exc()}"
            except Exception:
                problem = traceback.format_exc()
            else:
                problem = ""
            finally:
                signal.alarm(0)
            left = [str(path) for path in folder.rglob(".*.tmp")]
            problem = problem or (f"left {left}" if left else "")
        if problem:
            counts["failures"] += 1
            found.setdefault(problem.strip().splitlines()[-1][:200], problem)

    number = first_seed
    while time.monotonic() < deadline:
        number += 1
        options = settings(
            max_examples=BATCH,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        seed(number)(options(given(st.data())(once)))()
    print(json.dumps({**counts, "problems": found}))


@contextlib.contextmanager
def empty_folder() -> Iterator[Path]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(TARGETS))
    parser.add_argument("--target", choices=list(TARGETS), help=argparse.SUPPRESS)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    names = [args.only] if args.only else list(TARGETS)
    if args.target:
        fuzz_target(args.target, args.run, args.minutes * 60, args.seed * 1_000_000)
        return
    with tempfile.TemporaryDirectory() as name:
        run = trained_run(Path(name))
        total = {"inputs": 0, "failures": 0}
        for target in names:
            command = [sys.executable, "-m", "tests.reliability.fuzz", "--target", target, "--run", str(run)]
            command += ["--minutes", str(args.minutes / len(names)), "--seed", str(args.seed)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            try:
                counts = json.loads(done.stdout.splitlines()[-1])
            except (IndexError, ValueError):
                counts = {"inputs": 0, "failures": 1, "problems": {"died": done.stderr[-3000:]}}
            show(target, counts)
            for problem in counts["problems"].values():
                print(problem)
            sys.stdout.flush()
            total = {key: total[key] + counts[key] for key in total}
        show("all", total)
    sys.exit(bool(total["failures"]))


def show(name: str, counts: dict[str, Any]) -> None:
    print(f"{name:14} {counts['inputs']:7,} inputs, {counts['failures']} failures", flush=True)


def trained_run(folder: Path) -> Path:
    from fastmos.experiment import train
    from tests.training.tiny import tiny, write_digits

    write_digits(folder)
    train(tiny(training={"max_epochs": 1}), folder, folder / "run")
    return folder / "run"


if __name__ == "__main__":
    main()
