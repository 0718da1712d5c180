"""`fastmos report`: results as a page to look at."""

import sys
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


def report(
    results: Positional[tuple[Path, ...]] = (Path("results"),),
    *,
    output: Annotated[Path, arg(aliases=["-o"])] = Path("report.html"),
) -> None:
    """One HTML page of results that needs no network: tables beside the paper's, figures, words, outputs.

    Args:
        results: files that fastmos reproduce wrote, or folders of them.
        output: the page; if its name ends in .md, the tables alone, as Markdown.
    """
    from fastmos.experiments.report import write_report

    for sentence in write_report(results, output):
        print(f"fastmos: warning: left out {sentence}", file=sys.stderr)
    how = "" if output.suffix.lower() == ".md" else "; open it in a browser"
    print(f"{output}: {output.stat().st_size / 1000:,.0f} kB{how}")
