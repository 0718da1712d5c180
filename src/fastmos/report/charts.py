"""Small SVG charts, drawn without any library: lines, bars and shaded grids.

Colors are classes (`c0`, `c1`, ...) which the page's style sheet fills in, so a chart follows the reader's light or
dark theme. Charts are drawn for the width of a phone and set side by side where there is room.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 400, 270
LETTER, BOLD_LETTER = 7.0, 8.0  # mean width of a letter of labels and of names
COLORS = 8  # in the style sheet
DASHES = ("", "7 4", "2 4")  # beyond that many rows, colors come back dashed
LEAST_SPAN = 0.1  # of the largest value, on a y axis: a difference of one percent must not look like a cliff


@dataclass(frozen=True)
class Look:
    """How a row looks in every chart: a color, and a dash once the colors are used up."""

    number: int

    @property
    def color(self) -> str:
        return f"c{self.number % COLORS}"

    @property
    def dash(self) -> str:
        return DASHES[self.number // COLORS % len(DASHES)]


@dataclass(frozen=True)
class Curve:
    """A line of a chart."""

    name: str
    points: Sequence[tuple[float, float]]
    look: Look
    spreads: Sequence[float | None] = ()  # of each point, drawn as error bars
    marks: bool = False  # a dot on each point
    joined: bool = True  # by a line from point to point


@dataclass(frozen=True)
class Axis:
    """One side of a chart: values to places."""

    low: float
    high: float
    start: float  # where `low` lies
    end: float
    log: bool = False

    def place(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            value, low, high = math.log10(value), math.log10(low), math.log10(high)
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About so many round numbers from `low` to `high`."""
    rough = (high - low) / count
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * part for part in (1, 2, 5, 10) if unit * part >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between two positive numbers, not more than about seven."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    return [10.0**power for power in range(first, last + 1, max(1, -(-(last - first) // 6)))]


def short(value: float) -> str:
    """A number as an axis shows it."""
    if value and (abs(value) < 1e-3 or abs(value) >= 1e7):
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{value:,.6g}" if abs(value) >= 1000 else f"{value:.6g}"


# ---- lines


def line_chart(
    curves: Sequence[Curve],
    about: str,
    x_label: str,
    y_label: str,
    *,
    log: bool = False,
    x_ticks: Sequence[float] | None = None,
    line_at: tuple[float, str] | None = None,
    ghosts: Sequence[Curve] = (),
    size: tuple[int, int] = (WIDTH, HEIGHT),
) -> str:
    """Curves over two axes, of which x counts something; `about` describes the chart to those who cannot see it.

    Few curves with short names are named at their ends; for others the caller writes a legend (see `named_at_ends`).
    Ghosts are drawn pale behind them, on the same axes; `line_at` is a place on the x axis with its name.
    """
    width, height = size
    drawn = [_finite(curve, log) for curve in (*ghosts, *curves)]
    xs = [x for curve in drawn for x, _ in curve.points]
    ys = [y + side * (spread or 0) for curve in drawn for (_, y), spread in _with_spreads(curve) for side in (-1, 1)]
    if not xs:
        return ""
    named = named_at_ends(curves)
    room = BOLD_LETTER * max(len(curve.name) for curve in curves) + 14 if named else 14
    x_low, x_high = _widened(min(xs), max(xs), 0.0)
    y_low, y_high = _log_range([y for y in ys if y > 0]) if log else _widened(min(ys), max(ys), 0.06, LEAST_SPAN)
    y_ticks = log_ticks(y_low, y_high) if log else ticks(y_low, y_high)
    left = 32 + LETTER * max((len(short(tick)) for tick in y_ticks), default=1)
    x_axis = Axis(x_low, x_high, left + 6, width - room)
    y_axis = Axis(y_low, y_high, height - 44, 14, log)
    counts = [tick for tick in ticks(x_low, x_high) if tick.is_integer()]  # of epochs, steps, positions
    parts = _axes(x_axis, y_axis, x_ticks or counts, y_ticks, x_label, y_label)
    if line_at is not None and x_low < line_at[0] < x_high:
        parts += _upright(x_axis.place(line_at[0]), y_axis, line_at[1])
    for number, curve in enumerate(drawn):
        parts += _curve(curve, x_axis, y_axis, ghost=number < len(ghosts))
    if named:
        parts += _names(drawn[len(ghosts) :], x_axis, y_axis)
    return _svg(width, height, about, parts)


