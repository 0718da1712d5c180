"""`fastmos data ...`: write the embedded sample, list the corpora of the paper, download and prepare one."""

from pathlib import Path

from tyro.conf import Positional


def sample(folder: Positional[Path], *, pairs: int = 20_000, valid: int = 500, test: int = 500, seed: int = 0) -> None:
    """Write the embedded German-English sample: train, valid and test (.de and .en), tokenised and lowercased.

    Args:
        folder: Where the six files go.
        pairs: Training pairs.
        valid: Validation pairs.
        test: Test pairs; neither these nor the validation pairs recur in the training text.
        seed: The same seed gives the same text everywhere.
    """
    from fastmos.data.sample import write_sample

    counts = write_sample(folder, pairs=pairs, valid=valid, test=test, seed=seed)
    _say(folder, counts)


def list_corpora() -> None:
    """List the corpora that `fastmos data get` knows, and what they weigh."""
    from fastmos.data.preprocess import CORPORA

    for name, corpus in CORPORA.items():
        sizes = [remote.size for remote in corpus.remotes]
        weight = f"{sum(size or 0 for size in sizes) / 1e9:.1f} GB" if all(sizes) else "under 0.1 GB"
        print(f"{name:16} {weight:>12}  {corpus.about}")


def get(name: Positional[str], *, folder: Path | None = None, mirror: str | None = None) -> None:
    """Download a corpus from its official addresses and prepare it as the paper did; an interrupted download goes on.

    Args:
        name: One of `fastmos data list`.
        folder: Where it goes; data/NAME by default.
        mirror: An address under which the original files lie by their names.
    """
    from fastmos.data.preprocess import get_corpus

    folder = folder or Path("data", name)
    _say(folder, get_corpus(name, folder, mirror=mirror))


def _say(folder: Path, counts: dict[str, int]) -> None:
    held = ", ".join(f"{part} {count:,}" for part, count in sorted(counts.items(), key=lambda item: -item[1]))
    print(f"{folder}: pairs: {held}")
