"""Charts: axes that do not exaggerate, round ticks, and names that fit."""

import re

import pytest

from fastmos.report.charts import Curve, Look, line_chart, log_ticks, named_at_ends, ticks


def heights(svg: str) -> list[float]:
    """Where the dots of a chart are, from its top."""
    return [float(y) for y in re.findall(r'<circle[^>]* cy="([\d.]+)"', svg)]


def test_a_difference_of_one_percent_is_not_a_cliff() -> None:
    def drop(*scores: float) -> float:
        found = heights(line_chart([Curve("", list(enumerate(scores)), Look(0), marks=True)], "", "x", "BLEU"))
        return max(found) - min(found)

    assert drop(42.0, 41.6) < 30  # of about 200 points of height
    assert drop(42.0, 20.0) > 150


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (39.8, 44.2, [40, 41, 42, 43, 44]),
        (0, 0.01, [0, 0.002, 0.004, 0.006, 0.008, 0.01]),
    ],
)
def test_ticks_are_round(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(expected)


def test_log_ticks_are_powers_of_ten() -> None:
    assert log_ticks(0.5, 2000) == [1, 10, 100, 1000]
    assert len(log_ticks(1e-16, 1e6)) <= 8


def test_points_that_cannot_be_drawn_are_left_out() -> None:
    points = [(1.0, 2.0), (2.0, float("nan")), (3.0, float("inf")), (4.0, 3.0)]
    assert len(heights(line_chart([Curve("a", points, Look(0), marks=True)], "", "x", "y"))) == 2
    assert line_chart([Curve("a", [], Look(0))], "", "x", "y") == ""


def test_only_few_short_names_are_written_at_the_ends() -> None:
    assert named_at_ends([Curve(name, [], Look(0)) for name in ("a", "b")])
    assert not named_at_ends([Curve("a name that is too long for its place", [], Look(0))])
    assert not named_at_ends([Curve(str(number), [], Look(0)) for number in range(6)])
