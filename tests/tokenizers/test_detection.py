"""Raw or tokenized, lowercased or not, by a look at the text."""

import pytest

from fastmos.tokenizers.detection import is_lowercase, looks_raw


@pytest.mark.parametrize(
    ("lines", "raw"),
    [
        (["Yes, it is.", "Really?"], True),
        (["Yes , it is .", "Mr. Smith , too ."], False),  # an abbreviation keeps its full stop
        (["two words", "three words here"], False),
        (["我喜欢你。"], True),
        (["他 说 ： 我 喜欢 你 。"], False),
        (["", "  ", "..."], False),
    ],
)
def test_raw_text_has_punctuation_attached_to_words(lines: list[str], raw: bool) -> None:
    assert looks_raw(lines) == raw


def test_lowercase_text_has_no_capital() -> None:
    assert is_lowercase(["ein haus .", "straße 7"])
    assert not is_lowercase(["ein haus .", "ein Haus ."])
