"""What models write: their outputs beside sources and references, and the words of learned tables."""

import difflib
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fastmos.report.figures import Looks, by_scale, key, one_of_each, origin
from fastmos.report.runs import texts_of
from fastmos.report.tables import missing
from fastmos.reproduce.records import Result

OPEN = 3  # outputs that are unfolded


def outputs_section(runs: Sequence[Result], colors: Looks) -> str:
    """Outputs of all models, line by line; where sources and references can be read, they come first."""
    parts = []
    for scale, group in by_scale(runs).items():
        shown = [run for run in one_of_each(group) if _split(run)]
        if not shown:
            continue
        split = _split(shown[0])
        shown = [run for run in shown if _split(run) == split]
        texts = [_numbered(run.part("outputs")[split]) for run in shown]
        here = texts_of(shown[0].part("config"), split)
        given = {
            kind: _numbered(shown[0].part("outputs").get(kind) or here.get(kind) or ())
            for kind in ("source", "reference")
        }
        about = (
            f"The first lines of the {'validation' if split == 'valid' else split} set. Underlined: differs from the "
            "first of these models."
        )
        parts.append(
            f"<h3>{escape(scale)}</h3><p>{about}</p>{_unread(shown[0], split) if not any(given.values()) else ''}"
        )
        for place, title in enumerate(texts[0]):
            rows = [
                f'<div class="given"><dt>{kind}</dt><dd>{escape(lines[title])}</dd></div>'
                for kind, lines in given.items()
                if title in lines
            ]
            rows += [
                f"<div><dt>{key(run.name, colors)}</dt><dd>{_differing(lines[title], texts[0][title])}</dd></div>"
                for run, lines in zip(shown, texts, strict=True)
                if title in lines
            ]
            opened = " open" if place < OPEN else ""
            parts.append(
                f'<details{opened}><summary>{escape(title)}</summary><dl class="outputs">{"".join(rows)}</dl></details>'
            )
        parts.append(origin(shown))
    return "".join(parts)


def _unread(run: Result, split: str) -> str:
    """Says why no sources and references are shown."""
    data = run.part("config").get("data")
    files = data.get(split) if isinstance(data, Mapping) else None
    name = files.get("target") if isinstance(files, Mapping) else None
    return missing(f"Sources and references are missing: {name} cannot be read here.") if name else ""


def _split(run: Result) -> str:
    """The split that a run has outputs of; empty if it has none."""
    return next((split for split in ("test", "valid") if run.part("outputs").get(split)), "")


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


def words_section(results: Sequence[Result]) -> str:
    """The rows of learned tables, with a search."""
    learned = one_of_each([result for result in results if result.data.get("table")])
    if not learned:
        return ""
    parts = [
        "<p>Words of a row share their first code; a dot is an empty cell.</p>"
        '<label>Rows with words that contain <input id="search" type="search" autocomplete="off"></label>'
        '<p id="count" class="quiet" role="status"></p>'
    ]
    for place, run in enumerate(learned):
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
