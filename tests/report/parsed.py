"""Pages for tests: results without files, and a page taken apart."""

from html.parser import HTMLParser
from typing import Any

from fastmos.reproduce.records import Result

VOID = {"meta", "input", "br", "path", "rect", "circle"}


class Page(HTMLParser):
    """A page's text, tags, attributes; every tag that opens must be closed."""

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
