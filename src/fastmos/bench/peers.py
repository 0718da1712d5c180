"""CTranslate2 and Hugging Face beside us, in an environment and in processes of their own (see `peer_process.py`)."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import numpy as np
import torch

from fastmos.errors import InputError
from fastmos.models import Generator, Transformer
from fastmos.tokenizers import EOS

CTRANSLATE2 = "CTranslate2"
KINDS = {CTRANSLATE2: "float32", "CTranslate2, int8": "int8", "Hugging Face": "huggingface"}  # as the process says it
PACKAGES = {"ctranslate2": "4.8.5", "transformers": "5.23.0", "torch": torch.__version__.partition("+")[0]}
SCRIPT = Path(__file__).with_name("peer_process.py")


def peer_python(folder: Path) -> Path:
    """The Python of the environment in this folder, which is made where there is none."""
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"creating {folder} for {', '.join(PACKAGES)} (a few minutes, once)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        wanted = [f"{name}=={version}" for name, version in PACKAGES.items()]
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *wanted], check=True)
    return python.absolute()


def versions(python: Path) -> dict[str, str]:
    """What the environment holds."""
    code = f"from importlib.metadata import version as v; print(*map(v, {list(PACKAGES)!r}))"
    asked = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    if asked.returncode:
        wanted = ", ".join(PACKAGES)
        raise InputError(f"{python.parents[1]}: lacks some of {wanted}; remove the folder, and it is made anew")
    return dict(zip(PACKAGES, asked.stdout.split(), strict=True))


@contextmanager
def prepare(model: Generator, steps: int, beam_size: int) -> Iterator[Path]:
    """A folder with the weights of a Transformer and the work to do."""
    body = model.body
    assert isinstance(body, Transformer)
    work = {
        "vocab_size": body.embedding.num_embeddings,
        "hidden_size": body.hidden_size,
        "ffn_size": body.decoder[0].wide.out_features,  # type: ignore[union-attr]
        "num_heads": body.num_heads,
        "num_layers": body.num_layers,
        "steps": steps,
        "beam_size": beam_size,
    }
    with tempfile.TemporaryDirectory() as name:
        weights: dict[str, Any] = {key: weight.numpy() for key, weight in model.state_dict().items()}
        np.savez(Path(name) / "weights.npz", **weights)
        (Path(name) / "work.json").write_text(json.dumps(work))
        yield Path(name)


class Peer:
    """A process with one of them in it, on one thread."""

    def __init__(self, python: Path, kind: str, folder: Path) -> None:
        self.log = folder / f"{KINDS[kind]}.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [python, SCRIPT, KINDS[kind], folder],
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            )
        self._listen()

    def search(self, batches: list[list[list[int]]]) -> float:
        """Seconds that searching these sentences took."""
        return float(self._ask({"batches": [[[*line, EOS] for line in batch] for batch in batches]})["seconds"])

    def score(self, sources: list[list[int]], targets: list[list[int]]) -> list[float]:
        """Log-probabilities of the targets, eos included."""
        asked = {"sources": [[*line, EOS] for line in sources], "targets": targets}
        return [float(one) for one in self._ask(asked)["log_probs"]]

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self._listen()

    def _listen(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise InputError(f"a peer ended early; it said:\n{self.log.read_text()[-4000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer
