"""Lines in batches: none is lost or moved, however they are grouped, and scores are those of the model."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fastmos.config import Search
from fastmos.data.tokenized import TokenizedText
from fastmos.inference.run import Run, load
from fastmos.tasks.dataset import Dataset
from fastmos.tasks.decoding import (
    SENTENCES,
    SOURCE_TOKENS,
    SourceLines,
    score_lines,
    score_running_text,
    search_outputs,
)


@pytest.fixture(scope="module")
def translator(trained: Path) -> Run:
    return load(trained / "run", "cpu")


@given(st.lists(st.sampled_from([0, 1, 3, 60, 70, 500, SOURCE_TOKENS, SOURCE_TOKENS + 1]), max_size=200))
def test_groups_hold_every_line_that_is_not_empty(lengths: list[int]) -> None:
    groups = SourceLines([[4] * length for length in lengths]).groups()
    assert sorted(row for group in groups for row in group) == [row for row, length in enumerate(lengths) if length]
    by_group = [[lengths[row] for row in group] for group in groups]
    in_order = [length for group in by_group for length in group]
    assert in_order == sorted(in_order, reverse=True)
    for group in by_group:
        assert len(group) <= SENTENCES
        assert len(group) == 1 or len(group) * max(group) <= SOURCE_TOKENS


@pytest.mark.parametrize(("penalty", "expected"), [(0.0, 100), (0.6, [26, 100])])
def test_the_length_limit_follows_the_source_under_a_penalty(penalty: float, expected: int | list[int]) -> None:
    lines = SourceLines([[4] * 2, [4] * 50])
    found = lines.max_length([0, 1], Search(length_penalty=penalty, max_length=100))
    assert (found.tolist() if isinstance(found, torch.Tensor) else found) == expected


def test_outputs_stay_with_their_lines(translator: Run) -> None:
    lines = [[5, 4], [], [6, 7, 8, 4, 5], [9]]
    search = translator.config.search

    def best(lines: list[list[int]]) -> list[list[int]]:
        found = search_outputs(translator.model, translator.target, SourceLines(lines), search, translator.device)
        return [hypotheses[0].tokens for hypotheses in found]

    together = best(lines)
    assert together == [best([line])[0] for line in lines]
    assert together[1] == []
    assert best([]) == []


def test_scores_of_lines_are_those_of_the_model(translator: Run) -> None:
    source, target = [[5, 4], [], [6, 7, 8, 4, 5], [9]], [[4, 5], [6], [], [9, 9, 9]]
    dataset = Dataset(TokenizedText.of(target), TokenizedText.of(source))
    found = score_lines(translator.model, dataset, translator.device)
    for line, tokens in enumerate(target):
        batch = next(dataset.select(range(line, line + 1)).batches(max_sentences=1, keep_empty=True).epoch(0))
        hidden, _ = translator.model.body(batch)  # [1, T, D]
        rows = translator.model.head(hidden)[0].detach().double()  # [T, V]
        expected = [-float(rows[place, token]) for place, token in enumerate([*tokens, translator.target.eos])]
        np.testing.assert_allclose(found[line], expected, rtol=1e-4, atol=1e-5)


def test_no_lines_have_no_scores(translator: Run) -> None:
    assert score_lines(translator.model, Dataset(TokenizedText.of([])), translator.device) == []


def test_short_running_text_is_one_stream(trained: Path) -> None:
    """Cut into several, most of its words would be scored without what stood before them."""
    run = load(trained / "lm", "cpu")
    text = TokenizedText.of(run.target.encode_lines((trained / "valid.b").read_text().splitlines()))
    by_windows, at_once = (score_running_text(run.model, text, window, run.device) for window in (5, 1000))
    assert len(by_windows) == len(text.tokens) + len(text) > 16
    np.testing.assert_allclose(by_windows, at_once, rtol=1e-5)
