"""Whole models with every head, and text with the frequencies of words, for `fastmos bench step` and `decode`."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fastmos.data.batches import Batch
from fastmos.heads import Head, Mixtape, MixtureOfSoftmaxes, ShortlistMixture, Softmax, best_shortlist, products
from fastmos.measure import Timing, interleaved
from fastmos.models import AttentionLSTM, Generator, Transformer
from fastmos.tokenizers import BOS, EOS

SEED = 0
SPECIALS = 4
ZIPF = 1.2  # the n-th word is as frequent as 1 / n^1.2: of 10,000, the first 1,000 cover 90 %, as in Multi30k
SOFTMAX = "one softmax"
MIXTURES = 9
BODIES: dict[str, Callable[[int, int], nn.Module]] = {  # of benchmarks/README.md
    "LSTM": lambda size, width: AttentionLSTM(size, size, hidden_size=width, dropout=0.2, embedding_dropout=0.2),
    "Transformer": lambda size, width: Transformer(
        size,
        size,
        hidden_size=width,
        ffn_size=4 * width,
        num_heads=4,
        num_layers=3,
        dropout=0.1,
        ffn_dropout=0.1,
        norm="pre",
    ),
}
HEADS: dict[str, Callable[[int, Tensor], Head]] = {  # of a hidden size and the frequencies of tokens
    SOFTMAX: lambda width, counts: Softmax(width, len(counts)),
    "adaptive softmax": lambda width, counts: ShortlistMixture(width, len(counts), 1, best_shortlist(counts, 1)),
    f"MoS, K = {MIXTURES}": lambda width, counts: MixtureOfSoftmaxes(width, len(counts), MIXTURES),
    f"shortlist, K = {MIXTURES}": lambda width, counts: ShortlistMixture(
        width, len(counts), MIXTURES, best_shortlist(counts, MIXTURES)
    ),
    "Mixtape": lambda width, counts: Mixtape(width, len(counts)),
}


@dataclass(frozen=True)
class Sizes:
    """What is measured."""

    vocab_size: int = 10_000
    hidden_size: int = 256
    rounds: int = 10


def zipf(vocab_size: int) -> Tensor:
    """Relative frequencies [V] of tokens: special ones first, as often as the most frequent word, then the words."""
    words = torch.arange(1, vocab_size - SPECIALS + 1, dtype=torch.float64) ** -ZIPF
    frequencies = torch.cat([words[:1].expand(SPECIALS), words])
    return frequencies / frequencies.sum()


def draw_words(shape: tuple[int, ...], vocab_size: int) -> Tensor:
    """Words at random by these frequencies."""
    words = torch.multinomial(zipf(vocab_size)[SPECIALS:], torch.Size(shape).numel(), replacement=True)
    return words.view(shape) + SPECIALS


def draw_batch(rows: int, length: int, vocab_size: int) -> Batch:
    """Lines of equally many tokens on both sides, eos counted."""
    source, target = (draw_words((rows, length), vocab_size) for _ in range(2))
    source[:, -1] = target[:, -1] = EOS
    inputs = torch.cat([torch.full((rows, 1), BOS), target[:, :-1]], 1)
    return Batch(inputs, target, source, torch.arange(rows))


def build(body: str, head: str, sizes: Sizes) -> Generator:
    torch.manual_seed(SEED)
    built = BODIES[body](sizes.vocab_size, sizes.hidden_size)
    return Generator(built, HEADS[head](sizes.hidden_size, zipf(sizes.vocab_size)))


def timed(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, Timing]:
    """Times of the contenders, which work in this thread alone, by its clock."""
    return interleaved(contenders, rounds, time.thread_time)


def rows_of(timings: dict[str, Timing]) -> list[dict[str, Any]]:
    """Times of the contenders, and as multiples of one softmax in the same round."""
    return [
        {
            "name": name,
            "seconds": timing.seconds,
            "median": timing.median,
            "spread": timing.spread,
            "ratio": timing.ratio(timings[SOFTMAX]),
        }
        for name, timing in timings.items()
    ]


def print_rows(title: str, rows: Sequence[dict[str, Any]], extra: str = "") -> None:
    print(f"\n{title}\n{'':30}{'ms':>9}{'spread':>9}{'x softmax':>11}{extra}")
    for one in rows:
        more = f"{one['tail']:>10.0%}" if one.get("tail") is not None else ""
        print(f"{one['name']:30}{1e3 * one['median']:9.1f}{1e3 * one['spread']:9.1f}{one['ratio']:11.2f}{more}")


def print_provenance(about: dict[str, Any]) -> None:
    print("\n{command}, {date}, {machine}, one thread, torch {torch}, commit {commit}".format(**about))
    print(f"products of float32: {products.describe()}")
