"""Assignments beside scipy and beside plain greedy, over many kinds of costs; proofs; bad input."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fastmos.bench.assignment import instance
from fastmos.errors import InputError
from fastmos.tables import kernels
from fastmos.tables.assignment import Assignment, assign

Array = NDArray[Any]
Draw = np.random.Generator
Kind = Callable[[Draw, int, int], Array]  # of one side: random numbers, words, columns


def scales(draw: Draw, n: int, orders: int) -> Array:
    return 10.0 ** draw.integers(-orders, orders + 1, (n, 1))


KINDS: dict[str, Kind] = {
    "uniform": lambda draw, n, d: draw.random((n, d)),
    "negative": lambda draw, n, d: draw.normal(-3, 1, (n, d)),
    "float32": lambda draw, n, d: draw.random((n, d), dtype=np.float32),
    "few integers": lambda draw, n, d: draw.integers(0, 3, (n, d)),
    "integers": lambda draw, n, d: draw.integers(-50, 10, (n, d)),
    "zeros and ones": lambda draw, n, d: draw.random((n, d)) < 0.2,
    "constant": lambda draw, n, d: np.full((n, d), 7.5),
    "constant columns": lambda draw, n, d: np.repeat(draw.random((1, d)), n, 0),
    "constant rows": lambda draw, n, d: np.repeat(draw.random((n, 1)), d, 1),
    "duplicates": lambda draw, n, d: draw.random((3, d))[draw.integers(0, 3, n)],
    "huge": lambda draw, n, d: 1e12 * draw.normal(0, 1, (n, d)),
    "tiny": lambda draw, n, d: 1e-300 * draw.random((n, d)),
    "far from zero": lambda draw, n, d: 1e12 + draw.random((n, d)),
    "heavy tails": lambda draw, n, d: draw.standard_cauchy((n, d)),
    "all magnitudes": lambda draw, n, d: 10.0 ** draw.uniform(-10, 10, (n, d)),
    "words of some magnitudes": lambda draw, n, d: draw.random((n, d)) * scales(draw, n, 6),
    "words of all magnitudes": lambda draw, n, d: draw.random((n, d)) * scales(draw, n, 12),
    "products": lambda draw, n, d: np.outer(np.arange(n), np.arange(d)),
    "one good column": lambda draw, n, d: 1e-3 * draw.random((n, d)) + 1e6 * (np.arange(d) > 0),
}
SHAPES = [
    *((1, 1, 1), (1, 3, 4), (2, 1, 2), (2, 2, 1), (3, 1, 17), (5, 5, 1), (36, 1, 36), (36, 36, 1)),
    *(
        (30, 6, 6),
        (35, 6, 6),
        (36, 6, 6),
        (37, 7, 9),
        (10, 20, 30),
        (100, 5, 20),
        (100, 20, 5),
        (150, 10, 40),
        (225, 15, 15),
    ),
]


def check(found: Assignment, R: Array, Q: Array) -> None:
    """The cells are different cells, and the cost is theirs."""
    n, d2 = len(R), Q.shape[1]
    word = np.arange(n)
    assert found.cells.shape == (n,) and found.cells.dtype == np.int64
    assert len(set(found.cells.tolist())) == n
    assert found.cells.min() >= 0 and found.cells.max() < R.shape[1] * d2
    paid = R[word, found.cells // d2].astype(float), Q[word, found.cells % d2].astype(float)
    assert found.cost == pytest.approx(sum(map(np.sum, paid)), rel=1e-12, abs=rounding(R, Q))
    assert found.lower_bound <= found.cost


def rounding(R: Array, Q: Array) -> float:
    """What summing n costs of this size may lose in float64."""
    return float(len(R) * 2.0**-52 * (np.abs(R).max() + np.abs(Q).max()))


def above_least(R: Array, Q: Array) -> float:
    """What the optimum costs beyond every word's cheapest row and column: costs are compared on this scale."""
    return assign(R, Q, "dense").cost - float(R.astype(float).min(1).sum() + Q.astype(float).min(1).sum())


@pytest.mark.parametrize("kind", KINDS)
def test_exact_is_the_optimum_and_proves_it(kind: str) -> None:
    for seed, (n, d1, d2) in enumerate(SHAPES):
        draw = np.random.default_rng(seed)
        R, Q = KINDS[kind](draw, n, d1), KINDS[kind](draw, n, d2)
        exact, scipy = assign(R, Q), assign(R, Q, "dense")
        check(exact, R, Q)
        check(scipy, R, Q)
        tolerance = 1e-9 * abs(above_least(R, Q)) + rounding(R, Q)
        assert abs(exact.cost - scipy.cost) <= tolerance, (n, d1, d2)
        assert exact.lower_bound <= scipy.cost, (n, d1, d2)
        assert exact.cost - exact.lower_bound <= 1e-6 * max(abs(exact.cost), abs(above_least(R, Q))), (n, d1, d2)


