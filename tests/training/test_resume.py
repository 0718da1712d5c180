"""A run that is killed again and again, anywhere, ends with the very weights of one that is left alone."""

import errno
import itertools
import json
import os
import random
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastmos.checkpoints import Checkpoints
from fastmos.config import Config
from fastmos.experiment import train
from fastmos.tasks import evaluation
from fastmos.training import trainer as loop
from fastmos.training.trainer import Trainer
from tests.training.tiny import Sabotage, in_child, start_child, tiny, tiny_language_model


def die(*arguments: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def half_written_then_die(handle: int) -> None:
    size = os.fstat(handle).st_size
    if size and not os.path.isdir(f"/proc/self/fd/{handle}"):
        os.truncate(handle, size // 2)
    die()


def no_space(*arguments: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def at_call(owner: Any, name: str, number: int, instead: Callable[..., None]) -> Sabotage:
    """Do something else at the number-th call of a function."""

    def sabotage() -> None:
        calls, original = itertools.count(1), getattr(owner, name)

        def spoilt(*arguments: Any, **options: Any) -> Any:
            if next(calls) == number:
                instead(*arguments)
            return original(*arguments, **options)

        setattr(owner, name, spoilt)

    return sabotage


def small_files_only() -> None:
    """A disk that takes the config but not the state."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def sabotages(count: int, seed: int) -> list[Sabotage]:
    """Ends of all kinds, at places chosen by a seed."""
    choose = random.Random(seed)
    kinds: list[Callable[[], Sabotage]] = [
        lambda: at_call(Trainer, "_backward", choose.randint(1, 9), die),  # in a step
        lambda: at_call(os, "fsync", choose.randint(1, 20), die),  # when a file is written, but not safe yet
        lambda: at_call(os, "fsync", choose.randint(1, 20), half_written_then_die),
        lambda: at_call(os, "replace", choose.randint(1, 9), die),  # when it is safe, but under another name
        lambda: at_call(os, "fsync", choose.randint(1, 20), no_space),
        lambda: at_call(loop, "write_tensors", choose.randint(1, 2), die),  # in a validation
        lambda: at_call(Checkpoints, "prune", choose.randint(1, 3), die),  # when old checkpoints are removed
        lambda: small_files_only,
    ]
    return [kinds[number % len(kinds)]() for number in range(count)]


def undisturbed(config: Config, base: Path) -> Path:
    """A run left alone. It comes first and in this process, so that its children have everything imported."""
    folder = base / "undisturbed"
    train(config, base, folder)
    return folder


def assert_same_run(first: Path, second: Path) -> None:
    for name in ("state.safetensors", "model.safetensors", "target.json"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    for part in ("checkpoints", "validation"):
        files = [{path.name: path.read_bytes() for path in run.glob(f"{part}/*")} for run in (first, second)]
        assert files[0] == files[1]
    logs = [[json.loads(line) for line in (run / "log.jsonl").open()] for run in (first, second)]
    validations = [[(r["step"], r["nll_per_word"]) for r in log if "nll_per_word" in r] for log in logs]
    assert validations[0] == validations[1]


@pytest.mark.parametrize(
    ("config", "kills", "full"),
    [(tiny(training={"max_epochs": 16}), 20, 6), (tiny_language_model(), 6, 2)],
    ids=["translation", "language-modeling"],
)
def test_a_run_killed_again_and_again_is_the_same_run(config: Config, kills: int, full: int, digits: Path) -> None:
    expected, folder = undisturbed(config, digits), digits / "killed"
    endings = [in_child(lambda: train(config, digits, folder), end) for end in sabotages(kills + full, seed=kills)]
    assert endings.count(-signal.SIGKILL) >= kills  # none of them came after the end
    assert endings.count(2) == len(endings) - endings.count(-signal.SIGKILL)  # the others met a full disk
    assert in_child(lambda: train(config, digits, folder)) == 0
    assert not list(folder.rglob(".*.tmp"))
    assert_same_run(expected, folder)


def test_a_run_killed_while_it_begins_is_the_same_run(digits: Path) -> None:
    """At each of the first writes of a new folder: its config, its tokenizers, its text in tokens."""
    config = tiny(training={"max_epochs": 1})
    expected = undisturbed(config, digits)
    for number in range(1, 6):
        for name in ("fsync", "replace"):
            folder = digits / f"{name}-{number}"
            assert in_child(lambda: train(config, digits, folder), at_call(os, name, number, die)) == -signal.SIGKILL  # noqa: B023
            assert in_child(lambda: train(config, digits, folder)) == 0, f"{name} {number}"  # noqa: B023
            assert_same_run(expected, folder)


def test_a_run_killed_at_any_time_is_the_same_run(digits: Path) -> None:
    config, folder = tiny(), digits / "killed"
    expected = undisturbed(config, digits)
    choose = random.Random(1)
    for _ in range(4):  # wherever this lands, also after the end
        child = start_child(lambda: train(config, digits, folder))
        time.sleep(choose.uniform(0.05, 0.6))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert in_child(lambda: train(config, digits, folder)) == 0
    assert_same_run(expected, folder)


@pytest.mark.parametrize("kind", ["translation", "language model"])
@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_a_run_with_a_damaged_state_is_the_same_run(kind: str, damage: str, digits: Path) -> None:
    config = tiny() if kind == "translation" else tiny_language_model()
    expected, folder = undisturbed(config, digits), digits / "damaged"
    for number in (5, 12):
        killed = at_call(Trainer, "_backward", number, die)
        assert in_child(lambda: train(config, digits, folder), killed) == -signal.SIGKILL
        content = bytearray((folder / "state.safetensors").read_bytes())
        content[-5] ^= 64
        (folder / "state.safetensors").write_bytes(content if damage == "flipped" else content[:999])
        if damage == "gone":
            (folder / "state.safetensors").unlink()
    assert in_child(lambda: train(config, digits, folder)) == 0
    assert_same_run(expected, folder)


@pytest.mark.parametrize(
    ("number", "times"), [(signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGTERM, 2), (signal.SIGUSR1, 1)]
)
def test_a_signal_saves_and_leaves(number: signal.Signals, times: int, digits: Path) -> None:
    config, folder = tiny(training={"save_every": 0}), digits / "stopped"
    expected = undisturbed(config, digits)

    def ask(*arguments: Any) -> None:
        for asked in [number] * times:
            os.kill(os.getpid(), asked)

    assert in_child(lambda: train(config, digits, folder), at_call(Trainer, "_backward", 4, ask)) in (3, 70)
    assert (folder / "state.safetensors").exists()  # long before the first validation
    assert not (folder / "model.safetensors").exists()
    assert in_child(lambda: train(config, digits, folder)) == 0
    assert_same_run(expected, folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", ["score_lines", "search_outputs"])
def test_a_signal_interrupts_a_validation(name: str, number: signal.Signals, digits: Path) -> None:
    config, folder = tiny(training={"save_every": 0, "max_epochs": 2}), digits / "stopped"
    expected = undisturbed(config, digits)

    def without_end() -> None:
        """The second validation never ends, and says that it has begun."""
        calls, original = itertools.count(1), getattr(evaluation, name)

        def endless(*arguments: Any, **options: Any) -> Any:
            while next(calls) > 1:
                (digits / "validating").touch()
                original(*arguments, **options)
            return original(*arguments, **options)

        setattr(evaluation, name, endless)

    child = start_child(lambda: train(config, digits, folder), without_end)
    try:
        until(lambda: (digits / "validating").exists())
        os.kill(child, number)
        until(lambda: os.waitpid(child, os.WNOHANG)[0] == child)
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        raise
    assert Checkpoints(folder / "checkpoints").steps() == [6]  # nothing of the second validation
    assert in_child(lambda: train(config, digits, folder)) == 0
    assert_same_run(expected, folder)


def until(true: Callable[[], bool]) -> None:
    """Wait, but not for ever."""
    deadline = time.monotonic() + 300
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)
