"""The count-and-sum job for Penstock. A module of its own, so that workers can import what it is made of."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock import Serdes, StreamsBuilder


class Purchase(msgspec.Struct):
    """What the job needs of a purchase; other fields are skipped, as the Java program skips them."""

    amount: int


class Total(msgspec.Struct):
    """What is known of a key."""

    count: int
    sum: int


def nothing() -> Total:
    return Total(0, 0)


def add(_key: Any, purchase: Purchase, total: Total) -> Total:
    return Total(total.count + 1, total.sum + purchase.amount)


def build(source: str, target: str) -> StreamsBuilder:
    """Say the job.

    >>> from penstock.testing import TopologyTestDriver
    >>> with TopologyTestDriver(build("in", "out")) as driver:
    ...     driver.input_topic("in").pipe_all([("k", {"amount": 2}), ("k", {"amount": 3, "item": "tea"})], start=0)
    ...     driver.output_topic("out").read_table()
    {'k': Total(count=2, sum=5)}
    """
    builder = StreamsBuilder()
    totals = Serdes.json_of(Total)
    (
        builder.stream(source, key=Serdes.string, value=Serdes.json_of(Purchase))
        .group_by_key()
        .aggregate(nothing, add, store="totals", value=totals)
        .to_stream()
        .to(target, value=totals)
    )
    return builder
