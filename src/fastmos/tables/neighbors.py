"""The layout `neighbors`, from which table learning starts: words with the same neighbors share a row.

The words of a row share an embedding, so they should be words that occur in the same contexts. Counts of neighbors show
at once which words these are; rounds of training and assignment would find them step by step.
"""

from typing import Any

import numpy as np

from fastmos.tables.words import WordText
from fastmos.tokenizers import TableTokenizer

Array = np.ndarray[Any, np.dtype[Any]]

NEIGHBORS = 1000  # how many of the most frequent words tell others apart
DIMENSIONS = 50
POWERS = 2  # of the randomized decomposition (Halko et al. 2011)


def by_neighbors(tokenizer: TableTokenizer, text: WordText, seed: int) -> TableTokenizer:
    """The same words: each row a group of similar words, filled from the most frequent one to the least.

    A row's first word is in column 0, its second in column 1: so the columns tell how frequent a word is, which is the
    better part of what can be known once the row is.
    """
    words = len(tokenizer.table_words)
    groups = _halved(word_vectors(text, words, seed), np.arange(words), tokenizer.rows)
    counts = text.counts(words)
    cells = np.empty(words, np.int64)
    for row, group in enumerate(groups):
        ranked = group[np.lexsort([group, -counts[group]])]
        cells[ranked] = row * tokenizer.columns + np.arange(len(group))
    return tokenizer.with_cells(cells)


def word_vectors(text: WordText, words: int, seed: int) -> Array:
    """Table words as vectors [n, k]: association with the neighbors on each side, in few dimensions."""
    counts = _neighbor_counts(text, words)
    total, own, others = counts.sum(), counts.sum(1), counts.sum(0)
    association = counts.tocoo()
    expected = np.asarray(own)[association.row, 0] * np.asarray(others)[0, association.col] / total
    association.data = np.maximum(np.log(association.data / expected), 0.0)  # positive pointwise mutual information
    return _leading(association.tocsr(), min(DIMENSIONS, *counts.shape), seed)


def _neighbor_counts(text: WordText, words: int) -> Any:
    """How often each of the most frequent words, or a line's edge, stands left and right of each table word [n, 2M]."""
    from scipy.sparse import csr_matrix

    size = text.first + words
    numbers, offsets = text.words.tokens.astype(np.int64), text.words.offsets
    known = min(NEIGHBORS, size)
    frequency = np.bincount(numbers, minlength=size)
    place = np.full(size + 1, -1)
    place[np.argsort(-frequency, kind="stable")[:known]] = np.arange(known)
    edge = size  # the neighbor of a line's first and last word
    place[edge] = known
    before, after = np.append(edge, numbers)[:-1], np.append(numbers, edge)[1:]
    lines = np.diff(offsets) > 0
    before[offsets[:-1][lines]] = edge
    after[offsets[1:][lines] - 1] = edge
    pairs = []
    for side, neighbor in enumerate((before, after)):
        chosen = (numbers >= text.first) & (place[neighbor] >= 0)
        pairs.append((numbers[chosen] - text.first, place[neighbor[chosen]] + side * (known + 1)))
    row, column = (np.concatenate(part) for part in zip(*pairs, strict=True))
    return csr_matrix((np.ones(len(row)), (row, column)), shape=(words, 2 * (known + 1)))


def _leading(matrix: Any, dimensions: int, seed: int) -> Array:
    """The matrix in its leading dimensions, each scaled by the root of its singular value."""
    draw = np.random.default_rng(seed)
    basis = matrix @ draw.normal(size=(matrix.shape[1], min(2 * dimensions, min(matrix.shape))))
    for _ in range(POWERS):
        basis = matrix @ (matrix.T @ np.linalg.qr(basis)[0])
    basis = np.linalg.qr(basis)[0]
    left, values, _ = np.linalg.svd((matrix.T @ basis).T, full_matrices=False)
    return np.asarray((basis @ left * np.sqrt(values))[:, :dimensions])


def _halved(vectors: Array, group: Array, parts: int) -> list[Array]:
    """Cut a group of words into parts of equal size, each time across the direction in which they differ most."""
    if parts == 1:
        return [group]
    centered = vectors[group] - vectors[group].mean(0) if len(group) else vectors[group]
    direction = np.linalg.eigh(centered.T @ centered)[1][:, -1]
    direction = direction * (1 if direction[np.abs(direction).argmax()] > 0 else -1)  # eigenvectors have no sign
    ordered = group[np.argsort(centered @ direction, kind="stable")]
    left = parts // 2
    middle = -(-len(group) * left // parts)
    return _halved(vectors, ordered[:middle], left) + _halved(vectors, ordered[middle:], parts - left)
