"""Two processes of DistributedDataParallel, each with half a batch, beside one process with all of it.

Run by test_modules.py; they meet in the file that FASTMOS_RENDEZVOUS names.
"""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from fastmos.heads import HeadOutput, MixtureOfSoftmaxes


class Model(nn.Module):
    """A body and a head with tied embedding; the loss is made inside forward, as DDP wants it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(11, 6)
        self.body = nn.Linear(6, 6)
        self.head = MixtureOfSoftmaxes(6, 11, 3, embedding=self.embedding)

    def forward(self, codes: Tensor, targets: Tensor) -> Tensor:
        output: HeadOutput = self.head(self.body(self.embedding(codes)), targets, label_smoothing=0.1)
        return output.loss


def batch() -> tuple[Tensor, Tensor]:
    codes = torch.arange(12) % 11
    targets = (3 * torch.arange(12)) % 11
    targets[6:] = -100  # the second process has nothing but padding, and must take part all the same
    targets[2] = -100
    return codes, targets


def process(rank: int, rendezvous: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = Model()
    parallel = DistributedDataParallel(model)
    codes, targets = (part[6 * rank : 6 * rank + 6] for part in batch())
    for _ in range(2):
        parallel.zero_grad()
        parallel(codes, targets).backward()
    alone = Model()
    alone(*batch()).backward()
    for (name, one), other in zip(model.named_parameters(), alone.parameters(), strict=True):
        assert one.grad is not None and other.grad is not None
        torch.testing.assert_close(2 * one.grad, other.grad, msg=name)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.start_processes(process, (os.environ["FASTMOS_RENDEZVOUS"],), nprocs=2, start_method="fork")  # type: ignore
