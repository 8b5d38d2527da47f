"""Count and sum by key, where one record in a thousand cannot be read and is skipped: what such records cost all others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bench.data import purchases
from bench.workloads import count_sum
from bench.workloads.base import Compare, Emission, Size, Workload
from penstock.log.base import Row

__all__ = ["WORKLOADS", "build"]

#: one record in so many is bad
EVERY = 1000
#: JSON that ends too early
BAD = b'{"order":'

build = count_sum.build


def some_bad(size: Size, topics: Sequence[str]) -> Iterator[Row]:
    """Yield purchases, some of which cannot be read.

    >>> [number for number, row in enumerate(some_bad(Size(2_000), ["in"])) if row[3] == BAD]
    [500, 1500]
    """
    for number, row in enumerate(purchases(size, topics)):
        bad = number % EVERY == EVERY // 2
        yield (*row[:3], BAD, *row[4:]) if bad else row


def expected(rows: Iterable[Row]) -> Iterator[Emission]:
    """Yield what must come out: the totals of all others."""
    return count_sum.expected(row for row in rows if row[3] != BAD)


WORKLOADS = (
    Workload(
        "count-sum-bad",
        "count and sum by key, one record in a thousand is skipped",
        "count_sum_bad",
        ["purchases"],
        Size(4_000_000, 50_000),
        some_bad,
        expected,
        Compare.LAST,
        settings=["on_deserialization_error=skip"],
    ),
)
