"""A distribution of numbers: how many were up to each bound. What histograms are made of."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np

#: upper bounds, in seconds
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Distribution:
    """How often values were up to each bound, how many there were, and their sum.

    >>> found = Distribution((1, 10))
    >>> for value in (1, 4, 50):
    ...     found.add(value)
    >>> found.merge(Distribution((1, 10), [1, 0, 0], 0.5))
    >>> found.cumulative(), found.total
    ([2, 3, 4], 55.5)
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float], counts: Sequence[int] | None = None, total: float = 0.0) -> None:
        self.bounds = bounds
        #: how many values are up to each bound and above the one before; the last number is that of those above all
        self.counts = [0] * (len(bounds) + 1) if counts is None else list(counts)
        self.total = total

    def add(self, value: float) -> None:
        """Add a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add_all(self, values: Any) -> None:
        """Add the numbers of an array; those up to the first bound, as most are, cost next to nothing.

        >>> found = Distribution((0.0, 10.0))
        >>> found.add_all(np.array([-1.0, 0.0, 5.0, 50.0]))
        >>> found.counts, found.total
        ([2, 1, 1], 54.0)
        """
        above = values[values > self.bounds[0]]
        self.counts[0] += len(values) - len(above)
        if len(above):
            counts = np.bincount(np.searchsorted(self.bounds, above), minlength=len(self.counts))
            self.counts = [mine + int(more) for mine, more in zip(self.counts, counts, strict=True)]
        self.total += float(values.sum())

    def merge(self, other: Distribution) -> None:
        """Add all values of another one with the same bounds."""
        self.counts = [mine + more for mine, more in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    def cumulative(self) -> list[int]:
        """Return how many values were up to each bound; the last number is that of all."""
        found, sum_ = [], 0
        for count in tuple(self.counts):
            sum_ += count
            found.append(sum_)
        return found
