"""The paper's tables as a page of Markdown, which is read beside the source without a browser."""

import re
from collections.abc import Sequence

from fastmos.report.figures import sources_of
from fastmos.reproduce.records import Result, days
from fastmos.reproduce.summary import HOW_TO_READ, Line, SuiteTable, shown

HEAD = "# The paper's tables, at our sizes\n\nOur figures beside those of Kong et al. (2019): "


def markdown(tables: Sequence[SuiteTable], results: Sequence[Result]) -> str:
    """All tables that there are results for, each with what differs from the paper and what made it."""
    return (
        "\n\n".join([HEAD + _plain(HOW_TO_READ), *(_section(table, sources_of(table, results)) for table in tables)])
        + "\n"
    )


def _section(table: SuiteTable, sources: Sequence[Result]) -> str:
    in_paper = [column for column in table.columns if any(line.paper.get(column) for line in table.lines)]
    ours, paper = (side.removeprefix("ours") for side in table.sides)
    heads = [""]
    for column in table.columns:
        heads += [f"{column}{ours}", paper] if column in in_paper else [column]
    lines = [
        [_plain(head) for head in heads],
        ["---"] * len(heads),
        *(_cells(line, table.columns, in_paper) for line in table.lines),
    ]
    parts = [
        f"## {table.title} ({table.suite}, {table.scale})",
        "\n".join(f"| {' | '.join(line)} |" for line in lines),
        _sentence(_plain(table.differs)),
    ]
    if table.missing:
        parts.append(f"Not there yet: {_plain('; '.join(table.missing))}.")
    if sources:
        parts.append(_origin(table, sources))
    return "\n\n".join(parts)


def _cells(line: Line, columns: Sequence[str], in_paper: Sequence[str]) -> list[str]:
    cells = [line.name]
    for column in columns:
        cells.append(shown(line.ours[column], column) if column in line.ours else "")
        if column in in_paper:
            cells.append(line.paper.get(column, ""))
    return [_plain(cell) for cell in cells]


def _origin(table: SuiteTable, sources: Sequence[Result]) -> str:
    machines = sorted({str(one.about["machine"]) for one in sources if one.about.get("machine")})
    commits = sorted({str(one.about["commit"]) for one in sources if one.about.get("commit")})
    scored = [line.ours.values() for line in table.lines if line.ours.keys() - {"size"}]
    seeds = min((max(cell.count for cell in cells) for cells in scored), default=1)  # that all rows have
    more = f" --seeds {seeds}" if seeds > table.seeds else ""
    made = [f"`fastmos reproduce {table.suite} --scale {table.scale}{more}`", days(sources), *machines]
    made += [f"commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}"] if commits else []
    return f"{', '.join(filter(None, made))}."


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_|<>\[\]#~])", r"\\\1", text)
