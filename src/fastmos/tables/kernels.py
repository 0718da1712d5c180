"""The compiled loops of the assignment solvers (numba).

They stay together in one file because numba's cache of a function notices changes of its own file only. Each is called
with one signature only (own, contiguous float64 and int64 arrays), which keeps compilation short and lets several
processes fill one cache at the same time: whoever writes last writes the same code.

Costs come reduced: every word's cheapest row and column cost 0, so all numbers are >= 0 and relative margins hold.
"""

import heapq
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EMPTY, DUMMY = -1, -2  # what may sit in a cell instead of a word
NO_LIMIT = 1e300
ROUNDING = 2.0**-48  # the same three numbers added in another order differ by less
CACHE = 16  # cells a word keeps at hand


def compiled(function: F) -> F:
    """Compile at the first call, cached on disk where numba finds a folder it may write."""
    try:
        result: F = njit(cache=True)(function)
    except RuntimeError:
        result = njit(function)
    return result


class Cache(NamedTuple):
    """The K cheapest cells of each word when last looked at; prices only rise, so no other cell can become cheaper."""

    cells: Ints  # [n, K]
    costs: Floats  # [n, K], without price
    filled: Ints  # [n] how many of the K are in use
    limit: Floats  # [n] every cell outside costs at least this, price included


def empty_cache(n: int, cells: int) -> Cache:
    """A cache in which nothing has been looked at yet."""
    shape = (n, min(CACHE, cells))
    return Cache(np.zeros(shape, np.int64), np.zeros(shape), np.zeros(n, np.int64), np.zeros(n))


@compiled
def column_minima(row_costs: Floats, column_costs: Floats, prices: Floats, minima: Floats) -> None:
    """minima[c] = min over r of a word's priced cost of cell (r, c).

    Most of all time is spent here. An element-wise minimum becomes vector instructions; one running minimum would not.
    """
    d1, d2 = prices.shape
    for c in range(d2):
        minima[c] = NO_LIMIT
    for r in range(d1):
        row_cost = row_costs[r]
        row_prices = prices[r]
        for c in range(d2):
            value = row_cost + row_prices[c]
            minima[c] = value if value < minima[c] else minima[c]
    for c in range(d2):
        minima[c] += column_costs[c]


@compiled
def cheapest(R: Floats, Q: Floats, prices: Floats) -> Floats:
    """Each word's cheapest priced cost over all cells."""
    result = np.empty(R.shape[0])
    minima = np.empty(Q.shape[1])
    for i in range(R.shape[0]):
        column_minima(R[i], Q[i], prices, minima)
        result[i] = minima.min()
    return result


@compiled
def insert(value: float, values: Floats, k: int) -> int:
    """Insert into the ascending values before place k, losing what stood there; return where: behind equal ones."""
    while k > 0 and values[k - 1] > value:
        values[k] = values[k - 1]
        k -= 1
    values[k] = value
    return k


@compiled
def look_up(i: int, R: Floats, Q: Floats, prices: Floats, limit: float, cache: Cache, minima: Floats) -> float:
    """Cache word i's K cheapest cells in order of (priced cost, column, row), and return the priced cost of the first.

    Cells above `limit` are not wanted; a caller that sets it knows K cells at or below.
    """
    d1, d2 = prices.shape
    cells, costs = cache.cells[i], cache.costs[i]
    size = len(cells)
    values = np.empty(size)
    column_minima(R[i], Q[i], prices, minima)
    if d2 >= size:  # the K-th smallest column minimum bounds the K-th cheapest cell
        count = 0
        for c in range(d2):
            if count < size or minima[c] < values[size - 1]:
                insert(minima[c], values, min(count, size - 1))
                count = min(count + 1, size)
        limit = min(limit, values[size - 1] * (1 + ROUNDING))
    count = 0
    for c in range(d2):
        if minima[c] > limit * (1 + ROUNDING):
            continue
        for r in range(d1):
            cost = R[i, r] + Q[i, c]
            value = cost + prices[r, c]
            if value > limit or (count == size and value == limit):
                continue
            k = insert(value, values, min(count, size - 1))
            count = min(count + 1, size)
            for j in range(count - 1, k, -1):
                cells[j] = cells[j - 1]
                costs[j] = costs[j - 1]
            cells[k] = r * d2 + c
            costs[k] = cost
            if count == size:
                limit = values[size - 1]
    cache.filled[i] = count
    cache.limit[i] = limit
    return float(values[0])


@compiled
def two_best(i: int, prices: Floats, cache: Cache) -> tuple[int, float, float]:
    """The cheapest cached cell of word i, its priced cost and that of the second, at today's prices."""
    cell, first, second = -1, NO_LIMIT, NO_LIMIT
    for k in range(cache.filled[i]):
        value = cache.costs[i, k] + prices[cache.cells[i, k]]
        if value < first:
            cell, first, second = cache.cells[i, k], value, first
        elif value < second:
            second = value
    return cell, first, min(second, cache.limit[i])


@compiled
def dearest(i: int, prices: Floats, cache: Cache) -> float:
    """The dearest cached cell of word i at today's prices: K cells cost no more, if the cache is full."""
    if cache.filled[i] < cache.cells.shape[1]:
        return NO_LIMIT
    result = 0.0
    for k in range(cache.filled[i]):
        result = max(result, cache.costs[i, k] + prices[cache.cells[i, k]])
    return result


