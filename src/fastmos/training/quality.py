"""How good outputs are, and how likely references: the figures of validation and evaluation alike."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch

from fastmos.codings import Coding
from fastmos.codings.moses import detokenise
from fastmos.data import EncodedText
from fastmos.metrics import Score, bleu, chrf, compound_split_bleu
from fastmos.metrics.likelihood import Likelihood

Array = np.ndarray[Any, np.dtype[Any]]


def likelihood(nll: Array, text: EncodedText, coding: Coding) -> Likelihood:
    """Of a text whose negative log-likelihoods, in the order of codes and eos, are `nll`."""
    sums = Likelihood()
    if len(text):
        codes = np.insert(
            text.codes.astype(np.int64), text.offsets[1:], coding.eos
        )  # all lines in one row, each with eos
        sums.add(torch.from_numpy(nll)[None], torch.from_numpy(codes)[None], coding)
    return sums


def bleu_and_chrf(translations: Sequence[str], references: Sequence[str], coding: Coding) -> tuple[Score, Score]:
    """On words as they are where text is tokenised, by sacreBLEU where it is raw; lowercased if coded so."""
    text = coding.text
    tokenize: Literal["none", "13a"] = "none" if text.tokenise == "none" else "13a"
    found = bleu(translations, references, tokenize=tokenize, lowercase=text.lowercase)
    return found, chrf(translations, references, lowercase=text.lowercase)


def wmt_bleu(
    translations: Sequence[str], references: Sequence[str], coding: Coding, language: str
) -> tuple[Score, Score]:
    """Of Moses' tokens: BLEU of the text they make (sacreBLEU's 13a), and of tokens with compounds split."""
    lowercase = coding.text.lowercase
    texts = (detokenise(list(lines), language) for lines in (translations, references))
    whole = bleu(*texts, tokenize="13a", lowercase=lowercase)
    return whole, compound_split_bleu(translations, references, lowercase=lowercase)
