"""The rank of the log-probability matrix, by which one softmax is a bottleneck (Yang et al., ICLR 2018).

Row n of that matrix A [N, V] is log P(. | context n). One softmax with bias gives A = G W^T + 1 b^T - z 1^T, whose rank
is at most d + 2 however many contexts there are. A mixture is not bound by it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rank:
    """Singular values of a log-probability matrix, and how many of them are more than rounding."""

    singular_values: Tensor  # [min(N, V)] float64, largest first
    rank: int  # how many exceed the threshold
    threshold: float
    rows: int  # N


def log_prob_rank(batches: Iterable[Tensor]) -> Rank:
    """The rank of all rows of the batches [..., V] of finite log-probabilities.

    Only A^T A [V, V] is kept, in float64, so there may be any number of rows. Its eigenvalues are the squares of the
    singular values and are known to about V eps of the largest, so the rank counts the singular values above
    s_1 sqrt(V eps). The rounding of float32 log-probabilities lies below that too.
    """
    gram, count = torch.zeros(0, 0, dtype=torch.float64), 0
    for batch in batches:
        rows = batch.detach().reshape(-1, batch.shape[-1]).to("cpu", torch.float64)  # [n, V]
        if not bool(torch.isfinite(rows).all()):
            raise ValueError("a batch of log-probabilities holds infinite or NaN values; a rank needs unmasked ones")
        if not count:
            gram = gram.new_zeros(rows.shape[1], rows.shape[1])
        if rows.shape[1] != len(gram):
            raise ValueError(f"a batch has {rows.shape[1]} tokens in its last dimension, those before it {len(gram)}")
        gram.addmm_(rows.T, rows)
        count += len(rows)
    if not count:
        raise ValueError("batches holds no rows; a rank needs at least one")
    values = torch.linalg.eigvalsh(gram).flip(0).clamp(min=0).sqrt()[:count]
    threshold = float(values[0]) * (len(gram) * torch.finfo(torch.float64).eps) ** 0.5
    return Rank(values, int((values > threshold).sum()), threshold, count)
