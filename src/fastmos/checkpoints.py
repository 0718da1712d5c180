"""Weights on disk: safetensors files that are whole, checked by a digest, and never run code."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fastmos.errors import InputError
from fastmos.files import parse_json, written_whole


def write_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> None:
    """Tensors and JSON notes as one safetensors file, whole or not at all."""
    from safetensors.torch import save

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(notes, sort_keys=True)
    label = json.dumps({"notes": text, "sha256": _digest(plain, text)})
    with written_whole(path, "wb") as file:
        file.write(save(plain, metadata={"fastmos": label}))  # one entry: their order in the file is not settled


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_tensors` wrote; a truncated or changed file is refused."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise InputError(f"{path}: no such file; is the run folder complete?")
    try:
        with safe_open(path, framework="pt") as file:
            label = parse_json((file.metadata() or {}).get("fastmos", "{}"), str(path))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{path}: damaged ({error}); take another checkpoint or train again") from None
    text = label.get("notes", "") if isinstance(label, dict) else ""
    if not isinstance(text, str) or not text or label.get("sha256") != _digest(tensors, text):
        raise InputError(f"{path}: its contents do not match its digest; take another checkpoint or train again")
    notes = parse_json(text, str(path))
    return tensors, notes if isinstance(notes, dict) else {}


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    """SHA-256 of names, types, shapes, values and notes."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data if tensor.numel() else b"")
    return digest.hexdigest()


def weights(model: nn.Module) -> dict[str, Tensor]:
    """All parameters by name, tied ones once."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Copy the weights read from `path` into the model; names and shapes must be the model's own."""
    own = dict(model.named_parameters())
    if own.keys() != tensors.keys():
        odd = sorted(own.keys() ^ tensors.keys())[0]
        raise InputError(f"{path}: does not fit the model of its config (weight '{odd}')")
    with torch.no_grad():
        for name, parameter in own.items():
            if parameter.shape != tensors[name].shape:
                shapes = f"{list(tensors[name].shape)}, not {list(parameter.shape)}"
                raise InputError(f"{path}: does not fit the model of its config (weight '{name}' is {shapes})")
            if not tensors[name].isfinite().all():
                raise InputError(f"{path}: weight '{name}' is not finite; take another checkpoint or train again")
            parameter.copy_(tensors[name])


def average_weights(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of several checkpoints, summed in float64."""
    total: dict[str, Tensor] = {}
    dtypes: dict[str, torch.dtype] = {}
    for path in paths:
        tensors, _ = read_tensors(path)
        if total and total.keys() != tensors.keys():
            raise InputError(f"{path}: has other weights than {paths[0]}")
        for name, tensor in tensors.items():
            if not tensor.isfinite().all():
                raise InputError(f"{path}: weight '{name}' is not finite; average others")
            dtypes[name] = tensor.dtype
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / len(paths)).to(dtypes[name]) for name, tensor in total.items()}


class Checkpoints:
    """A folder of weights, one file a validation: the best few and the last few stay."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}.safetensors"

    def steps(self) -> list[int]:
        """Steps that have a file, in order."""
        return sorted(int(path.stem.removeprefix("step-")) for path in self.folder.glob("step-*.safetensors"))

    def prune(self, history: Sequence[tuple[int, float]], best: int, last: int) -> None:
        """Remove what is neither among the `best` by value nor among the `last` by step."""
        ranked = sorted(history, key=lambda item: (-item[1], item[0]))[:best]
        stay = {step for step, _ in [*ranked, *history[len(history) - min(last, len(history)) :]]}
        for step in self.steps():
            if step not in stay:
                self.path(step).unlink()
