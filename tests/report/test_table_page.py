"""A table as CSV, as a page and around a word."""

import csv
import io
import re
from html.parser import HTMLParser

import pytest

from fastmos.errors import InputError
from fastmos.report.table_page import nearest, table_csv, table_html
from fastmos.tokenizers import TableTokenizer

WORDS = ["one", "two", "<b>", "a,b", 'say"', "&amp;", "größer"]
TOKENIZER = TableTokenizer(["the"], WORDS, [0, 1, 3, 4, 6, 7, 8], 4, 3)  # cells 2, 5 and the last row are empty


class Page(HTMLParser):
    """The words of each row, and every address in the page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.addresses: list[str | None] = []
        self.in_word = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        self.in_word = tag == "b"
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag: str) -> None:
        self.in_word = False

    def handle_data(self, data: str) -> None:
        if self.in_word:
            self.rows[-1].append(data)


def test_csv_holds_every_word_at_its_place() -> None:
    rows = list(csv.reader(io.StringIO(table_csv(TOKENIZER))))
    assert rows[0] == ["row", "column", "word"]
    assert [(int(row) * 3 + int(column), word) for row, column, word in rows[1:]] == list(
        zip(TOKENIZER.cells.tolist(), WORDS, strict=True)
    )


def test_csv_keeps_a_word_with_a_carriage_return_whole() -> None:
    text = table_csv(TableTokenizer([], ["c\rd"], [0], 1, 1))
    assert list(csv.reader(io.StringIO(text, newline="")))[1:] == [["0", "0", "c\rd"]]


def test_page_holds_every_word_escaped_and_needs_nothing_else() -> None:
    text = table_html(TOKENIZER, "a <table>")
    page = Page(text)
    assert page.rows == [["one", "two"], ["<b>", "a,b"], ['say"', "&amp;", "größer"], []]
    assert page.addresses == []
    assert "default-src 'none'" in text
    assert not re.search(r"https?:|@import|url\(", text)
    assert "<title>a &lt;table&gt;</title>" in text


def test_nearest_words_share_row_or_column() -> None:
    assert nearest(TOKENIZER, "one") == (["two"], ["<b>", 'say"'])
    assert nearest(TOKENIZER, "größer") == (['say"', "&amp;"], [])


@pytest.mark.parametrize(
    ("word", "sentence"),
    [("the", "frequent and owns a token"), ("ones", "did you mean 'one'"), ("zzz", "not in this table")],
)
def test_words_that_are_not_in_the_table(word: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        nearest(TOKENIZER, word)
