"""The tables of a report: suites beside the paper, runs, and what made them. All of them can be sorted."""

from collections.abc import Callable, Iterable, Sequence
from html import escape

from fastmos.metrics.likelihood import perplexity
from fastmos.report.figures import Looks, by_scale, key, origin, sources_of
from fastmos.report.runs import head_label
from fastmos.reproduce.measurements import COST
from fastmos.reproduce.records import Result, figure_at, number
from fastmos.reproduce.summary import HOW_TO_READ, Cell, SuiteTable, percent, shown

# Columns of the table of runs, those that tell most first: head, where its figure lies in a run, how it is shown.
RUN_COLUMNS: tuple[tuple[str, tuple[str, ...], Callable[[float], str]], ...] = (
    *(
        (f"{split} {label}", ("scores", split, key), shown_as)
        for split in ("test", "valid")
        for label, key, shown_as in (
            ("BLEU", "bleu", "{:.2f}".format),
            ("CIDEr", "cider", lambda value: f"{percent(value):.2f}"),
            ("BLEU-4", "bleu_4", lambda value: f"{percent(value):.2f}"),
            ("NLL per word", "nll_per_word", "{:.3f}".format),
            ("perplexity", "nll_per_word", lambda value: f"{perplexity(value):,.2f}"),
        )
    ),
    ("NLL per known word", ("scores", "test", "nll_per_known_word"), "{:.3f}".format),
    ("unknown words", ("scores", "test", "oov_rate"), "{:.1%}".format),
    ("METEOR", ("scores", "test", "meteor"), lambda value: f"{percent(value):.2f}"),
    ("chrF", ("scores", "test", "chrf"), "{:.2f}".format),
    *((label, ("cost", *path), "{:,.0f}".format) for label, path in COST.columns.items()),
    ("vocabulary", ("vocab_size",), "{:,.0f}".format),
    ("parameters", ("parameters",), "{:,.0f}".format),
    ("epochs", ("epochs",), "{:,.3g}".format),
    ("steps", ("steps",), "{:,.0f}".format),
    ("minutes", ("seconds",), lambda seconds: f"{seconds / 60:,.0f}"),
)
PROVENANCE = ("date", "seed", "commit", "machine", "threads", "torch", "command")


def count(number: int, noun: str) -> str:
    """So many of something, in words."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def missing(what: str) -> str:
    """A note about what is not there."""
    return f'<p class="missing">{escape(what)}</p>'


def table(heads: str, rows: Iterable[str]) -> str:
    """A table that can be sorted, and scrolls inside itself where it is too wide."""
    body = "\n".join(f"<tr{row}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0"><table class="sortable"><thead>{heads}</thead>'
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


def suites_section(tables: Sequence[SuiteTable], results: Sequence[Result], colors: Looks) -> str:
    if not tables:
        return ""
    parts = [f"<p>Our figures beside those of the paper (Kong, Xie, Dai and Hovy, 2019): {escape(HOW_TO_READ)}</p>"]
    for suite in tables:
        parts.append(f"<h3>{escape(suite.title)} <small>{escape(suite.suite)}, {escape(suite.scale)}</small></h3>")
        parts.append(suite_table(suite, colors))
        parts.append(f'<p class="differs">{escape(suite.differs)}</p>')
        parts.append(origin(sources_of(suite, results)))
        parts += [missing(f"Not there yet: {'; '.join(suite.missing)}.")] if suite.missing else []
    return "\n".join(parts)


def suite_table(suite: SuiteTable, colors: Looks) -> str:
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
        under.append(head(place, dict(zip(("ours", "paper"), suite.sides, strict=True))[kind], looks[column]))
    lines = []
    for line in suite.lines:
        cells = [f'><th scope="row">{key(line.name, colors, line.run)}</th>']
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


def runs_section(runs: Sequence[Result], costs: Sequence[Result], colors: Looks) -> str:
    """A table of runs for each scale, with what a training step of each costs where that was measured."""
    measured = {(cost.scale, str(row.get("name"))): row for cost in costs for row in cost.rows()}
    parts = ["<p>Every run; its seed leads to what made it.</p>"] if runs else []
    for scale, group in by_scale(runs).items():
        records = [{**run.data, "cost": measured.get((scale, run.name), {})} for run in group]
        columns = [one for one in RUN_COLUMNS if any(figure_at(record, *one[1]) is not None for record in records)]
        heads = head(0, "run", "") + "".join(head(place, name) for place, (name, *_) in enumerate(columns, 1))
        heads += head(len(columns) + 1, "head", "")
        lines = []
        for run, record in zip(group, records, strict=True):
            seed = number(run.about.get("seed"))
            link = "" if seed is None else f' <a class="seed" href="#{run.anchor}">seed&nbsp;{seed:g}</a>'
            cells = [f'><th scope="row">{key(run.name, colors)}{link}</th>']
            for _, path, shown_as in columns:
                value = figure_at(record, *path)
                cells.append(numeric(value, "" if value is None else shown_as(value)))
            cells.append(f"<td>{escape(head_label(run.part('config').get('head')))}</td>")
            lines.append("".join(cells))
        parts.append(f"<h3>{escape(scale)}</h3>{table(f'<tr>{heads}</tr>', lines)}")
    return "".join(parts)


def provenance_section(results: Sequence[Result], left_out: Sequence[str]) -> str:
    heads = "".join(head(place, name, "") for place, name in enumerate(("result", "scale", "file", *PROVENANCE)))
    lines = [
        f' id="{result.anchor}"><th scope="row">{escape(result.name)}</th><td>{escape(result.scale)}</td>'
        f"<td>{escape(result.file)}</td>"
        + "".join(f'<td class="{name}">{escape(str(result.about.get(name, "")))}</td>' for name in PROVENANCE)
        for result in results
    ]
    unknown = sum(not result.about for result in results)
    notes = [missing(f"{count(unknown, 'result')} of unknown origin.")] if unknown else []
    notes += [missing(f"Left out: {sentence}.") for sentence in left_out]
    about = "<p>What made each result; a + after a commit: with changes that were not committed.</p>"
    return "".join(notes) + about + table(f"<tr>{heads}</tr>", lines)
