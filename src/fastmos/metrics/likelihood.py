"""How likely a model finds a text, per word, so that models with different codes can be compared."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fastmos.errors import InputError

if TYPE_CHECKING:
    from fastmos.codings import Coding


@dataclass(frozen=True)
class LikelihoodReport:
    """Nats per word: total -log P, eos included, over words and lines.

    A model with an unknown word pays only for the unk symbol where BPE spells the word, so the figure flatters it:
    compare the one over known words, and look at the share of words that are out of vocabulary.
    """

    nats_per_word: float
    nats_per_known_word: float  # words with unk among their codes left out, above and below
    oov_rate: float  # the share of words with unk among their codes
    words: int
    lines: int


@dataclass
class Likelihood:
    """Adds up the likelihood of batches. All fields are sums, so those of several processes can be added."""

    nats: float = 0.0
    known_nats: float = 0.0  # without the words that have unk among their codes
    words: int = 0
    known_words: int = 0
    lines: int = 0

    def add(self, nll: Tensor, target: Tensor, coding: "Coding") -> None:
        """Count a batch: negative log-likelihoods [B, T] of the target codes [B, T]; padding is left out."""
        target, nll = target.cpu(), nll.detach().cpu().double()
        real = target != coding.pad  # [B, T]
        ends = torch.from_numpy(coding.ends_word)[target]  # [B, T] True at padding as well
        ends[:, -1:] = True  # a word does not go on in the next row
        word = (ends.flatten().cumsum(0) - ends.flatten().long()).view_as(target)  # [B, T] which word a code is of
        has_unk = torch.bincount(word[target == coding.unk], minlength=word.numel()) > 0
        known = real & ~has_unk[word]
        last = ends & real & (target != coding.eos)
        self.nats += float(nll[real].sum())
        self.known_nats += float(nll[known].sum())
        self.words += int(last.sum())
        self.known_words += int((last & known).sum())
        self.lines += int((target == coding.eos).sum())

    def report(self) -> LikelihoodReport:
        if not self.words + self.lines:
            raise InputError("no words to score; give at least one line")
        return LikelihoodReport(
            nats_per_word=self.nats / (self.words + self.lines),
            nats_per_known_word=self.known_nats / max(1, self.known_words + self.lines),
            oov_rate=(self.words - self.known_words) / max(1, self.words),
            words=self.words,
            lines=self.lines,
        )
