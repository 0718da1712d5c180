"""How long trained runs take to translate: all rows of a table in turn, so that slow spells of the machine meet all."""

from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from fastmos.files import read_lines
from fastmos.inference.run import load
from fastmos.measure import interleaved
from fastmos.reproduce.plans import Plan
from fastmos.reproduce.records import header
from fastmos.reproduce.scales import Scale
from fastmos.reproduce.weights import check_weights

SENTENCES, ROUNDS = 64, 5


def decoding_record(plans: Sequence[Plan], scale: Scale, runs: Path) -> dict[str, Any]:
    """Time to translate the first sentences of the test text, with the beam of the config, on one thread of a CPU."""
    check_weights(plans, runs)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        loaded = {one.id: load(runs / one.id, "cpu") for one in plans}
        first = next(iter(loaded.values()))
        lines = list(islice(read_lines(first.task.text("test", "source")), SENTENCES))
        timings = interleaved({name: partial(run.translate, lines) for name, run in loaded.items()}, ROUNDS)
    finally:
        torch.set_num_threads(threads)
    rows = [
        {
            "name": one.name,
            "run": one.id,
            "ms": round(1000 * timings[one.id].median / len(lines), 3),
            "ms_spread": round(1000 * timings[one.id].spread / len(lines), 3),
        }
        for one in plans
    ]
    batch = {"sentences": len(lines), "beam_size": first.config.search.beam_size, "rounds": ROUNDS, "threads": 1}
    return {**header("decoding", scale.name, 1), "batch": batch, "rows": rows}
