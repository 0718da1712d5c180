"""Text to codes and back: words, BPE, tables."""

from fastmos.codings.base import BOS, EOS, PAD, SPECIALS, UNK, UNK_TEXT, Coding
from fastmos.codings.bpe import BPECoding
from fastmos.codings.loading import coding_from_json, load_coding
from fastmos.codings.merges import read_merges
from fastmos.codings.table import TableCoding
from fastmos.codings.text import Text
from fastmos.codings.words import WordCoding

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "SPECIALS",
    "UNK",
    "UNK_TEXT",
    "BPECoding",
    "Coding",
    "TableCoding",
    "Text",
    "WordCoding",
    "coding_from_json",
    "load_coding",
    "read_merges",
]
