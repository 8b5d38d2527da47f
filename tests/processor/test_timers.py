"""Timers per key: when they fire, in which order, and that they are state like any other."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ProcessingError, StoreError, TopologyError
from penstock.operators.process import ProcessValues
from penstock.processor import FixedKeyProcessor, Processor
from penstock.record import Record
from penstock.state.spec import Stores
from penstock.testing import TopologyTestDriver
from penstock.topology.node import ProcessorNode
from penstock.topology.topology import Topology


class Reminding(Processor[Any, Any]):
    """The value says what to do: ["event" | "processing" | "-event" | "-processing", time]."""

    def process(self, record: Record[Any, Any]) -> None:
        verb, at = record.value
        timers = self.context.timers
        {
            "event": timers.register_event_time,
            "processing": timers.register_processing_time,
            "-event": timers.delete_event_time,
            "-processing": timers.delete_processing_time,
        }[verb](record.key, at)

    def on_timer(self, timestamp: int, key: Any, context: Any) -> None:
        context.forward(Record(key, [timestamp, context.stream_time, context.record_metadata], timestamp))


def topology(supplier: Any = Reminding) -> Topology:
    built = Topology().add_source("in", "in").add_processor("p", supplier, "in").add_sink("out", "out", "p")
    return built.add_state_store(Stores.timers("timers"), "p")


def fired(out: Any) -> list[tuple[Any, int]]:
    return [(row.key, row.timestamp) for row in out.read_all()]


def test_an_event_time_timer_fires_after_the_record_that_reaches_its_time() -> None:
    with TopologyTestDriver(topology()) as driver:
        out = driver.output_topic("out")
        driver.input_topic("in").pipe("a", ["event", 10], 0)
        driver.input_topic("in").pipe("b", ["event", 50], 9)
        assert fired(out) == []
        driver.input_topic("in").pipe("c", ["event", 99], 12)
        assert out.read() == Record("a", [10, 12, None], 10)


def test_timers_of_a_shard_fire_once_by_time_then_key() -> None:
    with TopologyTestDriver(topology(), shards=1) as driver:
        out = driver.output_topic("out")
        pipe = driver.input_topic("in").pipe
        for key, at in ("b", 20), ("a", 20), ("c", 10), ("a", 20):
            pipe(key, ["event", at], 0)
        pipe("z", ["event", 1000], 30)
        assert fired(out) == [("c", 10), ("a", 20), ("b", 20)]
        pipe("z", ["event", 1000], 40)
        assert fired(out) == []


def test_a_timer_in_the_past_fires_as_soon_as_its_record_is_done() -> None:
    with TopologyTestDriver(topology()) as driver:
        out = driver.output_topic("out")
        driver.input_topic("in").pipe("a", ["event", 100], 50)
        driver.input_topic("in").pipe("a", ["event", 5], 40)
        assert fired(out) == [("a", 5)]


def test_a_deleted_timer_does_not_fire() -> None:
    with TopologyTestDriver(topology()) as driver:
        out = driver.output_topic("out")
        pipe = driver.input_topic("in").pipe
        pipe("a", ["event", 10], 0)
        pipe("b", ["event", 10], 0)
        pipe("a", ["-event", 10], 1)
        pipe("a", ["-event", 77], 1)
        pipe("z", ["event", 100], 20)
        assert fired(out) == [("b", 10)]


def test_a_processing_time_timer_fires_when_the_clock_reaches_it() -> None:
    with TopologyTestDriver(topology(), start=1000) as driver:
        out = driver.output_topic("out")
        pipe = driver.input_topic("in").pipe
        pipe("late", ["processing", 1030], 0)
        pipe("soon", ["processing", 1010], 5)
        pipe("gone", ["processing", 1010], 5)
        pipe("gone", ["-processing", 1010], 5)
        driver.advance_wall_clock(9)
        assert fired(out) == []
        driver.advance_wall_clock(1)
        assert fired(out) == [("soon", 1010)]
        driver.advance_wall_clock(100)
        assert fired(out) == [("late", 1030)]


def test_both_kinds_of_time_are_kept_apart() -> None:
    with TopologyTestDriver(topology(), start=0) as driver:
        out = driver.output_topic("out")
        pipe = driver.input_topic("in").pipe
        pipe("a", ["event", 10], 0)
        pipe("a", ["processing", 10], 0)
        driver.advance_wall_clock(50)
        assert len(fired(out)) == 1
        pipe("a", ["event", 1000], 50)
        assert len(fired(out)) == 1


class Ticking(Processor[Any, Any]):
    """Registers the next timer from inside a timer."""

    def process(self, record: Record[Any, Any]) -> None:
        self.context.timers.register_event_time(record.key, record.timestamp + 10)

    def on_timer(self, timestamp: int, key: Any, context: Any) -> None:
        context.forward(Record(key, timestamp, timestamp))
        if timestamp < 50:
            context.timers.register_event_time(key, timestamp + 10)


def test_a_timer_may_register_the_next_one_which_fires_at_once_if_it_is_due() -> None:
    with TopologyTestDriver(topology(Ticking)) as driver:
        out = driver.output_topic("out")
        driver.input_topic("in").pipe("a", 0, 0)
        driver.input_topic("in").pipe("b", 0, 35)
        assert fired(out) == [("a", 10), ("a", 20), ("a", 30)]
        driver.input_topic("in").pipe("c", 0, 41)
        assert fired(out) == [("a", 40)]


def test_timers_are_logged_and_taken_out_of_the_log_when_they_fire() -> None:
    with TopologyTestDriver(topology(), config={"application_id": "t"}) as driver:
        driver.input_topic("in").pipe("a", ["event", 10], 0)
        driver.input_topic("in").pipe("b", ["event", 20], 15)
        rows = driver.all_output()["t-timers-changelog"]
        assert sorted((key[9:], value) for key, value, *_ in rows[1:]) == [(b"a", None), (b"b", b"")]
        assert rows[0][:2] == (rows[1][0] if rows[1][1] is None else rows[2][0], b"")


def test_a_processor_with_a_timer_store_needs_on_timer() -> None:
    class Deaf:
        def process(self, record: Any) -> None:
            """Do nothing."""

    with pytest.raises(TopologyError, match=r"Deaf has no on_timer\(timestamp, key, context\)"):
        TopologyTestDriver(topology(Deaf))


def test_timers_without_a_timer_store_say_how_to_get_one() -> None:
    built = Topology().add_source("in", "in").add_processor("p", Reminding, "in")
    with (
        TopologyTestDriver(built) as driver,
        pytest.raises((ProcessingError, StoreError), match=r"add Stores.timers\(name\)"),
    ):
        driver.input_topic("in").pipe("a", ["event", 10], 0)


def test_a_fixed_key_processor_forwards_under_the_key_of_its_timer() -> None:
    class Fixed(FixedKeyProcessor[Any, Any]):
        def process(self, record: Any) -> None:
            self.context.timers.register_event_time(record.key, record.timestamp + 10)

        def on_timer(self, timestamp: int, key: Any, context: Any) -> None:
            context.forward(Record(key, "ring", timestamp))

    built = Topology().add_source("in", "in").add(ProcessorNode("p", ProcessValues(Fixed), ("in",)))
    built.add_sink("out", "out", "p").add_state_store(Stores.timers("timers"), "p")
    with TopologyTestDriver(built) as driver:
        out = driver.output_topic("out")
        driver.input_topic("in").pipe("a", 1, 0)
        driver.input_topic("in").pipe("b", 1, 10)
        assert fired(out) == [("a", 10)]
