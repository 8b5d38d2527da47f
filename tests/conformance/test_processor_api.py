"""The Processor API equals Kafka Streams': topologies made by hand, contexts, stores, punctuation."""

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from compare import Both, check, topology_class
from random_scripts import led_by
from sequences import scripts

from penstock.errors import ProcessingError, TopologyError
from penstock.processor import FixedKeyProcessor, Processor, PunctuationType
from penstock.record import Record, ValueAndTimestamp, Windowed
from penstock.serde import Serdes
from penstock.state.spec import Stores

TEXT = {"key": Serdes.string, "value": Serdes.string}
INPUTS = dict.fromkeys(("in", "in1", "in2", "orders-1", "orders-2"), (Serdes.string, Serdes.string))
DISTANCES = (1, 5, 50)
STREAM, WALL = PunctuationType.STREAM_TIME, PunctuationType.WALL_CLOCK_TIME


def timed_scripts(seed: str, count: int, **how: Any) -> Iterator[list[tuple[Any, ...]]]:
    """Scripts in which the wall clock moves between records."""
    for number, script in enumerate(scripts(seed, DISTANCES, count=count, **how)):
        rng = random.Random(f"{seed} clock {number}")
        steps: list[tuple[Any, ...]] = []
        for step in script:
            if rng.random() < 0.3:
                steps.append(("wall_clock", rng.choice((1, 3, 7, 10, 25))))
            steps.append(step)
        yield steps


def check_all(seed: str, topology: Any, *, topics: tuple[str, ...] = ("in",), count: int = 10, **how: Any) -> None:
    for steps in timed_scripts(seed, count, topics=topics, keys="aabc"):
        script = led_by(steps, topics[0])
        assert_changelogs(check(topology, script, inputs=INPUTS, changelogs=False, **how))


def assert_changelogs(both: Both) -> None:
    """Penstock logs a row once per barrier, Kafka at every write: the last row of each key is equal, none is invented."""
    for topic in {topic for run in (both.kafka, both.penstock) for topic in run.output if topic.endswith("-changelog")}:
        kafka, penstock = (by_key(run.output.get(topic, [])) for run in (both.kafka, both.penstock))
        assert penstock.keys() == kafka.keys(), topic
        for key, rows in penstock.items():
            assert rows[-1] == kafka[key][-1], (topic, key)
            written = iter(kafka[key])
            assert all(row in written for row in rows), (topic, key, rows, kafka[key])


