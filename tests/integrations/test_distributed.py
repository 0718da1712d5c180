"""Several processes train what one trains: DDP, FSDP2 (`fully_shard`), and Trainer under `accelerate launch`."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")
ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent


def run(*command: str, **environment: str) -> None:
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run([sys.executable, *command], env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_ddp_and_fsdp2_train_what_one_process_trains(tmp_path: Path) -> None:
    run(str(HERE / "distributed_script.py"), FASTMOS_RENDEZVOUS=str(tmp_path / "rendezvous"))


def test_accelerate_launch(tmp_path: Path) -> None:
    """On CPUs `--cpu` starts one process, whatever `--num_processes` says; `--multi_gpu` starts them all."""
    script, found = str(HERE / "accelerate_script.py"), []
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    launch = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--main_process_port", port]
    for name, command, batch in (("one", [script], "4"), ("two", [*launch, script], "2")):
        (tmp_path / name).mkdir()
        run(*command, str(tmp_path / name), batch)
        found.append(json.loads((tmp_path / name / "found.json").read_text()))
    one, two = found
    assert (one["processes"], two["processes"]) == (1, 2)
    assert two["losses"] == pytest.approx(one["losses"], rel=1e-3)
