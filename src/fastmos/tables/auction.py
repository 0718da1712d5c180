"""The exact assignment: Sinkhorn's prices, then auctions with a shrinking epsilon, without the n x (d1 d2) matrix."""

import numpy as np

from fastmos.tables.assignment import Floats, Ints, cost_of
from fastmos.tables.kernels import auction, cheapest, empty_cache, shortest_paths
from fastmos.tables.sinkhorn import sinkhorn_prices

SHRINK = 5.0  # of epsilon from one phase to the next
BIDS = 64  # a cell: a phase that needs more began with too small an epsilon
AIM = 1e-12  # the last phase may lose this share of the cost: as good as float64 sums get
CERTIFIED = 1e-6  # the share of the cost that may stay unproven
PATIENCE = 2  # phases that may run out of bids


def solve(R: Floats, Q: Floats) -> tuple[Ints, Floats, Floats]:
    """Optimal cells [n], prices [d1, d2] >= 0, and what each word pays at least at these prices [n].

    R and Q are reduced: >= 0, and 0 somewhere in each row. Auctions are fast on the costs of a language model; where
    they are not (costs over many orders of magnitude), shortest paths are certain to end.
    """
    cells, prices = _auctions(R, Q)
    paid = cheapest(R, Q, prices)
    if cells is None or cost_of(R, Q, cells) * (1 - CERTIFIED) > paid.sum() - prices.sum():
        cells, prices = shortest_paths(R, Q)
        paid = cheapest(R, Q, prices)
    return cells, prices, paid


def _auctions(R: Floats, Q: Floats) -> tuple[Ints | None, Floats]:
    """The best cells that auctions found, if any, and the prices of the last that was completed."""
    n, cells = len(R), R.shape[1] * Q.shape[1]
    spread = R.mean(1) + Q.mean(1)  # [n] the mean cost of a cell
    mean = float(spread.mean())
    if mean == 0:  # every cell is every word's best
        return np.arange(n), np.zeros((R.shape[1], Q.shape[1]))
    cold = max(0.1 * float(np.median(spread)), 1e-3 * mean)
    epsilon, budget, patience = 0.2 * cold, BIDS * cells, PATIENCE
    seat, best, lowest = np.empty(n, np.int64), None, np.inf
    cache = empty_cache(n, cells)
    prices = proof = sinkhorn_prices(R, Q, mean / 4, cold)
    while patience:
        if not auction(R, Q, prices, epsilon, budget, cache, seat):
            epsilon *= SHRINK**2  # prices are far from the solution: take longer steps
            patience -= 1
            continue
        cost = cost_of(R, Q, seat)
        if cost == 0:  # less is not possible, and no prices are needed to prove it
            return seat, np.zeros_like(prices)
        if cost < lowest:
            best, lowest = seat.copy(), cost
        proof = prices - prices.min()
        if epsilon * cells <= AIM * cost:
            break
        epsilon = max(epsilon / SHRINK, 0.5 * AIM * cost / cells)
        if prices.min() > cost / cells:  # a large common part costs the differences precision
            prices, cache = proof.copy(), empty_cache(n, cells)
    return best, proof
