"""The figures of a report: results in, HTML with a drawing, a caption and a legend out."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from fastmos.metrics.likelihood import perplexity
from fastmos.report.charts import Bars, Curve, Look, bar_chart, grid, line_chart, named_at_ends
from fastmos.reproduce.measurements import MEASUREMENTS
from fastmos.reproduce.records import Result, figure_at, number
from fastmos.reproduce.summary import SuiteTable

Looks = Mapping[str, Look]
# Scores of validations, of which the first that a run has is drawn: key, label, factor to the table's unit.
SCORES = (("bleu", "BLEU", 1), ("cider", "CIDEr", 100), ("bleu_4", "BLEU-4", 100))
TOGETHER = 6  # so many runs share a chart; more get a small one each
SMALL = (300, 210)  # size of a small chart
LISTED = 3  # sources of a figure that are listed, before the list is cut


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for each name, in the order in which they first come."""
    return {name: Look(number) for number, name in enumerate(dict.fromkeys(names))}


def figure(title: str, drawing: str, text: str, sources: Sequence[Result] = (), legend: str = "") -> str:
    """A drawing with its caption and where it comes from."""
    return (
        f"<figure><figcaption><b>{escape(title)}</b> {escape(text)}</figcaption>"
        f'{legend}<div class="scroll" tabindex="0">{drawing}</div>{origin(sources)}</figure>'
    )


def origin(sources: Sequence[Result]) -> str:
    """Links to what made these results."""
    if not sources:
        return ""
    links = [f'<a href="#{source.anchor}">{escape(said(source))}</a>' for source in sources[:LISTED]]
    if len(sources) > LISTED:
        links.append(f'<a href="#provenance">{len(sources) - LISTED} more</a>')
    return f'<p class="origin">Made by {", ".join(links)}.</p>'


def said(result: Result) -> str:
    """A result in few words."""
    seed = result.about.get("seed")
    return result.name if seed is None else f"{result.name}, seed {seed}"


def legend(names: Iterable[str], colors: Looks) -> str:
    """Names beside their colors."""
    return f'<ul class="legend">{"".join(f"<li>{key(name, colors)}</li>" for name in dict.fromkeys(names))}</ul>'


def key(name: str, colors: Looks, colored_as: str = "") -> str:
    """A name with its color (or that of another name) before it, and dashes if it has any."""
    look = colors.get(colored_as or name)
    if look is None:
        return escape(name)
    line = f'<path class="line {look.color}" stroke-dasharray="{look.dash}" d="M1 5H21"/>'
    return f'<svg class="key" viewBox="0 0 22 10" width="22" height="10" aria-hidden="true">{line}</svg>{escape(name)}'