def by_key(rows: list[Any]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for key, *row in rows:
        found.setdefault(key, []).append(row)
    return found


def by_hand(builder: Any, processor: Any, *stores: Any) -> Any:
    topology = topology_class(builder)()
    topology.add_source("source", "in", **TEXT).add_processor("processor", processor, "source")
    for store in stores:
        topology.add_state_store(store, "processor")
    return topology.add_sink("sink", "out", "processor", **TEXT)


def words(*things: Any) -> str:
    return " ".join(str(thing) for thing in things)


# --- processors


class Changing(Processor):
    """Forwards one, none or several records, with everything changed that can be."""

    def process(self, record: Any) -> None:
        forward = self.context.forward
        if record.value == "s":
            forward(record)
        elif record.value == "t":
            forward(record.with_key("t").with_value(None).with_timestamp(7).with_headers([("x", b"1"), ("x", None)]))
            forward(record)
        elif record.value != "u":
            forward(Record(record.value, record.key, record.timestamp + 3))
            forward(record.with_headers([*record.headers, ("more", b"")]))


class Telling(Processor):
    """Forwards what its context says."""

    def process(self, record: Any) -> None:
        context = self.context
        metadata = context.record_metadata
        told = words(context.application_id, context.stream_time, context.system_time, *(metadata or ()))
        context.forward(record.with_value(told))


class Choosing(Processor):
    """Forwards to a child by name, or to all."""

    def process(self, record: Any) -> None:
        children = {"s": "left", "t": "right", "u": "middle"}
        self.context.forward(record, children.get(record.value))
        self.context.forward(record.with_value("again"))


class Storing(Processor):
    """Uses every verb of a key-value store."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.store = context.store("rows")

    def process(self, record: Any) -> None:
        self.context.forward(record.with_value(str(self.answer(record.key or "none", record.value))))

    def answer(self, key: str, value: Any) -> Any:
        store = self.store
        match value:
            case "s":
                return store.get(key)
            case "t":
                return store.put_if_absent(key, f"absent {value}")
            case "u":
                return store.delete(key)
            case "v":
                return list(store.range("a", "b")) + list(store.reverse_range("b", None))
            case "w":
                return list(store.all()) + list(store.reverse_all())
            case "x":
                return store.put_all([(key, "x"), ("b", "all"), ("c", None)])
            case "y":
                return list(store.prefix_scan("a", Serdes.string))
            case _:
                return store.put(key, value)


class Totals(Processor):
    """Counts records in a store, forwards the counts when punctuated, deletes what was forwarded twice."""

    def __init__(self, every: int, kind: PunctuationType, start: int | None = None) -> None:
        self.schedule = (every, kind, start)

    def init(self, context: Any) -> None:
        super().init(context)
        self.store = context.store("rows")
        every, kind, start = self.schedule
        self.cancellable = context.schedule(every, kind, self.punctuate, *([] if start is None else [start]))

    def process(self, record: Any) -> None:
        if record.value == "z":
            self.cancellable.cancel()
        if record.key is not None:
            self.store.put(record.key, f"{self.store.get(record.key) or ''}{record.value or '-'}"[-5:])

    def punctuate(self, timestamp: int) -> None:
        context = self.context
        told = words(timestamp, context.stream_time, context.system_time, context.record_metadata)
        for key, value in list(self.store.all()):
            context.forward(Record(key, f"{value} {told}", timestamp, [("p", value.encode())]))
            if len(value) == 5:
                self.store.delete(key)


class Doubling(FixedKeyProcessor):
    """Forwards every value twice, the second time later."""

    def process(self, record: Any) -> None:
        self.context.forward(record.with_value(f"{record.value}1"))
        self.context.forward(record.with_value(f"{record.value}2").with_timestamp(record.timestamp + 5))


@pytest.mark.capability("PA2", "PA3", "PA7", "PA9", "PA10")
def test_a_processor_changes_everything() -> None:
    check_all("changing", lambda builder: by_hand(builder, Changing), count=20)


@pytest.mark.capability("PA11", "PA14")
def test_what_the_context_tells() -> None:
    check_all("telling", lambda builder: by_hand(builder, Telling), count=20)


@pytest.mark.capability("PA11", "PA14")
def test_what_the_context_tells_two_processors_in_a_row() -> None:
    def topology(builder: Any) -> Any:
        made = by_hand(builder, Changing)
        made.add_processor("below", Telling, "processor").add_processor("end", Telling, "below")
        return made.add_sink("told", "told", "below", "end", **TEXT)

    check_all("telling below", topology, count=20)


@pytest.mark.capability("PA2", "PA6", "PA10")
def test_forward_to_a_child_by_name() -> None:
    def topology(builder: Any) -> Any:
        made = topology_class(builder)()
        made.add_source("source", "in", **TEXT).add_processor("choosing", Choosing, "source")
        made.add_processor("middle", Changing, "choosing")
        for child, parent in ("left", "choosing"), ("right", "choosing"), ("end", "middle"):
            made.add_sink(child, child, parent, **TEXT)
        return made

    check_all("choosing", topology, count=20)


@pytest.mark.capability("PA10")
def test_forward_to_an_unknown_child_is_an_error() -> None:
    class Lost(Processor):
        def process(self, record: Any) -> None:
            self.context.forward(record, "nowhere")

    found = check(lambda builder: by_hand(builder, Lost), [("in", "a", "x", 0)], inputs=INPUTS)
    assert found.penstock.failed == 0
    assert isinstance(found.penstock.error, ProcessingError)
    assert "it has ['sink']" in str(found.penstock.error)


@pytest.mark.capability("PA9")
def test_a_record_with_a_negative_timestamp_is_an_error() -> None:
    class Backwards(Processor):
        def process(self, record: Any) -> None:
            self.context.forward(record.with_timestamp(record.timestamp - 5))

    steps = [("in", "a", "x", 5), ("in", "a", "x", 4)]
    assert check(lambda builder: by_hand(builder, Backwards), steps, inputs=INPUTS).penstock.failed == 1


# --- topologies


@pytest.mark.capability("PA1", "PA6")
@pytest.mark.parametrize("topics", ["in1", ["in1", "in2"], re.compile("orders-.*")], ids=["one", "several", "pattern"])
def test_sources(topics: Any) -> None:
    def topology(builder: Any) -> Any:
        made = topology_class(builder)()
        made.add_source(
            "source", topics, **TEXT, timestamp=lambda record: record.timestamp + 1, offset_reset="earliest"
        )
        return made.add_sink("sink", "out", "source", **TEXT)

    names = (
        ("orders-1", "orders-2") if isinstance(topics, re.Pattern) else ("in1",) if topics == "in1" else ("in1", "in2")
    )
    check_all(f"sources {topics}", topology, topics=names)


@pytest.mark.capability("PA2", "RT1", "RT2")
def test_sinks() -> None:
    def topology(builder: Any) -> Any:
        made = topology_class(builder)().add_source("source", "in", **TEXT).add_processor("p", Changing, "source")
        made.add_sink("extracted", lambda key, value, context: f"out-{context.timestamp % 2}", "p", **TEXT)
        made.add_sink("chosen", "chosen", "source", **TEXT, partitioner=lambda topic, key, value, count: [0])
        return made.add_sink("both", "both", "source", "p", **TEXT)

    check_all("sinks", topology, describe=False)  # it shows the class of the extractor


@pytest.mark.capability("PA3", "PA6", "PA10")
def test_a_processor_with_two_parents_and_two_sub_topologies() -> None:
    def topology(builder: Any) -> Any:
        made = topology_class(builder)()
        made.add_source("one", "in1", **TEXT).add_source("two", "in2", **TEXT)
        made.add_processor("first", Changing, "one").add_processor("merged", Telling, "first", "one")
        made.add_processor("alone", Changing, "two")
        return made.add_sink("out", "out", "merged", **TEXT).add_sink("other", "other", "alone", **TEXT)

    check_all("parents", topology, topics=("in1", "in2"))


@pytest.mark.capability("PA4", "PA6")
def test_two_processors_share_a_store() -> None:
    def topology(builder: Any) -> Any:
        made = topology_class(builder)()
        made.add_source("one", "in1", **TEXT).add_source("two", "in2", **TEXT)
        made.add_processor("first", Storing, "one").add_processor("second", Storing, "two")
        made.add_state_store(Stores.key_value("rows", **TEXT), "first").connect("second", "rows")
        return made.add_sink("out", "out", "first", "second", **TEXT)

    check_all("shared", topology, topics=("in1", "in2"), count=20)


@pytest.mark.capability("PA4")
def test_a_store_that_is_not_connected_is_refused() -> None:
    def topology(builder: Any) -> Any:
        made = by_hand(builder, Storing).add_processor("other", Changing, "source")
        return made.add_state_store(Stores.key_value("rows", **TEXT), "other")

    assert check(topology, [("in", "a", "x", 0)], inputs=INPUTS).penstock.failed == -1


MISTAKES = {
    "an unknown parent": lambda made: made.add_sink("k", "out", "nobody"),
    "a name used twice": lambda made: made.add_processor("p", Changing, "s"),
    "a topic read twice": lambda made: made.add_source("again", "in"),
    "a sink as a parent": lambda made: made.add_sink("k", "out", "p").add_sink("l", "out", "k"),
    "an unknown processor for a store": lambda made: made.add_state_store(Stores.key_value("rows"), "nobody"),
    "an unknown store": lambda made: made.connect("p", "nothing"),
    "a processor without parents": lambda made: made.add_processor("q", Changing),
}


@pytest.mark.capability("PA1", "PA2", "PA3", "PA4")
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_topology_is_refused(name: str) -> None:
    def topology(builder: Any) -> Any:
        made = topology_class(builder)().add_source("s", "in").add_processor("p", Changing, "s")
        return MISTAKES[name](made)

    found = check(topology, [], inputs=INPUTS)
    assert isinstance(found.penstock.error, TopologyError)


@pytest.mark.capability("PA3")
def test_a_supplier_that_gives_the_same_processor_twice_is_refused() -> None:
    from penstock import Topology

    one = Changing()
    with pytest.raises(TopologyError, match="must return a new instance"):
        Topology().add_source("s", "in").add_processor("p", lambda: one, "s")


# --- stores

KEY_VALUE = {
    "plain": Stores.key_value("rows", **TEXT),
    "in memory": Stores.key_value("rows", **TEXT, persistent=False),
    "cached": Stores.key_value("rows", **TEXT, cached=True),
    "unlogged": Stores.key_value("rows", **TEXT, logged=False),
}


@pytest.mark.capability("PA4", "ST1")
@pytest.mark.parametrize("name", KEY_VALUE)
def test_key_value_store(name: str) -> None:
    check_all(f"store {name}", lambda builder: by_hand(builder, Storing, KEY_VALUE[name]), count=15)


@pytest.mark.capability("PA4", "ST1")
def test_a_store_logs_the_time_that_the_processor_before_gave_the_record() -> None:
    def topology(builder: Any) -> Any:
        made = topology_class(builder)().add_source("source", "in", **TEXT)
        made.add_processor("before", Changing, "source").add_processor("processor", Storing, "before")
        made.add_state_store(Stores.key_value("rows", **TEXT), "processor")
        return made.add_sink("sink", "out", "processor", **TEXT)

    check_all("logged times", topology, count=15)


class Timestamped(Processor):
    """Keeps the newest value by time."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.store = context.store("rows")

    def process(self, record: Any) -> None:
        key = record.key or "none"
        row = self.store.get(key)
        if record.value == "s":
            self.store.delete(key)
        elif row is None or row.timestamp <= record.timestamp:
            self.store.put(key, None if record.value is None else ValueAndTimestamp(record.value, record.timestamp + 1))
        self.context.forward(record.with_value(words(row, self.store.get(key))))


class Windows(Processor):
    """Uses the verbs of a window store."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.store = context.store("rows")

    def process(self, record: Any) -> None:
        key, time = record.key or "none", record.timestamp
        self.store.put(key, record.value, time - time % 5)
        since, until = max(0, time - 20), time + 20
        rows = [*self.store.fetch(key, since, until), *self.store.fetch_all(since, until), self.store.fetch(key, time)]
        self.context.forward(record.with_value(words(*rows)))


class Sessions(Processor):
    """Uses the verbs of a session store."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.store = context.store("rows")

    def process(self, record: Any) -> None:
        key, time = record.key or "none", record.timestamp
        found = list(self.store.find_sessions(key, max(0, time - 3), time + 3))
        for session, _ in found:
            self.store.remove(session)
        start = min([time, *(session.start for session, _ in found)])
        end = max([time, *(session.end for session, _ in found)])
        self.store.put(Windowed(key, start, end), f"{len(found)}{record.value or ''}")
        self.context.forward(record.with_value(words(*self.store.fetch(key))))


class Versions(Processor):
    """Uses the verbs of a versioned store."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.store = context.store("rows")

    def process(self, record: Any) -> None:
        key, time = record.key or "none", record.timestamp
        told = [self.store.get(key), self.store.get(key, max(0, time - 5))]
        if record.value == "s":
            told.append(self.store.delete(key, time))
        else:
            told.append((self.store.put(key, record.value, time),))
        told.append(self.store.get(key))
        # Penstock also says until when a version is valid; Kafka's store forgets it
        self.context.forward(record.with_value(words(*(found and found[:2] for found in told))))


OTHER_STORES = {
    "timestamped": (Timestamped, Stores.key_value("rows", **TEXT, timestamped=True)),
    "window": (Windows, Stores.window("rows", 100, 5, **TEXT)),
    "window in memory": (Windows, Stores.window("rows", 100, 5, **TEXT, persistent=False)),
    "session": (Sessions, Stores.session("rows", 100, **TEXT)),
    "session in memory": (Sessions, Stores.session("rows", 100, **TEXT, persistent=False)),
    "versioned": (Versions, Stores.versioned("rows", 30, **TEXT)),
}


@pytest.mark.capability("PA4", "ST2", "ST4", "ST5", "ST6")
@pytest.mark.parametrize("name", OTHER_STORES)
def test_other_stores(name: str) -> None:
    processor, store = OTHER_STORES[name]
    check_all(f"store {name}", lambda builder: by_hand(builder, processor, store), count=12)


def keeping_and_reading(store: str) -> tuple[type[Processor], type[Processor]]:
    """Return a processor that puts records into a store, and one that adds what the store has to its records."""

    class Keeping(Processor):
        def init(self, context: Any) -> None:
            self.store = context.store(store)

        def process(self, record: Any) -> None:
            if record.key is not None:
                self.store.put(record.key, record.value)

    class Reading(Processor):
        def init(self, context: Any) -> None:
            super().init(context)
            self.store = context.store(store)

        def process(self, record: Any) -> None:
            self.context.forward(record.with_value(words(record.value, self.store.get(record.key or "none"))))

    return Keeping, Reading


@pytest.mark.capability("PA5", "SB5")
def test_a_global_store_is_read_by_a_processor_of_another_topic() -> None:
    keeping, reading = keeping_and_reading("everywhere")

    def topology(builder: Any) -> None:
        store = Stores.key_value("everywhere", **TEXT, logged=False)
        builder.add_global_store(store, "in1", keeping, **TEXT)
        builder.stream("in2", **TEXT).process(reading).to("out", **TEXT)

    check_all("global", topology, topics=("in1", "in2"))


@pytest.mark.capability("PA5")
@pytest.mark.parametrize("logged", [True, False])
def test_the_changelog_of_a_read_only_store_is_its_topic(logged: bool) -> None:
    keeping, reading = keeping_and_reading("names")

    def topology(builder: Any) -> Any:
        topology = topology_class(builder)()
        topology.add_read_only_state_store(
            Stores.key_value("names", **TEXT, logged=logged), "in1", keeping, source="names source", name="keep", **TEXT
        )
        topology.add_source("source", "in2", **TEXT).add_processor("read", reading, "source").connect("read", "names")
        return topology.add_sink("sink", "out", "read", **TEXT)

    for script in timed_scripts("read only", 10, topics=("in1", "in2"), keys="aabc"):
        both = check(topology, script, inputs=INPUTS)
        assert not [topic for topic in both.penstock.output if topic.endswith("-changelog")]


# --- the DSL's doors


@pytest.mark.capability("KS16", "PA7", "PA15")
@pytest.mark.parametrize("given", ["by name", "by spec"])
def test_process_in_the_dsl(given: str) -> None:
    def topology(builder: Any) -> None:
        store = Stores.key_value("rows", **TEXT)
        if given == "by name":
            builder.add_state_store(store)
        stream = builder.stream("in", **TEXT).process(Storing, stores=["rows" if given == "by name" else store])
        stream.group_by_key(**TEXT).count(store="counts").to_stream().to("out", key=Serdes.string, value=Serdes.int64)

    check_all(f"process {given}", topology)


@pytest.mark.capability("KS17", "PA8", "PA15")
@pytest.mark.parametrize("given", ["by name", "by spec"])
def test_process_values_in_the_dsl_keeps_the_key_and_needs_no_repartition(given: str) -> None:
    class Remembering(FixedKeyProcessor):
        def init(self, context: Any) -> None:
            super().init(context)
            self.store = context.store("rows")

        def process(self, record: Any) -> None:
            key = record.key or "none"
            self.context.forward(record.with_value(words(self.store.get(key), record.value)))
            self.store.put(key, record.value)

    def topology(builder: Any) -> None:
        store = Stores.key_value("rows", **TEXT)
        if given == "by name":
            builder.add_state_store(store)
        stream = builder.stream("in", **TEXT).process_values(Doubling)
        stream = stream.process_values(Remembering, stores=["rows" if given == "by name" else store], name="remember")
        stream.group_by_key(**TEXT).count(store="counts").to_stream().to("out", key=Serdes.string, value=Serdes.int64)
        stream.to("all", **TEXT)

    check_all(f"process_values {given}", topology)


# --- punctuation


@pytest.mark.capability("PA12", "PA14")
@pytest.mark.parametrize("kind", [STREAM, WALL])
@pytest.mark.parametrize("every", [1, 7, 10])
def test_punctuation(every: int, kind: PunctuationType) -> None:
    rows = Stores.key_value("rows", **TEXT)
    check_all(f"every {every} {kind}", lambda builder: by_hand(builder, lambda: Totals(every, kind), rows), count=12)


@pytest.mark.capability("PA13")
@pytest.mark.parametrize("kind", [STREAM, WALL])
@pytest.mark.parametrize("start", [0, 3, 40, 1000])
def test_anchored_punctuation(start: int, kind: PunctuationType) -> None:
    rows = Stores.key_value("rows", **TEXT)
    check_all(
        f"start {start} {kind}", lambda builder: by_hand(builder, lambda: Totals(10, kind, start), rows), count=12
    )


@pytest.mark.capability("PA12")
@pytest.mark.parametrize("kind", [STREAM, WALL])
def test_punctuations_that_start_and_stop_each_other(kind: PunctuationType) -> None:
    class Restless(Processor):
        def init(self, context: Any) -> None:
            super().init(context)
            self.running: list[Any] = []

        def process(self, record: Any) -> None:
            if record.value in ("s", "t", "u"):
                self.start(5 if record.value == "s" else 11)
            elif record.value == "v" and self.running:
                self.running.pop(0).cancel()

        def start(self, every: int) -> None:
            handle = self.context.schedule(every, kind, lambda timestamp: self.ring(every, handle, timestamp))
            self.running.append(handle)

        def ring(self, every: int, handle: Any, timestamp: int) -> None:
            self.context.forward(Record("ring", str(every), timestamp))
            if timestamp % 3 == 0:
                handle.cancel()

    check_all(f"restless {kind}", lambda builder: by_hand(builder, Restless), count=15)


@pytest.mark.capability("PA12", "PA13")
@pytest.mark.parametrize(("every", "start"), [(0, None), (-1, None), (5, -1)])
def test_a_schedule_that_makes_no_sense_is_refused(every: int, start: int | None) -> None:
    rows = Stores.key_value("rows", **TEXT)
    found = check(lambda builder: by_hand(builder, lambda: Totals(every, WALL, start), rows), [], inputs=INPUTS)
    assert found.penstock.failed == -1


# --- random topologies


class Mixed(Processor):
    """Does what the value and its own seed say: forwards, stores, schedules, cancels, asks for commits."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.offset = self.rng.randint(0, 7)

    def init(self, context: Any) -> None:
        super().init(context)
        self.store = context.store("rows")
        kind = self.rng.choice((STREAM, WALL))
        start = self.rng.choice((None, 2, 20))
        handle = context.schedule(self.rng.choice((3, 10)), kind, self.punctuate, *([] if start is None else [start]))
        self.handle = handle

    def process(self, record: Any) -> None:
        context, store, key = self.context, self.store, record.key or "none"
        action = (ord(record.value or "s") + self.offset) % 8
        if action == 0:
            context.forward(record.with_value(words(store.get(key), context.stream_time, *context.record_metadata)))
        elif action == 1:
            store.put(key, record.value)
        elif action == 2:
            context.forward(record.with_key(record.value).with_timestamp(record.timestamp + 4))
            store.delete(key)
        elif action == 3:
            context.commit()
            context.forward(record.with_headers([("m", b"3")]))
        elif action == 4:
            store.put(f"{key}{key}", "twice")
            context.forward(record)
            context.forward(record.with_value(str(list(store.all()))))
        elif action == 5 and record.timestamp % 4 == 0:
            self.handle.cancel()
        else:
            context.forward(record.with_value(None), "end")

    def punctuate(self, timestamp: int) -> None:
        self.context.forward(Record("punctuated", str(list(self.store.all())), timestamp))
        self.store.put("times", str(timestamp))


def random_topology(seed: int) -> Any:
    def topology(builder: Any) -> Any:
        rng = random.Random(seed)
        made = topology_class(builder)()
        made.add_source("one", "in1", **TEXT).add_source("two", "in2", **TEXT)
        made.add_processor("mixed", lambda: Mixed(seed), *(["one", "two"] if rng.random() < 0.5 else ["one"]))
        made.add_processor("end", rng.choice((Changing, Telling)), "mixed")
        if rng.random() < 0.5:
            made.add_processor("other", rng.choice((Changing, Telling)), "two", "mixed")
            made.add_sink("others", "others", "other", **TEXT)
        else:
            made.add_sink("others", "others", "two", **TEXT)
        made.add_state_store(rng.choice(list(KEY_VALUE.values())), "mixed")
        return made.add_sink("sink", "out", "end", **TEXT)

    return topology


@pytest.mark.capability("PA2", "PA3", "PA4", "PA7", "PA9", "PA10", "PA11", "PA12", "PA13", "PA14")
@pytest.mark.parametrize("block", range(10))
def test_random_topologies(block: int) -> None:
    for seed in range(block * 8, block * 8 + 8):
        check_all(f"mixed {seed}", random_topology(seed), topics=("in1", "in2"), count=4)
