"""BLEU and chrF by sacreBLEU, with signatures."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fastmos.errors import InputError

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

Tokenize = Literal["none", "13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "flores200"]

HYPHEN = re.compile(r"(\S)-(\S)")


@dataclass(frozen=True)
class Score:
    """A score (0 to 100) and sacreBLEU's signature, which says how it was computed."""

    value: float
    signature: str


def bleu(
    hypotheses: Sequence[str], references: Sequence[str], *, tokenize: Tokenize = "none", lowercase: bool = False
) -> Score:
    """Corpus BLEU of tokenized text ("none"), or of plain text that sacreBLEU tokenizes ("13a" and others)."""
    return _score(_bleu(tokenize, lowercase), hypotheses, references)


def chrf(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> Score:
    """Corpus chrF2: the F-score of character n-grams up to six (Popović 2015)."""
    from sacrebleu.metrics.chrf import CHRF

    return _score(CHRF(lowercase=lowercase), hypotheses, references)


def compound_split_bleu(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> Score:
    """BLEU as papers of 2017-2018 report it for WMT: of Moses tokens, with compounds split at their hyphens.

    It is usually higher than sacreBLEU's 13a on English-German: the two cannot be compared.
    """
    score = bleu(split_compounds(hypotheses), split_compounds(references), lowercase=lowercase)
    return Score(score.value, f"{score.signature}|compounds:split")


def split_compounds(lines: Sequence[str]) -> list[str]:
    """Turns `rich-text` into `rich ##AT##-##AT## text`."""
    return [HYPHEN.sub(r"\1 ##AT##-##AT## \2", line) for line in lines]


def _bleu(tokenize: Tokenize, lowercase: bool) -> "Metric":
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=tokenize, lowercase=lowercase, force=True)  # force: no warning that the text is tokenized


def _score(metric: "Metric", hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    _check(hypotheses, references)
    value = metric.corpus_score(list(hypotheses), [list(references)]).score
    return Score(value, str(metric.get_signature()))


def _check(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise InputError(f"{len(hypotheses)} outputs but {len(references)} references; give one reference per line")
    if not hypotheses:
        raise InputError("no lines to score; give at least one")
