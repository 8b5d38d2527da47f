"""Processors in a topology: forwarding, metadata, stores, time, punctuation, failures."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ProcessingError, StoreError, TopologyError
from penstock.operators.process import ProcessValues
from penstock.operators.table import TableSource, TableToStream, TableTransformValues
from penstock.processor import FixedKeyProcessor, Processor, PunctuationType, ValueTransformer
from penstock.record import Record, RecordMetadata
from penstock.serde import Serdes
from penstock.state.spec import Stores
from penstock.testing import TopologyTestDriver
from penstock.topology.node import ProcessorNode
from penstock.topology.topology import Topology

STREAM, WALL = PunctuationType.STREAM_TIME, PunctuationType.WALL_CLOCK_TIME


def processing(supplier: Any, *stores: Any) -> Topology:
    topology = Topology().add_source("in", "in").add_processor("p", supplier, "in").add_sink("out", "out", "p")
    for store in stores:
        topology.add_state_store(store, "p")
    return topology


def fixed(supplier: Any) -> Topology:
    topology = Topology().add_source("in", "in")
    return topology.add(ProcessorNode("p", ProcessValues(supplier), ("in",))).add_sink("out", "out", "p")


#: Kafka's driver: one task, whose processors live as long as it does
KAFKA: dict[str, Any] = {"shards": 1, "keep_processors": True}


def run(topology: Topology, *records: tuple[Any, ...], topic: str = "out") -> list[Record[Any, Any]]:
    with TopologyTestDriver(topology, **KAFKA) as driver:
        for record in records:
            driver.input_topic("in").pipe(*record)
        return driver.output_topic(topic).read_all()


class Twice(Processor[Any, Any]):
    """Forwards a record as it is, then with everything changed."""

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)
        self.context.forward(record.with_key("new").with_value(-1).with_timestamp(99).with_headers([("h", b"2")]))


def test_a_processor_may_forward_several_records_with_anything_changed() -> None:
    assert run(processing(Twice), ("a", 1, 5, [("h", b"1")])) == [
        Record("a", 1, 5, [("h", b"1")]),
        Record("new", -1, 99, [("h", b"2")]),
    ]


def test_a_processor_gets_null_keys_and_values() -> None:
    assert run(processing(Twice), (None, None, 5))[0] == Record(None, None, 5)


def test_an_object_with_process_alone_is_a_processor() -> None:
    seen: list[Any] = []

    class Duck:
        def process(self, record: Any) -> None:
            seen.append(record)

    run(processing(Duck), ("a", 1, 5))
    assert seen == [Record("a", 1, 5)]


def test_init_runs_before_the_first_record_and_close_at_the_end() -> None:
    calls: list[str] = []

    class Noted(Processor[Any, Any]):
        def init(self, context: Any) -> None:
            calls.append("init")

        def process(self, record: Any) -> None:
            calls.append("process")

        def close(self) -> None:
            calls.append("close")

    run(processing(Noted), ("a", 1, 5))
    assert calls == ["init", "process", "close"]


def test_forward_to_a_named_child_reaches_that_child_only() -> None:
    class Choosing(Processor[Any, Any]):
        def process(self, record: Any) -> None:
            self.context.forward(record, "big" if record.value > 10 else "small")

    topology = Topology().add_source("in", "in").add_processor("p", Choosing, "in")
    topology.add_sink("small", "small", "p").add_sink("big", "big", "p")
    with TopologyTestDriver(topology) as driver:
        driver.input_topic("in").pipe_all([("a", 1), ("a", 20), ("a", 2)], 0)
        assert driver.output_topic("small").read_values() == [1, 2]
        assert driver.output_topic("big").read_values() == [20]


def test_forward_to_an_unknown_child_names_the_children() -> None:
    class Wrong(Processor[Any, Any]):
        def process(self, record: Any) -> None:
            self.context.forward(record, "oot")

    with pytest.raises(ProcessingError, match=r"no next node 'oot' \(did you mean 'out'\?\): it has \['out'\]"):
        run(processing(Wrong), ("a", 1, 0))


def test_forward_takes_records_only() -> None:
    class Wrong(Processor[Any, Any]):
        def process(self, record: Any) -> None:
            self.context.forward((record.key, record.value))  # type: ignore[arg-type]

    with pytest.raises(ProcessingError, match="forward\\(\\) takes a Record"):
        run(processing(Wrong), ("a", 1, 0))


def test_children_are_called_depth_first_in_the_order_they_were_added() -> None:
    calls: list[str] = []

    def noting(name: str) -> Any:
        class Noting(Processor[Any, Any]):
            def process(self, record: Any) -> None:
                calls.append(name)
                self.context.forward(record)

        return Noting

    topology = Topology().add_source("in", "in").add_processor("p", noting("p"), "in")
    topology.add_processor("left", noting("left"), "p").add_processor("right", noting("right"), "p")
    topology.add_processor("below", noting("below"), "left")
    run(topology, ("a", 1, 0))
    assert calls == ["p", "left", "below", "right"]


class Metadata(Processor[Any, Any]):
    """Forwards where each record came from."""

    def init(self, context: Any) -> None:
        super().init(context)
        context.schedule(10, WALL, lambda now: self.tell(None, now))

    def process(self, record: Record[Any, Any]) -> None:
        self.tell(record.key, record.timestamp)

    def tell(self, key: Any, timestamp: int) -> None:
        metadata = self.context.record_metadata
        self.context.forward(Record(key, metadata and list(metadata), timestamp))


def test_record_metadata_is_that_of_the_source_record_and_none_in_punctuations() -> None:
    with TopologyTestDriver(processing(Metadata), shards=1) as driver:
        driver.input_topic("in").pipe_all([("a", 1), ("b", 2)], 0)
        driver.advance_wall_clock(10)
        rows = [(r.key, r.value) for r in driver.output_topic("out").read_all()]
    assert rows == [("a", ["in", 0, 0]), ("b", ["in", 0, 1]), (None, None)]
    assert RecordMetadata("in", 0, 1) == ("in", 0, 1)


def test_stream_time_is_the_greatest_timestamp_so_far_and_late_records_know_it() -> None:
    class Times(Processor[Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            self.context.forward(record.with_value([self.context.stream_time, self.context.is_late]))

    rows = run(processing(Times), ("a", 1, 10), ("a", 1, 4), ("a", 1, 10), ("a", 1, 11))
    assert [row.value for row in rows] == [[10, False], [10, True], [10, False], [11, False]]


def test_system_time_and_application_id_come_from_the_application() -> None:
    class Ids(Processor[Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            self.context.forward(record.with_value([self.context.application_id, self.context.system_time]))

    with TopologyTestDriver(processing(Ids), config={"application_id": "shop"}, start=1000) as driver:
        driver.advance_wall_clock(5)
        driver.input_topic("in").pipe("a", 1, 0)
        assert driver.output_topic("out").read_values() == [["shop", 1005]]


class Remembering(Processor[Any, Any]):
    """Forwards the value before."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.store = context.store("last")

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record.with_value(self.store.get(record.key)))
        self.store.put(record.key, record.value)


