"""The report: everything given is on the page, escaped; parts may be missing; and it works in a browser."""

import contextlib
import copy
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from fastmos import cli
from fastmos.errors import InputError
from fastmos.experiments.markdown import markdown
from fastmos.experiments.report import ABSENT, in_order, page, write_report
from fastmos.experiments.result_files import Result, read_result, read_results
from fastmos.experiments.summary import Cell, Line, SuiteTable, suite_tables
from fastmos.files import write_json
from tests.experiments import made

ROOT = Path(__file__).resolve().parents[2]
EVIL = "</td><script>alert(1)</script>\"'&<b>"
VOID = {"meta", "input", "br", "path", "rect", "circle"}


class Page(HTMLParser):
    """A page's text, tags, attributes; and whether every tag that opens is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)

    def all(self, name: str) -> list[str]:
        return [value or "" for key, value in self.attributes if key == name]


def of(*data: dict[str, Any]) -> list[Result]:
    return [Result(f"r{number}", f"{number}.json", one) for number, one in enumerate(data, 1)]


@pytest.fixture(scope="module")
def full() -> str:
    return page(of(*made.results()), made.tables(), ["x.json: not a result"])


def test_a_full_page_shows_every_part(full: str) -> None:
    shown = Page(full)
    assert not [name for name in ABSENT if f"<h2>{name}</h2>" not in full]
    assert "Not here" not in shown.text
    for words in (
        "33.10 ± 0.15 (2)*",
        "28.91 ± 0.06",
        "Multi30k instead of IWSLT'14",
        "Not there yet: Hybrid-LightRNN-MoS, seed 3.",
        "258 = d + 2",
        "word140 word141 · ·",
        "fastmos reproduce overall --scale multi30k --seeds 3",
        "Left out: x.json: not a result.",
    ):
        assert words in shown.text, words
    assert shown.tags.count("figure") >= 12


def test_it_needs_nothing_but_itself_and_links_lead_somewhere(full: str) -> None:
    shown = Page(full)
    assert not re.search(r"https?:|@import|url\(|<link", full)
    assert "default-src 'none'" in full
    anchors = shown.all("id")
    assert len(anchors) == len(set(anchors))
    assert {href.removeprefix("#") for href in shown.all("href")} <= set(anchors)


def test_every_drawing_is_described_and_every_table_can_be_reached_by_keys(full: str) -> None:
    drawings = re.findall(r"<svg[^>]*>", full)
    assert drawings and all('aria-label="' in drawing or 'aria-hidden="true"' in drawing for drawing in drawings)
    assert full.count('<div class="scroll" tabindex="0">') >= 4


def test_a_name_has_one_colour_everywhere(full: str) -> None:
    colours = set(re.findall(r'class="line (c\d)"[^>]*/></svg>BPE-MoS, 9 softmaxes', full))
    assert len(colours) == 1
    bars = re.findall(r'>BPE-MoS, 9 softmaxes</text><rect class="pale (c\d)', full)
    assert set(bars) == colours


def spoilt(value: Any) -> Any:
    """The same value with every word made evil; what the page asks for by name stays."""
    if isinstance(value, dict):
        return {key: item if key in ("kind", "format") else spoilt(item) for key, item in value.items()}
    if isinstance(value, list):
        return [spoilt(item) for item in value]
    return EVIL if isinstance(value, str) else value


def test_everything_is_escaped() -> None:
    cells = {EVIL: Cell(1.0, 0.1, 2, 0.01), "text": Cell(text=EVIL)}
    line = Line(EVIL, cells, {EVIL: EVIL}, EVIL)
    tables = [SuiteTable(suite, EVIL, EVIL, [EVIL, "text"], [line], EVIL, [EVIL]) for suite in ("mixtures", "overall")]
    outputs = {**made.run("captions"), "outputs": {"test": {EVIL: EVIL}}}
    text = page(of(*(spoilt(result) for result in (*made.results(), outputs))), tables, [EVIL])
    shown = Page(text)  # well formed
    assert shown.tags.count("script") == 1
    assert "alert(1)" in shown.text
    assert not [name for name, _ in shown.attributes if name.startswith("on")]


@pytest.mark.parametrize("part", ["", *made.run("x", rows=3)])
def test_any_part_of_a_run_may_be_missing(part: str) -> None:
    run = {key: value for key, value in made.run("a run", rows=3).items() if key in ("kind", "format") or key != part}
    bare = {"format": 1, "kind": "run"}
    for data in ([run], [bare], [run, bare], [{**run, part or "name": None, "kind": "run", "format": 1}]):
        Page(page(of(*data), []))


def test_what_is_not_there_is_said() -> None:
    text = page(of({"format": 1, "kind": "run"}), [])
    for name, suite in ABSENT.items():
        assert (f"<li>{name}: <code>fastmos reproduce {suite}</code></li>" in text) == (name != "All runs")
    assert "1 result without a word on what made them" in text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, -1.0, None, "many", True])
def test_odd_numbers_do_no_harm(value: Any) -> None:
    run, cost, rank = made.run("odd"), made.cost(), made.rank()
    run["curve"][3]["bleu"] = run["scores"]["test"]["bleu"] = run["inside"]["weights"][0][0] = value
    cost["rows"][0]["plain"] = {"ms": value}
    rank["rows"][0]["singular_values"] = [[1, value], [2, 3.0], [3, 1.0]]
    shown = Page(page(of(run, cost, rank), []))
    assert "nan" not in " ".join(shown.all("d")) and "inf" not in " ".join(shown.all("d"))


def test_a_realistic_set_stays_small() -> None:
    runs = [made.run(f"run {number}", seed, 9, 100 * (number < 3)) for number in range(20) for seed in (1, 2)]
    text = page(of(*runs, made.cost(), made.rank()), made.tables())
    assert len(text.encode()) < 2_000_000


# ---- as Markdown


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


def test_markdown_keeps_words_as_they_are() -> None:
    line = Line("a|b", {"words": Cell(text=r"*x* _y_ <br> `z` \|")}, {}, "")
    text = markdown([SuiteTable("words", "Words", "multi30k", ["words"], [line], "nothing", [])], [])
    assert r"| a\|b | \*x\* \_y\_ \<br\> \`z\` \\\| |" in text.splitlines()


def test_the_page_of_our_results_is_of_our_results(tmp_path: Path) -> None:
    write_report([ROOT / "results"], tmp_path / "paper.md")
    assert (ROOT / "docs/paper.md").read_text("utf-8") == (tmp_path / "paper.md").read_text("utf-8"), (
        "results have changed: fastmos report results -o docs/paper.md"
    )


# ---- files


def test_results_come_as_the_tables_name_them() -> None:
    hybrid, words, bpe = (made.run(name) for name in ("hybrid", "words", "bpe"))
    late = {**made.run("words", 2), "scale": "another"}
    lines = [Line("Baseline", {}, {}, "words"), Line("BPE-MoS", {}, {}, "bpe")]
    table = SuiteTable("overall", "Overall", "multi30k", [], lines, "", [])
    given = of(late, made.cost(), hybrid, made.run("bpe", 2), bpe, words)
    ordered = [(one.scale, one.name, one.about["seed"]) for one in in_order(given, [table])]
    assert ordered == [
        ("multi30k", "words", 1),
        ("multi30k", "bpe", 1),
        ("multi30k", "bpe", 2),
        ("another", "words", 2),
        ("multi30k", "time and memory", 1),
        ("multi30k", "hybrid", 1),
    ]


def test_files_and_folders_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, result in enumerate(made.results()):
        write_json(tmp_path / "results" / result["scale"] / f"{number}.json", {**result, "scale": "elsewhere"})
    write_json(tmp_path / "results" / "other.json", {"a": 1})
    write_json(tmp_path / "alone.json", made.run("alone") | {"scale": "elsewhere"})
    results, left_out = read_results([tmp_path / "results", tmp_path / "alone.json"])
    assert len(results) == len(made.results()) + 1 and len(left_out) == 1
    output = tmp_path / "new" / "report.html"
    monkeypatch.setattr(
        sys, "argv", ["fastmos", "report", str(tmp_path / "results"), str(tmp_path / "alone.json"), "-o", str(output)]
    )
    cli.main()
    assert "alone" in Page(output.read_text("utf-8")).text


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"a": 1}', "not a result"),
        ("[1]", "not a result"),
        ('{"format": 2, "kind": "run"}', "format 2 and kind run"),
        ('{"format": 1, "kind": "song"}', "kind song"),
        ('{"format": 1, "kind": ["run"]}', "kind"),
        ('{"format": 1, "kind": "run", "curve": "up"}', "'curve' is no list"),
        ('{"format": 1, "kind": "run", "curve": [3]}', "'curve' is no list of dicts"),
        ('{"format": 1, "kind": "run", "table": ["word"]}', "'table' is no list of lists"),
        ('{"format": 1, "kind": "run", "scores": {"test": 5}}', "'scores' has a strange 'test'"),
        ('{"format": 1, "kind": "run", "outputs": {"test": 5}}', "'outputs' has a strange 'test'"),
        ("{", "not valid JSON"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "a.json").write_text(content, "utf-8")
    with pytest.raises(InputError, match=sentence):
        write_report([tmp_path / "a.json"], tmp_path / "report.html")
    with pytest.raises(InputError, match=f"no results there; left out .*{sentence}"):
        write_report([tmp_path], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_a_result_is_not_replaced_by_its_page(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", made.run("a"))
    for given in (tmp_path, tmp_path / "a.json"):
        with pytest.raises(InputError, match="is read, and would be replaced"):
            write_report([given], tmp_path / "a.json")
    assert read_results([tmp_path])[0][0].name == "a"


@pytest.mark.parametrize("kind", ["cost", "rank", "table", "run"])
def test_a_result_that_is_nearly_empty_spoils_no_page(kind: str, tmp_path: Path) -> None:
    write_json(tmp_path / "good.json", made.run("good"))
    write_json(tmp_path / "bad.json", {"format": 1, "kind": kind, "scale": "multi30k"})
    write_report([tmp_path], tmp_path / "report.html")
    assert "good" in (tmp_path / "report.html").read_text("utf-8")
    with pytest.raises(InputError, match="no results of a suite, so there are no tables to write"):
        write_report([tmp_path], tmp_path / "report.md")
    with pytest.raises(InputError, match=r"a page is named \.html, the tables alone \.md"):
        write_report([tmp_path], tmp_path / "report.pdf")


def places(value: Any, depth: int = 3) -> Iterator[tuple[Any, ...]]:
    """Where something lies in a record; of lists the first item, of the config what tables could ask for."""
    keys = value if isinstance(value, dict) else range(len(value))[:1] if isinstance(value, list) else ()
    for key in keys:
        yield (key,)
        if depth > 1 and key not in ("data", "codings", "model", "head", "training", "search"):
            yield from ((key, *rest) for rest in places(value[key], depth - 1))


@pytest.mark.parametrize("odd", [None, "x", 3, [None], {}], ids=str)
@pytest.mark.parametrize("kind", ["run", "cost", "rank"])
def test_records_that_were_changed_by_hand_spoil_no_page(kind: str, odd: Any, tmp_path: Path) -> None:
    """Either they are refused in a sentence, or what is left of them is shown."""
    run, cost, rank = made.whole_results()
    changed = {"run": run, "cost": cost, "rank": rank}[kind]
    for place in places(changed):
        spoilt = copy.deepcopy(changed)
        within: Any = spoilt
        for key in place[:-1]:
            within = within[key]
        within[place[-1]] = odd
        write_json(tmp_path / "spoilt.json", spoilt)
        with contextlib.suppress(InputError):
            data = [read_result(tmp_path / "spoilt.json"), *(one for one in (run, cost, rank) if one is not changed)]
            Page(page(of(*data), suite_tables(data)))


def test_a_file_that_is_named_twice_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made.whole_results()[0]
    write_json(tmp_path / "a.json", run)
    monkeypatch.chdir(tmp_path)
    results, _ = read_results([Path("a.json"), tmp_path, tmp_path / "a.json"])
    assert len(results) == 1
    (overall, *_) = suite_tables([run, run])  # nor does a copy
    assert overall.lines[2].ours["BLEU"].count == 1


def test_an_empty_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no results there"):
        write_report([tmp_path], tmp_path / "report.html")
    with pytest.raises(InputError, match="no such file"):
        write_report([tmp_path / "none.json"], tmp_path / "report.html")


# ---- in a browser

WATCH = "<script>window.wrong = []; addEventListener('error', event => wrong.push(event.message));</script>"
CHECK = """<pre id="found"></pre><script>{
const table = document.querySelector("#tables table");
const column = () => [...table.tBodies[0].rows].map(row => row.cells[2].dataset.value ?? "");
const click = number => table.querySelectorAll("th button")[number].click();
const search = text => {
  const field = document.getElementById("search");
  field.value = text;
  field.dispatchEvent(new Event("input"));
  const shown = [...document.querySelectorAll(".words tr")].filter(row => !row.hidden).length;
  return [shown, document.querySelectorAll("mark").length, document.getElementById("count").textContent];
};
const ours = 2, found = {};
click(ours); found.up = column();
click(ours); found.down = column();
found.sorted = document.querySelectorAll("#tables th[aria-sort]").length;
found.hit = search("WORD14");
found.none = search("<b>");
found.all = search("");
found.wide = document.documentElement.scrollWidth > innerWidth;
found.wrong = wrong;
document.getElementById("found").textContent = JSON.stringify(found);
}</script></body>"""


def test_it_sorts_and_searches_in_a_browser(full: str, tmp_path: Path) -> None:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    browser = next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        pytest.skip("no Chromium here")
    (tmp_path / "page.html").write_text(
        full.replace("<head>", f"<head>{WATCH}", 1).replace("</body>", CHECK, 1), encoding="utf-8"
    )
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={tmp_path}/me"]
    words = [browser, *flags, "--virtual-time-budget=10000", "--dump-dom", (tmp_path / "page.html").as_uri()]
    try:
        done = subprocess.run(words, capture_output=True, encoding="utf-8", timeout=240, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("Chromium does not end here")
    content = re.search(r'<pre id="found">(.+?)</pre>', done.stdout)
    if not done.stdout.strip():
        pytest.skip(f"Chromium does not start here: {done.stderr[-300:]}")
    assert content is not None
    found = json.loads(content[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert found == {
        "up": ["31.5", "33.1", ""],
        "down": ["33.1", "31.5", ""],
        "sorted": 1,
        "hit": [2, 3, "3 words"],
        "none": [0, 0, "0 words"],
        "all": [12, 0, ""],
        "wide": False,
        "wrong": [],
    }
