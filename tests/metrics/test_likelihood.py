"""Nats per word against a count done word by word."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fastmos.errors import InputError
from fastmos.metrics import Likelihood

# Codes 4 to 6 begin or continue a word; 7 to 9 end one, as unk (3) does.
CODING: Any = SimpleNamespace(pad=0, bos=1, eos=2, unk=3, ends_word=np.array([True] * 4 + [False] * 3 + [True] * 3))

words = st.tuples(st.lists(st.integers(4, 6), max_size=3), st.sampled_from([3, 7, 8, 9])).map(lambda w: [*w[0], w[1]])
lines = st.lists(st.lists(words, max_size=5), min_size=1, max_size=6)


def padded(rows: list[list[int]]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)


@given(lines, st.integers(0, 99))
def test_counts_word_by_word(text: list[list[list[int]]], seed: int) -> None:
    target = padded([[code for word in line for code in word] + [2] for line in text])
    nll = torch.rand(target.shape, generator=torch.Generator().manual_seed(seed))  # something at padding, too
    nats = known_nats = 0.0
    known = 0
    for row, line in enumerate(text):
        start = 0
        for word in [*line, [2]]:
            cost = float(nll[row, start : start + len(word)].sum())
            nats += cost
            known_nats += 0.0 if 3 in word else cost
            known += word != [2] and 3 not in word
            start += len(word)
    count = sum(map(len, text))
    whole, parts = Likelihood(), Likelihood()
    whole.add(nll, target, CODING)
    for row in range(len(text)):
        parts.add(nll[row : row + 1], target[row : row + 1], CODING)
    for report in (whole.report(), parts.report()):
        assert (report.words, report.lines) == (count, len(text))
        assert report.nats_per_word == pytest.approx(nats / (count + len(text)), rel=1e-5)
        assert report.nats_per_known_word == pytest.approx(known_nats / (known + len(text)), rel=1e-5)
        assert report.oov_rate == pytest.approx((count - known) / max(1, count))


def test_example() -> None:
    """Two words and eos at 6 nats together; without the unknown word, its 3 nats are not counted."""
    likelihood = Likelihood()
    likelihood.add(torch.tensor([[1.0, 1.0, 3.0, 1.0, 9.0]]), torch.tensor([[4, 7, 3, 2, 0]]), CODING)
    report = likelihood.report()
    assert (report.nats_per_word, report.nats_per_known_word, report.oov_rate) == (2.0, 1.5, 0.5)


def test_nothing_to_score() -> None:
    with pytest.raises(InputError, match="no words"):
        Likelihood().report()
