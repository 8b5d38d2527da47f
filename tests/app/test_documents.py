"""Blocks of the documents that need a broker and Spark (tests/docs/blocks.py): an application that runs, asked as the documents ask."""

import json

import pytest
from tests.docs.blocks import command, marked, run

from penstock import Serdes, Stores, StreamsBuilder, TimeWindows
from penstock.log.base import TopicSpec


def test_fixtures(topology_driver, kafka_broker, spark_session):
    builder = StreamsBuilder()
    builder.stream("words", key=Serdes.string, value=Serdes.string).group_by_key().count(store="counts")
    space = run("fixtures", {"builder": builder})
    space["test_words_are_counted"](topology_driver)
    space["test_on_a_real_broker"](kafka_broker, spark_session)


def add(customer, order, total):
    return {"orders": total["orders"] + 1, "amount": total["amount"] + order["amount"]}


def per_piece(order):
    return order["amount"] // order["pieces"]


def shop(name):
    """What the documents ask about: totals, visits in windows, versions of prices, and a node that may divide by zero."""
    builder = StreamsBuilder()
    orders = builder.stream(name("orders"))
    orders.group_by_key().aggregate(lambda: {"orders": 0, "amount": 0}, add, store="totals")
    orders.group_by_key().windowed_by(TimeWindows(60_000)).count(store="visits")
    orders.map_values(per_piece, name="divide").to(name("pieces"))
    builder.table(name("prices"), store=Stores.versioned("prices", 3_600_000, value=Serdes.int64), value=Serdes.int64)
    return builder


ORDERS = [("ann", 5, 1), ("ann", 8, 0), ("ben", 1, 1), ("ann", 2, 0)]
START = 1_750_000_000_000
LETTERS = {"on_processing_error": "dead_letter", "dead_letter_topic": "shop-dead-letters"}


@pytest.fixture
def running_shop(cluster, start):
    """The application, with a row in each store and two dead letters; it answers over HTTP."""
    cluster.log.admin.ensure_topics([TopicSpec("shop-dead-letters", 1, {"retention.ms": "-1"})])
    for word in ("orders", "pieces", "prices"):
        cluster.topic(word)
    rows = [(who, json.dumps({"amount": amount, "pieces": pieces}), START + 60_000) for who, amount, pieces in ORDERS]
    cluster.send(cluster.name("orders"), *rows)
    cluster.send(cluster.name("prices"), ("pear", (7).to_bytes(8, "big"), START))
    app = start.app(shop(cluster.name), application_id="shop", admin="127.0.0.1:0", **LETTERS)
    app.start().wait_until_running()
    assert app.barriers.wait({(cluster.name("orders"), 0): 3, (cluster.name("prices"), 0): 0}, wait_ms=120_000)
    return app


def test_shop(running_shop, cluster, monkeypatch):
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP_SERVERS", cluster.servers)
    said = ""
    for block in marked("shop"):
        for line in block.text.splitlines():
            said += command(line, {"http://127.0.0.1:8080": f"http://{running_shop.admin_address}", "0:17": "0:0"})
    for part in ("ann\t", "divide", "ZeroDivisionError", "would"):
        assert part in said, said
