"""`fastmos bench ...`: measure this machine; ratios within one run are what to compare."""

from pathlib import Path


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


def assignment(quick: bool = False, output: Path | None = None, dense_to: int | None = None) -> None:
    """Speed and cost of the table solvers beside scipy.

    Args:
        quick: 5,000 and 30,000 words, scipy at 5,000, within a minute; otherwise 20,000 too, which takes scipy minutes.
        output: Write the figures here as JSON.
        dense_to: Ask scipy up to this many words; 30,000 take it 10 minutes and 7 GB.
    """
    from fastmos.bench import assignment as bench

    bench.run(quick, output, dense_to)