@pytest.mark.parametrize("first, second", [("constant", "uniform"), ("huge", "tiny"), ("integers", "uniform")])
def test_sides_may_differ_in_kind(first: str, second: str) -> None:
    for seed, (n, d1, d2) in enumerate(SHAPES):
        draw = np.random.default_rng(seed)
        R, Q = KINDS[first](draw, n, d1), KINDS[second](draw, n, d2)
        exact, scipy = assign(R, Q), assign(R, Q, "dense")
        check(exact, R, Q)
        assert exact.cost == pytest.approx(scipy.cost, rel=1e-10, abs=rounding(R, Q))


@pytest.mark.parametrize("n", [1, 2, 30, 200, 400, 1000])
def test_realistic_costs(n: int) -> None:
    R, Q = instance(n, seed=n)
    exact, half, scipy = assign(R, Q), assign(R, Q, "half"), assign(R, Q, "dense")
    for found in (exact, half, scipy):
        check(found, R, Q)
    assert exact.cost == pytest.approx(scipy.cost, rel=1e-11)
    assert exact.gap <= 1e-6
    assert half.cost <= 1.1 * exact.cost


def test_prices_prove_the_bound() -> None:
    R, Q = instance(300)
    found = assign(R, Q)
    assert found.prices is not None and found.prices.shape == (18, 18) and found.prices.min() >= 0
    priced = R.astype(float)[:, :, None] + Q.astype(float)[:, None, :] + found.prices
    assert priced.reshape(300, -1).min(1).sum() - found.prices.sum() == pytest.approx(found.lower_bound, rel=1e-12)


@pytest.mark.parametrize("kind", ["uniform", "integers", "duplicates", "words of all magnitudes", "all magnitudes"])
def test_shortest_paths_find_the_optimum_too(kind: str) -> None:
    """They stand behind the auction, for costs on which it would take too long."""
    for seed, (n, d1, d2) in enumerate(SHAPES):
        draw = np.random.default_rng(seed)
        R, Q = (np.asarray(KINDS[kind](draw, n, d), float) for d in (d1, d2))
        R, Q = R - R.min(1, keepdims=True), Q - Q.min(1, keepdims=True)
        cells, prices = kernels.shortest_paths(R, Q)
        word = np.arange(n)
        cost = float((R[word, cells // d2] + Q[word, cells % d2]).sum())
        assert len(set(cells.tolist())) == n and prices.min() >= -1e-9 * max(cost, 1e-300)
        assert cost == pytest.approx(assign(R, Q, "dense").cost, rel=1e-9)


def sorted_edge_greedy(R: Array, Q: Array) -> list[int]:
    """What `half` must equal: all pairs by falling weight, equal ones by word, column, row."""
    n, d1, d2 = len(R), R.shape[1], Q.shape[1]
    weight = (R.max(1) + Q.max(1))[:, None, None] - (R[:, :, None] + Q[:, None, :])  # [n, d1, d2]
    word, row, column = np.indices((n, d1, d2)).reshape(3, -1)
    cells: list[int] = [-1] * n
    taken = set()
    for edge in np.lexsort((row, column, word, -weight.ravel())):
        cell = int(row[edge] * d2 + column[edge])
        if cells[word[edge]] < 0 and cell not in taken:
            cells[word[edge]] = cell
            taken.add(cell)
    return cells


@pytest.mark.parametrize("kind", ["uniform", "few integers", "integers", "constant", "zeros and ones", "products"])
def test_half_is_sorted_edge_greedy(kind: str) -> None:
    for seed, (n, d1, d2) in enumerate(SHAPES):
        draw = np.random.default_rng(seed)
        R, Q = KINDS[kind](draw, n, d1).astype(float), KINDS[kind](draw, n, d2).astype(float)
        assert assign(R, Q, "half").cells.tolist() == sorted_edge_greedy(R, Q), (n, d1, d2)


@pytest.mark.parametrize("kind", KINDS)
def test_half_saves_half(kind: str) -> None:
    for seed, (n, d1, d2) in enumerate(SHAPES):
        draw = np.random.default_rng(seed)
        R, Q = KINDS[kind](draw, n, d1).astype(float), KINDS[kind](draw, n, d2).astype(float)
        half, best = assign(R, Q, "half"), assign(R, Q, "dense")
        check(half, R, Q)
        worst = float((R.max(1) + Q.max(1)).sum())
        assert half.lower_bound <= best.cost + rounding(R, Q)
        assert worst - half.cost >= 0.5 * (worst - best.cost) - 4 * rounding(R, Q)


def test_the_same_input_gives_the_same_cells() -> None:
    R, Q = (KINDS["few integers"](np.random.default_rng(1), 100, d) for d in (10, 11))
    for method in ("exact", "half", "dense"):
        first, second = assign(R, Q, method), assign(torch.tensor(R), torch.tensor(Q), method)
        assert first.cells.tolist() == second.cells.tolist()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64])
def test_tensors(dtype: torch.dtype) -> None:
    R, Q = (torch.randint(0, 50, (20, 5)).to(dtype) for _ in range(2))
    assert assign(R, Q).cost == assign(R.double().numpy(), Q.double().numpy(), "dense").cost


def test_input_stays_as_it_was_and_may_have_any_layout() -> None:
    R, Q = instance(100)
    before = R.copy(), Q.copy()
    R.flags.writeable = False
    found = assign(np.asfortranarray(R), Q[::-1][::-1])
    assert found.cells.tolist() == assign(R, Q).cells.tolist()
    assert (before[0] == R).all() and (before[1] == Q).all()


def ones(*shape: int) -> Array:
    return np.broadcast_to(1.0, shape)


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("not a number", {"R": [[1, np.nan]], "Q": ones(1, 2)}, r"R\[0, 1\] is nan"),
    ("infinite", {"R": ones(2, 2), "Q": [[0, 1], [-np.inf, 0]]}, r"Q\[1, 0\] is -inf"),
    ("too large", {"R": [[1e200]], "Q": ones(1, 1)}, r"R\[0, 0\] is 1e\+200"),
    ("vector", {"R": ones(3), "Q": ones(3, 3)}, "R has the shape 3;"),
    ("number", {"R": 3.0, "Q": ones(3, 3)}, r"R has the shape \(\)"),
    ("cube", {"R": ones(3, 3), "Q": ones(3, 3, 3)}, "Q has the shape 3 x 3 x 3"),
    ("no words", {"R": ones(0, 3), "Q": ones(0, 3)}, "R has the shape 0 x 3"),
    ("no columns", {"R": ones(3, 3), "Q": ones(3, 0)}, "Q has the shape 3 x 0"),
    ("different words", {"R": ones(3, 3), "Q": ones(4, 3)}, "R has 3 rows and Q has 4"),
    ("more words than cells", {"R": ones(7, 2), "Q": ones(7, 3)}, "7 words do not fit into 2 x 3 cells"),
    ("complex", {"R": ones(1, 1) * 1j, "Q": ones(1, 1)}, "R holds complex128"),
    ("text", {"R": [["a"]], "Q": ones(1, 1)}, "R holds <U1"),
    ("ragged", {"R": [[1, 2], [3]], "Q": ones(2, 1)}, "R is not a matrix"),
    ("method", {"R": ones(1, 1), "Q": ones(1, 1), "method": "best"}, "method='best' is unknown; choose one of exact"),
    ("dense size", {"R": ones(2000, 1100), "Q": ones(2000, 1100), "method": "dense"}, "19 GB"),
]


