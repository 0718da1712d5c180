"""Corpora to batches: text coded once into memory-mapped arrays, dealt out by tokens or sentences."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastmos.data.batches import Batch as Batch
    from fastmos.data.batches import ContiguousBatches as ContiguousBatches
    from fastmos.data.batches import SentenceBatches as SentenceBatches
    from fastmos.data.batches import decoding_batch as decoding_batch
    from fastmos.data.encoded import EncodedText as EncodedText
    from fastmos.data.encoded import check_pairs as check_pairs
    from fastmos.data.encoded import encode_files as encode_files

# Public names and their modules. Loaded on first use: the processes that code text have no need of torch.
_MODULES = {
    "Batch": "batches",
    "ContiguousBatches": "batches",
    "EncodedText": "encoded",
    "SentenceBatches": "batches",
    "check_pairs": "encoded",
    "decoding_batch": "batches",
    "encode_files": "encoded",
}
__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"fastmos.data.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'fastmos.data' has no attribute '{name}'")
