"""`fastmos bench ...`: measure this machine; ratios within one run are what to compare."""

import os
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from fastmos.errors import InputError


def head(quick: bool = False, output: Path | None = None) -> None:
    """Time and memory of the loss beside the formulas in use.

    Args:
        quick: Two small shapes, within a minute.
        output: Write the figures here as JSON, and a plot beside it as PNG.
    """
    from fastmos.bench.head import run

    run(quick, output)


def codings(text: Path | None = None, quick: bool = False, output: Path | None = None) -> None:
    """Speed of the codings beside tokenizers, subword-nmt and sentencepiece, on one core.

    Args:
        text: A tokenised text to measure with, plain or gzip; generated text by default.
        quick: A small text, within half a minute.
        output: Write the figures here as JSON.
    """
    from fastmos.bench import codings as bench

    bench.run(quick, output, text)


def assignment(
    quick: bool = False, output: Path | None = None, dense_to: int | None = None, costs: Path | None = None
) -> None:
    """Speed and cost of the table solvers beside scipy.

    Args:
        quick: 5,000 and 30,000 words, scipy at 5,000, within a minute; otherwise 20,000 too, which takes scipy minutes.
        output: Write the figures here as JSON.
        dense_to: Ask scipy up to this many words; 30,000 take it 10 minutes and 7 GB.
        costs: Instead, on real costs: the folder of a learnt table that `fastmos bench tables --folder` kept.
    """
    # CPU seconds are compared: several threads of numpy's matrix products would be counted while they wait, too.
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    from fastmos.bench import assignment as bench

    if costs is None:
        bench.run(quick, output, dense_to)
    else:
        bench.run_on_costs(costs, output)


def tables(
    train: Positional[tuple[Path, ...]] = (),
    *,
    valid: tuple[Path, ...] = (),
    size: int | None = None,
    words: int | None = None,
    min_count: int | None = None,
    start: Literal["neighbours", "diagonal", "frequency", "random"] = "neighbours",
    seeds: int = 3,
    rounds: int = 8,
    epochs: int = 3,
    tables: tuple[Literal["random", "frequency", "diagonal", "neighbours", "learnt-half", "learnt-exact"], ...] = (),
    folder: Path | None = None,
    quick: bool = False,
    output: Path | None = None,
) -> None:
    """Learnt tables beside those by frequency and at random, each judged by a new language model of the same budget.

    Args:
        train: Tokenised training text, plain or gzip; the English side of the embedded sample by default.
        valid: Held-out text.
        size: How many codes, beside the four special ones; rows and columns only (LightRNN) by default.
        words: How many words the vocabulary holds; all by default.
        min_count: Leave out words that occur less often.
        start: What learning starts from.
        seeds: How many seeds.
        rounds: Of learning, at most.
        epochs: Of the new language models.
        tables: Only these; all by default.
        folder: Keep all tables and states here, and go on with what is there.
        quick: One seed on little text, within a minute: to see that all works, not for figures.
        output: Write the figures here as JSON.
    """
    from fastmos.bench import tables as bench

    if bool(train) != bool(valid):
        raise InputError("give training text and --valid together, or neither for the embedded sample")
    sizes = bench.Sizes(size, words, min_count)
    chosen = tables or bench.TABLES
    bench.run(quick, output, train, valid, sizes, start, seeds, rounds, epochs, folder, chosen)
