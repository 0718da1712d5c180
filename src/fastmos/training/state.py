"""All that is needed to resume a run, as one file that is replaced whole.

There is no random state in it: the noise of a step is drawn from (seed, step, rank) alone.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from fastmos.checkpoints import load_weights, read_tensors, weights, write_tensors
from fastmos.errors import InputError
from fastmos.training.optimizers import optimizer_tensors, restore_optimizer

Carried = tuple[Tensor, ...] | None  # hidden state that a language model takes from batch to batch


@dataclass
class State:
    """Where a run is."""

    data: str  # fingerprints of training and validation data
    processes: int  # how many trained
    step: int = 0  # steps done
    epoch: int = 0  # passes done
    batch: int = 0  # batches of this pass done
    skipped: int = 0  # steps without a finite gradient, in all
    streak: int = 0  # and in a row, up to now
    history: list[tuple[int, float]] = field(default_factory=list)  # (step, value) of the validations; larger is better


def noise_from(seed: int, step: int, rank: int) -> None:
    """Start all random numbers of a step."""
    text = f"{seed} {step} {rank}".encode()
    torch.manual_seed(int.from_bytes(hashlib.sha256(text).digest()[:6], "little"))


def save_state(
    path: Path,
    state: State,
    model: nn.Module,
    optimizer: Optimizer,
    scaler: torch.amp.GradScaler,
    carried: Sequence[Carried],
) -> None:
    """Write everything; `carried` has one entry a process."""
    tensors = {f"model/{name}": tensor for name, tensor in weights(model).items()}
    tensors |= {f"optimizer/{name}": tensor for name, tensor in optimizer_tensors(optimizer).items()}
    for rank, parts in enumerate(carried):
        tensors |= {f"carried/{rank}/{index}": tensor for index, tensor in enumerate(parts or ())}
    write_tensors(path, tensors, {"state": asdict(state), "scaler": scaler.state_dict()})


def load_state(
    path: Path, fresh: State, rank: int, model: nn.Module, optimizer: Optimizer, scaler: torch.amp.GradScaler
) -> tuple[State, Carried]:
    """Put everything back; `fresh` says what this run's data and number of processes are."""
    tensors, notes = read_tensors(path)
    state = State(**notes["state"])
    state.history = [(step, value) for step, value in state.history]
    if state.data != fresh.data:
        raise InputError(
            f"{path.parent}: the training or validation data has changed since this run began; use another folder"
        )
    if state.processes != fresh.processes:
        raise InputError(
            f"{path.parent}: was trained by {state.processes} processes, not {fresh.processes}; start as many"
        )
    load_weights(model, _part(tensors, "model/"), path)
    restore_optimizer(optimizer, _part(tensors, "optimizer/"))
    if notes["scaler"]:
        scaler.load_state_dict(notes["scaler"])
    parts = _part(tensors, f"carried/{rank}/")
    carried = tuple(parts[str(index)] for index in range(len(parts)))
    return state, carried or None


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
