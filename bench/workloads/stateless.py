"""Filter and map: purchases of at least 20 go on, with a price in cents. JSON in, JSON out, the whole value is decoded and encoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import msgspec
import orjson

from bench.data import purchases
from bench.workloads.base import Compare, Emission, Size, Workload
from penstock import Serdes, StreamsBuilder
from penstock.log.base import Row

LEAST = 20


class Purchase(msgspec.Struct):
    """What comes in; ``paid`` and ``item`` are not needed."""

    order: int
    customer: str
    amount: int
    note: str


class Sale(msgspec.Struct):
    """What goes out."""

    order: int
    customer: str
    cents: int
    note: str


def is_worth_it(_key: str, purchase: Purchase) -> bool:
    return purchase.amount >= LEAST


def sale(purchase: Purchase) -> Sale:
    return Sale(purchase.order, purchase.customer, purchase.amount * 100, purchase.note)


def build(sources: Sequence[str], target: str) -> StreamsBuilder:
    """Say the job.

    >>> from penstock.testing import TopologyTestDriver
    >>> with TopologyTestDriver(build(["in"], "out")) as driver:
    ...     driver.input_topic("in").pipe("k", {"order": 1, "customer": "k", "amount": 30, "note": "x"})
    ...     driver.output_topic("out").read().value
    Sale(order=1, customer='k', cents=3000, note='x')
    """
    builder = StreamsBuilder()
    stream = builder.stream(sources[0], key=Serdes.string, value=Serdes.json_of(Purchase))
    stream.filter(is_worth_it).map_values(sale).to(target, value=Serdes.json_of(Sale))
    return builder


def expected(rows: Iterable[Row]) -> Iterator[Emission]:
    """Yield what must come out."""
    for _, _, key, value, _, _ in rows:
        read = orjson.loads(value or b"")
        if read["amount"] >= LEAST:
            sold = {name: read[name] for name in ("order", "customer")} | {"cents": read["amount"] * 100}
            yield key, orjson.dumps(sold | {"note": read["note"]})


def workload(name: str, title: str, note: int, records: int) -> Workload:
    """Return the workload with values of a certain size."""
    rows = partial(purchases, note=note)
    return Workload(name, title, "stateless", ["purchases"], Size(records), rows, expected, Compare.ORDERED)


WORKLOADS = (
    workload("stateless-100b", "filter and map, values of 100 B", note=16, records=4_000_000),
    workload("stateless-1kb", "filter and map, values of 1 KB", note=930, records=2_000_000),
)
