"""`fastmos bench decode`: beam search with an LSTM and a Transformer and every head, as multiples of one softmax.

Nothing is trained. Tokens have the frequencies of words as biases, and the output embedding is scaled until the entropy
of a token is 3 nats, that of a translation model in training: what search has to look at depends on it. Outputs end
at the limit, so all take equally many steps. "tail" is the share of rows in which search asked for all tokens.
With `--peers`, CTranslate2 searches with the weights of our Transformer, and Hugging Face with a model of its sizes.
Seconds are those of one thread on the processor, so that other work on the machine counts little.
"""

import math
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fastmos.bench.models import (
    BODIES,
    HEADS,
    MIXTURES,
    SEED,
    SOFTMAX,
    Sizes,
    build,
    draw_batch,
    draw_words,
    print_provenance,
    rows_of,
    timed,
    zipf,
)
from fastmos.bench.peers import CTRANSLATE2, KINDS, Peer, peer_python, prepare, versions
from fastmos.data.batches import decoding_batch
from fastmos.files import write_json
from fastmos.heads import MixtureOfSoftmaxes, PartialLogProbs, ShortlistMixture
from fastmos.models import Generator, packed
from fastmos.provenance import provenance
from fastmos.search import beam_search
from fastmos.tokenizers import BOS, EOS, PAD, WordTokenizer

ENTROPY = 3.0  # nats
NEVER = -40.0  # bias of eos, so that outputs end at the limit only
BEAM_SIZE = 5
LENGTH = 13  # words of a source sentence
STEPS = {"full": 20, "quick": 6}
BATCHES = ([32], [1] * 8)  # sentences of each batch, one batch after the other
SIZES = {"full": Sizes(rounds=5), "quick": Sizes(rounds=3)}
INT8 = (SOFTMAX, f"MoS, K = {MIXTURES}", f"shortlist, K = {MIXTURES}")  # the heads that also search with int8
Batches = list[list[list[int]]]  # of sentences, of tokens


def run(quick: bool = False, output: Path | None = None, peers: Path | None = None) -> dict[str, Any]:
    """Measure, print the tables, and write JSON where `output` says so; `peers` holds the others' environment."""
    size = "quick" if quick else "full"
    sizes, steps = SIZES[size], STEPS[size]
    record: dict[str, Any] = {"provenance": provenance(SEED), "steps": steps, "beam_size": BEAM_SIZE}
    record["sizes"] = vars(sizes)
    python = None if peers is None else peer_python(peers)
    if python is not None:
        record["peers"] = versions(python)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for body in BODIES:
            cases = measure(body, sizes, steps, python if body == "Transformer" else None)
            record["cases"] = [*record.get("cases", []), *cases]
    finally:
        torch.set_num_threads(threads)
    for case in record["cases"]:
        print_case(case, sizes, steps)
    print_provenance(record["provenance"])
    for name, version in record.get("peers", {}).items():
        print(f"{name} {version}")
    if output is not None:
        write_json(output, record)
    return record


def measure(body: str, sizes: Sizes, steps: int, python: Path | None = None) -> list[dict[str, Any]]:
    """One case for each list of batches."""
    tokenizer = WordTokenizer([f"w{rank}" for rank in range(sizes.vocab_size - 4)])
    plain = {head: sharpened(build(body, head, sizes).eval(), sizes) for head in HEADS}
    models = {head: Counting.of(packed(model)) for head, model in plain.items()}
    models |= {f"{head}, int8": Counting.of(packed(plain[head], int8=True)) for head in INT8}
    with ExitStack() as stack:
        peers = {}
        if python is not None:
            folder = stack.enter_context(prepare(plain[SOFTMAX], steps, BEAM_SIZE))
            peers = {kind: stack.enter_context(closing(Peer(python, kind, folder))) for kind in KINDS}
        return [measure_case(body, sizes, steps, tokenizer, models, peers, case) for case in BATCHES]


