"""`fastmos bench step`: whole training steps of an LSTM and a Transformer with every head, as multiples of one softmax.

A step is forward, backward, clipping and Adam on a batch with the frequencies of words. All contenders take turns in
one process, on one thread, timed by its clock. One softmax is also measured without the fast products of
`fastmos.heads.products`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from fastmos.bench.models import (
    BODIES,
    HEADS,
    SEED,
    SOFTMAX,
    Sizes,
    build,
    draw_batch,
    print_provenance,
    print_rows,
    rows_of,
    timed,
)
from fastmos.data.batches import Batch
from fastmos.files import write_json
from fastmos.heads import products
from fastmos.provenance import provenance

SLOW = "one softmax, torch's products"
BATCH = {"full": (146, 14), "quick": (36, 14)}  # rows and tokens of a line: 2,048 tokens
SIZES = {"full": Sizes(), "quick": Sizes(rounds=3)}


def run(quick: bool = False, output: Path | None = None) -> dict[str, Any]:
    """Measure, print the tables, and write JSON where `output` says so."""
    size = "quick" if quick else "full"
    sizes, (rows, length) = SIZES[size], BATCH[size]
    record: dict[str, Any] = {"provenance": provenance(SEED), "batch": [rows, length], "sizes": vars(sizes)}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        batch = draw_batch(rows, length, sizes.vocab_size)
        record["bodies"] = {body: rows_of(timed(contenders(body, sizes, batch), sizes.rounds)) for body in BODIES}
    finally:
        torch.set_num_threads(threads)
    for body, measured in record["bodies"].items():
        print_rows(f"{body}, a training step of {rows} x {length} tokens, V = {sizes.vocab_size:,}", measured)
    print_provenance(record["provenance"])
    if output is not None:
        write_json(output, record)
    return record


def contenders(body: str, sizes: Sizes, batch: Batch) -> dict[str, Callable[[], object]]:
    steps = {head: make_step(body, head, sizes, batch) for head in HEADS}
    return {**steps, SLOW: without_fast_products(make_step(body, SOFTMAX, sizes, batch))}


def make_step(body: str, head: str, sizes: Sizes, batch: Batch) -> Callable[[], object]:
    model = build(body, head, sizes).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        output, _ = model(batch)
        (output.loss / batch.num_tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def without_fast_products(step: Callable[[], object]) -> Callable[[], object]:
    def slow() -> None:
        before = products.set_fast_products(False)
        try:
            step()
        finally:
            products.set_fast_products(before)

    return slow
