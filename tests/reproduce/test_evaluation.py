"""Words that are out of a vocabulary become unk."""

from fastmos.reproduce.evaluation import without_unknown
from fastmos.tokenizers import Pretokenizer


def test_unknown_words_are_replaced_and_counted() -> None:
    lines, replaced, words = without_unknown(["a dog runs", "", "dogs run"], {"a", "dog", "run"}, Pretokenizer())
    assert (lines, replaced, words) == (["a dog ⟨unk⟩", "", "⟨unk⟩ run"], 2, 5)


def test_case_is_that_of_the_text() -> None:
    assert without_unknown(["A Dog"], {"a", "dog"}, Pretokenizer(lowercase=True))[1] == 0
    assert without_unknown(["A Dog"], {"a", "dog"}, Pretokenizer())[1] == 2
