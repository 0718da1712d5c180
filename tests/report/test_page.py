"""The report: everything given is on the page, escaped; parts may be missing; and it works in a browser."""

import copy
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fastmos.errors import InputError
from fastmos.files import write_json
from fastmos.report.figures import mixtures_figures
from fastmos.report.page import in_order, page, write_report
from fastmos.reproduce.records import read_result, read_results
from fastmos.reproduce.suites import suite_tables
from fastmos.reproduce.summary import Cell, Line, SuiteTable
from tests.report.parsed import Page, of
from tests.reproduce import made

EVIL = "</td><script>alert(1)</script>\"'&<b>"
SECTIONS = (
    "Tables",
    "Number of softmaxes",
    "Time and memory",
    "Rank",
    "Training",
    "Outputs",
    "Inside a model",
    "Learned words",
    "Runs",
    "Provenance",
)


@pytest.fixture(scope="module")
def full() -> str:
    return page(of(*made.results()), made.tables(), ["x.json: not a result"])


def test_a_full_page_shows_every_part(full: str) -> None:
    shown = Page(full)
    assert [name for name in SECTIONS if f"<h2>{name}</h2>" not in full] == []
    for words in (
        "33.10 ± 0.15 (2)*",
        "28.91 ± 0.06",
        "Multi30k instead of IWSLT'14",
        "Not there yet: Hybrid-LightRNN-MoS, seed 3.",
        "258 = d + 2",
        "word140 word141 · ·",
        "fastmos reproduce overall --scale multi30k --seeds 3",
        "Left out: x.json: not a result.",
        "test perplexity",
        "8.17",  # exp(2.1)
        "Perplexity at the lowest: Baseline",
    ):
        assert words in shown.text, words
    assert shown.tags.count("figure") >= 12


def test_single_runs_are_points_with_the_spread_of_others() -> None:
    """A line through them would show a course that another seed may not have."""
    _, table = made.tables()
    (whole,) = mixtures_figures([table], [], {})
    lines = [
        replace(line, ours={"BLEU": replace(line.ours["BLEU"], spread=None, count=1)}) if line.softmaxes > 1 else line
        for line in table.lines
    ]
    (points,) = mixtures_figures([replace(table, lines=lines)], [], {})
    joined = re.compile(r'd="M[\d. ]+L')
    assert joined.search(whole) and not joined.search(points)
    assert points.count("<circle") == len(lines) == points.count("± 0.15")
    assert "with one seed the largest that is known here" in points and "with one seed" not in whole


def test_runs_come_first_where_there_are_no_tables() -> None:
    text = page(of(*made.results()), [])
    assert text.index("<h2>Runs</h2>") < text.index("<h2>Time and memory</h2>")
    assert text.count("<h2>Runs</h2>") == 1
    assert "ms, fused" in Page(text).text  # the cost of a step stands beside the scores


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


def test_a_name_has_one_color_everywhere(full: str) -> None:
    colors = set(re.findall(r'class="line (c\d)"[^>]*/></svg>BPE-MoS, 9 softmaxes', full))
    assert len(colors) == 1
    bars = re.findall(r'>BPE-MoS, 9 softmaxes</text><rect class="pale (c\d)', full)
    assert set(bars) == colors


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


PARTS = {"curve": "Training", "outputs": "Outputs", "inside": "Inside a model", "table": "Learned words"}


@pytest.mark.parametrize("part", ["", *made.run("x", rows=3)])
def test_any_part_of_a_run_may_be_missing(part: str) -> None:
    whole = made.run("a run", rows=3)
    kept = {key: value for key, value in whole.items() if key in ("kind", "format") or key != part}
    empty = {**kept, part or "name": None, "kind": "run", "format": 2}
    bare = {"format": 2, "kind": "run"}
    for data in ([kept], [kept, bare], [empty]):
        text = page(of(*data), [])
        sections = [name for key, name in PARTS.items() if key != part]
        assert re.findall("<h2>(.*?)</h2>", text) == ["Runs", *sections, "Provenance"]
        assert ("of unknown origin" in Page(text).text) == (bare in data or part == "provenance")


def test_a_run_of_which_nothing_is_known() -> None:
    text = page(of({"format": 2, "kind": "run"}), [])
    assert re.findall("<h2>(.*?)</h2>", text) == ["Runs", "Provenance"]
    assert "1 result of unknown origin" in Page(text).text


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


def test_a_result_is_not_replaced_by_its_page(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", made.run("a"))
    for given in (tmp_path, tmp_path / "a.json"):
        with pytest.raises(InputError, match="is read, and would be replaced"):
            write_report([given], tmp_path / "a.json")
    assert read_results([tmp_path])[0][0].name == "a"


@pytest.mark.parametrize("kind", ["cost", "rank", "table", "run"])
def test_a_result_that_is_nearly_empty_spoils_no_page(kind: str, tmp_path: Path) -> None:
    write_json(tmp_path / "good.json", made.run("good"))
    write_json(tmp_path / "bad.json", {"format": 2, "kind": kind, "scale": "multi30k"})
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
        if depth > 1 and key not in ("data", "tokenizers", "model", "head", "training", "search"):
            yield from ((key, *rest) for rest in places(value[key], depth - 1))


@pytest.mark.parametrize("odd", [None, "x", 3, [None], {}], ids=str)
@pytest.mark.parametrize("kind", ["run", "cost", "rank"])
def test_records_that_were_changed_by_hand_spoil_no_page(kind: str, odd: Any, tmp_path: Path) -> None:
    """Either they are refused in a sentence, or what is left of them is shown."""
    run, cost, rank = made.whole_results()
    changed = {"run": run, "cost": cost, "rank": rank}[kind]
    shown = refused = 0
    for place in places(changed):
        spoilt = copy.deepcopy(changed)
        within: Any = spoilt
        for key in place[:-1]:
            within = within[key]
        within[place[-1]] = odd
        write_json(tmp_path / "spoilt.json", spoilt)
        try:
            read = read_result(tmp_path / "spoilt.json")
        except InputError as error:
            assert str(error).startswith(f"{tmp_path / 'spoilt.json'}: ")
            refused += 1
            continue
        data = [read, *(one for one in (run, cost, rank) if one is not changed)]
        assert "2 measurements" in Page(page(of(*data), suite_tables(data))).text
        shown += 1
    assert shown >= 5 and refused >= 2  # a part may be missing, but a record's format may not


def test_an_empty_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no runs and no results there; fastmos train makes run folders"):
        write_report([tmp_path], tmp_path / "report.html")
    with pytest.raises(InputError, match="no such file"):
        write_report([tmp_path / "none.json"], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


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