def named_at_ends(curves: Sequence[Curve]) -> bool:
    """Whether there is room for the curves' names in the chart."""
    names = {curve.name for curve in curves}
    return len(names) <= 5 and 0 < max(map(len, names), default=0) <= 20


def _finite(curve: Curve, log: bool) -> Curve:
    """The curve without points that cannot be drawn."""
    kept = [
        (point, spread)
        for point, spread in _with_spreads(curve)
        if all(map(math.isfinite, point)) and (point[1] > 0 or not log)
    ]
    return Curve(
        curve.name, [point for point, _ in kept], curve.look, [spread for _, spread in kept], curve.marks, curve.joined
    )


def _with_spreads(curve: Curve) -> list[tuple[tuple[float, float], float | None]]:
    spreads = curve.spreads or [None] * len(curve.points)
    return list(zip(curve.points, spreads, strict=True))


def _widened(low: float, high: float, share: float, least: float = 0.0) -> tuple[float, float]:
    """A range with some room, never empty, that spans at least this share of its largest value."""
    span = max(high - low, least * max(abs(low), abs(high)), 1e-6)
    middle, half = (low + high) / 2, (0.5 + share) * span
    return middle - half, middle + half


def _log_range(values: Sequence[float]) -> tuple[float, float]:
    """At least one power of ten; below 1e-16 of the largest nothing is told by float64."""
    high = max(values)
    low = max(min(values), 1e-16 * high)
    return min(low, high / 10) * 0.8, high * 1.25


def _axes(
    x: Axis, y: Axis, x_ticks: Sequence[float], y_ticks: Sequence[float], x_label: str, y_label: str
) -> list[str]:
    parts = []
    for tick in y_ticks:
        place = y.place(tick)
        parts.append(f'<path class="grid" d="M{x.start - 6:.1f} {place:.1f}H{x.end:.1f}"/>')
        parts.append(f'<text class="tick end" x="{x.start - 12:.1f}" y="{place + 4:.1f}">{short(tick)}</text>')
    for tick in x_ticks:
        place = x.place(tick)
        parts.append(f'<path class="axis" d="M{place:.1f} {y.start:.1f}v5"/>')
        parts.append(f'<text class="tick mid" x="{place:.1f}" y="{y.start + 20:.1f}">{short(tick)}</text>')
    parts.append(f'<path class="axis" d="M{x.start - 6:.1f} {y.start:.1f}H{x.end:.1f}"/>')
    parts.append(
        f'<text class="label mid" x="{(x.start + x.end) / 2:.1f}" y="{y.start + 39:.1f}">{escape(x_label)}</text>'
    )
    middle = (y.start + y.end) / 2
    parts.append(f'<text class="label mid" transform="translate(13 {middle:.1f}) rotate(-90)">{escape(y_label)}</text>')
    return parts


def _upright(place: float, y: Axis, name: str) -> list[str]:
    return [
        f'<path class="limit" d="M{place:.1f} {y.start:.1f}V{y.end:.1f}"/>',
        f'<text class="tick clear" x="{place + 5:.1f}" y="{y.end + 10:.1f}">{escape(name)}</text>',
    ]


def _curve(curve: Curve, x: Axis, y: Axis, ghost: bool) -> list[str]:
    places = [(x.place(a), y.place(max(b, y.low) if y.log else b)) for a, b in curve.points]
    kind = "line ghost" if ghost else f"line {curve.look.color}"
    dash = f' stroke-dasharray="{curve.look.dash}"' if curve.look.dash and not ghost else ""
    path = "L".join(f"{a:.1f} {b:.1f}" for a, b in places)
    parts = [f'<path class="{kind}"{dash} d="M{path}"/>'] if len(places) > 1 and curve.joined else []
    for (a, b), (point, spread) in zip(places, _with_spreads(curve), strict=True):
        if spread:
            ends = y.place(point[1] - spread), y.place(point[1] + spread)
            parts.append(f'<path class="line thin {curve.look.color}" d="M{a:.1f} {ends[0]:.1f}V{ends[1]:.1f}"/>')
        if (curve.marks or len(places) == 1) and not ghost:
            said = f"{curve.name}: {short(point[0])}, {point[1]:.4g}" + (f" ± {spread:.2g}" if spread else "")
            parts.append(
                f'<circle class="dot {curve.look.color}" cx="{a:.1f}" cy="{b:.1f}" r="3.5">'
                f"<title>{escape(said)}</title></circle>"
            )
    return parts


