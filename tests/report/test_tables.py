"""Tables: the columns that matter most come first, and the paper's figures stand beside ours."""

import re

from fastmos.report.figures import looks
from fastmos.report.tables import provenance_section, runs_section, suite_table
from tests.report.parsed import Page, of
from tests.reproduce import made


def heads(page: str) -> list[str]:
    return [re.sub("<.*?>", "", head) for head in re.findall(r"<th scope=\"col.*?>(.*?)</th>", page)]


def test_scores_come_before_sizes() -> None:
    columns = heads(runs_section(of(made.run("a"), made.run("b", 2)), [], looks(["a", "b"])))
    assert columns[0] == "run"
    order = [
        columns.index(name) for name in ("test BLEU", "test NLL per word", "test perplexity", "parameters", "steps")
    ]
    assert order == sorted(order)


def test_the_paper_stands_beside_ours_where_it_has_figures() -> None:
    overall, mixtures = made.tables()
    names = [line.run for table in (overall, mixtures) for line in table.lines]
    assert heads(suite_table(overall, looks(names))).count("paper") == 1
    assert "paper" not in heads(suite_table(mixtures, looks(names)))
    assert "28.91 ± 0.06" in Page(suite_table(overall, looks(names))).text


def test_results_of_unknown_origin_are_counted() -> None:
    known = made.run("a")
    text = Page(provenance_section(of(known, {**known, "provenance": None}), ["x.json: not a result"])).text
    assert "1 result of unknown origin." in text and "Left out: x.json: not a result." in text
