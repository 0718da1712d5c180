"""Small batches of random tokens, for the tests of all models."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fastmos.data.batches import Batch

TOKENS = 11


def padded(lines: list[Tensor]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(lines, batch_first=True)


def random_batch(lengths: list[tuple[int, int]], seed: int = 0) -> Batch:
    """A batch of lines with the given numbers of source and target tokens, eos not counted."""
    draw = torch.Generator().manual_seed(seed)
    bos, eos = torch.tensor([1]), torch.tensor([2])
    sources = [torch.cat([torch.randint(3, TOKENS, (s,), generator=draw), eos]) for s, _ in lengths]
    targets = [torch.cat([torch.randint(3, TOKENS, (t,), generator=draw), eos]) for _, t in lengths]
    inputs = [torch.cat([bos, target[:-1]]) for target in targets]
    return Batch(padded(inputs), padded(targets), padded(sources), torch.arange(len(lengths)))


@pytest.fixture
def make_batch() -> Callable[..., Batch]:
    return random_batch
