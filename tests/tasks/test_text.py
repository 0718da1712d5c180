"""Lines of a caller: too long, or not a list."""

import pytest

from fastmos.errors import InputError
from fastmos.tasks.text import check_lines, cut_overlong


def test_long_lines_are_cut_and_counted() -> None:
    with pytest.warns(UserWarning, match="2 of 3 lines were cut to 2 tokens"):
        assert cut_overlong([[1, 2, 3], [4, 5], [6, 7, 8, 9]], 2, "cut") == [[1, 2], [4, 5], [6, 7]]


def test_long_lines_are_refused_by_their_number() -> None:
    with pytest.raises(InputError, match="line 2: 3 tokens, but the model was trained on at most 2"):
        cut_overlong([[1, 2], [3, 4, 5]], 2, "refuse")
    assert cut_overlong([[1, 2], []], 2, "refuse") == [[1, 2], []]


def test_one_string_is_not_a_list_of_lines() -> None:
    with pytest.raises(InputError, match=r"a list of lines is needed, not one string; give \['der mann'\]"):
        check_lines("der mann")
    check_lines(["der mann"])
