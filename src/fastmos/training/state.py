"""All that is needed to resume a run, as one file that is replaced whole; the one before it stays.

There is no random state in it: the noise of a step is drawn from (seed, step, rank) alone.
"""

import hashlib
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from fastmos.checkpoints import load_weights, read_tensors, weights, write_tensors
from fastmos.errors import InputError
from fastmos.files import parse_json
from fastmos.training.optimizers import optimizer_tensors, restore_optimizer

Carried = tuple[Tensor, ...] | None  # hidden state that a language model takes from batch to batch


@dataclass
class State:
    """Where a run is."""

    data: str  # fingerprints of training and validation data
    processes: int  # how many the run began with; a step has the batches of so many, however many train now
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
    """Write everything; `carried` has one entry a process. The state before stays under another name."""
    tensors = {f"model/{name}": tensor for name, tensor in weights(model).items()}
    tensors |= {f"optimizer/{name}": tensor for name, tensor in optimizer_tensors(optimizer).items()}
    for rank, parts in enumerate(carried):
        tensors |= {f"carried/{rank}/{index}": tensor for index, tensor in enumerate(parts or ())}
    if path.exists():
        _keep(path)
    write_tensors(path, tensors, {"state": asdict(state), "scaler": scaler.state_dict()})


def previous(path: Path) -> Path:
    """The name of the state before."""
    return path.with_name(f"previous-{path.name}")


def _keep(path: Path) -> None:
    """Give the present state its other name; at no time is there none."""
    aside = path.with_name(f".{previous(path).name}.tmp")
    aside.unlink(missing_ok=True)
    try:
        os.link(path, aside)
    except OSError:  # a disk without links
        shutil.copyfile(path, aside)
    os.replace(aside, previous(path))


def restore_state(path: Path) -> None:
    """If somebody removed the last state, take the one before."""
    if not path.exists() and previous(path).exists():
        shutil.copyfile(previous(path), path.with_name(f".{path.name}.tmp"))
        os.replace(path.with_name(f".{path.name}.tmp"), path)


def begun_with(path: Path, processes: int) -> int:
    """The number of processes that a run began with; `processes` if it begins now."""
    from safetensors import SafetensorError, safe_open

    for one in (path, previous(path)):
        with suppress(SafetensorError, OSError, ValueError, KeyError, TypeError):
            with safe_open(one, framework="pt") as file:
                label = parse_json((file.metadata() or {})["fastmos"], str(one))
            return int(parse_json(label["notes"], str(one))["state"]["processes"])
    return processes


def load_state(
    path: Path, fresh: State, rank: int, model: nn.Module, optimizer: Optimizer, scaler: torch.amp.GradScaler
) -> tuple[State, Carried]:
    """Put everything back, or what was before if the file is damaged; `fresh` has this run's data and processes."""
    tensors, notes = _read(path, rank)
    try:
        state = State(**notes["state"])
        state.history = [(int(step), float(value)) for step, value in state.history]
        scaler_state = notes["scaler"]
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{path}: not a state of this version of fastmos; use another folder") from None
    if state.data != fresh.data:
        raise InputError(
            f"{path.parent}: the training or validation data has changed since this run began; use another folder"
        )
    load_weights(model, _part(tensors, "model/"), path)
    restore_optimizer(optimizer, _part(tensors, "optimizer/"))
    if scaler_state:
        scaler.load_state_dict(scaler_state)
    return state, _dealt(tensors, rank, fresh.processes, path)


def _read(path: Path, rank: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The last state, or with a warning the one before."""
    before = previous(path)
    try:
        return read_tensors(path)
    except InputError:
        if not before.exists():
            raise
    try:
        found = read_tensors(before)
    except InputError:
        raise InputError(f"{path}: damaged, and {before.name} too; use another folder") from None
    if rank == 0:
        print(f"warning: {path}: damaged; resuming from {before.name}", file=sys.stderr, flush=True)
    return found


def _dealt(tensors: dict[str, Tensor], rank: int, processes: int, path: Path) -> Carried:
    """The hidden state of this process's streams [layers, B, D]; stream s was with process s modulo their number."""
    saved = len({name.split("/")[1] for name in tensors if name.startswith("carried/")})
    if not saved:
        return None
    shares = [_part(tensors, f"carried/{one}/") for one in range(saved)]
    if saved == processes:
        return tuple(shares[rank][str(index)] for index in range(len(shares[rank])))
    streams = range(sum(share["0"].shape[1] for share in shares))
    if len(streams) < processes:
        raise InputError(f"{path.parent}: has {len(streams)} streams of text; start at most so many processes")
    return tuple(
        torch.stack([shares[one % saved][str(index)][:, one // saved] for one in streams[rank::processes]], 1)
        for index in range(len(shares[0]))
    )


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
