"""The report: results and runs in, one HTML page out that needs nothing but itself; or, as Markdown, the tables alone.

The page's frame, style and script lie beside this file; everything that comes from a result is escaped on its way in.
"""

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from fastmos.errors import InputError
from fastmos.files import check_output, written_whole
from fastmos.report import figures
from fastmos.report.figures import Looks, by_scale
from fastmos.report.markdown import markdown
from fastmos.report.outputs import outputs_section, words_section
from fastmos.report.runs import run_folders, run_record_of, unique_names
from fastmos.report.tables import count, provenance_section, runs_section, suites_section
from fastmos.reproduce.records import Result, days, number, read_results
from fastmos.reproduce.suites import suite_tables
from fastmos.reproduce.summary import SuiteTable

TITLE = "fastmos: results"


def write_report(paths: Sequence[Path], output: Path) -> list[str]:
    """Write the page of run folders, of files of results, and of folders of either; says which files hold no result."""
    check_output(output, [file for path in paths for file in (path.rglob("*.json") if path.is_dir() else [path])])
    if output.suffix.lower() not in (".html", ".htm", ".md"):
        raise InputError(f"{output}: a page is named .html, the tables alone .md")
    results, left_out = collect(paths)
    tables = suite_tables([result.data for result in results])
    results = in_order(results, tables)
    as_markdown = output.suffix.lower() == ".md"
    if as_markdown and not tables:
        raise InputError(f"{', '.join(map(str, paths))}: no results of a suite, so there are no tables to write")
    text = markdown(tables, results) if as_markdown else page(results, tables, left_out)
    with written_whole(output) as file:
        file.write(text)
    return left_out


def collect(paths: Sequence[Path]) -> tuple[list[Result], list[str]]:
    """Run folders and results; a folder that has run folders in it is read as those, and as nothing else."""
    found = {path: run_folders(path) for path in paths}
    folders = list(dict.fromkeys(folder for some in found.values() for folder in some))
    others = [path for path, some in found.items() if not some]
    results, left_out = read_results(others) if others or not folders else ([], [])
    names = unique_names(folders)
    runs = [
        Result(f"run{place}", str(folder), run_record_of(folder, name))
        for place, (folder, name) in enumerate(zip(folders, names, strict=True), 1)
    ]
    return [*runs, *results], left_out


def in_order(results: Iterable[Result], tables: Sequence[SuiteTable]) -> list[Result]:
    """Results in the order in which the tables name them, by seed; then the others."""
    named = dict.fromkeys((table.scale, line.run) for table in tables for line in table.lines)
    places = {pair: place for place, pair in enumerate(named)}

    def rank(result: Result) -> tuple[Any, ...]:
        place = places.get((result.scale, result.name), len(places))
        return place, result.scale, result.kind, result.name, number(result.about.get("seed")) or 0

    return sorted(results, key=rank)


def page(results: Sequence[Result], tables: Sequence[SuiteTable], left_out: Sequence[str] = ()) -> str:
    """The whole page, without the sections that there are no results for."""
    runs = [result for result in results if result.kind == "run"]
    costs = [result for result in results if result.kind == "cost"]
    ranks = [result for result in results if result.kind == "rank"]
    rows = [str(row.get("name", "")) for result in (*costs, *ranks) for row in result.rows()]
    named = {*rows, *(run.name for run in runs)} - {""}
    lines = [line.run for table in tables for line in table.lines if line.run in named]
    colors = figures.looks([*lines, *rows, *(run.name for run in runs)])
    all_runs = {"Runs": runs_section(runs, costs, colors)}
    sections = {
        **({} if tables else all_runs),  # the first thing to see where there are no tables of suites
        "Tables": suites_section(tables, results, colors),
        "Number of softmaxes": figures_section(figures.mixtures_figures(tables, results, colors)),
        "Time and memory": figures_section(figures.cost_figures(costs, colors)),
        "Rank": figures_section(figures.rank_figures(ranks, colors)),
        "Training": figures_section(figures.training_figures(runs, colors)),
        "Outputs": outputs_section(runs, colors),
        "Inside a model": inside_section(runs, colors),
        "Learned words": words_section(results),
        **all_runs,
        "Provenance": provenance_section(results, left_out),
    }
    sections = {name: content for name, content in sections.items() if content}
    when = f", made {between}" if (between := days(results)) else ""
    counts = [count(len(runs), "run")]
    counts += [count(len(results) - len(runs), "measurement")] if len(results) > len(runs) else []
    summary = f"{' and '.join(counts)}{when} ({', '.join(by_scale(results))})."
    here = files("fastmos.report")
    return Template((here / "page.html").read_text("utf-8")).substitute(
        title=TITLE,
        summary=f"{escape(summary)} A run has the same color everywhere. The head of a column sorts its table.",
        contents="".join(f'<a href="#{_anchor(name)}">{name}</a>' for name in sections),
        sections="\n".join(
            f'<section id="{_anchor(name)}"><h2>{name}</h2>{content}</section>' for name, content in sections.items()
        ),
        style=(here / "page.css").read_text("utf-8"),
        script=(here / "page.js").read_text("utf-8"),
    )


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def figures_section(drawn: Sequence[str]) -> str:
    return f'<div class="figures">{"".join(drawn)}</div>' if drawn else ""


def inside_section(runs: Sequence[Result], colors: Looks) -> str:
    drawn = figures.inside_figures(runs, colors)
    if not drawn:
        return ""
    parts = ["<p>One sentence of ours on its way through each model; the stronger a cell, the larger its weight.</p>"]
    for place, (title, content) in enumerate(drawn):
        opened = " open" if place < 2 else ""
        parts.append(
            f'<details{opened}><summary>{escape(title)}</summary><div class="insides">{content}</div></details>'
        )
    return "".join(parts)
