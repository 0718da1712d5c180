"""The tables of a report: the suites beside the paper, all runs, and what made them. All of them can be sorted."""

from collections.abc import Iterable, Sequence
from html import escape

from fastmos.experiments.figures import Looks, behind, key, origin
from fastmos.experiments.result_files import Result, figure_at, number
from fastmos.experiments.summary import HOW_TO_READ, Cell, SuiteTable, shown

# Columns of the table of all runs: head, where its figure lies in a run, its format and factor.
RUN_COLUMNS: tuple[tuple[str, tuple[str, ...], str, float], ...] = (
    ("softmaxes", ("config", "head", "mixtures"), ",.0f", 1),
    ("codes", ("codes",), ",.0f", 1),
    ("parameters", ("parameters",), ",.0f", 1),
    ("epochs", ("epochs",), ",.3g", 1),
    ("minutes", ("seconds",), ",.0f", 1 / 60),
    ("valid BLEU", ("scores", "valid", "bleu"), ".2f", 1),
    ("test BLEU", ("scores", "test", "bleu"), ".2f", 1),
    ("test chrF", ("scores", "test", "chrf"), ".2f", 1),
    ("test BLEU-4", ("scores", "test", "bleu_4"), ".2f", 100),
    ("METEOR", ("scores", "test", "meteor"), ".2f", 100),
    ("CIDEr", ("scores", "test", "cider"), ".2f", 100),
    ("test nats per word", ("scores", "test", "nats_per_word"), ".3f", 1),
    ("of known words", ("scores", "test", "nats_per_known_word"), ".3f", 1),
)
PROVENANCE = ("date", "seed", "commit", "machine", "threads", "torch", "command")


def count(number: int, noun: str) -> str:
    """So many of something, in words."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def missing(what: str) -> str:
    """A note about what is not there."""
    return f'<p class="missing">{escape(what)}</p>'


def table(heads: str, rows: Iterable[str], caption: str = "") -> str:
    """A table that can be sorted, and scrolls inside itself where it is too wide."""
    said = f"<caption>{escape(caption)}</caption>" if caption else ""
    body = "\n".join(f"<tr{row}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0"><table class="sortable">{said}<thead>{heads}</thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def head(column: int, text: str, kind: str = "number", rest: str = "") -> str:
    """The head of a column, by its place in the rows."""
    return f'<th scope="col" data-column="{column}" class="{kind}"{rest}>{escape(text)}</th>'


def numeric(value: float | None, text: str, kind: str = "number") -> str:
    """A cell that sorts by its value."""
    sortable = "" if value is None else f' data-value="{value!r}"'
    return f'<td class="{kind}"{sortable}>{text}</td>'


# ---- the paper's tables


def suites_section(tables: Sequence[SuiteTable], results: Sequence[Result], colours: Looks) -> str:
    if not tables:
        return ""
    parts = [f"<p>Our figures beside those of the paper (Kong, Xie, Dai and Hovy, 2019): {escape(HOW_TO_READ)}</p>"]
    for suite in tables:
        parts.append(f"<h3>{escape(suite.title)} <small>{escape(suite.suite)}, {escape(suite.scale)}</small></h3>")
        parts.append(suite_table(suite, colours))
        parts.append(f'<p class="differs">{escape(suite.differs)}</p>')
        parts.append(origin(behind(suite, results)))
        parts += [missing(f"Not there yet: {'; '.join(suite.missing)}.")] if suite.missing else []
    return "\n".join(parts)


def suite_table(suite: SuiteTable, colours: Looks) -> str:
    """Each column of the suite, and beside it the paper's if it has any."""
    in_paper = {column for column in suite.columns if any(line.paper.get(column) for line in suite.lines)}
    looks = {column: "text" if _holds_words(suite, column) else "number" for column in suite.columns}
    places = (
        (column, kind) for column in suite.columns for kind in ("ours", *(["paper"] if column in in_paper else []))
    )
    groups = [head(0, "row", "", ' rowspan="2"')]
    under = []
    for place, (column, kind) in enumerate(places, 1):
        if kind == "ours" and column not in in_paper:
            groups.append(head(place, column, looks[column], ' rowspan="2"'))
            continue
        if kind == "ours":
            groups.append(f'<th scope="colgroup" colspan="2">{escape(column)}</th>')
        under.append(head(place, kind, looks[column]))
    lines = []
    for line in suite.lines:
        cells = [f'><th scope="row">{key(line.name, colours, line.run)}</th>']
        for column in suite.columns:
            cells.append(_ours(line.ours.get(column), column))
            if column in in_paper:
                paper = line.paper.get(column) or ""
                cells.append(numeric(_leading(paper), escape(paper), f"{looks[column]} paper"))
        lines.append("".join(cells))
    heads = f"<tr>{''.join(groups)}</tr><tr>{''.join(under)}</tr>"
    return table(heads, lines)


def _holds_words(suite: SuiteTable, column: str) -> bool:
    return any(column in line.ours and line.ours[column].text is not None for line in suite.lines)


def _ours(cell: Cell | None, column: str) -> str:
    if cell is None:
        return '<td class="number"></td>'
    if cell.text is not None:
        text = escape(cell.text).replace(" ", "&nbsp;") if column == "size" else escape(cell.text)
        return f'<td class="text">{text}</td>'
    return numeric(number(cell.mean), shown(cell, column))


def _leading(text: str) -> float | None:
    """The number that a figure of the paper begins with, to sort by."""
    word = text.replace(",", "").split(" ")[0]
    try:
        return float(word)
    except ValueError:
        return None


# ---- runs and provenance


def runs_section(runs: Sequence[Result], colours: Looks) -> str:
    if not runs:
        return ""
    columns = [column for column in RUN_COLUMNS if any(figure_at(run.data, *column[1]) is not None for run in runs)]
    heads = head(0, "run", "") + head(1, "scale", "") + head(2, "seed")
    heads += "".join(head(place, name) for place, (name, *_) in enumerate(columns, 3))
    lines = []
    for run in runs:
        cells = [f'><th scope="row">{key(run.name, colours)}</th><td>{escape(run.scale)}</td>']
        seed = number(run.about.get("seed"))
        cells.append(numeric(seed, "" if seed is None else f'<a href="#{run.anchor}">{seed:g}</a>'))
        for _, path, form, factor in columns:
            value = figure_at(run.data, *path)
            cells.append(numeric(value, "" if value is None else f"{value * factor:{form}}"))
        lines.append("".join(cells))
    return table(f"<tr>{heads}</tr>", lines, "Every run that was given; a seed leads to what made it.")


def provenance_section(results: Sequence[Result], left_out: Sequence[str]) -> str:
    heads = "".join(head(place, name, "") for place, name in enumerate(("result", "scale", "file", *PROVENANCE)))
    lines = [
        f' id="{result.anchor}"><th scope="row">{escape(result.name)}</th><td>{escape(result.scale)}</td>'
        f"<td>{escape(result.file)}</td>"
        + "".join(f'<td class="{name}">{escape(str(result.about.get(name, "")))}</td>' for name in PROVENANCE)
        for result in results
    ]
    unsaid = sum(not result.about for result in results)
    notes = [missing(f"{count(unsaid, 'result')} without a word on what made them.")] if unsaid else []
    notes += [missing(f"Left out: {sentence}.") for sentence in left_out]
    return "".join(notes) + table(
        f"<tr>{heads}</tr>", lines, "What made each result; a + after a commit: changed since."
    )
