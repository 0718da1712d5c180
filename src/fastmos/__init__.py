"""Mixture of softmaxes at about the price of one softmax."""

import importlib
from typing import TYPE_CHECKING, Any

from fastmos.errors import needs_extra

if TYPE_CHECKING:
    from fastmos.heads import HeadOutput as HeadOutput
    from fastmos.heads import LossOptions as LossOptions
    from fastmos.heads import Mixtape as Mixtape
    from fastmos.heads import MixtureOfContexts as MixtureOfContexts
    from fastmos.heads import MixtureOfSoftmaxes as MixtureOfSoftmaxes
    from fastmos.heads import ShortlistMixture as ShortlistMixture
    from fastmos.heads import Softmax as Softmax
    from fastmos.heads import best_shortlist as best_shortlist
    from fastmos.heads import mixture_nll as mixture_nll
    from fastmos.inference.run import load as load

__version__ = "0.1.0"

# Public names and the rooms they come from. Loaded on first use, so that `fastmos --help` does not wait for torch.
_ROOMS = {
    "HeadOutput": "fastmos.heads",
    "LossOptions": "fastmos.heads",
    "Mixtape": "fastmos.heads",
    "MixtureOfContexts": "fastmos.heads",
    "MixtureOfSoftmaxes": "fastmos.heads",
    "ShortlistMixture": "fastmos.heads",
    "Softmax": "fastmos.heads",
    "best_shortlist": "fastmos.heads",
    "load": "fastmos.inference.run",
    "mixture_nll": "fastmos.heads",
}
__all__ = [*_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        with needs_extra():
            return getattr(importlib.import_module(_ROOMS[name]), name)
    raise AttributeError(f"module 'fastmos' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *_ROOMS])
