"""Two processes of DistributedDataParallel, each with half a batch, beside one process with all of it.

Run by test_modules.py; they meet in the file that FASTMOS_RENDEZVOUS names.
"""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from fastmos.heads import HEADS, HeadOutput, build_head
from tests.heads.options import own


class Model(nn.Module):
    """A body and a head with tied embedding; the loss is made inside forward, as DDP wants it."""

    def __init__(self, head_type: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(11, 6)
        self.body = nn.Linear(6, 6)
        options = own(head_type, mixtures=3, shortlist=[9, 2, 4])
        self.head = build_head(head_type, 6, 11, embedding=self.embedding, **options)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        output: HeadOutput = self.head(self.body(self.embedding(tokens)), targets, label_smoothing=0.1, reduction="sum")
        return output.loss


def batch() -> tuple[Tensor, Tensor]:
    tokens = torch.arange(12) % 11
    targets = (3 * torch.arange(12)) % 11
    targets[6:] = -100  # the second process has nothing but padding, and must take part all the same
    targets[2] = -100
    return tokens, targets


def process(rank: int, rendezvous: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    for head_type in HEADS:
        check(head_type, rank)
    dist.destroy_process_group()


def check(head_type: str, rank: int) -> None:
    model, alone = Model(head_type), Model(head_type)
    parallel = DistributedDataParallel(model)
    tokens, targets = (part[6 * rank : 6 * rank + 6] for part in batch())
    for _ in range(2):
        parallel.zero_grad()
        parallel(tokens, targets).backward()
    alone(*batch()).backward()
    for (name, one), other in zip(model.named_parameters(), alone.parameters(), strict=True):
        assert one.grad is not None and other.grad is not None
        torch.testing.assert_close(2 * one.grad, other.grad, msg=f"{head_type} {name}")


if __name__ == "__main__":
    mp.start_processes(process, (os.environ["FASTMOS_RENDEZVOUS"],), nprocs=2, start_method="fork")  # type: ignore
