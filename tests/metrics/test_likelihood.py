"""NLL per word against a count done word by word, for tokenizers that mark the ends or the starts of words."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fastmos.errors import InputError
from fastmos.metrics import Likelihood
from fastmos.tokenizers import EOS, PAD, UNK, Tokenizer, WordTokenizer

INSIDE, MARKED = [4, 5, 6], [7, 8, 9]  # tokens within words, and those that start or end one


def marking(side: str) -> Tokenizer:
    """Ten tokens that mark one side of words. unk ends its word, as in BPE, or is within it, as in SentencePiece."""
    tokenizer = WordTokenizer(list("abcdef"))
    marks = np.array([True] * 3 + [side == "end"] + [False] * 3 + [True] * 3)
    tokenizer.starts_word, tokenizer.ends_word = (marks, None) if side == "start" else (None, marks)
    return tokenizer


def words(side: str) -> st.SearchStrategy[list[int]]:
    if side == "start":
        rest = st.lists(st.sampled_from([*INSIDE, UNK]), max_size=3)
        return st.tuples(st.sampled_from(MARKED), rest).map(lambda word: [word[0], *word[1]])
    begin = st.lists(st.sampled_from(INSIDE), max_size=3)
    return st.tuples(begin, st.sampled_from([*MARKED, UNK])).map(lambda word: [*word[0], word[1]])


def padded(rows: list[list[int]]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)


@pytest.mark.parametrize("side", ["start", "end"])
@given(data=st.data(), seed=st.integers(0, 99))
def test_counts_word_by_word(side: str, data: st.DataObject, seed: int) -> None:
    tokenizer = marking(side)
    text = data.draw(st.lists(st.lists(words(side), max_size=5), min_size=1, max_size=6))
    target = padded([[token for word in line for token in word] + [EOS] for line in text])
    nll = torch.rand(target.shape, generator=torch.Generator().manual_seed(seed))  # at padding, too
    total = known_total = 0.0
    known = 0
    for row, line in enumerate(text):
        start = 0
        for word in [*line, [EOS]]:
            cost = float(nll[row, start : start + len(word)].sum())
            total += cost
            known_total += 0.0 if UNK in word else cost
            known += word != [EOS] and UNK not in word
            start += len(word)
    count = sum(map(len, text))
    whole, parts = Likelihood(), Likelihood()
    whole.add(nll, target, tokenizer)
    for row in range(len(text)):
        parts.add(nll[row : row + 1], target[row : row + 1], tokenizer)
    for report in (whole.report(), parts.report()):
        assert (report.words, report.lines) == (count, len(text))
        assert report.nll_per_word == pytest.approx(total / (count + len(text)), rel=1e-5)
        assert report.nll_per_known_word == pytest.approx(known_total / (known + len(text)), rel=1e-5)
        assert report.oov_rate == pytest.approx((count - known) / max(1, count))
        assert report.perplexity == pytest.approx(math.exp(report.nll_per_word))


def test_example() -> None:
    """Two words and eos cost 6 nats together; the unknown word's 3 nats are left out of the known words' figure."""
    likelihood = Likelihood()
    likelihood.add(torch.tensor([[1.0, 1.0, 3.0, 1.0, 9.0]]), torch.tensor([[4, 7, UNK, EOS, PAD]]), marking("end"))
    report = likelihood.report()
    assert (report.nll_per_word, report.nll_per_known_word, report.oov_rate) == (2.0, 1.5, 0.5)
    assert report.perplexity == pytest.approx(7.389056)


def test_nothing_to_score() -> None:
    with pytest.raises(InputError, match="no words"):
        Likelihood().report()
