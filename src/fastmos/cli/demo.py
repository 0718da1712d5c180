"""`fastmos demo`: the whole toolkit in a few minutes."""

from pathlib import Path


def demo(folder: Path = Path("out/demo")) -> None:
    """Train a plain baseline and BPE-MoS on the embedded sample, compare them, translate; minutes on two cores.

    Args:
        folder: where the two runs go; what is done there already is not done again.
    """
    from fastmos.experiments.translation_demo import demo as run

    run(folder)