def _names(curves: Sequence[Curve], x: Axis, y: Axis) -> list[str]:
    """Each name once, at the end of its last curve, moved apart where they would touch."""
    last = {curve.name: curve for curve in curves if curve.points}
    ends = sorted((y.place(curve.points[-1][1]), name) for name, curve in last.items())
    places: list[float] = []
    for end, _ in ends:
        places.append(max(end, places[-1] + 15) if places else end)
    excess = max(0.0, places[-1] - y.start) if places else 0.0
    return [
        f'<text class="name {last[name].look.color}" x="{x.end + 7:.1f}" y="{place - excess + 4:.1f}">'
        f"{escape(name)}</text>"
        for place, (_, name) in zip(places, ends, strict=True)
    ]


# ---- bars


@dataclass(frozen=True)
class Bars:
    """What a row takes by the plain formula and by the fused loss."""

    name: str
    plain: float | None
    fused: float | None
    look: Look


def bar_chart(rows: Sequence[Bars], about: str, unit: str) -> str:
    """Two lying bars a row, the plain formula's pale and the fused loss's full, each with its figure."""
    values = [value for row in rows for value in (row.plain, row.fused) if value is not None and math.isfinite(value)]
    if not values or max(values) <= 0:
        return ""
    widest = LETTER * max(len(_figure(value, unit)) for value in values) + 12
    scale = Axis(0, max(values), 2, WIDTH - widest)
    parts, top = [], 2.0
    for row in rows:
        parts.append(f'<text class="bar-name" x="2" y="{top + 12:.1f}">{escape(row.name)}</text>')
        top += 18
        for kind, value in (("pale", row.plain), ("full", row.fused)):
            if value is None or not math.isfinite(value):
                continue
            width = max(1.0, scale.place(value) - scale.start)
            parts.append(
                f'<rect class="{kind} {row.look.color}" x="2" y="{top:.1f}" width="{width:.1f}" height="14" rx="2"/>'
            )
            parts.append(
                f'<text class="tick" x="{width + 8:.1f}" y="{top + 11.5:.1f}">{escape(_figure(value, unit))}</text>'
            )
            top += 16
        top += 10
    return _svg(WIDTH, math.ceil(top), about, parts)


def _figure(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if value >= 10 else f"{value:.2g} {unit}"


# ---- grids


CELL = 22


def grid(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    look: Look,
    about: str,
    upright: bool,
) -> str:
    """A cell for each row and column, the darker the nearer its value is to 1; columns' names lie or stand upright."""
    left = 10 + LETTER * max(map(len, rows), default=0)
    top = 12 + LETTER * max(map(len, columns), default=0) if upright else 20.0
    width, height = left + CELL * len(columns) + 12, top + CELL * len(rows) + 4
    parts = []
    for number, name in enumerate(columns):
        middle = left + CELL * (number + 0.5)
        if upright:
            turn = f'transform="translate({middle + 4:.1f} {top - 6:.1f}) rotate(-90)"'
            parts.append(f'<text class="tick" {turn}>{escape(name)}</text>')
        else:
            parts.append(f'<text class="tick mid" x="{middle:.1f}" y="{top - 6:.1f}">{escape(name)}</text>')
    for number, name in enumerate(rows):
        y = top + CELL * number
        parts.append(f'<text class="tick end" x="{left - 7:.1f}" y="{y + 15.5:.1f}">{escape(name)}</text>')
        cells = (
            f'<rect x="{left + CELL * place:.0f}" y="{y:.0f}" width="{CELL - 1}" height="{CELL - 1}"'
            f' fill-opacity="{min(1.0, value):.2f}"><title>{escape(columns[place])}: {value:.2f}</title></rect>'
            for place, value in enumerate(values[number][: len(columns)])
            if value >= 0.01
        )
        parts.append(f'<g class="full {look.color}">{"".join(cells)}</g>')
    frame = f'x="{left - 1:.0f}" y="{top - 1:.0f}" width="{CELL * len(columns) + 1}" height="{CELL * len(rows) + 1}"'
    parts.append(f'<rect class="frame" {frame}/>')
    return _svg(math.ceil(width), math.ceil(height), about, parts, fixed=True)


def _svg(width: int, height: int, about: str, parts: Sequence[str], fixed: bool = False) -> str:
    size = f' width="{width}" height="{height}"' if fixed else ""
    return f'<svg viewBox="0 0 {width} {height}"{size} role="img" aria-label="{escape(about)}">{"".join(parts)}</svg>'
