"""A schema registry that ends and comes back changes nothing: the application waits, says so, and goes on where it was.

On Spark, with a real broker and a real registry, which is killed while records wait whose schema nobody has asked for yet.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import msgspec
import pytest

from penstock import App, SchemaRegistry, Serdes, StreamsBuilder
from penstock.app import State
from penstock.dev.registry import RegistryServer

PATIENCE = 60.0


class Order(msgspec.Struct, frozen=True):
    user: str
    cents: int


class Total(msgspec.Struct):
    user: str = ""
    cents: int = 0
    orders: int = 0


def add(user: str, order: Order, total: Total) -> Total:
    return Total(user, total.cents + order.cents, total.orders + 1)


def topology(orders: str, totals: str) -> StreamsBuilder:
    builder = StreamsBuilder()
    value, total = Serdes.avro(Order, registry=True), Serdes.json_schema(Total, registry=True)
    grouped = builder.stream(orders, value=value).group_by(lambda _, order: order.user, value=value)
    grouped.aggregate(Total, add, store="totals", value=total).to_stream().to(totals, value=total)
    return builder


def until(true: Callable[[], Any], app: App) -> None:
    pause = threading.Event()
    for _ in range(int(PATIENCE / 0.1)):
        if true():
            return
        assert app.state is not State.ERROR, app.error
        pause.wait(0.1)
    raise AssertionError("it did not happen")


class Shop:
    """What the test writes and reads."""

    def __init__(self, cluster: Any, registry: RegistryServer) -> None:
        self.cluster = cluster
        self.orders, self.totals = cluster.topic("orders", 2), cluster.topic("totals")
        self._registry = SchemaRegistry(url=registry.url)
        self._total = Serdes.json_schema(Total, registry=self._registry)
        self.sent = 0

    def rows(self, make: Any, count: int) -> list[tuple[Any, ...]]:
        """Return rows of a type, serialized while the registry is there."""
        serde = Serdes.avro(make, registry=self._registry).bound_to(self.orders)  # type: ignore[attr-defined]
        first, self.sent = self.sent, self.sent + count
        return [
            (None, serde.serialize(make("ann" if at % 2 else "bob", at)), at + 1, at % 2)
            for at in range(first, self.sent)
        ]

    def last(self) -> dict[str, Any]:
        records = self.cluster.read(self.totals)
        return {record.key.decode(): self._total.deserialize(record.value) for record in records}

    def expected(self) -> dict[str, Total]:
        numbers = {"bob": range(0, self.sent, 2), "ann": range(1, self.sent, 2)}
        return {user: Total(user, sum(each), len(each)) for user, each in numbers.items()}


@pytest.mark.parametrize("inline", [0, 20_000], ids=["a Spark job", "inline epochs"])
def test_records_wait_for_a_registry_that_is_away(start, cluster, schema_registry, inline):
    shop = Shop(cluster, schema_registry)
    # a record is never to blame for the outage: a policy that leaves bad records out is not asked
    app = start.app(
        topology(shop.orders, shop.totals),
        registry=schema_registry.url,
        admin="0",
        on_deserialization_error="skip",
        inline_epoch_records=inline,
    )
    cluster.send(shop.orders, *shop.rows(Order, 40))
    app.start()
    until(lambda: shop.last() == shop.expected(), app)
    # a schema that no worker of this session has met: what is known needs no registry
    later = shop.rows(msgspec.defstruct("Order", [("user", str), ("cents", int), (f"note_{inline}", str, "")]), 40)
    schema_registry.kill()
    try:
        cluster.send(shop.orders, *later)
        until(lambda: metric(app, "epoch_retries_total", 'reason="RegistryError"'), app)
        until(lambda: "the schema registry at" in asked(app, "/health/ready"), app)
        assert '"status":200' in asked(app, "/health/live").replace(" ", "")
    finally:
        schema_registry.start()
    until(lambda: shop.last() == shop.expected(), app)
    until(lambda: "the schema registry at" not in "".join(json.loads(asked(app, "/health/ready"))["missing"]), app)
    assert metric(app, "records_dropped_total") == 0
    assert metric(app, "registry_requests_total", 'code="200"') >= 3


def test_a_start_waits_for_a_registry_that_is_away(start, cluster, schema_registry):
    shop = Shop(cluster, schema_registry)
    cluster.send(shop.orders, *shop.rows(Order, 10))
    app = start.app(topology(shop.orders, shop.totals), registry=schema_registry.url, admin="0")
    schema_registry.kill()
    try:
        app.start()
        until(lambda: metric(app, "epoch_retries_total", 'reason="RegistryError"'), app)
        assert shop.last() == {}
        assert metric(app, "registry_requests_total", 'code="unreachable"') >= 1  # the driver's own
    finally:
        schema_registry.start()
    until(lambda: shop.last() == shop.expected(), app)


def asked(app: App, path: str) -> str:
    """Return what the application answers over HTTP, whatever the code."""
    try:
        with urlopen(f"http://{app.admin_address}{path}", timeout=10) as answer:
            return str(answer.read().decode())
    except HTTPError as error:
        return error.read().decode()


def metric(app: App, name: str, label: str = "") -> float:
    """Return the sum of a metric over the rows with a label."""
    rows = re.findall(rf"^penstock_{name}(?:\{{(.*)\}})? (\S+)$", asked(app, "/metrics"), re.MULTILINE)
    return sum(float(value) for labels, value in rows if label in labels)
