"""How alike the words of rows are."""

import numpy as np
import pytest

from fastmos.reproduce.coherence import FEWEST, row_similarities, similarities


def test_the_similarity_of_a_row_is_the_mean_cosine_of_its_pairs() -> None:
    draw = np.random.default_rng(0)
    vectors, row_of = draw.normal(size=(30, 4)), np.repeat([0, 1, 2], [FEWEST, 30 - 2 * FEWEST + 1, FEWEST - 1])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found = row_similarities(vectors, row_of)
    assert set(found) == {0, 1}  # the last row has too few words
    for row, value in found.items():
        words = unit[row_of == row]
        pairs = [a @ b for place, a in enumerate(words) for b in words[place + 1 :]]
        assert value == pytest.approx(np.mean(pairs), abs=1e-12)


def test_groups_of_like_words_are_told_from_the_same_words_at_random() -> None:
    draw = np.random.default_rng(0)
    row_of = np.repeat(np.arange(6), 10)
    centers = draw.normal(size=(6, 20))
    found = similarities(centers[row_of] + 0.3 * draw.normal(size=(60, 20)), row_of)
    assert found["mean"] > 0.8 > 0.4 > found["random_best"] > found["random_mean"]
    values = [value for _, value in found["rows"]]
    assert values == sorted(values, reverse=True) and len(values) == 6
    assert abs(similarities(draw.normal(size=(60, 20)), row_of)["mean"]) < 0.1


def test_a_word_without_neighbors_is_like_no_other() -> None:
    found = row_similarities(np.vstack([np.ones((9, 2)), np.zeros((1, 2))]), np.zeros(10, np.int64))
    assert found[0] == pytest.approx(9 * 8 / (10 * 9))
