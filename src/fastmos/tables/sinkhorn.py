"""Entropic cell prices for a cost that is a sum, by matrix products.

With temperature tau the kernel exp(-(R[i,r] + Q[i,c]) / tau) is A[i,r] B[i,c], so what all words demand of all cells
takes two products of n x d1 and n x d2 numbers (Sinkhorn's iteration; Cuturi 2013); the square kernel is never built.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

COOLING = 4.0  # from one temperature to the next
ITERATIONS = 20  # at most, at each temperature
EXCESS = 0.2  # good enough: this share of the words wants a cell that is full; auctions settle the rest sooner
TINY = 1e-300  # float32 would underflow long before the last temperature


def sinkhorn_prices(R: Floats, Q: Floats, hot: float, cold: float) -> Floats:
    """Prices [d1, d2] >= 0 at which hardly a cell is wanted by more than one word, at temperature `cold`.

    R and Q are reduced (each row's minimum is 0), and cooling starts at `hot`.
    """
    prices = np.zeros((R.shape[1], Q.shape[1]))
    A, B = np.empty_like(R), np.empty_like(Q)
    scaled, product = np.empty_like(Q), np.empty_like(Q)
    for tau in _temperatures(hot, cold):
        np.exp(np.divide(R, -tau, out=A), out=A)
        np.exp(np.divide(Q, -tau, out=B), out=B)
        V = np.maximum(np.exp(prices / -tau), TINY)
        for _ in range(ITERATIONS):
            Z = np.einsum("ic,ic->i", np.matmul(A, V, out=product), B)
            D = A.T @ np.divide(B, np.maximum(Z, TINY)[:, None], out=scaled)  # demand / V
            excess = np.maximum(D * V - 1, 0).sum() / len(R)
            V = np.clip(1 / np.maximum(D, TINY), TINY, 1)  # a price is never negative: cells may stay empty
            if excess < EXCESS:
                break
        prices = -tau * np.log(V)
    return prices


def _temperatures(hot: float, cold: float) -> list[float]:
    result = []
    while hot > cold:
        result.append(hot)
        hot /= COOLING
    return [*result, cold]
