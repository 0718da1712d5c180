"""Time and memory of a training step, for all rows at once: by the plain formula, and by the fused loss.

The plain formula is what the paper could do: torch's cross-entropy for one softmax, the public code's for several.
Time is interleaved across rows, so that slow spells of the machine meet all alike; memory is measured in a process for
each. Both need tokenizers and shapes, not trained weights.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fastmos import experiment, measure
from fastmos.bench.head import public_formula
from fastmos.config import Config
from fastmos.heads import Head, Mixtape
from fastmos.heads.shortlist import ShortlistHead
from fastmos.progress import progress
from fastmos.reproduce.plans import Plan
from fastmos.reproduce.records import header
from fastmos.reproduce.scales import Scale
from fastmos.run_folder import RunFolder
from fastmos.tasks import build_task
from fastmos.tokenizers import PAD

if TYPE_CHECKING:
    from fastmos.data.batches import Batch

WAYS = {"plain": False, "fused": True}
ROUNDS = 11
MEGABYTE = 10**6


def cost_record(plans: Sequence[Plan], scale: Scale, runs: Path) -> dict[str, Any]:
    """Measure one step of every plan."""
    folders = {}
    for one in plans:
        folder = RunFolder(runs / "cost" / one.id)
        with folder.lock():
            task = build_task(one.config, runs, folder)
            experiment.begin(task)
            task.choose_shortlist(task.dataset("train"))
        folders[one.name] = folder.root, one.config
    costs = step_costs(folders, ROUNDS)
    rows = [
        {"name": one.name, "run": one.id, "mixtures": one.config.head.num_mixtures, **costs[one.name]} for one in plans
    ]
    training = plans[0].config.training
    batch = {"sentences": training.batch_size, "tokens": training.batch_tokens, "rounds": ROUNDS, "threads": 1}
    return {**header("cost", scale.name, training.seed), "batch": batch, "rows": rows}


def step_costs(runs: Mapping[str, tuple[Path, Config]], rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """Time (interleaved) and extra memory (in processes of their own) of a step of each run, in both ways."""
    contenders = {(name, way): (*run, fused) for name, run in runs.items() for way, fused in WAYS.items()}
    threads = torch.get_num_threads()
    steps = {f"{name} {way}": training_step(*given) for (name, way), given in contenders.items()}
    timings = measure.interleaved(steps, rounds)
    del steps
    torch.set_num_threads(threads)
    costs: dict[str, dict[str, dict[str, float]]] = {name: {} for name in runs}
    for (name, way), given in progress(contenders.items(), "memory", len(contenders)):
        timing = timings[f"{name} {way}"]
        costs[name][way] = {
            "ms": round(1000 * timing.median, 2),
            "ms_spread": round(1000 * timing.spread, 2),
            "megabytes": round(measure.extra_memory(training_step, *given) / MEGABYTE, 1),
        }
    return costs


def training_step(root: Path, config: Config, fused: bool) -> Callable[[], object]:
    """Loss and gradients, one thread, of the validation text's batch of middle length."""
    torch.set_num_threads(1)
    folder = RunFolder(root)
    _, base = folder.read()
    task = build_task(config, base, folder)
    model = task.build_model().train()
    batches = sorted(task.training_batches(task.dataset("valid"), 0, 1).epoch(0), key=lambda batch: batch.num_tokens)

    def step(batch: "Batch") -> None:
        loss = model(batch)[0].loss if fused else plain_loss(model.head, model.body(batch)[0], batch.target)
        loss.backward()

    step(batches[0])  # gradients then exist, and libraries have allocated what they keep
    return partial(step, batches[len(batches) // 2])


def plain_loss(head: nn.Module, hidden: Tensor, targets: Tensor) -> Tensor:
    """The same loss, of hidden states [B, T, D], with all logits in memory."""
    assert isinstance(head, Head)
    if isinstance(head, ShortlistHead | Mixtape):  # with gradients, its log-probabilities follow the plain formula
        return F.nll_loss(head.log_probs(hidden.flatten(0, 1)), targets.flatten(), ignore_index=PAD)
    contexts, log_prior = head.parts(hidden.flatten(0, 1))  # [N, K, d], [N, K]
    if head.softmaxes > 1:
        return public_formula(contexts, log_prior, head.weight, head.bias, targets.flatten(), PAD)
    return F.cross_entropy(F.linear(contexts[:, 0], head.weight, head.bias), targets.flatten(), ignore_index=PAD)