def by_scale(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Results of each scale, in the order they come in."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.scale, []).append(result)
    return groups


def one_of_each(runs: Sequence[Result]) -> list[Result]:
    """Of runs that differ in their seed only, the one of the lowest."""
    lowest: dict[str, Result] = {}
    for run in sorted(runs, key=lambda run: number(run.about.get("seed")) or 0):
        lowest.setdefault(_without_seed(run), run)
    return [run for run in runs if lowest[_without_seed(run)] is run]


def _without_seed(run: Result) -> str:
    config = run.part("config")
    training = config.get("training")
    settings = {**config, "training": {**training, "seed": 0}} if isinstance(training, Mapping) else config
    return json.dumps([run.scale, run.name, settings], sort_keys=True)


# ---- scores by the number of softmaxes


def sources_of(table: SuiteTable, results: Iterable[Result]) -> list[Result]:
    """The results that a suite's table is made of."""
    names = {line.run for line in table.lines}
    measured = {one.kind for one in MEASUREMENTS if one.columns.keys() & set(table.columns)}
    here = (result for result in results if result.scale == table.scale)
    return [one for one in here if one.name in names or one.kind in measured]


def mixtures_figures(tables: Sequence[SuiteTable], results: Sequence[Result], colors: Looks) -> list[str]:
    """Score by number of softmaxes, for each scale."""
    drawn = []
    for table in tables:
        column = table.columns[0] if table.curve and table.columns else ""
        points = []
        for line in table.lines:
            if (score := _mean(line.ours.get(column))) is not None:
                points.append((line.softmaxes, score, line.ours[column].spread, line.run, line.ours[column].count))
        points.sort(key=lambda point: point[0])
        if not points:
            continue
        best = max(points, key=lambda point: point[1])
        places = [(softmaxes, score) for softmaxes, score, *_ in points]
        known = max((spread for _, _, spread, *_ in points if spread is not None), default=None)
        spreads = [known if spread is None else spread for _, _, spread, *_ in points]
        alone = any(count == 1 for *_, count in points)  # a line would read a course into single runs
        curve = Curve("", places, colors.get(best[3], Look(0)), spreads, marks=True, joined=not alone)
        about = "; ".join(f"{softmaxes:g} softmaxes: {score:.2f}" for softmaxes, score in places)
        chart = line_chart([curve], about, "softmaxes", column, x_ticks=[place for place, _ in places])
        spread = " Bars: the spread over seeds" if any(curve.spreads) else ""
        spread += (
            "; of a point with one seed the largest that is known here." if spread and alone else "." * bool(spread)
        )
        text = f"{column} by the number of softmaxes ({table.scale}).{spread}"
        drawn.append(figure(table.title, chart, text, sources_of(table, results)))
    return drawn


def _mean(cell: Any) -> float | None:
    return None if cell is None else number(cell.mean)


# ---- costs


def cost_figures(results: Sequence[Result], colors: Looks) -> list[str]:
    """Time and memory of a training step, by the plain formula and by the fused loss."""
    drawn = []
    pair = '<ul class="legend"><li><i class="pale"></i>plain formula</li><li><i class="full"></i>fused loss</li></ul>'
    for result in results:
        batch = ", ".join(f"{name} {value}" for name, value in result.part("batch").items() if value)
        for field, unit, title in (
            ("ms", "ms", "Time of a training step"),
            ("megabytes", "MB", "Memory of a training step"),
        ):
            rows = [
                Bars(
                    str(row.get("name", "")),
                    figure_at(row, "plain", field),
                    figure_at(row, "fused", field),
                    colors.get(str(row.get("name", "")), Look(0)),
                )
                for row in result.rows()
            ]
            about = "; ".join(f"{row.name}: plain {row.plain}, fused {row.fused} {unit}" for row in rows)
            if chart := bar_chart(rows, about, unit):
                text = f"{result.scale}{f'; {batch}' if batch else ''}. Shorter is better."
                drawn.append(figure(title, chart, text, [result], pair))
    return drawn


# ---- rank


def rank_figures(results: Sequence[Result], colors: Looks) -> list[str]:
    """Singular values of the log-probability matrix, on a log scale."""
    drawn = []
    for result in results:
        curves = [
            Curve(
                str(row.get("name", "")),
                _places(row.get("singular_values")),
                colors.get(str(row.get("name", "")), Look(0)),
            )
            for row in result.rows()
        ]
        curves = [curve for curve in curves if len(curve.points) > 1]
        size = number(result.data.get("embedding_size"))
        limit = None if size is None else (size + 2, f"{size + 2:g} = d + 2, one softmax's most")
        ranks = "; ".join(f"{row.get('name', '')}: rank {_rank(row)}" for row in result.rows())
        chart = line_chart(curves, ranks, "position", "singular value", log=True, line_at=limit) if curves else ""
        if chart:
            contexts, tokens = (number(result.data.get(name)) or 0 for name in ("contexts", "vocab_size"))
            sizes = f"{contexts:,.0f} contexts by {tokens:,.0f} tokens"
            text = f"of the log-probability matrix, {sizes} ({result.scale}). {ranks}."
            names = "" if named_at_ends(curves) else legend((curve.name for curve in curves), colors)
            drawn.append(figure("Singular values", chart, text, [result], names))
    return drawn


def _rank(row: Mapping[str, Any]) -> str:
    rank = number(row.get("rank"))
    return "unknown" if rank is None else f"{rank:,.0f}"


def _places(values: Any) -> list[tuple[float, float]]:
    """Singular values with their positions."""
    numbers = [tuple(map(number, pair)) for pair in _list(values) if isinstance(pair, list) and len(pair) == 2]
    return [(place, value) for place, value in numbers if place is not None and value is not None]


# ---- training


def training_figures(runs: Sequence[Result], colors: Looks) -> list[str]:
    """Training loss, and validations: score, NLL per word, mixtures in use."""
    drawn = []
    for scale, group in by_scale(runs).items():
        x = _x_axis(group)
        scores = [score for score in SCORES if any(_points(run, "curve", score[0], x) for run in group)][:1]
        lines = [("curve", *score) for score in scores]
        lines += [("losses", "loss", "loss per token", 1), ("curve", "nll_per_word", "NLL per word", 1)]
        lines += [("curve", "effective_mixtures", "mixtures in use", 1)]
        together = len({run.name for run in group}) <= TOGETHER
        for part, field, label, factor in lines if together else lines[:1]:
            curves = [Curve(run.name, _points(run, part, field, x, factor), colors[run.name]) for run in group]
            curves = [curve for curve in curves if curve.points]
            if not curves:
                continue
            title, text = f"Training: {label}", f"on the {PARTS[part]} text, by {x} ({scale})."
            if field == "nll_per_word" and together:
                text += f" Perplexity at the lowest: {_perplexities(curves)}."
            if together:
                chart = line_chart(curves, _ends(curves, label), x, label)
                names = "" if named_at_ends(curves) else legend((curve.name for curve in curves), colors)
                drawn.append(figure(title, chart, text, group, names))
            else:
                drawn.append(_one_each(title, text, curves, x, label, group))
    return drawn


PARTS = {"curve": "validation", "losses": "training"}


def _x_axis(runs: Sequence[Result]) -> str:
    """Epochs, or steps where a run was validated several times an epoch or has curves of its training loss."""
    epochs = [[row.get("epoch") for row in run.rows("curve")] for run in runs]
    repeated = any(len(set(map(str, some))) < len(some) for some in epochs)
    return "step" if repeated or any(run.rows("losses") for run in runs) else "epoch"


def _points(run: Result, part: str, field: str, x: str, factor: float = 1) -> list[tuple[float, float]]:
    found = ((number(row.get(x)), number(row.get(field))) for row in run.rows(part))
    return [(place, factor * value) for place, value in found if place is not None and value is not None]


def _perplexities(curves: Sequence[Curve]) -> str:
    lowest = ((curve.name, min(value for _, value in curve.points)) for curve in curves)
    return "; ".join(f"{name} {perplexity(nll):,.2f}" for name, nll in lowest)


def _ends(curves: Sequence[Curve], label: str) -> str:
    return f"{label} at the end: " + "; ".join(f"{curve.name} {curve.points[-1][1]:.2f}" for curve in curves)


def _one_each(title: str, text: str, curves: Sequence[Curve], x: str, label: str, sources: Sequence[Result]) -> str:
    """A small chart for each name, with the others pale behind it."""
    parts = []
    for name in dict.fromkeys(curve.name for curve in curves):
        own = [Curve("", curve.points, curve.look) for curve in curves if curve.name == name]
        others = [curve for curve in curves if curve.name != name]
        chart = line_chart(own, f"{name}: {_ends(own, label)}", x, label, ghosts=others, size=SMALL)
        parts.append(f"<div><h4>{escape(name)}</h4>{chart}</div>")
    caption = f"<figcaption><b>{escape(title)}</b> {escape(text)} Pale: the other runs.</figcaption>"
    return f'<figure class="wide">{caption}<div class="small">{"".join(parts)}</div>{origin(sources)}</figure>'


# ---- inside a model


def inside_figures(runs: Sequence[Result], colors: Looks) -> list[tuple[str, str]]:
    """For each name, how its mixture and its attention treat the sample sentence: a title and the drawings."""
    drawn = []
    for run in one_of_each([run for run in runs if run.part("inside")]):
        inside = run.part("inside")
        output, source = (list(map(str, _list(inside.get(side)))) for side in ("output", "source"))
        weights, attention = (_matrix(inside.get(kind), len(output)) for kind in ("weights", "attention"))
        parts = []
        if weights and len(weights[0]) > 1:
            names = [str(place) for place in range(1, len(weights[0]) + 1)]
            chart = grid(
                output, names, weights, colors[run.name], f"{run.name}: {_heaviest(output, names, weights)}", False
            )
            parts.append(
                figure("Mixture weights", chart, "of each token that the model writes: softmaxes 1, 2, ...", [run])
            )
        if attention:
            chart = grid(
                output,
                source,
                attention,
                colors[run.name],
                f"{run.name}: {_heaviest(output, source, attention)}",
                True,
            )
            parts.append(
                figure("Attention", chart, "of each token that the model writes (rows) to the source (columns).", [run])
            )
        if parts:
            drawn.append((f"{run.name} ({run.scale})", "".join(parts)))
    return drawn


def _list(values: Any) -> list[Any]:
    return values if isinstance(values, list) else []


def _matrix(values: Any, rows: int) -> list[list[float]] | None:
    """Numbers of so many rows, or None if they are not that."""
    good = isinstance(values, list) and len(values) == rows > 0 and all(isinstance(row, list) for row in values)
    return [[number(value) or 0.0 for value in row] for row in values] if good else None


def _heaviest(rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]]) -> str:
    """The heaviest column of each row, in words."""
    heaviest: Callable[[Sequence[float]], int] = lambda row: max(range(len(row)), key=row.__getitem__)  # noqa: E731
    return "; ".join(
        f"{name} mostly {columns[heaviest(row)]}"
        for name, row in zip(rows, values, strict=True)
        if 0 < len(row) <= len(columns)
    )
