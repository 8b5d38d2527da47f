"""Processors behave in the test driver as they do through Spark: lifetimes, refusals, configuration, scope of their stores."""

from __future__ import annotations

import doctest
import json
import os
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any, cast

from penstock import (
    LatePolicy,
    Processor,
    PunctuationType,
    Record,
    Stores,
    StreamsBuilder,
)
from penstock.clock import stopwatch_us
from penstock.state.lmdb_store import LmdbState
from penstock.state.shards import shard_of

#: of four shards: two keys of one, and one of another
HERE, BESIDE = [key for key in map(str, range(50)) if shard_of(key.encode(), 4) == 1][:2]
ELSEWHERE = next(key for key in map(str, range(50)) if shard_of(key.encode(), 4) == 2)


def open_log(path: str) -> list[str]:
    """Make a resource: it says in a file in which process it was made."""
    with open(path, "a") as file:
        file.write(f"made {os.getpid()}\n")
    return [path]


def close_log(log: list[str]) -> None:
    with open(log[0], "a") as file:
        file.write(f"closed {os.getpid()}\n")


class Visits(Processor[str, Any]):
    """Counts in a field and in a store, keeps a resource, and does what the record says that should be refused."""

    def init(self, context: Any) -> None:
        super().init(context)
        config = context.config
        self.log = context.resource("log", lambda: open_log(config["user_config"]["log"]), close=close_log)
        self.in_epoch = 0
        self.visits = context.store("visits")
        context.schedule(100, PunctuationType.STREAM_TIME, self.report, start=0)

    def process(self, record: Any) -> None:
        self.in_epoch += 1
        stored = self.visits.compute(record.key, lambda key, old: (old or 0) + 1)
        match record.value:
            case ["read", key]:
                self.visits.get(key)
            case ["write", key]:
                self.visits.put(key, 0)
            case ["global", key]:
                self.context.store("names").put(key, "x")
            case ["timer", key]:
                self.context.timers.register_event_time(key, 10**9)
            case "schedule":
                self.context.schedule(1, PunctuationType.STREAM_TIME, self.report)
            case "nan":
                self.context.forward(record.with_value(float("nan")))
        config = self.context.config
        known = {name: config[name] for name in ("application_id", "shards", "lanes", "on_processing_error", "idle_ms")}
        name = self.context.store("names").get("n").value
        self.context.forward(
            record.with_value([self.in_epoch, stored, len(self.log), name, known, config["user_config"]["rate"]])
        )

    def report(self, now: int) -> None:
        for key, count in list(self.visits.all()):
            self.context.forward(Record(key, {"reported": count, "in this epoch": self.in_epoch}, now))

    def on_timer(self, timestamp: int, key: str, context: Any) -> None: ...


class Teams(Processor[str, int]):
    """Adds up what came to its partition, under a key that is none of its records."""

    def process(self, record: Any) -> None:
        total = self.context.store("totals").merge("total", record.value, int.__add__)
        self.context.forward(record.with_value([self.context.shard, total]))


def program(topic: Callable[[str], str]) -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.global_table(topic("names"), store="names")
    stores = [Stores.key_value("visits"), Stores.timers("alarms")]
    builder.stream(topic("visits")).process(Visits, stores=stores, name="visits").to(topic("out"))
    teams = builder.stream(topic("points")).repartition(
        partitions=6, partitioner=lambda topic, key, value, partitions: value % partitions, name="teams"
    )
    teams.process(Teams, stores=[Stores.key_value("totals")], name="team").to(topic("teams"))
    prices = builder.table(topic("prices"), late=LatePolicy.dead_letter, store="prices")
    prices.to_stream().to(topic("prices-out"))
    return builder


ROUNDS: list[list[tuple[str, Any, Any, int]]] = [
    [("names", "n", "Ann", 0), ("visits", HERE, 0, 1), ("visits", HERE, 0, 2), ("visits", ELSEWHERE, 0, 3)],
    [("visits", HERE, ["read", BESIDE], 4), ("visits", HERE, ["read", ELSEWHERE], 5), ("visits", ELSEWHERE, 0, 6)],
    [("visits", HERE, ["write", ELSEWHERE], 7), ("visits", HERE, "schedule", 8), ("visits", HERE, ["global", "n"], 9)],
    [("visits", HERE, ["timer", ELSEWHERE], 10), ("visits", HERE, "nan", 11), ("names", "m", b"{broken", 12)],
    [("points", "a", 1, 13), ("points", "b", 2, 14), ("points", "c", 7, 15), ("points", "d", 5, 16)],
    [("points", "e", 1, 17), ("prices", "p", 1.5, 30), ("prices", "q", 2.5, 20), ("prices", "p", 3.5, 10)],
    [("visits", BESIDE, 0, 150), ("visits", HERE, 0, 151), ("visits", ELSEWHERE, 0, 260)],
]
TOPICS = ("names", "visits", "points", "prices", "out", "teams", "prices-out", "dead")


