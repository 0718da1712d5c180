"""`fastmos bench decode`: beam search with an LSTM and a Transformer and every head, as multiples of one softmax.

Nothing is trained. Tokens have the frequencies of words as biases, and the output embedding is scaled until the entropy
of a token is 3 nats, that of a translation model in training: what search has to look at depends on it. Outputs end
at the limit, so all take equally many steps. "tail" is the share of rows in which search asked for all tokens.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fastmos.bench.models import (
    BODIES,
    HEADS,
    SEED,
    Sizes,
    build,
    draw_batch,
    draw_words,
    print_provenance,
    print_rows,
    rows_of,
    zipf,
)
from fastmos.data.batches import decoding_batch
from fastmos.files import write_json
from fastmos.heads import MixtureOfSoftmaxes, PartialLogProbs, ShortlistMixture
from fastmos.measure import interleaved
from fastmos.models import Generator
from fastmos.provenance import provenance
from fastmos.search import beam_search
from fastmos.tokenizers import EOS, WordTokenizer

ENTROPY = 3.0  # nats
NEVER = -40.0  # bias of eos, so that outputs end at the limit only
BEAM_SIZE = 5
STEPS = {"full": 20, "quick": 6}
BATCHES = (32, 1)  # sentences
SIZES = {"full": Sizes(), "quick": Sizes(rounds=3)}


def run(quick: bool = False, output: Path | None = None) -> dict[str, Any]:
    """Measure, print the tables, and write JSON where `output` says so."""
    size = "quick" if quick else "full"
    sizes, steps = SIZES[size], STEPS[size]
    record: dict[str, Any] = {"provenance": provenance(SEED), "steps": steps, "beam_size": BEAM_SIZE}
    record["sizes"] = vars(sizes)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        record["cases"] = [case for body in BODIES for case in measure(body, sizes, steps)]
    finally:
        torch.set_num_threads(threads)
    for case in record["cases"]:
        sentences = f"{case['sentences']} sentence{'s' * (case['sentences'] > 1)} at once"
        title = f"{case['body']}, beam {BEAM_SIZE}, {sentences}, {steps} steps, V = {sizes.vocab_size:,}"
        print_rows(title, case["rows"], f"{'tail':>10}")
    print_provenance(record["provenance"])
    if output is not None:
        write_json(output, record)
    return record


def measure(body: str, sizes: Sizes, steps: int) -> list[dict[str, Any]]:
    """One case for each number of sentences."""
    tokenizer = WordTokenizer([f"w{rank}" for rank in range(sizes.vocab_size - 4)])
    models = {head: sharpened(Counting.of(build(body, head, sizes)), sizes) for head in HEADS}
    cases = []
    for sentences in BATCHES:
        batch = decoding_batch(draw_words((sentences, 13), sizes.vocab_size).tolist())

        def search(model: "Counting", batch: Any = batch) -> Callable[[], object]:
            return lambda: beam_search(model, tokenizer, batch, beam_size=BEAM_SIZE, max_length=steps - 1)

        for model in models.values():
            model.rows = model.completed = 0
        timings = interleaved({head: search(model) for head, model in models.items()}, sizes.rounds)
        rows = rows_of(timings)
        for one in rows:
            model = models[one["name"]]
            one["tail"] = model.completed / model.rows if isinstance(model.head, ShortlistMixture) else None
        cases.append({"body": body, "sentences": sentences, "rows": rows})
    return cases


class Counting(Generator):
    """A generator that counts its rows, and those that search had completed."""

    rows = completed = 0

    @classmethod
    def of(cls, model: Generator) -> "Counting":
        return cls(model.body, model.head).eval()

    def step(self, tokens: Tensor, state: Any) -> tuple[Any, Any]:
        log_probs, state = super().step(tokens, state)
        self.rows += len(tokens)
        if not isinstance(log_probs, PartialLogProbs):
            return log_probs, state

        def complete(rows: Tensor) -> None:
            self.completed += len(rows)
            log_probs.complete(rows)

        return log_probs._replace(complete=complete), state


@torch.no_grad()
def sharpened(model: Counting, sizes: Sizes) -> Counting:
    """The model with likely tokens of its own in every context, on which the components of a mixture mostly agree."""
    head: Any = model.head
    frequencies = zipf(sizes.vocab_size)
    head.bias.copy_(frequencies.log())
    if isinstance(head, MixtureOfSoftmaxes):
        head.near_softmax_().latent.bias.zero_()
    weights = [head.weight]
    if isinstance(head, ShortlistMixture) and head.tail_bias is not None:  # a token like the others
        head.tail_bias.copy_(head.shortlist.others(frequencies).sum().log())
        head.tail_latent.bias.zero_()
        weights.append(head.tail_weight.uniform_(-0.1, 0.1))
    torch.manual_seed(SEED)
    hidden = model.body(draw_batch(4, 13, sizes.vocab_size))[0].flatten(0, 1)  # [N, D]
    drawn, low, high = [weight.clone() for weight in weights], 0.0, 1e4
    for _ in range(20):  # the entropy falls as the weights grow
        scale = (low + high) / 2 if low else high / 2
        for weight, first in zip(weights, drawn, strict=True):
            weight.copy_(first * scale)
        low, high = (scale, high) if entropy(head(hidden)) > ENTROPY else (low, scale)
    if isinstance(head, ShortlistMixture) and head.tail_bias is not None:
        wanted = float(head.shortlist.others(frequencies).sum())  # outputs are in the tail as often as words are
        for _ in range(20):
            head.tail_bias.add_(math.log(wanted / max(1e-3, in_tail(head, hidden))))
    head.bias[EOS] = NEVER
    return model


def entropy(log_probs: Tensor) -> float:
    """The mean entropy of distributions [N, V]."""
    return float(torch.special.entr(log_probs.exp()).sum(1).mean())


def in_tail(head: ShortlistMixture, hidden: Tensor) -> float:
    """The mean probability of all tokens that are not on the shortlist."""
    return float(head.shortlist_log_probs(hidden)[1].exp().mean())
