"""Many processes as one: who we are under torchrun, and the few things we tell each other."""

import datetime
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]  # public, but not said so

from fastmos.errors import InputError
from fastmos.processes import whole_number

T = TypeVar("T")
PATIENCE = datetime.timedelta(hours=2)  # process 0 may learn a tokenizer while the others wait


@dataclass(frozen=True)
class World:
    """The processes that train together; only rank 0 writes and speaks."""

    rank: int
    size: int
    device: torch.device

    @property
    def first(self) -> bool:
        return self.rank == 0

    def sum(self, values: Sequence[float]) -> list[float]:
        """Sums over all processes, in double precision, equal everywhere."""
        if self.size == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor)
        return [float(value) for value in tensor.tolist()]

    def gather(self, value: T) -> list[T]:
        """What each process has, everywhere."""
        if self.size == 1:
            return [value]
        values: list[T | None] = [None] * self.size
        dist.all_gather_object(values, value)
        return values  # type: ignore[return-value]  # every place is filled

    def wait(self) -> None:
        """Until all are here."""
        self.sum([0.0])

    def first_only(self, work: Callable[[], object]) -> None:
        """Work for which the others wait; what stops the first stops them too, and only the first says why."""
        error = None
        try:
            if self.first:
                work()
        except (InputError, OSError) as caught:
            error = caught
        (failed,) = self.sum([float(error is not None)])
        if error is not None:
            raise error
        if failed:
            sys.exit(2)


def join_world() -> World:
    """Alone, or one of the processes torchrun started (gloo on CPU, nccl on CUDA)."""
    size, rank, local = (whole_number(name, 0) for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"))
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    if size <= 1:
        return World(0, 1, device)
    address, port = os.environ.get("MASTER_ADDR"), whole_number("MASTER_PORT", 0)
    if not address or not 0 < port < 2**16 or rank >= size:
        raise InputError(
            f"WORLD_SIZE is {size}, but RANK {rank}, MASTER_ADDR '{address or ''}' and MASTER_PORT {port} do not fit; "
            "start with torchrun, or unset WORLD_SIZE"
        )
    # Each attempt has its own prefix: a restarted worker must not meet the keys of those who died.
    served = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    tcp = TCPStore(address, port, size, rank == 0 and not served, timeout=PATIENCE)
    store = PrefixStore(f"try{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", tcp)
    dist.init_process_group("nccl" if cuda else "gloo", store=store, rank=rank, world_size=size, timeout=PATIENCE)
    return World(rank, size, device)


def leave_world(world: World) -> None:
    """Say goodbye to the other processes."""
    if world.size > 1:
        dist.destroy_process_group()
