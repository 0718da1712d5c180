"""Corpora to batches: text coded once into memory-mapped arrays, dealt out by tokens or sentences."""

from fastmos.data.batches import Batch, ContiguousBatches, SentenceBatches, decoding_batch
from fastmos.data.encoded import EncodedText, check_pairs, encode_files

__all__ = [
    "Batch",
    "ContiguousBatches",
    "EncodedText",
    "SentenceBatches",
    "check_pairs",
    "decoding_batch",
    "encode_files",
]
