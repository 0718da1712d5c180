"""Two processes are as one with the double batch, also when one of them is killed on the way; a signal saves."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fastmos.checkpoints import read_tensors
from fastmos.config import Config, changed, write_config
from fastmos.experiment import train
from fastmos.training.trainer import REQUEUE
from tests.training.tiny import tiny, tiny_language_model

# Trains as one of several processes. In the first attempt the second process is killed at its seventh batch.
WORKER = """
import itertools, os, signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from fastmos.config import read_config
from fastmos.experiment import train
from fastmos.training.trainer import Trainer

backward, calls = Trainer._backward, itertools.count(1)

def spoilt(*arguments):
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ["RANK"] == "1" and next(calls) == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return backward(*arguments)

Trainer._backward = spoilt
base = Path(sys.argv[1])
train(read_config(base / "config.yaml"), base, base / "two")
os._exit(0)  # as the command line does: the tear-down of gloo's threads sometimes aborts
"""

LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1", "--nproc-per-node=2"]
PLAIN = {"model": {"dropout": 0.0}, "head": {"dropout": 0.0}}


def configs() -> dict[str, tuple[Config, Config]]:
    """The same training for two processes, and for one."""
    lasting = {"max_epochs": 4, "loss_normalization": "sentences", "clip_grad_norm": 0.5}
    return {
        "translation": (
            tiny(training={**lasting, "batch_size": 5, "accumulate_steps": 2}, **PLAIN),
            tiny(training={**lasting, "batch_size": 10, "accumulate_steps": 2}, **PLAIN),
        ),
        "language model": (
            changed(tiny_language_model(batch_size=2), PLAIN),
            changed(tiny_language_model(batch_size=4), PLAIN),
        ),
    }


@pytest.mark.parametrize("kind", ["translation", "language model"])
def test_two_processes_are_as_one_with_the_double_batch(kind: str, digits: Path) -> None:
    two, one = configs()[kind]
    (digits / "config.yaml").write_text(write_config(two))
    (digits / "worker.py").write_text(WORKER)
    done = subprocess.run(
        [*LAUNCH, "--max-restarts=2", str(digits / "worker.py"), str(digits)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    assert "resuming at step 6" in done.stderr  # the attempt after the kill, from the last save
    train(one, digits, digits / "one")
    expected, found = (read_tensors(digits / name / "model.safetensors")[0] for name in ("one", "two"))
    assert expected.keys() == found.keys()
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=1e-5)


def test_a_signal_to_torchrun_saves(digits: Path) -> None:
    lasting = tiny(training={"max_epochs": 100_000, "save_every": 0, "validate_every": 1_000_000, "log_every": 5})
    (digits / "config.yaml").write_text(write_config(lasting))
    command = [*LAUNCH, "-m", "fastmos", "train", str(digits / "config.yaml"), "--folder", str(digits / "run")]
    process = subprocess.Popen(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if line.startswith("step 5 "):
                break
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert "saved at step" in said
    assert (digits / "run" / "state.safetensors").exists()


@pytest.mark.parametrize("refused", ["table", "run"])
def test_what_the_first_process_refuses_is_said_once(refused: str, digits: Path) -> None:
    commands = {
        "table": "tokenizer learn --type table --learn none.en --valid none.en -o t.json",
        "run": "train config.yaml --folder taken",
    }
    (digits / "config.yaml").write_text(write_config(tiny()))
    (digits / "taken").mkdir()
    (digits / "taken" / "notes.txt").write_text("mine")
    command = [*LAUNCH, "-m", "fastmos", *commands[refused].split()]
    done = subprocess.run(command, cwd=digits, capture_output=True, text=True, check=False, timeout=500)
    said = [line for line in done.stderr.splitlines() if line.startswith("fastmos: ")]
    assert len(said) == 1, done.stderr
    assert ("none.en: no such file" if refused == "table" else "taken") in said[0]
    assert "gloo" not in done.stderr


@pytest.mark.parametrize("kind", ["translation", "language model"])
@pytest.mark.parametrize("first", [1, 2])
def test_a_run_resumes_with_another_number_of_processes(kind: str, first: int, digits: Path) -> None:
    """Its steps stay as large as they were, so it ends as a run whose number of processes never changed."""
    two, one = configs()[kind]
    begun = one if first == 1 else two
    for config, name in ((begun, "config.yaml"), (changed(begun, {"training": {"max_epochs": 2}}), "short.yaml")):
        (digits / name).write_text(write_config(config))
    for config_name, processes in (("short.yaml", first), ("config.yaml", 3 - first)):
        command = [*LAUNCH[:-1], f"--nproc-per-node={processes}", "-m", "fastmos", "train"]
        done = subprocess.run(
            [*command, str(digits / config_name), "--folder", str(digits / "changing")],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )
        assert done.returncode == 0, done.stderr
    assert "resuming at step" in done.stderr
    train(one, digits, digits / "one")
    expected, found = (read_tensors(digits / name / "model.safetensors")[0] for name in ("one", "changing"))
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_preempted_run_asks_to_be_started_again(number: signal.Signals, digits: Path) -> None:
    lasting = tiny(training={"max_epochs": 100_000, "save_every": 0, "validate_every": 1_000_000, "log_every": 5})
    (digits / "config.yaml").write_text(write_config(lasting))
    command = [sys.executable, "-m", "fastmos", "train", str(digits / "config.yaml"), "--folder", str(digits / "run")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if line.startswith("step 5 "):
                break
        process.send_signal(number)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == REQUEUE == 75 and "the same command resumes from here" in said