def encoded(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def seen(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """What can be compared of rows: stack traces tell the way through another process."""
    return [
        (key, value, at, tuple((name, text) for name, text in headers if "stacktrace" not in name))
        for key, value, at, headers in rows
    ]


def lives(log: Path) -> tuple[list[str], list[str]]:
    lines = log.read_text().splitlines() if log.exists() else []
    made, closed = ([line.split()[1] for line in lines if line.startswith(what)] for what in ("made", "closed"))
    return made, closed


def test_a_program_of_processors_is_the_same_in_the_driver_and_through_spark(
    cluster: Any, start: Any, twin: Any, by_key: Any, tmp_path: Path
) -> None:
    for word in TOPICS:
        cluster.topic(word)
    log, dead = tmp_path / "resources", cluster.name("dead")
    config = {
        **dict.fromkeys(("on_processing_error", "on_deserialization_error", "on_production_error"), "dead_letter"),
        "dead_letter_topic": dead,
        "user_config": {"rate": 7, "log": str(log)},
    }
    driven = start(program(cluster.name), **config)
    driven.drain()
    driver = twin(program(cluster.name), **{**config, "user_config": {"rate": 7, "log": f"{log}-of-the-driver"}})
    for number, records in enumerate(ROUNDS):
        driven.engine.executor.inline_epochs.most_records = 20_000 * (number % 2)  # inline, and as a Spark job
        for word, key, value, at in records:
            cluster.send(cluster.name(word), (key, encoded(value), at))
            driver.send(cluster.name(word), (key, encoded(value), at))
        driven.drain()
        driver.driver.commit()
    outputs = [cluster.name(word) for word in ("out", "teams", "prices-out")]
    for topic in outputs:
        assert by_key(seen(cluster.rows(topic))) == by_key(seen(driver.rows(topic))) != {}
    assert sorted(seen(cluster.rows(dead))) == sorted(seen(driver.rows(dead)))
    for store in ("visits", "prices", "names"):
        assert sorted(driven.view(store).all()) == sorted(driver.driver.store(store).all())

    # and both are what is meant, not the same mistake twice
    values = [json.loads(row.value) for row in cluster.read(cluster.name("out")) if row.key == HERE.encode()]
    assert [value[:4] for value in values if isinstance(value, list)] == [
        [1, 1, 1, "Ann"],
        [2, 2, 1, "Ann"],
        [1, 3, 1, "Ann"],
        [2, 9, 1, "Ann"],
        [2, 10, 1, "Ann"],
    ]
    assert values[0][4:] == [
        {
            "application_id": start.application_id,
            "shards": 4,
            "lanes": 2,
            "on_processing_error": "dead_letter",
            "idle_ms": 5000,
        },
        7,
    ]
    teams = {row.key: json.loads(row.value) for row in cluster.read(cluster.name("teams"))}
    assert teams == {b"a": [1, 1], b"b": [2, 2], b"c": [1, 8], b"d": [1, 13], b"e": [1, 14]}
    why = [dict(row.headers)["__streams.errors.message"].decode() for row in cluster.read(dead)]
    for words in (
        "belongs to shard",
        "outside of init",
        "global store 'names'",
        "JSON has no nan",
        "unexpected character",
        "late for",
    ):
        assert any(words in text for text in why), words
    assert len(why) == 9

    driven.close()
    driver.driver.close()
    made, closed = lives(log)
    assert sorted(made) == sorted(closed)
    assert len(set(made)) == len(made) >= 1  # once for each worker
    assert lives(tmp_path / "resources-of-the-driver") == ([str(os.getpid())], [str(os.getpid())])


class Hurries(Processor[str, Any]):
    def process(self, record: Any) -> None:
        self.context.commit()
        self.context.forward(record)


def test_a_barrier_that_was_asked_for_does_not_let_the_next_epoch_wait(cluster: Any, start: Any) -> None:
    """With a commit interval of an hour, the second record is taken at once because the first has asked for it."""
    builder = StreamsBuilder()
    builder.stream(cluster.topic("in")).process(Hurries).to(cluster.topic("out"))
    cluster.send(cluster.name("in"), ("a", "1", 0))
    app = start.app(builder, commit_interval_ms=3_600_000)
    with app:
        for number in (1, 2, 3):
            until = stopwatch_us() + 60_000_000
            while len(found := cluster.texts(cluster.name("out"))) < number:
                assert stopwatch_us() < until, f"only {found} after a minute"
                Event().wait(0.05)
            cluster.send(cluster.name("in"), ("a", str(number + 1), number))


class Remembers(Processor[str, Any]):
    def process(self, record: Any) -> None:
        counts = [self.context.store(name).compute(record.key, add_one) for name in ("kept", "fast", "loose")]
        self.context.forward(record.with_value(counts))


def add_one(key: str, old: int | None) -> int:
    return (old or 0) + 1


def test_a_store_that_is_not_persistent_is_in_memory_and_restored_from_its_changelog(cluster: Any, start: Any) -> None:
    stores = [
        Stores.key_value("kept"),
        Stores.key_value("fast", persistent=False),
        Stores.key_value("loose", persistent=False, logged=False),
    ]
    builder = StreamsBuilder()
    builder.stream(cluster.topic("in")).process(Remembers, stores=stores).to(cluster.topic("out"))
    keys = [str(number) for number in range(12)]
    for life in range(2):
        driven = start(builder)
        assert driven.restored == 36 * life  # the rows of the one in memory; what is kept was there
        for at in range(3):
            driven.engine.executor.inline_epochs.most_records = 20_000 * (at % 2)
            cluster.send(cluster.name("in"), *((key, "0", at) for key in keys))
            driven.drain()
        assert sorted(driven.view("fast").all()) == sorted((key, 3 * life + 3) for key in keys)
        driven.close()
        for shard in range(4):
            names = LmdbState.at(start.folder / start.application_id / f"shard-{shard}").names()
            assert "kept" in names
            assert not {"fast", "loose"} & set(names)
    last = {row.key: json.loads(row.value) for row in cluster.read(cluster.name("out"))}
    assert set(map(tuple, last.values())) == {(6, 6, 3)}  # without a log it begins anew, with the application


GUIDE = Path(__file__).parents[2] / "docs" / "guide.md"


def of_the_guide(name: str) -> type[Processor[str, Any]]:
    """Return a class of a processor as docs/guide.md has it."""
    for example in doctest.DocTestParser().get_examples(GUIDE.read_text()):
        if example.source.startswith(f"class {name}("):
            found: dict[str, Any] = {"Processor": Processor}
            exec(example.source, found)
            return cast(type[Processor[str, Any]], found[name])
    raise AssertionError(f"the guide has no class {name}")


def test_processors_of_the_guide_are_the_same_in_the_driver_and_through_spark(
    cluster: Any, start: Any, twin: Any, by_key: Any
) -> None:
    builder = StreamsBuilder()
    for name, stores in ("Forgets", [Stores.key_value("counts")]), ("Refer", [Stores.key_value("names")]), ("Rate", []):
        stream = builder.stream(cluster.topic(name))
        stream.process(of_the_guide(name), stores=stores, name=name.lower()).to(cluster.topic(f"{name}-out"))
    dead = cluster.topic("guide-dead")
    user_config = {"service": "http://rates"}
    config = {"on_processing_error": "dead_letter", "dead_letter_topic": dead, "user_config": user_config}
    driven, driver = start(builder, **config), twin(builder, **config)
    driven.drain()
    for at in range(1, 4):
        for name, key, value in ("Forgets", HERE, 0), ("Refer", HERE, [HERE, ELSEWHERE][at % 2]), ("Rate", HERE, 10):
            cluster.send(cluster.name(name), *[(key, encoded(value), at)] * 2)
            for _ in range(2):
                driver.send(cluster.name(name), (key, encoded(value), at))
        driven.drain()
        driver.driver.commit()
    for name in "Forgets", "Rate":
        assert by_key(seen(cluster.rows(cluster.name(f"{name}-out")))) == by_key(
            seen(driver.rows(cluster.name(f"{name}-out")))
        )
    assert seen(cluster.rows(dead)) == seen(driver.rows(dead))
    values = [json.loads(row.value) for row in cluster.read(cluster.name("Forgets-out"))]
    assert values == [{"field": 1 + number % 2, "store": 1 + number} for number in range(6)]
    assert [json.loads(row.value) for row in cluster.read(cluster.name("Rate-out"))] == [11.0] * 6
    assert len(cluster.read(dead)) == 4  # the keys of another shard
