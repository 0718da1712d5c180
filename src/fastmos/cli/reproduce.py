"""`fastmos reproduce`: the paper's tables and figures."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


def reproduce(
    suite: Positional[str],
    scale: str = "multi30k",
    seeds: int | None = None,
    only: str = "",
    runs: Path = Path("runs"),
    results: Path = Path("results"),
    show: Annotated[bool, arg(name="list")] = False,
) -> None:
    """Train what a table of the paper needs and is not there yet, and print our figures beside the paper's.

    An interrupted run goes on. The same command may be started twice: each takes what the other has not begun.

    Args:
        suite: overall, words, oov, same-budget, same-softmaxes, rank, mixtures, tables, wmt; or all.
        scale: multi30k, flickr8k, europarl or sample; paper: as the paper did (or a part of it: iwslt14, coco, wmt14).
        seeds: runs of each row; what is usual for suite and scale if not given.
        only: rows with this in the name that their table gives them.
        runs: folder of run folders, tables and text.
        results: folder of results, one JSON file a run.
        show: train nothing; list what is done and what is to do, and print the tables of what is there.
    """
    from fastmos.experiments.reproduce import reproduce as work

    work(suite, scale, seeds=seeds, only=only, runs=runs, results=results, show=show)
