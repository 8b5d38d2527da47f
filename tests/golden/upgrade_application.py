"""The application whose state and topics the version before has left behind, and all that it is sent, in rounds.

It is run by two versions of Penstock, so it uses what both have: the public interface, a started engine, a broker.
It has every kind of store, with rows whose time has not come at the end of a round: windows, sessions and joins that are open, a
buffer of ``suppress``, timers, ids that are seen once.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from penstock import (
    Buffer,
    JoinWindows,
    Processor,
    PunctuationType,
    Record,
    Serdes,
    SessionWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from penstock.clock import SystemClock
from penstock.config import load
from penstock.engine.engine import Engine
from penstock.log.base import TopicSpec
from penstock.log.kafka import KafkaLog

APPLICATION = "shop"
TEXT: dict[str, Any] = {"key": Serdes.string, "value": Serdes.string}
#: topics of the input, and their partitions
INPUT = {"orders": 2, "payments": 2, "customers": 2, "names": 1}
OUTPUT = (
    "totals", "items", "per-window", "final", "visits", "paid", "priced", "as-of", "billed", "named", "moved-notes", "reminded",
    "told", "once",
)  # fmt: skip
#: stores that are compared, besides "visits" and "versions"; of those that cannot be read the results tell
SCANNED = ("totals", "items", "per-window", "customers", "billed", "names", "seen", "last", "notes")
#: rounds that the version before has run, and those that this one goes on with
BEFORE, AFTER = 3, 2
SETTINGS: dict[str, Any] = {
    "application_id": APPLICATION,
    "shards": 4,
    "lanes": 2,
    "commit_interval_ms": 0,
    "idle_ms": 10**12,  # event time is that of the records alone, whenever the rounds are run
}
START = 1_600_000_000_000
CUSTOMERS = ("ann", "bob", "cid", "dot", "eve", "fay")
ITEMS = ("ant", "bee", "cow", "dog", "elk")


def kv(name: str, value: Any = Serdes.string) -> Any:
    return Stores.key_value(name, key=Serdes.string, value=value, cached=False)


def append(key: Any, value: Any, aggregate: Any) -> str:
    return f"{aggregate},{value}"[-60:]


def merge(key: Any, one: str, other: str) -> str:
    return f"({one}|{other})"[-90:]


def both(one: Any, other: Any) -> str:
    return f"{one}/{other}"


class Noting(Processor):
    """Adds to a window store that keeps duplicates, and tells what is there."""

    def init(self, context: Any) -> None:
        self.context, self.store = context, context.store("notes")

    def process(self, record: Any) -> None:
        self.store.put(record.key, record.value, record.timestamp)
        found = [value for _, value in self.store.fetch(record.key, record.timestamp - 200, record.timestamp + 200)]
        self.context.forward(record.with_value(",".join(found)[-60:]))


class Telling(Processor):
    """Forwards at regular stream time what has come since."""

    def init(self, context: Any) -> None:
        self.context, self.store = context, context.store("seen")
        context.schedule(250, PunctuationType.STREAM_TIME, self.tell)

    def process(self, record: Any) -> None:
        self.store.put(record.key, (self.store.get(record.key) or 0) + 1)

    def tell(self, timestamp: int) -> None:
        for key, count in list(self.store.all()):
            self.context.forward(Record(key, count, timestamp))
            self.store.delete(key)


class Reminding(Processor):
    """Registers a timer for each record, and takes back the one before."""

    def init(self, context: Any) -> None:
        self.context, self.store = context, context.store("last")

    def process(self, record: Any) -> None:
        before = self.store.get(record.key)
        if before is not None:
            self.context.timers.delete_event_time(record.key, before)
        self.store.put(record.key, record.timestamp + 120)
        self.context.timers.register_event_time(record.key, record.timestamp + 120)

    def on_timer(self, timestamp: int, key: str, context: Any) -> None:
        context.forward(Record(key, f"{timestamp - START}", timestamp))


def topology() -> StreamsBuilder:
    """Build the application."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", **TEXT)
    payments = builder.stream("payments", **TEXT)
    customers = builder.table("customers", store=kv("customers"), **TEXT)
    names = builder.global_table("names", store=kv("names"), **TEXT)
    _aggregates(orders)
    _windows(orders)
    _joins(orders, payments, customers, names)
    _processors(builder, orders)
    orders.deduplicate(by=lambda key, value: value[:3], within=400, store="ids").to("once", **TEXT)
    return builder


def _aggregates(orders: Any) -> None:
    orders.group_by_key().aggregate(str, append, store=kv("totals")).to_stream().to("totals", **TEXT)
    items = orders.group_by(lambda key, value: value[:3], **TEXT).count(store=kv("items", Serdes.int64), name="by-item")
    items.to_stream().to("items", key=Serdes.string, value=Serdes.int64)


