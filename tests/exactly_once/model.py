"""What must come out, in plain Python: every record that went in has one result in every branch, known beforehand."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from tests.exactly_once.workload import WINDOW_MS


class Order(NamedTuple):
    """One record of the input; ``n`` counts the orders of the customer, ``version`` is what the table says by then."""

    customer: str
    n: int
    item: str
    amount: int
    timestamp: int
    version: int

    @property
    def window(self) -> int:
        """Where its window begins."""
        return self.timestamp - self.timestamp % WINDOW_MS


#: key → values in order
Rows = dict[Any, list[Any]]


def expected(orders: list[Order]) -> dict[str, Rows]:
    """Return the rows of each sink, in order per key.

    The rows of an item are only counted: in which order those of different customers come is open, as it is for any program that
    reads several partitions.

    >>> one = Order("ann", 1, "tea", 5, 1_500, 2)
    >>> expected([one, one._replace(n=2, item="pot")])["totals"]
    {'ann': [[1, 5], [2, 10]]}
    """
    totals: Rows = defaultdict(list)
    items: Rows = defaultdict(list)
    windows: Rows = defaultdict(list)
    joined: Rows = defaultdict(list)
    sums: dict[str, int] = defaultdict(int)
    for order in orders:
        customer = order.customer
        sums[customer] += order.amount
        totals[customer].append([order.n, sums[customer]])
        items[order.item].append(len(items[order.item]) + 1)
        windows[customer, order.window].append(len(windows[customer, order.window]) + 1)
        joined[customer].append([order.n, order.version])
    return {"totals": dict(totals), "items": dict(items), "windows": dict(windows), "joined": dict(joined)}


def expected_places(orders: list[Order]) -> Rows:
    """Return the numbers of the orders of each item and customer, in order."""
    places: Rows = defaultdict(list)
    for order in orders:
        places[order.item, order.customer].append(order.n)
    return dict(places)


def expected_stores(orders: list[Order], terms: dict[str, int]) -> dict[str, dict[Any, Any]]:
    """Return the contents of the stores; of items only the counts."""
    last = {name: {key: rows[-1] for key, rows in sink.items()} for name, sink in expected(orders).items()}
    return {"totals": last["totals"], "items": last["items"], "windows": last["windows"], "terms": terms}


def places_of(items: Rows) -> Rows:
    """Return the numbers of the orders that the rows of the items tell of, by item and customer, in order."""
    places: Rows = defaultdict(list)
    for item, rows in items.items():
        for _, customer, n in rows:
            places[item, customer].append(n)
    return dict(places)


def counts_of(items: Rows) -> Rows:
    """Return the counts alone."""
    return {item: [row[0] for row in rows] for item, rows in items.items()}
