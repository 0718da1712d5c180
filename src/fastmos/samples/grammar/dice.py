"""Random choice in integers alone, so that a seed gives the same text on every platform and Python."""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import TypeVar

T = TypeVar("T")
MASK = (1 << 64) - 1


class Dice:
    """SplitMix64 (Steele, Lea and Flood, 2014): one stream for each seed and index."""

    def __init__(self, seed: int, index: int) -> None:
        self.state = 0
        self.state = self._next() ^ (seed & MASK)
        self.state = self._next() ^ (index & MASK)

    def _next(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        mixed = self.state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        return mixed ^ (mixed >> 31)

    def below(self, limit: int) -> int:
        """A number from 0 to limit - 1."""
        return (self._next() * limit) >> 64

    def chance(self, percent: int) -> bool:
        """True this often."""
        return self.below(100) < percent

    def pick(self, items: Sequence[T]) -> T:
        """One of them, all alike."""
        return items[self.below(len(items))]

    def zipf(self, items: Sequence[T]) -> T:
        """One of them, the earlier the likelier: weight 1 / (rank + 2)."""
        sums = _zipf_sums(len(items))
        return items[bisect_right(sums, self.below(sums[-1]))]

    def weighted(self, choices: dict[str, int]) -> str:
        """One of the keys, by weight."""
        left = self.below(sum(choices.values()))
        for choice, weight in choices.items():
            left -= weight
            if left < 0:
                return choice
        raise AssertionError("weights are positive")


@cache
def _zipf_sums(count: int) -> list[int]:
    return list(accumulate(1_000_000 // (rank + 2) for rank in range(count)))