def measure_case(
    body: str,
    sizes: Sizes,
    steps: int,
    tokenizer: WordTokenizer,
    models: dict[str, "Counting"],
    peers: dict[str, Peer],
    case: list[int],
) -> dict[str, Any]:
    batches: Batches = [draw_words((sentences, LENGTH), sizes.vocab_size).tolist() for sentences in case]

    def search(model: "Counting") -> Callable[[], object]:
        def every_batch() -> None:
            for batch in batches:
                beam_search(model, tokenizer, decoding_batch(batch), beam_size=BEAM_SIZE, max_length=steps - 1)

        return every_batch

    def ask(peer: Peer) -> Callable[[], object]:
        return lambda: peer.search(batches)

    contenders = {name: search(model) for name, model in models.items()} | {n: ask(one) for n, one in peers.items()}
    timings = timed(contenders, sizes.rounds)
    rows = rows_of(timings)
    for one in rows:
        one["tail"] = models[one["name"]].tail if one["name"] in models else None
        one["x ctranslate2"] = timings[one["name"]].ratio(timings[CTRANSLATE2]) if peers else None
    found: dict[str, Any] = {"body": body, "sentences": case[0], "batches": len(case), "rows": rows}
    if peers:  # equal weights, so equal log-probabilities
        batch = batches[0]
        ours = beam_search(models[SOFTMAX], tokenizer, decoding_batch(batch), beam_size=BEAM_SIZE, max_length=steps - 1)
        theirs = peers[CTRANSLATE2].score(batch, [best[0].tokens for best in ours])
        found["difference"] = max(abs(best[0].log_prob - its) for best, its in zip(ours, theirs, strict=True))
    return found


def print_case(case: dict[str, Any], sizes: Sizes, steps: int) -> None:
    sentences = f"{case['sentences']} sentence{'s' * (case['sentences'] > 1)} at once"
    title = f"{case['body']}, beam {BEAM_SIZE}, {sentences}, {steps} steps, V = {sizes.vocab_size:,}"
    print(f"\n{title}\n{'':30}{'ms':>9}{'spread':>9}{'x softmax':>11}{'x CTranslate2':>15}{'tail':>7}")
    for one in case["rows"]:
        milliseconds = (1e3 * one[key] / case["batches"] for key in ("median", "spread"))
        peer, tail = one["x ctranslate2"], one["tail"]
        print(
            f"{one['name']:30}{next(milliseconds):9.1f}{next(milliseconds):9.1f}{one['ratio']:11.2f}"
            f"{'' if peer is None else format(peer, '.2f'):>15}{'' if tail is None else format(tail, '.0%'):>7}"
        )
    if "difference" in case:
        print(f"log-probabilities of our outputs by CTranslate2 differ by {case['difference']:.0e} at most")


class Counting(Generator):
    """A generator that counts its rows, and those that search had completed."""

    rows = completed = 0
    partial = False

    @classmethod
    def of(cls, model: Generator) -> "Counting":
        return cls(model.body, model.head).eval()

    @property
    def tail(self) -> float | None:
        """The share of rows that were completed; None where nothing is put off."""
        return self.completed / self.rows if self.partial else None

    def step(self, tokens: Tensor, state: Any) -> tuple[Any, Any]:
        log_probs, state = super().step(tokens, state)
        self.rows += len(tokens)
        if not isinstance(log_probs, PartialLogProbs):
            return log_probs, state
        self.partial = True

        def complete(rows: Tensor) -> None:
            self.completed += len(rows)
            log_probs.complete(rows)

        return log_probs._replace(complete=complete), state


@torch.no_grad()
def sharpened(model: Generator, sizes: Sizes) -> Generator:
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
    head.bias[[PAD, BOS, EOS]] = NEVER
    return model


def entropy(log_probs: Tensor) -> float:
    """The mean entropy of distributions [N, V]."""
    return float(torch.special.entr(log_probs.exp()).sum(1).mean())


def in_tail(head: ShortlistMixture, hidden: Tensor) -> float:
    """The mean probability of all tokens that are not on the shortlist."""
    return float(head.shortlist_log_probs(hidden)[1].exp().mean())
