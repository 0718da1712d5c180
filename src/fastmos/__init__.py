"""Mixture of Softmaxes at the price of its matrix products."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastmos.heads import HeadOutput as HeadOutput
    from fastmos.heads import MixtureOfContexts as MixtureOfContexts
    from fastmos.heads import MixtureOfSoftmaxes as MixtureOfSoftmaxes
    from fastmos.heads import Softmax as Softmax
    from fastmos.heads import mixture_nll as mixture_nll
    from fastmos.training.run import load as load

__version__ = "0.1.0"

# Public names and the rooms they come from. Loaded on first use, so that `fastmos --help` does not wait for torch.
_ROOMS = {
    "HeadOutput": "fastmos.heads",
    "MixtureOfContexts": "fastmos.heads",
    "MixtureOfSoftmaxes": "fastmos.heads",
    "Softmax": "fastmos.heads",
    "load": "fastmos.training.run",
    "mixture_nll": "fastmos.heads",
}
__all__ = [*_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return getattr(importlib.import_module(_ROOMS[name]), name)
    raise AttributeError(f"module 'fastmos' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *_ROOMS])
