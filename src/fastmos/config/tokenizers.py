"""The sections `tokenizers.source` and `tokenizers.target`: how text becomes tokens."""

from typing import TYPE_CHECKING, ClassVar, Literal

from fastmos.config.base import Count, Fraction, Section, Typed, one_of


class TokenizerConfig(Typed):
    """What every tokenizer has."""

    type: str
    language: str = ""
    """language of raw text, which Moses' rules split into words; empty: the text is tokenized"""
    lowercase: bool = False
    """lowercase the text, in training and evaluation"""

    not_arguments: ClassVar[frozenset[str]] = frozenset({"type", "language", "lowercase"})


class Words(TokenizerConfig):
    """The most frequent words; every other word is unk."""

    factory: ClassVar[str] = "fastmos.tokenizers.words.WordTokenizer"
    type: Literal["words"] = "words"
    """which tokenizer"""
    vocab_size: Count = 30_000
    """how many words, beside the four special tokens"""
    unk_share: Fraction = 0.0
    """share of the words seen once that become unk, so that the model learns unk"""


class BPE(TokenizerConfig):
    """Byte pair encoding."""

    factory: ClassVar[str] = "fastmos.tokenizers.bpe.BPETokenizer"
    type: Literal["bpe"] = "bpe"
    """which tokenizer"""
    vocab_size: Count = 10_000
    """how many pieces, beside the four special tokens"""


class Table(TokenizerConfig):
    """Frequent words have a token each, every other word a row code and a column code (Hybrid-LightRNN, LightRNN)."""

    factory: ClassVar[str] = "fastmos.tokenizers.table.TableTokenizer"
    type: Literal["table"] = "table"
    """which tokenizer"""
    vocab_size: Count = 10_000
    """frequent words, rows and columns, beside the four special tokens"""
    words: Count = 30_000
    """how many words it holds"""
    unk_share: Fraction = 0.0
    """share of the words seen once that become unk, so that the model learns unk"""
    layout: Literal["", "frequency", "diagonal", "random", "neighbors"] = ""
    """which word sits in which cell, or where learning starts; empty: frequency, and neighbors for a learned table"""
    learn: bool = False
    """learn which words share rows and columns before training (see docs/tables.md)"""
    rounds: Count = 8
    """learn: rounds of language modeling and assignment, at most"""
    method: Literal["exact", "half"] = "exact"
    """learn: how words are assigned to cells; half is the paper's 1/2-approximation"""

    not_arguments: ClassVar[frozenset[str]] = TokenizerConfig.not_arguments | {"learn", "rounds", "method"}


class TokenizerFile(TokenizerConfig):
    """A tokenizer that `fastmos tokenizer learn` wrote."""

    factory: ClassVar[str] = "fastmos.tokenizers.load_tokenizer"
    type: Literal["file"] = "file"
    """which tokenizer"""
    path: str = ""
    """its JSON file, relative to the YAML file"""


TOKENIZERS: dict[str, type[TokenizerConfig]] = {"words": Words, "bpe": BPE, "table": Table, "file": TokenizerFile}
if TYPE_CHECKING:
    AnyTokenizer = TokenizerConfig
else:
    AnyTokenizer = one_of(TOKENIZERS, "bpe")


class Tokenizers(Section):
    """The tokenizers of both sides."""

    source: AnyTokenizer = BPE()
    """of the source text"""
    target: AnyTokenizer = BPE()
    """of the target text"""
    joint: bool = False
    """learn one tokenizer from both sides, as `target` says, and use it for both"""