@pytest.mark.parametrize("arguments, sentence", [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_input(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        assign(**arguments)


def solve_in_process(cache: Path, **environment: str) -> "subprocess.Popen[str]":
    """A process that solves a small problem with numba's cache in this folder."""
    program = (
        "import numpy as np; from fastmos.tables.assignment import assign;"
        "costs = np.arange(12.).reshape(4, 3) % 5; print(assign(costs, costs).cost)"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1"} | environment
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=pipe, stderr=pipe, text=True)


def test_compilation_is_announced_cached_and_shared(tmp_path: Path) -> None:
    """Two processes compile into one cache at the same time; the next finds it, and says nothing."""
    both = [process.communicate() for process in [solve_in_process(tmp_path), solve_in_process(tmp_path)]]
    later, said_later = solve_in_process(tmp_path).communicate()
    assert [result for result, _ in both] == [later, later] and float(later) == 3
    announced = [said.count("fastmos: compiling the assignment solver") for _, said in both]
    assert max(announced) == 1 and said_later == ""
    assert not list(tmp_path.rglob("*.2.nbc")), "a second signature could be written over the first"


def test_without_a_writable_cache(tmp_path: Path) -> None:
    """Below a regular file no folder can be made, not even by root; numba is told to look nowhere else."""
    file = tmp_path / "file"
    file.touch()
    process = solve_in_process(file / "cache", NUMBA_CACHE_LOCATOR_CLASSES="UserProvidedCacheLocator")
    result, said = process.communicate()
    assert process.returncode == 0 and float(result) == 3, said


def test_functions_are_compiled_even_if_numba_cannot_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def njit(function: Any = None, cache: bool = False) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return function

    monkeypatch.setattr(kernels, "njit", njit)
    assert kernels.compiled(rounding) is rounding
