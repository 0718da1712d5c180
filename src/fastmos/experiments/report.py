"""The report: results in, one HTML page out that needs nothing but itself; or, as Markdown, the tables alone.

The page's frame, style and script lie beside this file; everything that comes from a result is escaped on its way in.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from fastmos.errors import InputError
from fastmos.experiments import figures
from fastmos.experiments.figures import Looks, by_scale, key, one_of_each, origin
from fastmos.experiments.markdown import markdown
from fastmos.experiments.report_tables import count, provenance_section, runs_section, suites_section
from fastmos.experiments.result_files import Result, days, number, read_results
from fastmos.experiments.summary import SuiteTable, suite_tables
from fastmos.files import check_output, written_whole

TITLE = "fastmos: results"
ABSENT = {  # section -> the suite that fills it
    "Tables": "all",
    "Number of softmaxes": "mixtures",
    "Time and memory": "same-softmaxes",
    "Rank": "rank",
    "Training": "overall",
    "Inside a model": "overall",
    "Learnt words": "words",
    "Outputs": "overall",
    "All runs": "overall",
}


def write_report(paths: Sequence[Path], output: Path) -> list[str]:
    """Write the page of the results in files and folders; says which files of the folders hold none."""
    check_output(output, [file for path in paths for file in (path.rglob("*.json") if path.is_dir() else [path])])
    if output.suffix.lower() not in (".html", ".htm", ".md"):
        raise InputError(f"{output}: a page is named .html, the tables alone .md")
    results, left_out = read_results(paths)
    tables = suite_tables([result.data for result in results])
    results = in_order(results, tables)
    as_markdown = output.suffix.lower() == ".md"
    if as_markdown and not tables:
        raise InputError(f"{', '.join(map(str, paths))}: no results of a suite, so there are no tables to write")
    text = markdown(tables, results) if as_markdown else page(results, tables, left_out)
    with written_whole(output) as file:
        file.write(text)
    return left_out


def in_order(results: Iterable[Result], tables: Sequence[SuiteTable]) -> list[Result]:
    """Results in the order in which the tables name them, by seed; then the others."""
    named = dict.fromkeys((table.scale, line.run) for table in tables for line in table.lines)
    places = {pair: place for place, pair in enumerate(named)}

    def rank(result: Result) -> tuple[Any, ...]:
        place = places.get((result.scale, result.name), len(places))
        return place, result.scale, result.kind, result.name, number(result.about.get("seed")) or 0

    return sorted(results, key=rank)


def page(results: Sequence[Result], tables: Sequence[SuiteTable], left_out: Sequence[str] = ()) -> str:
    """The whole page. What there are no results for is said in its place."""
    runs = [result for result in results if result.kind == "run"]
    costs = [result for result in results if result.kind == "cost"]
    ranks = [result for result in results if result.kind == "rank"]
    rows = [str(row.get("name", "")) for result in (*costs, *ranks) for row in result.rows()]
    overall = [line.run for table in tables if table.suite == "overall" for line in table.lines]
    colours = figures.looks(name for name in (*overall, *rows, *(run.name for run in runs)) if name)
    sections = {
        "Tables": suites_section(tables, results, colours),
        "Number of softmaxes": figures_section(figures.mixtures_figures(tables, results, colours)),
        "Time and memory": figures_section(figures.cost_figures(costs, colours)),
        "Rank": figures_section(figures.rank_figures(ranks, colours)),
        "Training": figures_section(figures.training_figures(runs, colours)),
        "Inside a model": inside_section(runs, colours),
        "Learnt words": words_section(results),
        "Outputs": outputs_section(runs, colours),
        "All runs": runs_section(runs, colours),
    }
    absent = [name for name, content in sections.items() if not content]
    sections["Provenance"] = provenance_section(results, left_out)
    if absent:
        sections["Not here"] = absent_section(absent)
    sections = {name: content for name, content in sections.items() if content}
    when = f", made {between}" if (between := days(results)) else ""
    scales = ", ".join(by_scale(results))
    here = files("fastmos.experiments")
    return Template((here / "page.html").read_text("utf-8")).substitute(
        title=TITLE,
        summary=escape(
            f"{count(len(runs), 'run')} and {count(len(results) - len(runs), 'measurement')}{when} ({scales})."
        )
        + " A run has the same colour everywhere. Heads of tables sort them.",
        contents="".join(f'<a href="#{_anchor(name)}">{name}</a>' for name in sections),
        sections="\n".join(
            f'<section id="{_anchor(name)}"><h2>{name}</h2>{content}</section>' for name, content in sections.items()
        ),
        style=(here / "page.css").read_text("utf-8"),
        script=(here / "page.js").read_text("utf-8"),
    )


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


# ---- figures


def figures_section(drawn: Sequence[str]) -> str:
    return f'<div class="figures">{"".join(drawn)}</div>' if drawn else ""


def inside_section(runs: Sequence[Result], colours: Looks) -> str:
    drawn = figures.inside_figures(runs, colours)
    if not drawn:
        return ""
    parts = ["<p>One sentence of ours on its way through each model; the stronger a cell, the larger its weight.</p>"]
    for place, (title, content) in enumerate(drawn):
        opened = " open" if place < 2 else ""
        parts.append(
            f'<details{opened}><summary>{escape(title)}</summary><div class="insides">{content}</div></details>'
        )
    return "".join(parts)


# ---- words and outputs


def words_section(results: Sequence[Result]) -> str:
    learnt = one_of_each([result for result in results if result.data.get("table")])
    if not learnt:
        return ""
    parts = [
        "<p>Words of a row share their first code; a dot is an empty cell.</p>"
        '<label>Rows with words that contain <input id="search" type="search" autocomplete="off"></label>'
        '<p id="count" class="quiet" role="status"></p>'
    ]
    for place, run in enumerate(learnt):
        rows = run.data["table"]
        words = sum(word is not None for row in rows for word in row)
        lines = (" ".join("·" if word is None else escape(str(word)) for word in row) for row in rows)
        body = "\n".join(f'<tr><th scope="row">{row}</th><td>{line}</td></tr>' for row, line in enumerate(lines))
        parts.append(
            f'<details class="table"{" open" if not place else ""}><summary>{escape(run.name)} ({escape(run.scale)}): '
            f"{words:,} words in {len(rows):,} rows</summary>"
            f'<div class="words" tabindex="0"><table><tbody>{body}</tbody></table></div>{origin([run])}</details>'
        )
    return "".join(parts)


def outputs_section(runs: Sequence[Result], colours: Looks) -> str:
    parts = []
    for scale, group in by_scale(runs).items():
        shown = [run for run in one_of_each(group) if run.part("outputs").get("test")]
        if not shown:
            continue
        parts.append(
            f"<h3>{escape(scale)}</h3><p>Underlined: words that the first of these models does not have there.</p>"
        )
        texts = [_numbered(run.part("outputs")["test"]) for run in shown]
        given = {kind: _numbered(shown[0].part("outputs").get(kind) or []) for kind in ("source", "reference")}
        for place, title in enumerate(texts[0]):
            rows = [
                f'<div class="given"><dt>{kind}</dt><dd>{escape(lines[title])}</dd></div>'
                for kind, lines in given.items()
                if title in lines
            ]
            rows += [
                f"<div><dt>{key(run.name, colours)}</dt><dd>{_differing(lines[title], texts[0][title])}</dd></div>"
                for run, lines in zip(shown, texts, strict=True)
                if title in lines
            ]
            opened = " open" if place < 3 else ""
            parts.append(
                f'<details{opened}><summary>{escape(title)}</summary><dl class="outputs">{"".join(rows)}</dl></details>'
            )
        parts.append(origin(shown))
    return "".join(parts)


def _numbered(outputs: Sequence[Any] | Mapping[str, Any]) -> dict[str, str]:
    """Outputs by image, or by line."""
    if isinstance(outputs, Mapping):
        return {name: str(text) for name, text in outputs.items()}
    return {f"Line {number}": str(text) for number, text in enumerate(outputs, 1)}


def _differing(text: str, first: str) -> str:
    """The text, with what is not in the first one underlined."""
    ours, theirs = text.split(), first.split()
    parts = []
    for kind, _, _, start, end in difflib.SequenceMatcher(None, theirs, ours, autojunk=False).get_opcodes():
        words = escape(" ".join(ours[start:end]))
        parts.append(words if kind == "equal" else f"<u>{words}</u>" if words else "")
    return " ".join(part for part in parts if part)


def absent_section(names: Sequence[str]) -> str:
    """What the results given say nothing of, and the suite that would."""
    items = (f"<li>{name}: <code>fastmos reproduce {ABSENT[name]}</code></li>" for name in names)
    return f"<p>Of these there are no results among those given; the commands make them.</p><ul>{''.join(items)}</ul>"
