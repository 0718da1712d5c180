"""A dataset: some of its lines, its longest line, its fingerprint."""

import pytest

from fastmos.data.tokenized import TokenizedText
from fastmos.tasks.dataset import Dataset

TARGET: list[list[int]] = [[4, 5], [], [6], [7, 8, 9]]
SOURCE: list[list[int]] = [[5], [4, 4, 4, 4], [], [6, 6]]


def pairs(target: list[list[int]] = TARGET, source: list[list[int]] | None = SOURCE) -> Dataset:
    return Dataset(TokenizedText.of(target), None if source is None else TokenizedText.of(source), ["x"] * len(target))


def lines(text: TokenizedText) -> list[list[int]]:
    return [text[line].tolist() for line in range(len(text))]


@pytest.mark.parametrize("chosen", [range(4), range(1, 4, 2), range(0, 4, 3), range(0)])
def test_some_of_the_lines(chosen: range) -> None:
    some = pairs().select(chosen)
    assert some.source is not None
    assert lines(some.target) == [TARGET[line] for line in chosen]
    assert lines(some.source) == [SOURCE[line] for line in chosen]
    assert list(some.references) == []
    assert pairs(source=None).select(chosen).source is None


def test_the_longest_line_is_of_either_side() -> None:
    assert pairs().longest == 5  # four source tokens and eos
    assert pairs(source=None).longest == 4


def test_the_fingerprint_is_of_the_content() -> None:
    assert pairs().fingerprint() == pairs().select(range(4)).fingerprint()
    others = [
        pairs(source=None),
        pairs(SOURCE, TARGET),
        pairs([[4], [5], [6], [7, 8, 9]]),  # the same tokens, but other lines
        pairs([[4, 5], [], [6], [7, 8, 8]]),
        pairs(TARGET[:3], SOURCE[:3]),
    ]
    assert len({dataset.fingerprint() for dataset in (pairs(), *others)}) == 1 + len(others)
