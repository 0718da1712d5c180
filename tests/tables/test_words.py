"""Text as numbers of words: the tokens of every table over them, by look-up."""

from pathlib import Path

import pytest

from fastmos.tables.words import LONGEST_LINE
from tests.tables.tiny import LINES, small_table


@pytest.mark.parametrize("frequent", [0, 2])
@pytest.mark.parametrize("layout", ["frequency", "random"])
def test_tokens_by_look_up_are_those_of_the_tokenizer(frequent: int, layout: str, tmp_path: Path) -> None:
    lines = [*LINES, "an unknown cat sat", "unknown"]
    tokenizer, text = small_table(tmp_path, lines, frequent, layout)
    for shift in range(3):
        moved = tokenizer.with_cells((tokenizer.cells + 5 * shift) % (tokenizer.rows * tokenizer.columns))
        tokens = text.tokens(moved)
        assert [tokens[line].tolist() for line in range(len(tokens))] == moved.encode_lines(lines)


def test_a_text_without_line_breaks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="break the text into lines"):
        small_table(tmp_path, ["cat " * (LONGEST_LINE + 1)])
