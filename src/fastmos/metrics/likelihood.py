"""How likely a model finds a text, per word, so that models with different tokens can be compared."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fastmos.errors import InputError

if TYPE_CHECKING:
    from fastmos.tokenizers import Tokenizer


def perplexity(nll: float) -> float:
    """exp(NLL), without overflow."""
    return math.exp(min(nll, 700.0))


@dataclass(frozen=True)
class LikelihoodReport:
    """Negative log-likelihood per word, in nats; the end of a line counts as a word.

    A model whose vocabulary lacks a word pays only for unk where BPE pays for every piece of that word, so NLL per word
    flatters it. Compare NLL per known word, and look at the OOV rate.
    """

    nll_per_word: float
    nll_per_known_word: float  # without the words that have unk among their tokens
    oov_rate: float  # the share of words that have unk among their tokens
    words: int
    lines: int

    @property
    def perplexity(self) -> float:
        """Per word."""
        return perplexity(self.nll_per_word)


@dataclass
class Likelihood:
    """Adds up the likelihood of batches. All fields are sums, so those of several processes can be added."""

    nll: float = 0.0
    known_nll: float = 0.0  # without the words that have unk among their tokens
    words: int = 0
    known_words: int = 0
    lines: int = 0

    def add(self, nll: Tensor, target: Tensor, tokenizer: "Tokenizer") -> None:
        """Add a batch: negative log-likelihoods [B, T] of the target tokens [B, T]; padding does not count."""
        target, nll = target.cpu(), nll.detach().cpu().double()
        real, ends_line = target != tokenizer.pad, target == tokenizer.eos  # [B, T]
        starts = tokenizer.word_starts(target)
        word = (starts.flatten().cumsum(0) - 1).view_as(target)  # [B, T] the number of the word a token belongs to
        has_unk = torch.bincount(word[target == tokenizer.unk], minlength=word.numel()) > 0
        known = real & ~has_unk[word]
        starts = starts & real & ~ends_line
        self.nll += float(nll[real].sum())
        self.known_nll += float(nll[known].sum())
        self.words += int(starts.sum())
        self.known_words += int((starts & known).sum())
        self.lines += int(ends_line.sum())

    def report(self) -> LikelihoodReport:
        if not self.words + self.lines:
            raise InputError("no words to score; give at least one line")
        return LikelihoodReport(
            nll_per_word=self.nll / (self.words + self.lines),
            nll_per_known_word=self.known_nll / max(1, self.known_words + self.lines),
            oov_rate=(self.words - self.known_words) / max(1, self.words),
            words=self.words,
            lines=self.lines,
        )
