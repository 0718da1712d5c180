"""Figures: which runs share a chart, and what stands beside it."""

import pytest

from fastmos.report.figures import TOGETHER, looks, one_of_each, training_figures
from fastmos.report.outputs import outputs_section
from tests.report.parsed import Page, of
from tests.reproduce import made


def test_of_runs_that_differ_in_the_seed_the_lowest_is_shown() -> None:
    runs = of(made.run("a", 2), made.run("a", 1), made.run("b", 3), made.run("a", 1, mixtures=3))
    shown = [(run.name, run.part("config")["training"]["seed"]) for run in one_of_each(runs)]
    assert shown == [("a", 1), ("b", 3), ("a", 1)]


@pytest.mark.parametrize(("count", "charts"), [(TOGETHER, 0), (TOGETHER + 1, TOGETHER + 1)])
def test_few_runs_share_a_chart_and_many_have_one_each(count: int, charts: int) -> None:
    names = [f"run {number}" for number in range(count)]
    drawn = "".join(training_figures(of(*map(made.run, names)), looks(names)))
    assert Page(drawn).tags.count("h4") == charts
    assert ("Perplexity at the lowest: run 0 7." in drawn) == (not charts)


def test_a_name_looks_the_same_in_charts_and_lists() -> None:
    names = ["a", "b", "c"]
    runs, colors = of(*map(made.run, names)), looks(names)
    assert len({(look.color, look.dash) for look in colors.values()}) == 3
    for part in ("".join(training_figures(runs, colors)), outputs_section(runs, colors)):
        for name in names:
            assert f'class="line {colors[name].color}"' in part
