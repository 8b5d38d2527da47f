"""Foreign-key join: every order with the land of the customer whom it names; both tables change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import orjson

from bench.data import orders_and_customers
from bench.workloads.base import Compare, Emission, Size, Workload
from penstock import Serdes, StreamsBuilder
from penstock.log.base import Row


class Order(msgspec.Struct):
    """A row of the left table."""

    customer: str
    amount: int


class Customer(msgspec.Struct):
    """A row of the right table."""

    land: str


class Sale(msgspec.Struct):
    """What goes out."""

    amount: int
    land: str


def customer(order: Order) -> str:
    return order.customer


def sale(order: Order, known: Customer) -> Sale:
    return Sale(order.amount, known.land)


def build(sources: Sequence[str], target: str) -> StreamsBuilder:
    """Say the job.

    >>> from penstock.testing import TopologyTestDriver
    >>> with TopologyTestDriver(build(["orders", "customers"], "out")) as driver:
    ...     driver.input_topic("customers").pipe("k", {"land": "AT"}, timestamp=1)
    ...     driver.input_topic("orders").pipe("o1", {"customer": "k", "amount": 3}, timestamp=2)
    ...     driver.output_topic("out").read().value
    Sale(amount=3, land='AT')
    """
    builder = StreamsBuilder()
    ordered, known = sources
    orders = builder.table(ordered, key=Serdes.string, value=Serdes.json_of(Order))
    customers = builder.table(known, key=Serdes.string, value=Serdes.json_of(Customer))
    sales = Serdes.json_of(Sale)
    joined = orders.join(customers, sale, foreign_key=customer, store="joined", value=sales)
    joined.to_stream().to(target, value=sales)
    return builder


def expected(rows: Iterable[Row]) -> Iterator[Emission]:
    """Yield what must come out at last."""
    orders: dict[bytes | None, tuple[bytes, int]] = {}
    lands: dict[bytes | None, str] = {}
    for _, _, key, value, _, _ in rows:
        read = None if value is None else orjson.loads(value)
        if read is None:  # only orders are deleted
            orders.pop(key, None)
        elif "land" in read:
            lands[key] = read["land"]
        else:
            orders[key] = (read["customer"].encode(), read["amount"])
    for key, (named, amount) in orders.items():
        if named in lands:
            yield key, orjson.dumps({"amount": amount, "land": lands[named]})


WORKLOADS = (
    Workload(
        "foreign-key-join",
        "foreign-key join of two tables, 50 k customers",
        "foreign_key_join",
        ["orders", "customers"],
        Size(2_000_000, 50_000),
        orders_and_customers,
        expected,
        Compare.LAST,
        quick=20_000,
    ),
)
