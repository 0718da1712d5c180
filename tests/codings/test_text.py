"""Lines to words and back: plain spaces, lowercasing, Moses' rules."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastmos.codings import Text, moses
from fastmos.codings.text import batches, by_count
from fastmos.errors import InputError


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        ("   ", []),
        (" a  b ", ["a", "b"]),
        ("a\u00a0b c", ["a\u00a0b", "c"]),  # a no-break space parts nothing
        ("a\tb c", ["a\tb", "c"]),
        ("a\u2028b \x00 c", ["a\u2028b", "\x00", "c"]),
        ("a\nb", ["a", "b"]),  # a line is one line
    ],
)
def test_only_spaces_part_words(line: str, words: list[str]) -> None:
    assert list(Text().split([line])) == [words]


@given(st.lists(st.text().filter(lambda word: word and " " not in word and "\n" not in word)))
def test_words_round_trip(words: list[str]) -> None:
    [line] = Text().join([words])
    assert list(Text().split([line])) == [words]


def test_lowercase() -> None:
    assert list(Text(lowercase=True).split(["Straße ÄÖ İ"])) == [["straße", "äö", "İ".lower()]]


MOSES = [
    ("en", "Don't shout, he said: \"it's 3.5 km!\"", "Don &apos;t shout , he said : &quot; it &apos;s 3.5 km ! &quot;"),
    ("de", "Dr. Müller kommt am 3. Mai (um 8 Uhr).", "Dr. Müller kommt am 3. Mai ( um 8 Uhr ) ."),
    ("fr", "L'été, c'est ‘beau’…", "L&apos; été , c&apos; est &apos; beau &apos; ..."),
    ("en", "", ""),
]


@pytest.mark.parametrize(("language", "line", "tokens"), MOSES)
def test_moses_rules(language: str, line: str, tokens: str) -> None:
    assert list(Text("moses", language).split([line])) == [tokens.split()]


@pytest.mark.parametrize(
    "line", ["Don't shout, he said: \"it's 3.5 km!\"", "A (small) test; isn't it?", "5 < 6 & 7 > 2"]
)
def test_moses_is_undone(line: str) -> None:
    text = Text("moses", "en")
    assert text.join(list(text.split([line]))) == [line]


@given(st.lists(st.text(), max_size=4))
def test_moses_keeps_the_number_of_lines(lines: list[str]) -> None:
    text = Text("moses", "en")
    words = list(text.split(lines))
    assert len(words) == len(lines)
    back = text.join(words)
    assert len(back) == len(lines)
    assert not any("\n" in line for line in back)


def test_moses_in_child_processes_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"Hr. Nr. {number} sagt: “das ist's”\u2028(ja\u00a0!)" for number in range(50)] + ["", " ", "a\nb"]
    text = Text("moses", "de")
    alone = list(text.split(lines))
    for count in (2, 3):
        monkeypatch.setattr(moses, "_memories", {})
        monkeypatch.setattr(moses, "LINES_WORTH_A_PROCESS", 5)
        monkeypatch.setattr(moses, "cores", lambda count=count: count)
        assert list(text.split(lines)) == alone


def test_moses_never_treats_a_line_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    treated: list[str] = []

    def rule(line: str) -> str:
        treated.append(line)
        return line

    monkeypatch.setattr(moses, "_memories", {})
    monkeypatch.setattr(moses, "_rules", lambda direction, language: rule)
    assert moses.tokenise(["a", "b", "a"], "en") == ["a", "b", "a"]
    assert moses.tokenise(["b", "c"], "en") == ["b", "c"]
    assert treated == ["a", "b", "c"]
    monkeypatch.setattr(moses, "CHARACTERS_REMEMBERED", 4)
    assert moses.tokenise(["a", "dd"], "en") == ["a", "dd"]  # five characters: the older ones go
    assert moses.tokenise(["dd", "a"], "en") == ["dd", "a"]
    assert treated == ["a", "b", "c", "dd", "a"]


def test_moses_remembers_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    memories: dict[tuple[str, str], moses._Memory] = {}
    monkeypatch.setattr(moses, "_memories", memories)
    monkeypatch.setattr(moses, "_rules", lambda direction, language: str.upper)
    assert moses.tokenise(["a", "b", "a"], "en", remember=False) == ["A", "B", "A"]
    assert not any(memories.values())
    assert moses.tokenise(["a"], "en") == ["A"]
    assert moses.tokenise(["a", "b"], "en", remember=False) == ["A", "B"]
    assert list(memories["tokenise", "en"]) == ["a"]


def test_moses_in_a_worker_starts_no_processes_and_remembers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    memories: dict[tuple[str, str], moses._Memory] = {}
    monkeypatch.setattr(moses, "_memories", memories)
    monkeypatch.setattr(moses, "_rules", lambda direction, language: str.upper)
    monkeypatch.setattr(moses, "_child", lambda *_: pytest.fail("started a process"))
    monkeypatch.setattr(moses, "LINES_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(moses, "cores", lambda: 2)
    monkeypatch.setenv("FASTMOS_WORKER", "1")
    assert moses.tokenise(["a", "b", "a"], "en") == ["A", "B", "A"]
    assert not any(memories.values())


def test_moses_needs_no_guarded_main_module() -> None:
    """A script without `if __name__ == "__main__"` may call it."""
    script = (
        "from fastmos.codings import Text, moses\n"
        "moses.LINES_WORTH_A_PROCESS = 1; moses.cores = lambda: 2\n"
        "print(list(Text('moses', 'en').split(['a, b', 'c!'])))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[['a', ',', 'b'], ['c', '!']]\n", "")


@pytest.mark.parametrize(
    ("tokenise", "language", "said"),
    [
        ("mosses", None, "tokenise is 'mosses'; it must be one of none, moses"),
        ("moses", None, "Moses' rules need a language; give one of "),
        ("moses", "xx", "language 'xx' is unknown to Moses' rules; give one of "),
        ("none", "de", "language 'de' is used by Moses' rules only"),
    ],
)
def test_wrong_treatment(tokenise: str, language: str | None, said: str) -> None:
    with pytest.raises(InputError, match="^" + said):
        Text(tokenise, language)


def test_counts_and_batches() -> None:
    counts = Text().count_words(iter(["b a", "b c a", "d"]))
    assert counts == {"a": 2, "b": 2, "c": 1, "d": 1}
    assert by_count(counts) == ["a", "b", "c", "d"]
    assert list(batches(iter("abcde"), 2)) == [["a", "b"], ["c", "d"], ["e"]]


@pytest.mark.parametrize("lines", [[], [""], ["  ", ""]])
def test_text_without_words(lines: list[str]) -> None:
    with pytest.raises(InputError, match="the text holds no words"):
        Text().count_words(lines)
