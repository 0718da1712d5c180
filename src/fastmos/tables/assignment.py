"""Assign words to the cells of a table at the least cost, where a cell costs the sum of its row and its column."""

import functools
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from fastmos.errors import InputError, needs_extra

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Costs = NDArray[Any] | torch.Tensor
Method = Literal["exact", "half", "dense"]

LARGEST = 1e150  # of a cost: sums of larger ones could leave float64
DENSE_LIMIT = 2**31  # costs in scipy's square matrix: 16 GB


@dataclass(frozen=True, eq=False)
class Assignment:
    """The cell of each word, the total cost, and a proven lower bound."""

    cells: Ints  # [n] row * d2 + column, all different
    cost: float  # the sum of R[i, row] + Q[i, column], rounded once
    lower_bound: float  # no assignment costs less
    prices: Floats | None  # [d1, d2] >= 0, from `exact` only: they prove the lower bound

    @property
    def gap(self) -> float:
        """How far the cost can be above the optimum, as a share of the cost."""
        above = self.cost - self.lower_bound
        return above / max(abs(self.cost), abs(self.lower_bound)) if above else 0.0


def assign(R: Costs, Q: Costs, method: Method = "exact") -> Assignment:
    """Assign n words to different cells of a d1 x d2 table, n <= d1 d2, where word i in (r, c) costs R[i, r] + Q[i, c].

    R is [n, d1] and Q is [n, d2], of any real type; the work is done in float64 and in n (d1 + d2) numbers.
    The same input gives the same cells.

    `exact` finds the optimum and proves it: `gap` is 1e-6 at most, and usually near 1e-12.
    `half` is the quick 1/2-approximation: it saves at least half of what can be saved against every word's worst cell.
    `dense` is scipy's solver, for small n and for tests: it builds the n x (d1 d2) matrix and proves nothing.
    """
    if method not in METHODS:
        raise InputError(f"method='{method}' is unknown; choose one of {', '.join(METHODS)}")
    R, Q = _checked(R, "R"), _checked(Q, "Q")
    n, shape = len(R), (R.shape[1], Q.shape[1])
    if len(Q) != n:
        raise InputError(f"R has {n} rows and Q has {len(Q)}; both need one row for each word")
    if n > math.prod(shape):
        raise InputError(f"{n} words do not fit into {shape[0]} x {shape[1]} cells; use a larger table")
    with needs_extra():
        return METHODS[method](R, Q)


def _checked(values: Costs, name: str) -> Floats:
    """An own contiguous float64 copy of a matrix of finite numbers."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().double().numpy()
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        raise InputError(f"{name} is not a matrix; give rows of one length") from None
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} holds {array.dtype}; give real numbers")
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"{name} has the shape {_by(array.shape)}; give a matrix with at least one row and one column")
    result = np.array(array, np.float64, order="C")
    low, high = result.min(), result.max()  # NaN shows in both
    if not (low >= -LARGEST and high <= LARGEST):
        row, column = np.argwhere(~(np.abs(result) <= LARGEST))[0]
        raise InputError(f"{name}[{row}, {column}] is {result[row, column]}; give finite numbers up to {LARGEST:g}")
    return result


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "()"


@dataclass(frozen=True)
class _Reduced:
    """The same problem with R, Q from 0 to 1 and a 0 in each row; scaling by a power of two is exact."""

    R: Floats
    Q: Floats
    least: list[float]  # the minima taken off: what every assignment costs
    unit: float  # what 1 was

    @classmethod
    def of(cls, R: Floats, Q: Floats) -> "_Reduced":
        least_R, least_Q = R.min(1), Q.min(1)
        R, Q = R - least_R[:, None], Q - least_Q[:, None]
        unit = 2.0 ** math.frexp(max(R.max(), Q.max()))[1]
        R /= unit
        Q /= unit
        return cls(R, Q, [*least_R, *least_Q], unit)

    def lower_bound(self, paid: Floats, prices: Floats) -> float:
        """The bound that prices >= 0 prove by weak duality: the sum of what words pay at least, less all prices.

        It is never rounded up: what a word pays is a sum of three numbers >= 0, each rounded at most once.
        """
        paid = paid * (self.unit * (1 - 2.0**-50))
        return _rounded_down(math.fsum([*self.least, *paid, *(-self.unit * prices.ravel())]))


def _exact(R: Floats, Q: Floats) -> Assignment:
    from fastmos.tables.auction import solve

    problem = _Reduced.of(R, Q)
    with _announced():
        cells, prices, paid = solve(problem.R, problem.Q)
    cost = cost_of(R, Q, cells)
    return Assignment(cells, cost, min(problem.lower_bound(paid, prices), cost), prices * problem.unit)


def _half(R: Floats, Q: Floats) -> Assignment:
    """Greedy over all pairs by falling weight, which equals Preis' locally dominant pairs (1999).

    The weight is what a cell saves a word against its own worst cell. With one constant for all words the guarantee
    is the same, but expensive words would lose their good cells to cheap ones.
    """
    from fastmos.tables.kernels import empty_cache, greedy

    problem = _Reduced.of(R, Q)
    worst = problem.R.max(1) + problem.Q.max(1)
    with _announced():
        cells = greedy(problem.R, problem.Q, worst, empty_cache(len(R), R.shape[1] * Q.shape[1]))
    cost = cost_of(R, Q, cells)
    return Assignment(cells, cost, _rounded_down(math.fsum(problem.least)), None)


def _dense(R: Floats, Q: Floats) -> Assignment:
    from scipy.optimize import linear_sum_assignment

    n, cells = len(R), R.shape[1] * Q.shape[1]
    if n * cells > DENSE_LIMIT:
        raise InputError(f"method='dense' would build {n} x {cells} costs, {n * cells * 8 / 1e9:.0f} GB; use 'exact'")
    _, chosen = linear_sum_assignment((R[:, :, None] + Q[:, None, :]).reshape(n, cells))
    cost = cost_of(R, Q, chosen)
    return Assignment(chosen.astype(np.int64), cost, cost, None)


METHODS: dict[str, Callable[[Floats, Floats], Assignment]] = {"exact": _exact, "half": _half, "dense": _dense}


def cost_of(R: Floats, Q: Floats, cells: Ints) -> float:
    """The sum of R[i, row] + Q[i, column], rounded once."""
    word = np.arange(len(R))
    return math.fsum([*R[word, cells // Q.shape[1]], *Q[word, cells % Q.shape[1]]])


def _rounded_down(total: float) -> float:
    """Below the exact value of a sum that was rounded once; a sum of 0 is exact."""
    return total - abs(total) * 2.0**-52


@contextmanager
def _announced() -> Iterator[None]:
    """Say that numba compiles, if it does: the first solution takes some seconds."""
    from numba.core import event

    class Announcement(event.Listener):  # type: ignore[misc]  # numba has no types
        def on_start(self, event: Any) -> None:
            _say_compiling()

        def on_end(self, event: Any) -> None:
            pass

    with event.install_listener("numba:compile", Announcement()):
        yield


@functools.cache
def _say_compiling() -> None:
    print("fastmos: compiling the assignment solver (some seconds, the first time only)", file=sys.stderr, flush=True)
