"""Time and memory of a training step, for all rows at once: by the plain formula, and by the fused loss.

The plain formula is what the paper could do: torch's cross-entropy for one softmax, the public code's for several.

Time is interleaved across rows, so that slow spells of the machine meet all alike; memory is measured in a process for
each. Both need codings and shapes, not trained weights.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastmos.experiments.plans import Plan
from fastmos.experiments.runs import header
from fastmos.experiments.scales import Scale
from fastmos.training.config import Config
from fastmos.training.folder import RunFolder

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fastmos.data import Batch

WAYS = {"plain": False, "fused": True}
ROUNDS = 11
MEGABYTE = 10**6


def cost_record(plans: Sequence[Plan], scale: Scale, runs: Path, rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure one step of every plan."""
    from fastmos.training import experiment

    given = {}
    for one in plans:
        folder = RunFolder(runs / "cost" / one.id)
        with folder.lock():
            experiment.begin(one.config, runs, folder)
        given[one.name] = folder.root, one.config
    costs = step_costs(given, rounds)
    rows = [
        {
            "name": one.name,
            "run": one.id,
            "mixtures": one.config.head.mixtures,
            "codes": one.config.codings.target.codes,
            **costs[one.name],
        }
        for one in plans
    ]
    training = plans[0].config.training
    batch = {"sentences": training.batch_sentences, "tokens": training.batch_tokens, "rounds": rounds, "threads": 1}
    return {**header("cost", scale.name, training.seed), "batch": batch, "rows": rows}


def step_costs(runs: Mapping[str, tuple[Path, Config]], rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """Time (interleaved) and extra memory (in processes of their own) of a step of each run, in both ways."""
    import torch

    from fastmos.bench.measure import extra_memory, interleaved
    from fastmos.progress import progress

    contenders = {(name, way): (*run, fused) for name, run in runs.items() for way, fused in WAYS.items()}
    threads = torch.get_num_threads()
    steps = {f"{name} {way}": training_step(*given) for (name, way), given in contenders.items()}
    timings = interleaved(steps, rounds)
    del steps
    torch.set_num_threads(threads)
    costs: dict[str, dict[str, dict[str, float]]] = {name: {} for name in runs}
    for (name, way), given in progress(contenders.items(), "memory", len(contenders)):
        timing = timings[f"{name} {way}"]
        costs[name][way] = {
            "ms": round(1000 * timing.median, 2),
            "ms_spread": round(1000 * timing.spread, 2),
            "megabytes": round(extra_memory(training_step, *given) / MEGABYTE, 1),
        }
    return costs


def training_step(root: Path, config: Config, fused: bool) -> Callable[[], object]:
    """Loss and gradients, one thread, of the middle one by length of the validation text's batches."""
    import torch

    from fastmos.training.build import build_model, load_codings, training_batches
    from fastmos.training.experiment import encode_split

    torch.set_num_threads(1)
    folder = RunFolder(root)
    _, base = folder.read()
    source, target = load_codings(folder)
    pair = encode_split(config, "valid", source, target, base, folder)
    model = build_model(config, source, target, pair.pictures.features.width if pair.pictures else 0)
    batches = sorted(training_batches(config, pair, 0, 1).epoch(0), key=lambda batch: batch.tokens)
    head = model.train().head

    def step(batch: "Batch") -> None:
        loss = model(batch)[0].loss if fused else plain_loss(head, model.body(batch)[0], batch.target)
        loss.backward()

    step(batches[0])  # gradients then exist, and libraries have what they keep
    return partial(step, batches[len(batches) // 2])


def plain_loss(head: "nn.Module", hidden: "Tensor", targets: "Tensor") -> "Tensor":
    """The same loss, of hidden states [B, T, D], with all logits in memory."""
    import torch.nn.functional as F

    from fastmos.bench.head import public_formula
    from fastmos.codings import PAD
    from fastmos.heads import Head

    assert isinstance(head, Head)
    contexts, log_prior = head.parts(hidden.flatten(0, 1))  # [N, K, d], [N, K]
    if head.softmaxes > 1:
        return public_formula(contexts, log_prior, head.weight, head.bias, targets.flatten(), PAD)
    logits = F.linear(contexts[:, 0], head.weight, head.bias)
    return F.cross_entropy(logits, targets.flatten(), ignore_index=PAD, reduction="sum")
