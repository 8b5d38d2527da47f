"""Re-key and aggregate: purchases come by order, and are counted and summed by customer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import msgspec
import orjson

from bench.data import purchases
from bench.workloads import count_sum
from bench.workloads.base import Compare, Emission, Size, Workload
from bench.workloads.count_sum import Total
from penstock import Serdes, StreamsBuilder
from penstock.log.base import Row


class Purchase(msgspec.Struct):
    """What the job needs of a purchase."""

    customer: str
    amount: int


def customer(_key: str, purchase: Purchase) -> str:
    return purchase.customer


def add(_key: str, purchase: Purchase, total: Total) -> Total:
    return Total(total.count + 1, total.sum + purchase.amount)


def build(sources: Sequence[str], target: str) -> StreamsBuilder:
    """Say the job.

    >>> from penstock.testing import TopologyTestDriver
    >>> with TopologyTestDriver(build(["in"], "out")) as driver:
    ...     driver.input_topic("in").pipe("o1", {"customer": "k", "amount": 2})
    ...     driver.output_topic("out").read_table()
    {'k': Total(count=1, sum=2)}
    """
    builder = StreamsBuilder()
    read, totals = Serdes.json_of(Purchase), Serdes.json_of(Total)
    (
        builder.stream(sources[0], key=Serdes.string, value=read)
        .group_by(customer, key=Serdes.string, value=read)
        .aggregate(count_sum.nothing, add, store="totals", value=totals)
        .to_stream()
        .to(target, value=totals)
    )
    return builder


def expected(rows: Iterable[Row]) -> Iterator[Emission]:
    """Yield what must come out: that of count-and-sum, if purchases came by customer."""
    return count_sum.expected((*row[:2], orjson.loads(row[3] or b"")["customer"].encode(), *row[3:]) for row in rows)


WORKLOADS = (
    Workload(
        "rekey-aggregate",
        "re-key, then count and sum, 50 k keys",
        "rekey_aggregate",
        ["purchases"],
        Size(3_000_000, 50_000),
        partial(purchases, by_order=True),
        expected,
        Compare.LAST,
    ),
)
