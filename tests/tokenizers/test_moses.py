"""Tokenization by Moses' rules, in this process and in child processes."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastmos.errors import InputError
from fastmos.tokenizers import moses

MOSES = [
    ("en", "Don't shout, he said: \"it's 3.5 km!\"", "Don &apos;t shout , he said : &quot; it &apos;s 3.5 km ! &quot;"),
    ("de", "Dr. Müller kommt am 3. Mai (um 8 Uhr).", "Dr. Müller kommt am 3. Mai ( um 8 Uhr ) ."),
    ("fr", "L'été, c'est ‘beau’…", "L&apos; été , c&apos; est &apos; beau &apos; ..."),
    ("en", "", ""),
]


@pytest.mark.parametrize(("language", "line", "words"), MOSES)
def test_rules_of_languages(language: str, line: str, words: str) -> None:
    assert moses.tokenize([line], language) == [words]


@pytest.mark.parametrize(
    "line", ["Don't shout, he said: \"it's 3.5 km!\"", "A (small) test; isn't it?", "5 < 6 & 7 > 2"]
)
def test_detokenization_inverts_tokenization(line: str) -> None:
    assert moses.detokenize(moses.tokenize([line], "en"), "en") == [line]


@given(st.lists(st.text(), max_size=4))
def test_it_keeps_the_number_of_lines(lines: list[str]) -> None:
    words = moses.tokenize(lines, "en")
    assert len(words) == len(lines)
    back = moses.detokenize(words, "en")
    assert len(back) == len(lines)
    assert not any("\n" in line for line in words + back)


def test_the_result_of_child_processes_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"Hr. Nr. {number} sagt: “das ist's”\u2028(ja\u00a0!)" for number in range(50)] + ["", " ", "a\nb"]
    alone = moses.tokenize(lines, "de")
    for count in (2, 3):
        monkeypatch.setattr(moses, "_caches", {})
        monkeypatch.setattr(moses, "LINES_WORTH_A_PROCESS", 5)
        monkeypatch.setattr(moses, "cores", lambda count=count: count)
        assert moses.tokenize(lines, "de") == alone


def test_a_line_is_processed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    processed: list[str] = []

    def rule(line: str) -> str:
        processed.append(line)
        return line

    monkeypatch.setattr(moses, "_caches", {})
    monkeypatch.setattr(moses, "_rules", lambda direction, language: rule)
    assert moses.tokenize(["a", "b", "a"], "en") == ["a", "b", "a"]
    assert moses.tokenize(["b", "c"], "en") == ["b", "c"]
    assert processed == ["a", "b", "c"]
    monkeypatch.setattr(moses, "CHARACTERS_REMEMBERED", 4)
    assert moses.tokenize(["a", "dd"], "en") == ["a", "dd"]  # five characters: the older ones go
    assert moses.tokenize(["dd", "a"], "en") == ["dd", "a"]
    assert processed == ["a", "b", "c", "dd", "a"]


def test_a_stream_is_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    caches: dict[tuple[str, str], moses._Cache] = {}
    monkeypatch.setattr(moses, "_caches", caches)
    monkeypatch.setattr(moses, "_rules", lambda direction, language: str.upper)
    assert moses.tokenize(["a", "b", "a"], "en", remember=False) == ["A", "B", "A"]
    assert not any(caches.values())
    assert moses.tokenize(["a"], "en") == ["A"]
    assert moses.tokenize(["a", "b"], "en", remember=False) == ["A", "B"]
    assert list(caches["tokenize", "en"]) == ["a"]


def test_a_worker_starts_no_processes_and_caches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    caches: dict[tuple[str, str], moses._Cache] = {}
    monkeypatch.setattr(moses, "_caches", caches)
    monkeypatch.setattr(moses, "_rules", lambda direction, language: str.upper)
    monkeypatch.setattr(moses, "_child", lambda *_: pytest.fail("started a process"))
    monkeypatch.setattr(moses, "LINES_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(moses, "cores", lambda: 2)
    monkeypatch.setenv("FASTMOS_WORKER", "1")
    assert moses.tokenize(["a", "b", "a"], "en") == ["A", "B", "A"]
    assert not any(caches.values())


def test_it_needs_no_guarded_main_module() -> None:
    """A script without `if __name__ == "__main__"` may call it."""
    script = (
        "from fastmos.tokenizers import moses\n"
        "moses.LINES_WORTH_A_PROCESS = 1; moses.cores = lambda: 2\n"
        "print(moses.tokenize(['a, b', 'c!'], 'en'))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("['a , b', 'c !']\n", "")


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(InputError, match=r"^language 'xx' is unknown to Moses' rules; give one of .*de"):
        moses.check_language("xx")
