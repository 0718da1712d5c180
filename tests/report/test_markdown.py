"""The tables as Markdown."""

from dataclasses import replace
from pathlib import Path

from fastmos.report.markdown import markdown
from fastmos.report.page import write_report
from fastmos.reproduce.summary import Cell, Line, SuiteTable
from tests.report.parsed import of
from tests.reproduce import made

ROOT = Path(__file__).resolve().parents[2]


def test_the_tables_as_markdown() -> None:
    overall, mixtures = made.tables()
    text = markdown([overall, mixtures], of(*made.results()))
    for line in (
        "## Overall comparison (overall, multi30k)",
        "|  | size | BLEU | paper |",
        "| Baseline | 1 x 10,000 | 31.50 ± 0.15 (2) | 27.41 ± 0.15 |",
        "| Hybrid-LightRNN-MoS | 9 x 3,000 |  | 28.79 ± 0.23 |",
        r"| BPE-MoS | 9 x 3,000 | 33.10 ± 0.15 (2)\* | 28.91 ± 0.06 |",
        "Not there yet: Hybrid-LightRNN-MoS, seed 3.",
        "`fastmos reproduce overall --scale multi30k --seeds 2`, 2026-11-11 to 2026-11-12, AMD EPYC, commit 1a06726.",
        "|  | BLEU |",  # the paper gives no figures of it
        "| 15 softmaxes | 33.20 ± 0.15 (2) |",
    ):
        assert line in text.splitlines(), line


def test_figures_of_another_corpus_say_so_in_the_head_of_their_column() -> None:
    overall, _ = made.tables()
    for ours, head in (("Multi30k", "|  | size | BLEU, Multi30k | paper, IWSLT'14 |"), ("IWSLT'14", "BLEU | paper |")):
        text = markdown([replace(overall, corpus=ours, paper_corpus="IWSLT'14")], [])
        assert any(line.endswith(head) for line in text.splitlines()), head


def test_markdown_keeps_words_as_they_are() -> None:
    line = Line("a|b", {"words": Cell(text=r"*x* _y_ <br> `z` \|")}, {}, "")
    text = markdown([SuiteTable("words", "Words", "multi30k", ["words"], [line], "nothing", [])], [])
    assert r"| a\|b | \*x\* \_y\_ \<br\> \`z\` \\\| |" in text.splitlines()


def test_the_page_of_our_results_is_of_our_results(tmp_path: Path) -> None:
    write_report([ROOT / "results"], tmp_path / "paper.md")
    assert (ROOT / "docs/paper.md").read_text("utf-8") == (tmp_path / "paper.md").read_text("utf-8"), (
        "results have changed: fastmos report results -o docs/paper.md"
    )
