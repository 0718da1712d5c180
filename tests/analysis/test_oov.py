"""Words that are out of a vocabulary become unk."""

from fastmos.analysis.oov import without_unknown
from fastmos.codings.text import Text


def test_unknown_words_are_replaced_and_counted() -> None:
    lines, replaced, words = without_unknown(["a dog runs", "", "dogs run"], {"a", "dog", "run"}, Text())
    assert (lines, replaced, words) == (["a dog ⟨unk⟩", "", "⟨unk⟩ run"], 2, 5)


def test_case_is_that_of_the_text() -> None:
    assert without_unknown(["A Dog"], {"a", "dog"}, Text(lowercase=True))[1] == 0
    assert without_unknown(["A Dog"], {"a", "dog"}, Text())[1] == 2
