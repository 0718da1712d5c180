"""Two processes of DDP and of FSDP2, each with half a batch, beside one process with all of it.

Run by test_distributed.py; they meet in the file that FASTMOS_RENDEZVOUS names.
"""

import os
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from tests.integrations.tiny_models import CAUSAL, FEW, inputs, mixture

RATE = 0.1


def process(rank: int, rendezvous: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    for family in FEW:
        batch = inputs(family, rows=4)
        batch["labels"] = batch["input_ids"] if family in CAUSAL else batch["decoder_input_ids"].flip(0)
        half = {name: values[2 * rank : 2 * rank + 2] for name, values in batch.items()}
        expected, losses = alone(family, batch)
        for sharded in (False, True):
            check(family, sharded, half, expected, losses)
    dist.destroy_process_group()


def alone(family: str, batch: dict[str, Any]) -> tuple[dict[str, Any], list[float]]:
    """The parameters after two steps in one process, and the losses."""
    model = mixture(family).train()
    losses = steps(model, model, batch)
    return {name: one.detach() for name, one in model.named_parameters()}, losses


def steps(model: Any, called: Any, batch: dict[str, Any]) -> list[float]:
    optimizer, losses = torch.optim.SGD(model.parameters(), RATE), []
    for _ in range(2):
        loss = called(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


def check(family: str, sharded: bool, half: dict[str, Any], expected: dict[str, Any], losses: list[float]) -> None:
    model = mixture(family).train()
    called = model
    if sharded:
        mesh = init_device_mesh("cpu", (2,))
        for block in model.modules():
            if type(block).__name__ in (model._no_split_modules or ()):
                fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        assert isinstance(model.lm_head.weight, DTensor)
    else:
        called = DistributedDataParallel(model)
    found = torch.tensor(steps(model, called, half))
    dist.all_reduce(found)
    case = f"{family} {'FSDP2' if sharded else 'DDP'}"
    torch.testing.assert_close(found / 2, torch.tensor(losses), msg=case)
    for name, one in model.named_parameters():
        value = one.full_tensor() if isinstance(one, DTensor) else one
        torch.testing.assert_close(value.detach(), expected[name], rtol=1e-4, atol=1e-5, msg=f"{case} {name}")


if __name__ == "__main__":
    mp.start_processes(process, (os.environ["FASTMOS_RENDEZVOUS"],), nprocs=2, start_method="fork")  # type: ignore