@compiled
def seat_dummies(missing: int, prices: Floats, owner: Ints, epsilon: float) -> Ints:
    """Give the `missing` cheapest cells to dummies and return the words that sat there.

    Dummies are all alike, so they bid together: up to the price of the cheapest cell they leave to the words.
    Those already seated must stay: if they could be driven out by each other, it would never end.
    """
    values, cells = np.empty(missing + 1), np.empty(missing + 1, np.int64)
    count = 0
    for j in range(len(prices)):
        if owner[j] != DUMMY and (count <= missing or prices[j] < values[missing]):
            k = insert(prices[j], values, min(count, missing))
            count = min(count + 1, missing + 1)
            for last in range(count - 1, k, -1):
                cells[last] = cells[last - 1]
            cells[k] = j
    level = values[missing]
    for j in range(len(prices)):
        if owner[j] == DUMMY:
            prices[j] = max(prices[j], level)
    driven_out = np.full(missing, EMPTY)
    for k in range(missing):
        driven_out[k] = owner[cells[k]]
        owner[cells[k]] = DUMMY
        prices[cells[k]] = level + max(epsilon, level * ROUNDING)
    return driven_out


@compiled
def auction(R: Floats, Q: Floats, prices: Floats, epsilon: float, budget: int, cache: Cache, seat: Ints) -> bool:
    """One phase of Bertsekas' auction: every word ends on a cell within epsilon of its cheapest, priced.

    Words bid in turn for their cheapest cell, raising its price by what the second best is dearer, plus epsilon. The
    cells nobody wants belong to dummies, who pay the price alone. False means that the budget of bids ran out first.
    """
    n, d2 = R.shape[0], Q.shape[1]
    flat = prices.reshape(-1)
    owner = np.full(len(flat), EMPTY)
    minima = np.empty(d2)
    queue = np.arange(n)
    first, waiting, dummies = 0, n, len(flat) - n
    for _ in range(budget):
        if waiting == 0:
            if dummies == 0:
                return True
            for word in seat_dummies(dummies, flat, owner, epsilon):
                if word >= 0:
                    queue[(first + waiting) % n] = word
                    waiting += 1
            dummies = 0
            continue
        i = queue[first]
        first, waiting = (first + 1) % n, waiting - 1
        cell, best, second = two_best(i, flat, cache)
        if cell < 0 or best > cache.limit[i]:
            look_up(i, R, Q, prices, dearest(i, flat, cache), cache, minima)
            cell, best, second = two_best(i, flat, cache)
        # A step must show in float64, or equal bidders would overbid each other by nothing forever.
        flat[cell] += (second - best) + max(epsilon, second * ROUNDING)
        if owner[cell] == DUMMY:
            dummies += 1
        elif owner[cell] != EMPTY:
            queue[(first + waiting) % n] = owner[cell]
            waiting += 1
        owner[cell] = i
        seat[i] = cell
    return False


@compiled
def shortest_paths(R: Floats, Q: Floats) -> tuple[Ints, Floats]:
    """Optimal cells and prices by shortest augmenting paths (as Jonker and Volgenant): slow, but never very slow.

    One word after another takes its seat at the end of the cheapest chain of moves, found by Dijkstra's algorithm.
    """
    n, d1, d2 = R.shape[0], R.shape[1], Q.shape[1]
    prices, paid = np.zeros(d1 * d2), np.zeros(n)
    owner, seat = np.full(d1 * d2, EMPTY), np.full(n, EMPTY)
    distance, mover = np.empty(d1 * d2), np.empty(d1 * d2, np.int64)
    done = np.empty(d1 * d2, np.bool_)
    for newcomer in range(n):
        distance[:] = NO_LIMIT
        done[:] = False
        i, far, end = newcomer, 0.0, EMPTY
        while i >= 0:
            nearest = NO_LIMIT
            for r in range(d1):
                for c in range(d2):
                    j = r * d2 + c
                    if done[j]:
                        continue
                    value = far + (R[i, r] + Q[i, c] + prices[j] - paid[i])
                    if value < distance[j]:
                        distance[j], mover[j] = value, i
                    if distance[j] < nearest or (distance[j] == nearest and owner[j] == EMPTY):
                        nearest, end = distance[j], j
            far, i = nearest, owner[end]
            done[end] = True
        paid[newcomer] += far
        for j in range(d1 * d2):
            if done[j] and owner[j] != EMPTY:
                prices[j] += far - distance[j]
                paid[owner[j]] += far - distance[j]
        while i != newcomer:
            i = mover[end]
            owner[end] = i
            seat[i], end = end, seat[i]
    return seat, prices.reshape(d1, d2)


@compiled
def greedy(R: Floats, Q: Floats, worst: Floats, cache: Cache) -> Ints:
    """Take the pairs of word and free cell by falling weight worst[i] - cost; equal ones by word, column, row.

    Lazy: each word waits in a heap with the best cell it knows, and looks again only when that is gone.
    """
    n, d1, d2 = R.shape[0], R.shape[1], Q.shape[1]
    prices = np.zeros((d1, d2))  # infinite: taken
    flat = prices.reshape(-1)
    minima = np.empty(d2)
    seat = np.empty(n, np.int64)
    place = np.zeros(n, np.int64)
    heap = [(look_up(i, R, Q, prices, NO_LIMIT, cache, minima) - worst[i], i) for i in range(n)]
    heapq.heapify(heap)
    while len(heap) > 0:
        _, i = heapq.heappop(heap)
        cell = cache.cells[i, place[i]]
        if flat[cell] == 0:
            flat[cell] = np.inf
            seat[i] = cell
            continue
        while place[i] < cache.filled[i] and flat[cache.cells[i, place[i]]] > 0:
            place[i] += 1
        if place[i] < cache.filled[i]:
            cost = cache.costs[i, place[i]]
        else:
            cost = look_up(i, R, Q, prices, NO_LIMIT, cache, minima)
            place[i] = 0
        heapq.heappush(heap, (cost - worst[i], i))
    return seat
