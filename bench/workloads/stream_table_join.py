"""Stream-table join: every purchase gets the land of its customer, as it was then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import orjson

from bench.data import customers_and_purchases
from bench.workloads.base import Compare, Emission, Size, Workload
from penstock import Serdes, StreamsBuilder
from penstock.log.base import Row


class Purchase(msgspec.Struct):
    """What the job needs of a purchase."""

    order: int
    amount: int


class Customer(msgspec.Struct):
    """What the job needs of a customer."""

    land: str


class Sale(msgspec.Struct):
    """What goes out."""

    order: int
    amount: int
    land: str


def sale(purchase: Purchase, customer: Customer) -> Sale:
    return Sale(purchase.order, purchase.amount, customer.land)


def build(sources: Sequence[str], target: str) -> StreamsBuilder:
    """Say the job.

    >>> from penstock.testing import TopologyTestDriver
    >>> with TopologyTestDriver(build(["purchases", "customers"], "out")) as driver:
    ...     driver.input_topic("customers").pipe("k", {"land": "AT"}, timestamp=1)
    ...     driver.input_topic("purchases").pipe("k", {"order": 7, "amount": 3}, timestamp=2)
    ...     driver.output_topic("out").read().value
    Sale(order=7, amount=3, land='AT')
    """
    builder = StreamsBuilder()
    purchased, known = sources
    customers = builder.table(known, key=Serdes.string, value=Serdes.json_of(Customer))
    purchases = builder.stream(purchased, key=Serdes.string, value=Serdes.json_of(Purchase))
    purchases.join(customers, sale).to(target, value=Serdes.json_of(Sale))
    return builder


def expected(rows: Iterable[Row]) -> Iterator[Emission]:
    """Yield what must come out: rows come in the order of their times, so the table is as it was then."""
    lands: dict[bytes | None, str] = {}
    for _, _, key, value, _, _ in rows:
        read = orjson.loads(value or b"")
        if "land" in read:
            lands[key] = read["land"]
        elif key in lands:
            yield key, b'{"order":%d,"amount":%d,"land":"%s"}' % (read["order"], read["amount"], lands[key].encode())


WORKLOADS = (
    Workload(
        "stream-table-join",
        "stream-table join, 50 k keys, a tenth of the records updates the table",
        "stream_table_join",
        ["purchases", "customers"],
        Size(3_000_000, 50_000),
        customers_and_purchases,
        expected,
        Compare.ORDERED,
        quick=80_000,
    ),
)
