"""The rank of log-probability matrices whose rank is known."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fastmos.heads import log_prob_rank


def softmax_rows(rows: int, vocab_size: int, size: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    hidden, weight, bias = (
        torch.randn(*shape, generator=generator, dtype=torch.float64)
        for shape in ((rows, size), (vocab_size, size), (vocab_size,))
    )
    return (hidden.to(dtype) @ weight.to(dtype).T + bias.to(dtype)).log_softmax(-1)


@given(
    rows=st.integers(1, 300),
    vocab_size=st.integers(1, 60),
    size=st.integers(1, 12),
    batch=st.integers(1, 100),
    seed=st.integers(0, 9),
)
def test_one_softmax_has_rank_d_plus_2(rows: int, vocab_size: int, size: int, batch: int, seed: int) -> None:
    log_probs = softmax_rows(rows, vocab_size, size, torch.float64, seed)
    result = log_prob_rank(torch.split(log_probs, batch))
    assert result.rows == rows
    assert result.singular_values.shape == (min(rows, vocab_size),)
    if vocab_size > 1:  # one token has probability one: a matrix of zeros
        assert 1 <= result.rank <= min(size + 2, rows, vocab_size)
    torch.testing.assert_close(
        result.singular_values, torch.linalg.svdvals(log_probs), rtol=1e-9, atol=float(result.threshold) + 1e-12
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("rows", "vocab_size", "size"), [(400, 200, 10), (3000, 100, 7), (150, 300, 20)])
def test_generic_softmax_reaches_the_bound(rows: int, vocab_size: int, size: int, dtype: torch.dtype) -> None:
    log_probs = softmax_rows(rows, vocab_size, size, dtype)
    assert log_prob_rank([log_probs[:50].view(5, 10, -1), log_probs[50:]]).rank == size + 2


def test_a_mixture_of_softmaxes_has_full_rank() -> None:
    parts = torch.stack([softmax_rows(400, 80, 4, torch.float64, seed) for seed in range(3)])
    prior = softmax_rows(400, 3, 4, torch.float64, 9).T[..., None]
    assert log_prob_rank([torch.logsumexp(parts + prior, 0)]).rank == 80


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([], "no rows"),
        ([torch.tensor([[0.0, -torch.inf]])], "infinite"),
        ([torch.zeros(2, 3), torch.zeros(2, 4)], "4 tokens"),
    ],
)
def test_bad_input(batches: list[torch.Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        log_prob_rank(batches)
