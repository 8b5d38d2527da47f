"""Table-table join: land and score of every customer who has both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import orjson

from bench.data import customers_and_scores
from bench.workloads.base import Compare, Emission, Size, Workload
from penstock import Serdes, StreamsBuilder
from penstock.log.base import Row


class Customer(msgspec.Struct):
    """A row of the one table."""

    land: str


class Score(msgspec.Struct):
    """A row of the other."""

    score: int


class Both(msgspec.Struct):
    """What goes out."""

    land: str
    score: int


def both(customer: Customer, score: Score) -> Both:
    return Both(customer.land, score.score)


def build(sources: Sequence[str], target: str) -> StreamsBuilder:
    """Say the job.

    >>> from penstock.testing import TopologyTestDriver
    >>> with TopologyTestDriver(build(["customers", "scores"], "out")) as driver:
    ...     driver.input_topic("customers").pipe("k", {"land": "AT"}, timestamp=1)
    ...     driver.input_topic("scores").pipe("k", {"score": 3}, timestamp=2)
    ...     driver.output_topic("out").read().value
    Both(land='AT', score=3)
    """
    builder = StreamsBuilder()
    known, scored = sources
    customers = builder.table(known, key=Serdes.string, value=Serdes.json_of(Customer))
    scores = builder.table(scored, key=Serdes.string, value=Serdes.json_of(Score))
    customers.join(scores, both).to_stream().to(target, value=Serdes.json_of(Both))
    return builder


def expected(rows: Iterable[Row]) -> Iterator[Emission]:
    """Yield what must come out at last."""
    tables: dict[str, dict[bytes | None, bytes | None]] = {"customers": {}, "scores": {}}
    for topic, _, key, value, _, _ in rows:
        tables[topic.rpartition("-")[2]][key] = value
    for key, customer in tables["customers"].items():
        score = tables["scores"].get(key)
        if customer is not None and score is not None:
            yield key, orjson.dumps(orjson.loads(customer) | orjson.loads(score))


WORKLOADS = (
    Workload(
        "table-table-join",
        "table-table join, 50 k keys",
        "table_table_join",
        ["customers", "scores"],
        Size(2_000_000, 50_000),
        customers_and_scores,
        expected,
        Compare.LAST,
    ),
)
