"""A history to replay, and how: three days of skewed records, read as they came or all at once.

Whoever reads them live gets each record at its time. Whoever replays them finds all of them in the log and chooses epochs by `Input`,
as the engine does; the epochs run in the test driver, whose lanes are the engine's.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, NamedTuple
from zlib import crc32

from penstock import JoinWindows, Serdes, Stores, StreamsBuilder, TimeWindows
from penstock.clock import MockClock
from penstock.engine.offsets import Input
from penstock.log.base import LogRecord, TopicSpec
from penstock.log.memory import MemoryLog
from penstock.testing import TopologyTestDriver

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
#: midnight of a day that every window of these tests divides
START = 1_600_041_600_000
TEXT = {"key": Serdes.string, "value": Serdes.string}
PARTITIONS = 3


def append(key: Any, value: Any, total: Any) -> str:
    return f"{total},{value}"[-60:]


def both(one: Any, other: Any) -> str:
    return f"{one}/{other}"


def shop(builder: StreamsBuilder, cached: bool = False) -> None:
    """Orders meet payments within minutes, the price of the time, and the hour."""
    orders, payments = builder.stream("orders", **TEXT), builder.stream("payments", **TEXT)
    prices = builder.table("prices", store=Stores.key_value("prices", cached=cached, **TEXT), **TEXT)
    window = JoinWindows(20 * MINUTE, grace=5 * MINUTE)
    orders.outer_join(payments, both, window=window, **TEXT, other_value=Serdes.string).to("paid", **TEXT)
    orders.left_join(prices, both).to("priced", **TEXT)
    hours = TimeWindows(HOUR, grace=10 * MINUTE)
    store = Stores.window("hours", hours.retention, HOUR, cached=cached, **TEXT)
    by_hour = orders.merge(payments).group_by_key().windowed_by(hours).aggregate(str, append, store=store)
    by_hour.to_stream().to("hourly", key=Serdes.windowed(Serdes.string, HOUR), value=Serdes.string)


class Sent(NamedTuple):
    """A record of the history; ``arrival``: when a live reader sees it."""

    arrival: int
    topic: str
    partition: int
    key: bytes
    value: bytes
    timestamp: int


def key_of(partition: int, number: int) -> bytes:
    """Return a key that belongs to a partition."""
    return next(key for n in range(10**6) if crc32(key := f"k{number}-{n}".encode()) % PARTITIONS == partition)


def history(seed: str, *, days: int = 3, every: int = 12 * MINUTE, late: int = 0) -> list[Sent]:
    """Return records of several days in order of arrival: of each topic and partition about one in ``every`` milliseconds.

    Partition 0 is ten times as dense. Payments begin and end five hours after the orders; prices come in the days, not in the nights.
    ``late``: how long after its time a record may arrive.
    """
    random = Random(seed)
    keys = {(partition, n): key_of(partition, n) for partition in range(PARTITIONS) for n in range(4)}
    steps = []
    for topic, shift, pace in ("orders", 0, 1), ("payments", 5 * HOUR, 1), ("prices", -2 * HOUR, 3):
        for partition in range(PARTITIONS):
            mean = every * pace / (10 if partition == 0 else 1)
            at = START + shift + random.random() * mean
            while at < START + shift + days * DAY:
                if topic != "prices" or at % DAY < DAY // 2:
                    timestamp = round(at) - (random.randrange(late) if late and random.random() < 0.3 else 0)
                    value = f"{topic[:3]}{len(steps)}".encode()
                    steps.append(
                        Sent(round(at), topic, partition, keys[partition, random.randrange(4)], value, timestamp)
                    )
                at += random.expovariate(1 / mean)
    return sorted(steps)


class Result(NamedTuple):
    """What came of the history: records of each topic and key in order, and the stores."""

    output: dict[str, dict[bytes | None, list[tuple[bytes | None, int]]]]
    stores: dict[str, list[Any] | None]
    dropped: dict[str, int]
    epochs: int


class Run:
    """A topology in the test driver, epoch by epoch."""

    def __init__(self, topology: Any = shop, lanes: int = 2) -> None:
        builder = StreamsBuilder()
        topology(builder)
        self.topology = builder.build()
        self.driver = TopologyTestDriver(
            self.topology, lanes=lanes, partitions=PARTITIONS, auto_commit=False, config={"shards": 4}
        )
        self.epochs = 0
        self._newest = 0

    def epoch(self, records: Iterable[Sent | LogRecord]) -> None:
        """Run one epoch."""
        for record in records:
            self.driver.pipe_raw(record.topic, record.partition, record.key, record.value, record.timestamp)
            self._newest = max(self._newest, record.timestamp)
        self.driver.commit()
        self.epochs += 1

    def result(self) -> Result:
        """Return what came of it."""
        output: dict[str, dict[bytes | None, list[tuple[bytes | None, int]]]] = {}
        for topic, rows in self.driver.all_output().items():
            for key, value, timestamp, _ in rows if "changelog" not in topic else ():
                output.setdefault(topic, {}).setdefault(key, []).append((value, timestamp))
        stores = {name: self._alive(name) for name in self.topology.stores}
        found = Result(output, stores, self.driver.metrics()["dropped_by_reason"], self.epochs)
        self.driver.close()
        return found

    def _alive(self, name: str) -> list[Any] | None:
        """Return the rows of a store; of one that expires those that are alive: how soon the others go depends on the barriers."""
        rows, retention = self.driver.store_contents(name), self.topology.stores[name].retention
        if rows is None or retention is None:
            return rows
        return [row for row in rows if row[1] > self._newest - retention]


def live(steps: list[Sent], barrier: int = 10 * MINUTE, **how: Any) -> Result:
    """Read the records as they arrive, with a barrier every so often."""
    run, waiting = Run(**how), []
    for step in steps:
        if waiting and step.arrival // barrier != waiting[0].arrival // barrier:
            run.epoch(waiting)
            waiting = []
        waiting.append(step)
    run.epoch(waiting)
    return run.result()


def written(steps: list[Sent], transactions: int = 0, log: MemoryLog | None = None) -> MemoryLog:
    """Return a log with the records; ``transactions``: a marker follows this many of them."""
    log = log or MemoryLog()
    log.admin.ensure_topics([TopicSpec(topic, PARTITIONS) for topic in ("orders", "payments", "prices")])
    producer = log.producer("history" if transactions else None)
    producer.init()
    size = transactions or max(1, len(steps))
    for at in range(0, len(steps), size):
        producer.begin()
        producer.produce([(*step[1:], ()) for step in steps[at : at + size]])
        producer.commit()
    return log


def replayed(log: MemoryLog, limit: int, *, align: bool = True, **how: Any) -> Result:
    """Read what is in the log in epochs of at most ``limit`` records."""
    run = Run(**how)
    source = Input(log, run.topology, group="shop", clock=MockClock(START + 30 * DAY), max_records=limit, align=align)
    source.start()
    reader = log.reader()
    while ranges := source.choose():
        run.epoch(record for each in ranges for record in reader.read(*each))
        source.advance(ranges)
    return run.result()
