"""A processor of the user's own, with a store: the running total of each customer, one result for each purchase."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import orjson

from bench.data import purchases
from bench.workloads.base import Compare, Emission, Size, Workload
from bench.workloads.count_sum import Purchase, Total, add, nothing
from penstock import Processor, ProcessorContext, Record, Serdes, Stores, StreamsBuilder
from penstock.log.base import Row


class RunningTotal(Processor[str, Purchase]):
    """Adds each purchase to its customer's total, and hands the total on."""

    def init(self, context: ProcessorContext) -> None:
        """Take the store."""
        self._totals = context.store("totals")
        self._forward = context.forward

    def process(self, record: Record[str, Purchase]) -> None:
        """Add one purchase."""
        total = add(record.key, record.value, self._totals.get(record.key) or nothing())
        self._totals.put(record.key, total)
        self._forward(record.with_value(total))


def build(sources: Sequence[str], target: str) -> StreamsBuilder:
    """Say the job.

    >>> from penstock.testing import TopologyTestDriver
    >>> with TopologyTestDriver(build(["in"], "out")) as driver:
    ...     driver.input_topic("in").pipe_all([("k", {"amount": 2}), ("k", {"amount": 3})], start=0)
    ...     driver.output_topic("out").read_values()
    [Total(count=1, sum=2), Total(count=2, sum=5)]
    """
    builder = StreamsBuilder()
    totals = Serdes.json_of(Total)
    builder.add_state_store(Stores.key_value("totals", key=Serdes.string, value=totals))
    (
        builder.stream(sources[0], key=Serdes.string, value=Serdes.json_of(Purchase))
        .process(RunningTotal, stores=["totals"])
        .to(target, key=Serdes.string, value=totals)
    )
    return builder


def expected(rows: Iterable[Row]) -> Iterator[Emission]:
    """Yield what must come out."""
    totals: dict[bytes | None, tuple[int, int]] = {}
    for _, _, key, value, _, _ in rows:
        count, sum_ = totals.get(key, (0, 0))
        totals[key] = count + 1, sum_ + orjson.loads(value or b"")["amount"]
        yield key, b'{"count":%d,"sum":%d}' % totals[key]


WORKLOADS = (
    Workload(
        "processor",
        "a processor with a store, a result for each record, 50 k keys",
        "processor",
        ["purchases"],
        Size(2_000_000, 50_000),
        purchases,
        expected,
        Compare.ORDERED,
    ),
)
