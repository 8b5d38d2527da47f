"""Count and sum behind any number of re-keys: what a level costs, and what grows with the data (``bench.growth``)."""

from __future__ import annotations

from collections.abc import Sequence

from bench.data import purchases
from bench.workloads import count_sum
from bench.workloads.base import Compare, Kind, Size, Workload
from bench.workloads.count_sum import Total
from bench.workloads.rekey_aggregate import Purchase, add, customer
from penstock import Serdes, StreamsBuilder


def build(sources: Sequence[str], target: str, levels: str = "1") -> StreamsBuilder:
    """Say the job: one level counts, each one more re-keys before.

    >>> from penstock.testing import TopologyTestDriver
    >>> with TopologyTestDriver(build(["in"], "out", levels="3")) as driver:
    ...     driver.input_topic("in").pipe("k", {"customer": "k", "amount": 2})
    ...     driver.output_topic("out").read_table()
    {'k': Total(count=1, sum=2)}
    """
    builder = StreamsBuilder()
    read, totals = Serdes.json_of(Purchase), Serdes.json_of(Total)
    stream = builder.stream(sources[0], key=Serdes.string, value=read)
    for _ in range(int(levels) - 1):
        stream = stream.select_key(customer).repartition(key=Serdes.string, value=read)
    table = stream.group_by_key().aggregate(count_sum.nothing, add, store="totals", value=totals)
    table.to_stream().to(target, value=totals)
    return builder


WORKLOADS = (
    Workload(
        "growth",
        "cost per record as records, keys, lanes, levels, partitions grow",
        "growth",
        ["purchases"],
        Size(3_000_000, 50_000),
        purchases,
        count_sum.expected,
        Compare.LAST,
        kind=Kind.GROWTH,
        quick=20_000,
    ),
)
