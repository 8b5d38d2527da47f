"""Work of the clocks (scheduled sources, punctuators, timers): the same scenario through the test driver, and through Spark with a
real broker, where every other epoch fails once, at one step after the other, and the application is started anew now and then, without
its state.

The wall clock is moved by hand in both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from penstock import Processor, PunctuationType, Record, Serdes, Stores, StreamsBuilder
from penstock.clock import MockClock
from penstock.engine.epoch import STEPS
from penstock.errors import BrokerError, ProcessingError, TopologyError
from penstock.state.shards import shard_of
from penstock.testing import TopologyTestDriver

START = 1_700_000_000_000  # 22:13:20 UTC
WALL, STREAM = PunctuationType.WALL_CLOCK_TIME, PunctuationType.STREAM_TIME
SHARDS = 2
Rows = dict[str | None, list[Any]]


class InDriver:
    """A scenario in the test driver, which closes an epoch where the application would."""

    def __init__(self, builder: StreamsBuilder, config: dict[str, Any]) -> None:
        settings = {"application_id": "waking", "shards": SHARDS, **config}
        self._driver = TopologyTestDriver(builder, config=settings, lanes=2, auto_commit=False, start=START)
        self._read: dict[str, list[Record[Any, Any]]] = {}

    def send(self, topic: str, *rows: tuple[str, Any, int]) -> None:
        for key, value, timestamp in rows:
            self._driver.input_topic(topic).pipe(key, value, timestamp)
        self._driver.commit()

    def advance(self, ms: int) -> None:
        self._driver.advance_wall_clock(ms)
        self._driver.commit()

    def restart(self) -> None:
        """The driver has no restarts: it is what a run without them must give."""

    def rows(self, topic: str) -> list[Record[Any, Any]]:
        read = self._read.setdefault(topic, [])
        read += self._driver.output_topic(topic, key=Serdes.string, value=Serdes.json).read_all()
        return read

    def close(self) -> None:
        self._driver.close()


class InSpark:
    """A scenario in the engine, with faults."""

    def __init__(self, start: Any, cluster: Any, builder: StreamsBuilder, config: dict[str, Any]) -> None:
        self._start, self._cluster = start, cluster
        self._builder, self._config = builder, config
        self._clock = MockClock(START)
        self._failed = 0
        self._begin()

    def _begin(self) -> None:
        self._driven = self._start(self._builder, clock=self._clock, shards=SHARDS, **self._config)
        self._driven.loop.observers.append(self._fail_once)
        self._drain()

    def _fail_once(self, step: str, epoch: int) -> None:
        names = STEPS[:-1]
        if epoch > self._failed and epoch % 2 and step == names[epoch // 2 % len(names)]:
            self._failed = epoch
            raise BrokerError(f"planted before {step!r}", retriable=True, abortable=True)

    def _drain(self) -> None:
        """Run epochs until nothing is due; a clock that stands still must come to that."""
        for _ in range(50):
            if not self._driven.loop.step():
                return
        raise AssertionError("there is always something due")

    def send(self, topic: str, *rows: tuple[str, Any, int]) -> None:
        self._cluster.send(topic, *((key, json.dumps(value), at) for key, value, at in rows))
        self._drain()

    def advance(self, ms: int) -> None:
        self._clock.advance(ms)
        self._drain()

    def restart(self) -> None:
        """Start anew on a machine that has nothing."""
        self._driven.close()
        self._start.forget()
        self._begin()

    def rows(self, topic: str) -> list[Record[Any, Any]]:
        return [
            Record(key.decode(), json.loads(value), at, headers)
            for key, value, at, headers in self._cluster.rows(topic)
        ]

    def close(self) -> None:
        self._driven.close()


Begin = Callable[..., Any]


@pytest.fixture(params=["driver", "spark"])
def begin(request: pytest.FixtureRequest, cluster: Any) -> Iterator[Begin]:
    """Return what begins a scenario: of a program, with its topics made."""
    made: list[Any] = []

    def make(builder: StreamsBuilder, **config: Any) -> Any:
        if request.param == "driver":
            made.append(InDriver(builder, config))
        else:
            made.append(InSpark(request.getfixturevalue("start"), cluster, builder, config))
        return made[-1]

    yield make
    for each in made:
        each.close()


def by_key(rows: list[Record[Any, Any]]) -> Rows:
    found: Rows = {}
    for row in rows:
        found.setdefault(row.key, []).append(row.value)
    return found


def test_scheduled_sources_fire_once_for_a_due_time_over_faults_and_restarts(begin: Begin, cluster: Any) -> None:
    table, out, counts, hours = (cluster.topic(word) for word in ("table", "out", "counts", "hours"))

    def emit(context: Any) -> None:
        for key, value in context.view("rows").all():
            context.forward(key, [context.since - START, context.timestamp - START, value])

    builder = StreamsBuilder()
    builder.table(table, store="rows")
    beats = builder.scheduled(20_000, emit, name="beats")
    beats.to(out)
    counted = beats.group_by_key().count(store=Stores.key_value("n", cached=False))
    counted.map_values(str).to_stream().to(counts)
    builder.scheduled("*/2 * * * *", lambda context: context.forward("h", context.timestamp - START)).to(hours)

    run = begin(builder)
    run.send(table, ("a", 1, START), ("b", 2, START))
    run.advance(19_999)
    assert run.rows(out) == []
    run.advance(1)
    run.advance(20_000)
    run.restart()
    run.advance(1)
    run.send(table, ("a", 3, START))
    run.advance(19_999)
    run.restart()
    run.advance(65_000)  # three due times: one catches up
    run.advance(15_000)
    assert by_key(run.rows(out)) == {
        "a": [[20_000, 20_000, 1], [40_000, 40_000, 1], [60_000, 60_000, 3], [80_000, 120_000, 3], [140_000, 140_000, 3]],
        "b": [[20_000, 20_000, 2], [40_000, 40_000, 2], [60_000, 60_000, 2], [80_000, 120_000, 2], [140_000, 140_000, 2]],
    }  # fmt: skip
    assert by_key(run.rows(counts)) == {key: ["1", "2", "3", "4", "5"] for key in "ab"}
    assert by_key(run.rows(hours)) == {"h": [40_000]}  # 22:14


def own_key(context: Any, name: str) -> str:
    """Return a key of the shard that a processor works for, where it may keep something of its own."""
    shards = context.config["shards"]
    return next(key for n in count() if shard_of((key := f"{name} {n}").encode(), shards) == context.shard)


class Beating(Processor[Any, Any]):
    """Punctuators of all kinds, one of which stops after two calls; what they have counted is in a store."""

    def init(self, context: Any) -> None:
        self.context = context
        self.store = context.store("beats")
        self.handles = {
            "stream": context.schedule(50, STREAM, lambda at: self.beat("stream", at)),
            "stream from 30": context.schedule(50, STREAM, lambda at: self.beat("stream from 30", at), start=30),
            "wall": context.schedule(1000, WALL, lambda at: self.beat("wall", at - START)),
            "wall from 1500": context.schedule(1000, WALL, lambda at: self.beat("wall from 1500", at - START), start=START + 1500),
            "twice": context.schedule(700, WALL, lambda at: self.beat("twice", at - START, 2)),
        }  # fmt: skip

    def process(self, record: Record[Any, Any]) -> None:
        self.store.merge(own_key(self.context, "records"), 1, int.__add__)

    def beat(self, name: str, at: int, most: int = 100) -> None:
        number = self.store.merge(own_key(self.context, name), 1, int.__add__)
        if number == most:
            self.handles[name].cancel()
        value = [at, number, self.store.get(own_key(self.context, "records")) or 0]
        self.context.forward(Record(f"{self.context.shard}: {name}", value, 5))


def test_punctuators_of_all_kinds_beat_once_over_faults_and_restarts(begin: Begin, cluster: Any) -> None:
    lines, out = cluster.topic("lines"), cluster.topic("out")
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value("beats"))
    builder.stream(lines).process(Beating, stores=["beats"], name="beating").to(out)
    run = begin(builder)
    run.send(lines, ("a", 1, 10), ("a", 1, 60), ("a", 1, 70))
    run.advance(999)
    run.advance(1)
    run.restart()
    run.send(lines, ("a", 1, 85), ("a", 1, 290))
    run.advance(600)
    run.restart()
    run.advance(2400)
    run.advance(500)
    found = by_key(run.rows(out))
    shard = next(key for key, rows in found.items() if key is not None and key.endswith(": stream") and rows[0][2])[0]
    other = str(1 - int(shard))
    assert {key: rows for key, rows in found.items() if key is not None and key[0] == shard} == {
        f"{shard}: stream": [[10, 1, 1], [60, 2, 2], [290, 3, 5]],
        f"{shard}: stream from 30": [[60, 1, 2], [85, 2, 4], [290, 3, 5]],
        f"{shard}: wall": [[1000, 1, 3], [4000, 2, 5]],
        f"{shard}: wall from 1500": [[1600, 1, 5], [4000, 2, 5], [4500, 3, 5]],
        f"{shard}: twice": [[999, 1, 3], [1600, 2, 5]],
    }
    assert found[f"{other}: stream"] == [[10, 1, 0], [60, 2, 0], [290, 3, 0]]  # the same time in every shard
    assert found[f"{other}: wall"] == [[1000, 1, 0], [4000, 2, 0]]
    assert found[f"{other}: twice"] == [[999, 1, 0], [1600, 2, 0]]


class Reminding(Processor[Any, Any]):
    """The value says what to do: [verb, time]; a timer at 500 sets the next one, at 600, and takes back one at 700."""

    def process(self, record: Record[Any, Any]) -> None:
        verb, at = record.value
        if verb != "pass":
            getattr(self.context.timers, verb)(record.key, at)

    def on_timer(self, timestamp: int, key: Any, context: Any) -> None:
        if timestamp == 500:
            context.timers.register_event_time(key, 600)
            context.timers.delete_event_time(key, 700)
        seen = context.store("seen")
        seen.put(key, (seen.get(key) or 0) + 1)
        at = timestamp - START if timestamp >= START else timestamp
        context.forward(Record(key, [at, seen.get(key)], 5))


def test_timers_fire_once_in_order_over_faults_and_restarts(begin: Begin, cluster: Any) -> None:
    lines, out = cluster.topic("lines"), cluster.topic("out")
    builder = StreamsBuilder()
    builder.add_state_store(Stores.timers("timers", key=Serdes.string))
    builder.add_state_store(Stores.key_value("seen"))
    builder.stream(lines).process(Reminding, stores=["timers", "seen"], name="reminding").to(out)
    event, processing, delete = "register_event_time", "register_processing_time", "delete_event_time"
    run = begin(builder)
    run.send(lines, ("a", [event, 500], 1), ("a", [event, 700], 2), ("a", [event, 300], 3), ("a", [event, 300], 4))
    run.send(lines, ("a", [event, 800], 5), ("a", [processing, START + 2000], 6), ("a", [processing, START + 1000], 7))
    run.restart()
    run.send(lines, ("a", [delete, 800], 8), ("a", [event, 900], 9), ("a", ["pass", 0], 300))
    run.advance(999)
    assert by_key(run.rows(out)) == {"a": [[300, 1]]}
    run.advance(1)
    run.restart()
    run.send(lines, ("a", ["pass", 0], 550), ("a", ["pass", 0], 899))
    run.send(lines, ("a", [event, 100], 899))  # its time has passed: it fires with the record
    run.advance(5000)
    run.send(lines, ("a", ["pass", 0], 5000))
    expected = [300, 1000, 500, 600, 100, 2000, 900]
    assert by_key(run.rows(out)) == {"a": [[at, n] for n, at in enumerate(expected, 1)]}


def test_each_row_tells_the_epoch_that_it_was_committed_in(begin: Begin, cluster: Any) -> None:
    lines, out, words = (cluster.topic(word) for word in ("lines", "out", "words"))
    builder = StreamsBuilder()
    stream = builder.stream(lines)
    stream.to(out)
    stream.group_by(lambda key, value: value).count(store="n").map_values(str).to_stream().to(words)
    run = begin(builder, epoch_header="epoch")
    run.send(lines, ("a", "x", 1), ("b", "y", 2))
    run.restart()
    run.send(lines, ("a", "x", 3))
    assert [(row.key, row.headers) for row in run.rows(out)] == [
        ("a", (("epoch", b"1"),)),
        ("b", (("epoch", b"1"),)),
        ("a", (("epoch", b"2"),)),
    ]
    assert sorted((row.key, row.value, row.headers) for row in run.rows(words)) == [
        ("x", "1", (("epoch", b"1"),)),
        ("x", "2", (("epoch", b"2"),)),
        ("y", "1", (("epoch", b"1"),)),
    ]


# ---- what only the runtime can show


def test_an_emitter_that_raises_ends_the_application_and_is_told_of(start: Any, cluster: Any) -> None:
    out = cluster.topic("out")

    def broken(context: Any) -> None:
        raise ValueError("no network")

    builder = StreamsBuilder()
    builder.scheduled(10, broken, name="beat").to(out)
    clock = MockClock(START)
    driven = start(builder, clock=clock)
    assert driven.loop.step()  # the first epoch of an application that reads nothing
    assert not driven.loop.step()
    clock.advance(10)
    with pytest.raises(ProcessingError, match="no network") as caught:
        driven.loop.step()
    assert caught.value.node == "beat"
    assert "test_waking.py" in str(caught.value)
    assert cluster.read(out) == []


def test_a_schedule_outside_of_init_is_refused_with_a_remedy(start: Any, cluster: Any) -> None:
    class Late(Processor[Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            self.context.schedule(10, WALL, print)

    lines = cluster.topic("lines")
    builder = StreamsBuilder()
    builder.stream(lines).process(Late, name="late")
    cluster.send(lines, ("a", "1", 5))
    with pytest.raises((ProcessingError, TopologyError), match="schedule it in init"):
        start(builder).drain()
