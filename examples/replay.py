"""A replay of history: the same program over all that came before, with the results that it had then.

Orders are priced with a table of prices, at the price that held when they came. When the program has changed, or its
results are doubted, the application is reset, and what it reads then is a backlog of both topics. It is read up to
one event time in all partitions, epoch by epoch (the setting ``align_replay``): so an order meets the price of its
time, and not the newest.

With a broker (``penstock dev``) and the topics ``prices``, ``orders`` and ``priced``::

    penstock run examples/replay.py:app                       # live, until Ctrl-C
    python examples/replay.py                                 # again, all of it
    python examples/replay.py 2026-01-01T00:00                # again, from this moment on (UTC)

From a moment on: tables begin there, too, so choose one before which no row matters any more. The results are written
behind those that are there. To have both at a time, run the replay under another ``application_id``, into another
topic.
"""

import sys
from datetime import UTC, datetime
from typing import TypedDict

from penstock import App, StreamsBuilder
from penstock.app import ResetPoint


class Order(TypedDict):
    """How much of a product; the product is the key."""

    quantity: int


class Price(TypedDict):
    """What a product costs from now on."""

    cents: int


class Priced(TypedDict):
    """An order with what it costs."""

    quantity: int
    total: int


def price(order: Order, price: Price) -> Priced:
    """Price an order."""
    return {"quantity": order["quantity"], "total": order["quantity"] * price["cents"]}


def topology(prefix: str = "") -> StreamsBuilder:
    """Say the program; ``prefix``: of the topics."""
    builder = StreamsBuilder()
    prices = builder.table(f"{prefix}prices", store="prices")
    builder.stream(f"{prefix}orders").join(prices, price, name="with-price").to(f"{prefix}priced")
    return builder


def replay(application: App, since: datetime | None = None) -> None:
    """Forget what the application has read and kept, so that its next start reads history again; it must not run."""
    if since is None:
        application.reset(to=ResetPoint.earliest())
    else:
        moment = since if since.tzinfo else since.replace(tzinfo=UTC)
        application.reset(to=ResetPoint.time(round(moment.timestamp() * 1000)))


app = App(topology(), application_id="replay")

if __name__ == "__main__":
    replay(app, datetime.fromisoformat(sys.argv[1]) if len(sys.argv) > 1 else None)
    app.run()
