"""The demo's program: purchases are priced, then summed by customer and by category and minute.

    purchases ── select_key(product) ── join ── group_by(customer) ── aggregate ─────────────▶ customer-spend
    products (a table) ─────────────────┘ └──── group_by(category) ── windows of a minute ──▶ category-revenue

`events` makes the input, `expected` computes the results once more in plain Python, to compare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import timedelta
from random import Random
from typing import Any, NamedTuple

from penstock import Serdes, StreamsBuilder, TimeWindows, Topology, Windowed

MINUTE = 60_000
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

REVENUE_KEY = Serdes.windowed(Serdes.string, MINUTE)


class Event(NamedTuple):
    """One record of the input."""

    topic: str
    key: str
    value: dict[str, Any]
    timestamp: int


class Results(NamedTuple):
    """What the program must come to: cents by customer, and by category and minute."""

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
    products = builder.table("products", store="catalogue")
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
        .windowed_by(TimeWindows(MINUTE, grace=GRACE))
        .aggregate(int, plus_cents, store="revenue", value=Serdes.int64)
        .to_stream()
        .to("category-revenue", key=REVENUE_KEY, value=Serdes.int64)
    )
    return builder


def topology() -> Topology:
    """Build the program."""
    return builder().build()


def events(purchases: int, seed: int) -> Iterator[Event]:
    """Make so many purchases, some of them late, between the catalogue and its price changes; the same for a seed."""
    random = Random(seed)
    now = START
    for name, (category, cents) in CATALOGUE.items():
        yield Event("products", name, {"category": category, "cents": cents}, now)
    for number in range(purchases):
        now += random.randrange(1_000)
        if number % 250 == 249:
            name = random.choice(list(CATALOGUE))
            category, cents = CATALOGUE[name]
            yield Event("products", name, {"category": category, "cents": cents + random.randrange(20)}, now)
        name = UNKNOWN if random.random() < 0.01 else random.choice(list(CATALOGUE))
        purchase = {"customer": random.choice(CUSTOMERS), "product": name, "quantity": random.randint(1, 5)}
        yield Event("purchases", f"p{number}", purchase, max(START, now - random.randrange(LATEST)))


def expected(of: Iterable[Event]) -> Results:
    """Compute the results without Penstock."""
    products: dict[str, dict[str, Any]] = {}
    spend: Counter[str] = Counter()
    revenue: Counter[Windowed] = Counter()
    for topic, key, value, timestamp in of:
        if topic == "products":
            products[key] = value
        elif value["product"] in products:
            product = products[value["product"]]
            cents = value["quantity"] * product["cents"]
            start = timestamp // MINUTE * MINUTE
            spend[value["customer"]] += cents
            revenue[Windowed(product["category"], start, start + MINUTE)] += cents
    return Results(dict(spend), dict(revenue))
