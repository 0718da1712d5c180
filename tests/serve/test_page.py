"""The page in a real browser: type, look, compare, upload, on a wide screen and on a phone."""

import io
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from fastmos.serve.limits import Limits
from fastmos.serve.models import Served, load_served
from tests.serve.browser import Browser, find_browser
from tests.serve.running import Running
from tests.serve.test_app import run_of

TOKENS = "[...document.querySelectorAll('{} .token .text')].map(one => one.textContent)"
LEFT, RIGHT = "#translation .card:nth-child(1)", "#translation .card:nth-child(2)"
EVIL = '<img src=x onerror="document.title=1"><script>document.title=1</script>&amp;'


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium here")
    with Browser(program, tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def page(opened: Browser, server: Running) -> Iterator[Browser]:
    """The page, freshly opened on a wide screen; at the end nothing has gone wrong in it."""
    opened.events.clear()
    opened.size(1280, 900)
    opened.open(server.address)
    opened.wait("document.querySelectorAll('#tabs button').length === 3")
    yield opened
    assert opened.problems() == []
    assert all(address.startswith(f"{server.address}/") for address in opened.addresses())


def said(page: Browser, card: str) -> list[str]:
    found = page.run(TOKENS.format(card))
    assert isinstance(found, list)
    return found


def translated(page: Browser, card: str, text: str) -> None:
    """Wait until a card shows this translation."""
    words = json.dumps([*text.split(), "end"])
    page.wait(f"JSON.stringify({TOKENS.format(card)}) === {json.dumps(words.replace(', ', ','))}")


def test_what_is_typed_is_translated_by_both_runs(page: Browser, served: list[Served]) -> None:
    expected = {}
    for line in ("3 1 2", "9 8 7 6"):
        page.type("#line", line)
        for card, name in ((LEFT, "mixture"), (RIGHT, "softmax")):
            expected[name] = run_of(served, name).translate([line])[0]
            translated(page, card, expected[name])
            assert page.text(f"{card} .said") == f"{name}: {expected[name] or 'nothing'}"  # for screen readers
    page.type("#line", " ")
    page.wait(f"document.querySelector('{LEFT} .body').hidden && document.querySelector('{RIGHT} .body').hidden")


def test_only_the_last_of_many_inputs_is_shown(page: Browser, served: list[Served]) -> None:
    """Answers that come late are dropped, whichever came before."""
    page.run(
        """(() => { const real = window.fetch; window.asked = 0;
        window.fetch = async (...given) => { window.asked++; const answer = await real(...given);
        await new Promise(done => setTimeout(done, window.asked < 3 ? 1500 : 0)); return answer; }; })()"""
    )
    page.type("#line", "9 1")
    page.wait("window.asked === 2")  # both cards have asked
    page.type("#line", "5 4 3")
    translated(page, LEFT, run_of(served, "mixture").translate(["5 4 3"])[0])
    page.run("new Promise(done => setTimeout(done, 1600))")
    translated(page, LEFT, run_of(served, "mixture").translate(["5 4 3"])[0])
    before = page.run("window.asked")
    for end in range(1, 8):  # while somebody types, nothing is asked
        page.type("#line", "1 2 3 4 5 6 7"[:end])
    page.wait(f"window.asked === {before} + 2")


def test_a_word_shows_what_each_softmax_would_say(page: Browser, served: list[Served]) -> None:
    page.type("#line", "3 1 2")
    translated(page, LEFT, run_of(served, "mixture").translate(["3 1 2"])[0])
    page.hover(f"{LEFT} .token[data-place='1']")
    page.wait(f"document.querySelector('{LEFT} .token[data-place=\"1\"]').getAttribute('aria-selected') === 'true'")
    word = said(page, LEFT)[1]
    assert page.text(f"{LEFT} .inspector q") == word
    rows = page.run(
        f"[...document.querySelectorAll('{LEFT} .inspector tr')].slice(1).map(row => [...row.children]"
        ".map(cell => cell.textContent))"
    )
    assert [row[0] for row in rows] == ["mixture", "1", "2"]
    assert rows[0][-1].startswith(word)
    assert [len(row) for row in rows] == [2, 4, 4]
    assert page.run(f"document.querySelectorAll('{LEFT} .inspector tr:nth-child(3) .guess').length") == 5
    colors = page.run(
        f"[...document.querySelectorAll('{LEFT} .inspector .chip')].map(one => getComputedStyle(one).backgroundColor)"
    )
    assert len(set(colors)) == 2
    shares = page.run(
        f"[...document.querySelectorAll('{LEFT} .token[data-place=\"1\"] .share')]"
        ".map(one => Number(one.style.getPropertyValue('--share')))"
    )
    assert 0.99 < sum(shares) < 1.01
    one_softmax = page.run(f"[...document.querySelectorAll('{RIGHT} .inspector tr')].length")
    assert one_softmax == 2 and page.run(f"document.querySelector('{RIGHT} .legend').hidden")


def test_words_are_reached_by_keys(page: Browser, served: list[Served]) -> None:
    page.type("#line", "3 1 2")
    translated(page, LEFT, run_of(served, "mixture").translate(["3 1 2"])[0])
    page.run(f"document.querySelector('{LEFT} .tokens').focus()")
    chosen = f"document.querySelector('{LEFT} [aria-selected=true]').dataset.place"
    for key, place in (("Home", "0"), ("ArrowRight", "1"), ("ArrowRight", "2"), ("ArrowLeft", "1"), ("End", "3")):
        page.key(key)
        assert page.run(chosen) == place
    active = page.run(f"document.querySelector('{LEFT} .tokens').getAttribute('aria-activedescendant')")
    assert active == page.run(f"document.querySelector('{LEFT} [aria-selected=true]').id")


def test_the_attention_map_is_of_source_and_output(page: Browser, served: list[Served]) -> None:
    page.type("#line", "3 1 2")
    translated(page, LEFT, run_of(served, "mixture").translate(["3 1 2"])[0])
    cells = f"document.querySelectorAll('{LEFT} .map .cell')"
    assert page.run(f"{cells}.length") == 16
    weights = page.run(f"[...{cells}].slice(0, 4).map(cell => Number(cell.style.getPropertyValue('--share')))")
    assert 0.99 < sum(weights) < 1.01
    assert page.run(f"document.querySelector('{LEFT} .map').getAttribute('aria-label')").startswith(
        "What was read most: "
    )


def test_another_output_of_the_nbest_list_can_be_looked_at(page: Browser, served: list[Served]) -> None:
    page.type("#line", "3 1 2")
    best = run_of(served, "mixture").translate(["3 1 2"], nbest=2)[0]
    translated(page, LEFT, best[0].text)
    shown = page.run(f"[...document.querySelectorAll('{LEFT} .output')].map(one => one.textContent)")
    assert shown == [f"{one.text}{one.score:.2f}" for one in best]
    page.click(f"{LEFT} li:nth-child(2) .output")
    translated(page, LEFT, best[1].text)
    assert page.run(f"document.querySelector('{LEFT} li:nth-child(2) .output').getAttribute('aria-pressed')") == "true"


def test_runs_can_be_chosen_and_an_example_picked(page: Browser, served: list[Served]) -> None:
    lines = page.run("[...document.querySelectorAll('#translation .examples option')].map(one => one.value)")
    assert lines and lines[0] == page.run("document.querySelector('#line').value")
    page.click("#translation .another")
    assert page.run("document.querySelector('#line').value") == lines[1]
    choose = f"document.querySelector('{LEFT} .choose select')"
    page.run(f"(() => {{ {choose}.value = 'softmax'; {choose}.dispatchEvent(new Event('change')); }})()")
    translated(page, LEFT, run_of(served, "softmax").translate([lines[1]])[0])
    compare = "document.querySelector('#translation .compare select')"
    page.run(f"(() => {{ {compare}.value = ''; {compare}.dispatchEvent(new Event('change')); }})()")
    assert page.run("document.querySelectorAll('#translation .card').length") == 1


def test_without_examples_the_page_offers_none(opened: Browser, folders: list[Path]) -> None:
    opened.events.clear()
    with Running(load_served([folders[0], folders[2]], "cpu"), Limits()) as closed:
        opened.open(closed.address)
        opened.wait("document.querySelectorAll('#tabs button').length === 2")
        assert opened.run("[...document.querySelectorAll('.examples, .another')].every(one => one.hidden)")
        assert opened.run("document.querySelector('#line').value") == ""
        opened.type("#line", "3 1")
        opened.wait(f"{TOKENS.format(LEFT)}.length > 0")
        assert opened.run("document.querySelector('#beginning').value") == ""
        opened.wait(f"{TOKENS.format('#language-modeling .card')}.length === 1")  # what may come first
        assert opened.problems() == []


def test_text_is_shown_as_text(page: Browser) -> None:
    page.type("#line", EVIL)
    page.wait(f"document.querySelector('{LEFT} .map .column')?.textContent !== undefined")
    page.run("new Promise(done => setTimeout(done, 700))")
    assert page.run("document.title") == "fastmos"
    assert page.run("document.querySelectorAll('main img, main script').length") == 0


def test_a_sentence_says_what_went_wrong(page: Browser) -> None:
    page.run("document.querySelector('#line').removeAttribute('maxlength')")
    page.type("#line", "1" * 2001)
    page.wait(f"document.querySelector('{LEFT} .problem').textContent.startsWith('item 1 of lines has 2,001')")
    page.events.clear()  # the browser logs the status 413, as it should


def test_a_photo_is_captioned(page: Browser, served: list[Served], tmp_path: Path) -> None:
    page.click("#tab-captioning")
    file = io.BytesIO()
    Image.frombytes("RGB", (40, 30), random.Random(3).randbytes(3600)).save(file, "PNG")
    (tmp_path / "photo.png").write_bytes(file.getvalue())
    page.upload("#photo", tmp_path / "photo.png")
    (expected,) = run_of(served, "captioner").caption([Image.open(file)])
    translated(page, "#captioning", expected)
    assert page.run("document.querySelector('canvas').width") == 40
    (tmp_path / "broken.png").write_bytes(b"nothing")
    page.upload("#photo", tmp_path / "broken.png")
    page.wait("document.querySelector('#captioning .problem').textContent.startsWith('image: not an image')")
    page.events.clear()  # the browser logs the status 422, as it should


def test_a_text_is_continued(page: Browser, served: list[Served]) -> None:
    page.click("#tab-language-modeling")
    page.type("#beginning", "1 2")
    panel = "#language-modeling"
    page.wait(f'JSON.stringify({TOKENS.format(panel)}) === \'["1","2","next"]\'')
    assert page.text(f"{panel} .inspector h3") == "What may come next"
    assert page.run(f"document.querySelectorAll('{panel} .inspector tr').length") == 4  # head, mixture, two softmaxes
    likeliest = page.run(f"document.querySelector('{panel} .whole .guess button .text').textContent")
    page.click(f"{panel} .whole .guess button")
    page.wait(f"document.querySelector('#beginning').value === '1 2 {likeliest}'")
    page.wait(f"{TOKENS.format(panel)}.length === 4")
    page.click(f"{panel} .go")
    page.wait(f"document.querySelectorAll('{panel} .lines li').length === 3")
    expected = run_of(served, "lm").sample(3, temperature=0.8, seed=0, prompt=f"1 2 {likeliest}")
    shown = page.run(f"[...document.querySelectorAll('{panel} .lines li')].map(one => one.textContent)")
    assert shown == [f"1 2 {likeliest} {line}" for line in expected]


def test_tabs_are_reached_by_keys(page: Browser) -> None:
    page.run("document.querySelector('#tab-translation').focus()")
    page.key("ArrowRight")
    assert page.run("document.activeElement.id") == "tab-captioning"
    shown = "[...document.querySelectorAll('.panel')].filter(one => !one.hidden).map(one => one.id)"
    assert page.run(shown) == ["captioning"]
    page.key("ArrowLeft")
    assert page.run(shown) == ["translation"]


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_wider_than_a_phone_and_all_is_legible(page: Browser, dark: bool, served: list[Served]) -> None:
    page.size(390, 844, dark=dark)
    page.type("#line", "9 8 7 6 5 4 3 2 1 0 9")
    page.wait(f"{TOKENS.format(LEFT)}.length > 3")
    for tab in ("language-modeling", "captioning", "translation"):
        page.click(f"#tab-{tab}")
        assert page.run("document.documentElement.scrollWidth") <= 390
    text, ground = page.run(
        "(() => { const s = getComputedStyle(document.body); return [s.color, s.backgroundColor] })()"
    )
    assert contrast(text, ground) > 7
    quiet, panel = page.run(
        f"(() => [getComputedStyle(document.querySelector('{LEFT} .about')).color,"
        f" getComputedStyle(document.querySelector('{LEFT}')).backgroundColor])()"
    )
    assert contrast(quiet, panel) > 4.5


def contrast(one: str, other: str) -> float:
    """The contrast of two colors `rgb(r, g, b)`, as WCAG defines it."""

    def luminance(color: str) -> float:
        parts = [int(part) / 255 for part in color[color.index("(") + 1 : -1].split(",")[:3]]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_a_screen_reader_finds_names_for_everything(page: Browser, served: list[Served]) -> None:
    page.type("#line", "3 1 2")
    translated(page, LEFT, run_of(served, "mixture").translate(["3 1 2"])[0])
    names = page.names()
    unnamed = [
        role
        for role, name in names
        if role in ("button", "combobox", "textbox", "listbox", "option", "tab") and not name
    ]
    assert unnamed == []
    assert ("textbox", "Type a sentence") in names
    assert ("listbox", "Output of mixture, token by token") in names
    options = [name for role, name in names if role == "option"]
    assert any(", softmax " in name and name.endswith(" %") for name in options)
    assert {"tablist", "status", "heading", "table", "columnheader", "rowheader"} <= {role for role, _ in names}


def test_the_list_of_operations_works_offline(page: Browser, server: Running) -> None:
    page.open(f"{server.address}/docs")
    page.wait("document.querySelectorAll('#operations section').length >= 7")
    titles = page.run("[...document.querySelectorAll('#operations h3')].map(one => one.textContent)")
    assert titles[:2] == ["POST /translate", "POST /caption"] and "OutputMessage" in titles
    page.size(390, 844)
    assert page.run("document.documentElement.scrollWidth") <= 390


def test_a_server_that_is_gone_is_said(opened: Browser, served: list[Served]) -> None:
    with Running(served, Limits()) as server:
        opened.open(server.address)
        opened.wait("document.querySelectorAll('#tabs button').length === 3")
    opened.type("#line", "1")
    opened.wait(f"document.querySelector('{LEFT} .problem').textContent.startsWith('the server does not answer')")
