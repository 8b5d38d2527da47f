"""Count and sum by key: how many purchases each customer has, and what they come to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import orjson

from bench.data import purchases
from bench.workloads.base import Compare, Emission, Size, Workload
from penstock import Serdes, StreamsBuilder
from penstock.log.base import Row


class Purchase(msgspec.Struct):
    """What the job needs of a purchase; other fields are skipped, as the Java program skips them."""

    amount: int


class Total(msgspec.Struct):
    """What is known of a key."""

    count: int
    sum: int


def nothing() -> Total:
    return Total(0, 0)


def add(_key: Any, purchase: Purchase, total: Total) -> Total:
    return Total(total.count + 1, total.sum + purchase.amount)


def build(sources: Sequence[str], target: str) -> StreamsBuilder:
    """Say the job.

    >>> from penstock.testing import TopologyTestDriver
    >>> with TopologyTestDriver(build(["in"], "out")) as driver:
    ...     driver.input_topic("in").pipe_all([("k", {"amount": 2}), ("k", {"amount": 3, "item": "tea"})], start=0)
    ...     driver.output_topic("out").read_table()
    {'k': Total(count=2, sum=5)}
    """
    builder = StreamsBuilder()
    totals = Serdes.json_of(Total)
    (
        builder.stream(list(sources), key=Serdes.string, value=Serdes.json_of(Purchase))
        .group_by_key()
        .aggregate(nothing, add, store="totals", value=totals)
        .to_stream()
        .to(target, value=totals)
    )
    return builder


def expected(rows: Iterable[Row]) -> Iterator[Emission]:
    """Yield what must come out."""
    counts: dict[bytes | None, int] = {}
    sums: dict[bytes | None, int] = {}
    for _, _, key, value, _, _ in rows:
        counts[key] = counts.get(key, 0) + 1
        sums[key] = sums.get(key, 0) + orjson.loads(value or b"")["amount"]
    for key, count in counts.items():
        yield key, b'{"count":%d,"sum":%d}' % (count, sums[key])


def workload(name: str, title: str, size: Size) -> Workload:
    """Return the workload with a certain number of keys."""
    return Workload(name, title, "count_sum", ["purchases"], size, purchases, expected, Compare.LAST)


WORKLOADS = (
    workload("count-sum", "count and sum by key, 50 k keys", Size(4_000_000, 50_000)),
    workload("count-sum-5m", "count and sum by key, 5 M keys", Size(8_000_000, 5_000_000)),
)
