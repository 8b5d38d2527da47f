"""Stream-stream join: orders and their payments, if they come within ten seconds of each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import orjson

from bench.data import orders_and_payments
from bench.workloads.base import Compare, Emission, Size, Workload
from penstock import JoinWindows, Serdes, StreamsBuilder
from penstock.log.base import Row

WINDOW_MS = 10_000


class Order(msgspec.Struct):
    """What was ordered."""

    amount: int


class Payment(msgspec.Struct):
    """What was paid."""

    paid: int


class Settled(msgspec.Struct):
    """What goes out."""

    amount: int
    paid: int


def settle(order: Order, payment: Payment) -> Settled:
    return Settled(order.amount, payment.paid)


def build(sources: Sequence[str], target: str) -> StreamsBuilder:
    """Say the job.

    >>> from penstock.testing import TopologyTestDriver
    >>> with TopologyTestDriver(build(["orders", "payments"], "out")) as driver:
    ...     driver.input_topic("orders").pipe("o1", {"amount": 3}, timestamp=1)
    ...     driver.input_topic("payments").pipe("o1", {"paid": 3}, timestamp=10_001)
    ...     driver.output_topic("out").read().value
    Settled(amount=3, paid=3)
    """
    builder = StreamsBuilder()
    ordered, paid = sources
    orders = builder.stream(ordered, key=Serdes.string, value=Serdes.json_of(Order))
    payments = builder.stream(paid, key=Serdes.string, value=Serdes.json_of(Payment))
    window = JoinWindows(WINDOW_MS, grace=WINDOW_MS)
    orders.join(payments, settle, window=window).to(target, value=Serdes.json_of(Settled))
    return builder


def expected(rows: Iterable[Row]) -> Iterator[Emission]:
    """Yield what must come out: a payment comes after its order."""
    orders: dict[bytes | None, tuple[int, int]] = {}
    for _, _, key, value, time, _ in rows:
        read = orjson.loads(value or b"")
        if "amount" in read:
            orders[key] = (time, read["amount"])
        else:
            ordered, amount = orders.pop(key)
            if time - ordered <= WINDOW_MS:
                yield key, b'{"amount":%d,"paid":%d}' % (amount, read["paid"])


WORKLOADS = (
    Workload(
        "stream-stream-join",
        "stream-stream join within 10 s, every key twice",
        "stream_stream_join",
        ["orders", "payments"],
        Size(3_000_000),
        orders_and_payments,
        expected,
        Compare.ALL,
    ),
)
