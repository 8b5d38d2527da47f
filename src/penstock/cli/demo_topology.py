"""The demo's program: purchases are priced, then summed by customer, and by category and time.

    purchases ── select_key(product) ── join ── group_by(customer) ── aggregate ─────────▶ customer-spend
    products (a table of versions) ─────┘ └──── group_by(category) ── windows of 10 s ──▶ category-revenue

A purchase costs what the product cost at its time, late ones too; so the results do not depend on how the input was cut into
epochs. `events` makes the input, `Model` computes the results once more in plain Python, to compare.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import timedelta
from random import Random
from typing import Any, NamedTuple

from penstock import Serdes, Stores, StreamsBuilder, TimeWindows, Topology, Windowed

WINDOW = 10_000  # milliseconds
START = 1_767_258_000_000  # 2026-01-01 09:00 UTC
LATEST = 5_000  # records are at most this late ...
GRACE = timedelta(seconds=10)  # ... and windows wait longer than that, so none is dropped
CATALOGUE = {
    "apple": ("fruit", 40),
    "pear": ("fruit", 55),
    "fig": ("fruit", 90),
    "bread": ("bakery", 320),
    "bagel": ("bakery", 150),
    "milk": ("dairy", 130),
    "cheese": ("dairy", 480),
    "butter": ("dairy", 260),
}
UNKNOWN = "voucher"  # not in the catalogue: the inner join drops it
CUSTOMERS = tuple(f"customer-{number:02d}" for number in range(1, 41))

CHANGE_EVERY = 250  # purchases between two changes of a price

REVENUE_KEY = Serdes.windowed(Serdes.string, WINDOW)


class Event(NamedTuple):
    """One record of the input."""

    topic: str
    key: str
    value: dict[str, Any]
    timestamp: int


class Results(NamedTuple):
    """What the program must come to: cents by customer, and by category and window."""

    spend: dict[str, int]
    revenue: dict[Windowed, int]


def priced(purchase: dict[str, Any], product: dict[str, Any]) -> dict[str, Any]:
    """Join a purchase with its product."""
    return {
        "customer": purchase["customer"],
        "category": product["category"],
        "cents": purchase["quantity"] * product["cents"],
    }


def plus_cents(key: Any, sale: dict[str, Any], total: int) -> int:
    """Add a sale to a total."""
    return total + int(sale["cents"])


def builder() -> StreamsBuilder:
    """Say the program: a re-key, a join with a table, a table and a tumbling window."""
    builder = StreamsBuilder()
    products = builder.table("products", store=Stores.versioned("catalogue", timedelta(days=1)))
    sales = (
        builder.stream("purchases")
        .select_key(lambda _, purchase: purchase["product"], name="by-product")
        .join(products, priced, name="priced")
    )
    (
        sales.group_by(lambda _, sale: sale["customer"], name="by-customer")
        .aggregate(int, plus_cents, store="spend", value=Serdes.int64)
        .to_stream()
        .to("customer-spend", value=Serdes.int64)
    )
    (
        sales.group_by(lambda _, sale: sale["category"], name="by-category")
        .windowed_by(TimeWindows(WINDOW, grace=GRACE))
        .aggregate(int, plus_cents, store="revenue", value=Serdes.int64)
        .to_stream()
        .to("category-revenue", key=REVENUE_KEY, value=Serdes.int64)
    )
    return builder


def topology() -> Topology:
    """Build the program."""
    return builder().build()


def events(purchases: int | None, seed: int, start: int = START, step: float = 500) -> Iterator[Event]:
    """Make so many purchases, some of them late, between the catalogue and its price changes; the same for a seed.

    None: without end. ``step``: mean milliseconds of event time between two purchases. INVARIANT: a price is newer than every
    purchase before it, so the price of a purchase is known when the purchase is made.
    """
    random = Random(seed)
    now = float(start)
    for name, (category, cents) in CATALOGUE.items():
        yield Event("products", name, {"category": category, "cents": cents}, start)
    for number in itertools.count():
        if number == purchases:
            return
        now += random.random() * 2 * step
        if number % CHANGE_EVERY == CHANGE_EVERY - 1:
            now = float(int(now) + 1)
            name = random.choice(list(CATALOGUE))
            category, cents = CATALOGUE[name]
            yield Event("products", name, {"category": category, "cents": cents + random.randrange(20)}, int(now))
        name = UNKNOWN if random.random() < 0.01 else random.choice(list(CATALOGUE))
        purchase = {"customer": random.choice(CUSTOMERS), "product": name, "quantity": random.randint(1, 5)}
        yield Event("purchases", f"p{number}", purchase, max(start, int(now) - random.randrange(LATEST)))


class Model:
    """The program in plain Python, one event after the other."""

    def __init__(self) -> None:
        self._versions: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        self._spend: Counter[str] = Counter()
        self._revenue: Counter[Windowed] = Counter()

    @property
    def results(self) -> Results:
        """What the events so far come to."""
        return Results(dict(self._spend), dict(self._revenue))

    def take(self, event: Event) -> None:
        """Take an event into account."""
        if event.topic == "products":
            self._versions.setdefault(event.key, []).append((event.timestamp, event.value))
        elif (product := self._product(event.value["product"], event.timestamp)) is not None:
            cents = event.value["quantity"] * product["cents"]
            start = event.timestamp // WINDOW * WINDOW
            self._spend[event.value["customer"]] += cents
            self._revenue[Windowed(product["category"], start, start + WINDOW)] += cents

    def _product(self, name: str, timestamp: int) -> dict[str, Any] | None:
        """Return a product as it was at a time."""
        versions = self._versions.get(name, [])
        newest = bisect_right(versions, timestamp, key=lambda version: version[0])
        return versions[newest - 1][1] if newest else None


def expected(of: Iterable[Event]) -> Results:
    """Compute the results without Penstock."""
    model = Model()
    for event in of:
        model.take(event)
    return model.results