def _windows(orders: Any) -> None:
    windows = TimeWindows(100, grace=50)
    windowed = {"key": Serdes.windowed(Serdes.string, 100), "value": Serdes.string}
    store = Stores.window("per-window", 10_000, 100, cached=False, **TEXT)
    counted = orders.group_by_key().windowed_by(windows).aggregate(str, append, store=store)
    counted.to_stream().to("per-window", **windowed)
    final = counted.suppress(Suppressed.until_window_closes(Buffer.unbounded()), name="closing")
    final.to_stream().to("final", **windowed)
    visits = orders.group_by_key().windowed_by(SessionWindows(60, grace=50))
    kept = Stores.session("visits", 10_000, cached=False, **TEXT)
    sessions = visits.aggregate(str, append, merge, store=kept).to_stream()
    sessions.to("visits", key=Serdes.session_windowed(Serdes.string), value=Serdes.string)


def _joins(orders: Any, payments: Any, customers: Any, names: Any) -> None:
    window = JoinWindows(80, grace=40)
    orders.outer_join(payments, both, window=window, store="paid", **TEXT).to("paid", **TEXT)
    orders.left_join(customers, both, **TEXT).to("priced", **TEXT)
    versions = payments.to_table(store=Stores.versioned("versions", history=10_000, **TEXT), **TEXT)
    orders.left_join(versions, both, **TEXT).to("as-of", **TEXT)
    billed = versions.left_join(
        customers, both, foreign_key=lambda value: value[4:], store=kv("billed"), name="billing"
    )
    billed.to_stream().to("billed", **TEXT)
    orders.left_join(names, both, select=lambda key, value: value[:3]).to("named", **TEXT)


def _processors(builder: StreamsBuilder, orders: Any) -> None:
    builder.add_state_store(Stores.window("notes", 10_000, 200, retain_duplicates=True, **TEXT))
    builder.add_state_store(kv("seen", Serdes.int64))
    builder.add_state_store(kv("last", Serdes.int64))
    builder.add_state_store(Stores.timers("timers", key=Serdes.string))
    moved = orders.select_key(lambda key, value: value[:3]).repartition(name="moved", **TEXT)
    moved.process(Noting, stores=["notes"], name="noting").to("moved-notes", **TEXT)
    orders.process(Telling, stores=["seen"], name="telling").to("told", key=Serdes.string, value=Serdes.int64)
    orders.process(Reminding, stores=["last", "timers"], name="reminding").to("reminded", **TEXT)


def rounds() -> list[list[tuple[Any, ...]]]:
    """Return the rows of every round: topic, partition, key, value, timestamp, headers; the last one moves all times on."""
    random, now, made = Random("upgrade"), START, []
    for _ in range(BEFORE + AFTER):
        rows = []
        for number in range(60):
            now += random.randrange(1, 14)
            topic = random.choices(list(INPUT), (6, 3, 2, 1))[0]
            late = random.choice((0, 0, 0, 15, 70)) if topic == "orders" else 0
            rows.append(_row(random, topic, number, now - late))
        made.append(rows)
    made[-1] += [_row(random, topic, 99, now + 20_000, customer) for topic in INPUT for customer in CUSTOMERS]
    return made


def _row(random: Random, topic: str, number: int, time: int, customer: str = "") -> tuple[Any, ...]:
    key = customer or random.choice(CUSTOMERS)
    value = f"{random.choice(ITEMS)}-{random.choice(CUSTOMERS)}"
    if topic == "names":
        key, value = random.choice(ITEMS), f"name {number}"
    if topic == "customers" and random.random() < 0.15:
        value = ""
    headers = (("number", str(number).encode()),) if number % 3 == 0 else ()
    partition = CUSTOMERS.index(key) % 2 if key in CUSTOMERS else 0
    return topic, partition % INPUT[topic], key.encode(), value.encode() or None, time, headers


def make_topics(log: KafkaLog) -> None:
    """Make the topics of input and output."""
    kept = {"retention.ms": "-1"}
    log.admin.ensure_topics([TopicSpec(topic, count, kept) for topic, count in INPUT.items()])
    log.admin.ensure_topics([TopicSpec(topic, 1, kept) for topic in OUTPUT])


def send(log: KafkaLog, rows: list[tuple[Any, ...]]) -> None:
    """Write the rows of a round; without a transaction all can be read at once, so that an epoch takes all of them."""
    producer = log.producer(None)
    producer.begin()
    producer.produce(rows)
    producer.commit()
    producer.close()


def engine(servers: str, state: Path, session: Any, **options: Any) -> Engine:
    """Make the engine that runs the application."""
    given = {**SETTINGS, "bootstrap_servers": servers, "state_dir": str(state)}
    return Engine(topology().build(), load(given, environ={}), session, clock=SystemClock(), **options)


def drain(loop: Any) -> None:
    """Run epochs until nothing waits."""
    while loop.step():
        pass


def contents(view: Any) -> dict[str, list[str]]:
    """Return the rows of all stores that can be read; ``view`` finds a store by its name."""
    found = {name: list(view(name).all()) for name in SCANNED}
    found["visits"] = list(view("visits").fetch_range(None, None))
    found["versions"] = [version for customer in CUSTOMERS for version in view("versions").history(customer)]
    return {name: sorted(map(repr, rows)) for name, rows in found.items()}