def test_a_processor_uses_its_connected_store() -> None:
    rows = run(processing(Remembering, Stores.key_value("last")), ("a", 1, 0), ("a", 2, 1), ("b", 3, 2))
    assert [(row.key, row.value) for row in rows] == [("a", None), ("a", 1), ("b", None)]


def test_a_store_that_is_not_connected_is_refused_with_the_names_of_those_that_are() -> None:
    with pytest.raises(StoreError, match=r"no access to the store 'last' \(did you mean 'lost'\?\)"):
        run(processing(Remembering, Stores.key_value("lost")), ("a", 1, 0))


def test_a_store_logs_the_time_of_the_record_as_the_node_before_set_it() -> None:
    class Earlier(Processor[Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            self.context.forward(record.with_timestamp(record.timestamp - 1))

    topology = Topology().add_source("in", "in").add_processor("earlier", Earlier, "in")
    topology.add_processor("p", Remembering, "earlier").add_state_store(Stores.key_value("last"), "p")
    with TopologyTestDriver(topology, config={"application_id": "t"}) as driver:
        driver.input_topic("in").pipe("a", 1, 5)
        assert [row[2] for row in driver.all_output()["t-last-changelog"]] == [4]


class Counting(Processor[Any, Any]):
    """Counts, and forwards the counts when punctuated."""

    def __init__(self, kind: PunctuationType, every: int, start: int | None = None) -> None:
        self.schedule = (every, kind, self.punctuate, start)
        self.count = 0

    def init(self, context: Any) -> None:
        super().init(context)
        self.cancellable = context.schedule(*self.schedule)

    def process(self, record: Record[Any, Any]) -> None:
        self.count += 1
        if record.value == "stop":
            self.cancellable.cancel()

    def punctuate(self, timestamp: int) -> None:
        self.context.forward(Record("count", self.count, timestamp))


def test_stream_time_punctuation_fires_after_the_record_that_makes_it_due() -> None:
    rows = run(processing(lambda: Counting(STREAM, 10)), *[("a", 1, t) for t in (3, 5, 12, 8, 40, 45)])
    assert [(row.value, row.timestamp) for row in rows] == [(1, 3), (3, 12), (5, 40)]


def test_wall_clock_punctuation_fires_when_the_clock_moves() -> None:
    with TopologyTestDriver(processing(lambda: Counting(WALL, 10)), start=100, **KAFKA) as driver:
        driver.input_topic("in").pipe_all([("a", 1), ("a", 2)], 0)
        for ms in (9, 1, 25, 5):
            driver.advance_wall_clock(ms)
        rows = driver.output_topic("out").read_all()
    assert [(row.value, row.timestamp) for row in rows] == [(2, 110), (2, 135), (2, 140)]


def test_an_anchored_punctuation_keeps_to_its_grid() -> None:
    with TopologyTestDriver(processing(lambda: Counting(WALL, 10, 3)), start=100, **KAFKA) as driver:
        for ms in (2, 1, 12):
            driver.advance_wall_clock(ms)
        rows = driver.output_topic("out").read_all()
    assert [row.timestamp for row in rows] == [103, 115]


def test_a_cancelled_punctuation_stops() -> None:
    rows = run(processing(lambda: Counting(STREAM, 10)), ("a", 1, 0), ("a", "stop", 10), ("a", 1, 20))
    assert [row.timestamp for row in rows] == [0]


def test_schedule_refuses_what_is_not_a_punctuation_type() -> None:
    with pytest.raises(TopologyError, match=r"PunctuationType.STREAM_TIME or .WALL_CLOCK_TIME"):
        run(processing(lambda: Counting("wall_clock", 10)))  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="every must be at least 1 ms"):
        run(processing(lambda: Counting(WALL, 0)))


def test_commit_asks_for_a_barrier() -> None:
    class Committing(Processor[Any, Any]):
        def process(self, record: Any) -> None:
            self.context.commit()

    assert run(processing(Committing), ("a", 1, 0)) == []


class Doubled(FixedKeyProcessor[Any, Any]):
    """Doubles values."""

    def process(self, record: Any) -> None:
        self.context.forward(record.with_value(record.value * 2).with_timestamp(record.timestamp + 1))


def test_a_fixed_key_processor_changes_anything_but_the_key() -> None:
    assert run(fixed(Doubled), ("a", 2, 5, [("h", b"1")])) == [Record("a", 4, 6, [("h", b"1")])]


def test_a_fixed_key_processor_may_forward_a_record_of_its_own_under_the_same_key() -> None:
    class Own(FixedKeyProcessor[Any, Any]):
        def process(self, record: Any) -> None:
            self.context.forward(Record(record.key, "own", 7))

    assert run(fixed(Own), ("a", 2, 5)) == [Record("a", "own", 7)]


@pytest.mark.parametrize("change", [lambda record: record.with_key("b"), lambda record: Record("b", 1, 0)])
def test_a_fixed_key_processor_may_not_change_the_key(change: Any) -> None:
    class Changing(FixedKeyProcessor[Any, Any]):
        def process(self, record: Any) -> None:
            self.context.forward(change(record))

    with pytest.raises(ProcessingError, match="use process\\(\\) to change keys"):
        run(fixed(Changing), ("a", 2, 5))


def test_a_fixed_key_punctuation_may_forward_records_it_kept_but_make_none() -> None:
    class Keeping(FixedKeyProcessor[Any, Any]):
        def init(self, context: Any) -> None:
            super().init(context)
            self.kept: list[Any] = []
            context.schedule(10, STREAM, self.punctuate)

        def process(self, record: Any) -> None:
            self.kept.append(record)

        def punctuate(self, timestamp: int) -> None:
            for record in self.kept:
                self.context.forward(record.with_timestamp(timestamp))
            if timestamp >= 10:
                self.context.forward(Record("made", 1, timestamp))

    assert run(fixed(Keeping), ("a", 1, 0)) == [Record("a", 1, 0)]
    with pytest.raises(ProcessingError, match="process_values\\(\\) keeps the key"):
        run(fixed(Keeping), ("a", 1, 0), ("a", 2, 10))


class Sizes(ValueTransformer[Any, Any]):
    """Forwards the value with its key, also for tombstones."""

    def transform(self, key: Any, value: Any) -> Any:
        return [key, value]


def transforming(supplier: Any, store: str | None = None) -> Topology:
    topology = Topology().add_source("in", "in").add(ProcessorNode("table", TableSource(), ("in",)))
    topology.add(ProcessorNode("p", TableTransformValues(supplier, store=store), ("table",)))
    topology.add(ProcessorNode("stream", TableToStream(), ("p",))).add_sink("out", "out", "stream")
    if store is not None:
        topology.add_state_store(Stores.key_value(store, value=Serdes.json, timestamped=True), "p")
    return topology


@pytest.mark.parametrize("store", [None, "rows"])
def test_a_transformer_is_called_for_tombstones_too(store: str | None) -> None:
    rows = run(transforming(Sizes, store), ("a", 1, 0), ("a", None, 1))
    assert [row.value for row in rows] == [["a", 1], ["a", None]]


def test_a_transformer_may_not_forward() -> None:
    class Forwarding(ValueTransformer[Any, Any]):
        def transform(self, key: Any, value: Any) -> Any:
            self.context.forward(Record(key, value, 0))

    with pytest.raises(ProcessingError, match="forwards what transform\\(\\) returns"):
        run(transforming(Forwarding), ("a", 1, 0))
