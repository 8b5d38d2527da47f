"""The Processor API: Topology by hand, Processor, its context, Record."""

import re
from datetime import timedelta

import pytest

from penstock import (
    Cancellable,
    FixedKeyProcessor,
    Processor,
    PunctuationType,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    Topology,
)
from penstock.testing import TopologyTestDriver


class Count(Processor):
    def init(self, context):
        self.context = context
        self.counts = context.store("counts")

    def process(self, record):
        count = self.counts.compute(record.key, lambda key, old: (old or 0) + 1)
        self.context.forward(record.with_value(count))

    def close(self):
        pass


def counting():
    topology = Topology()
    topology.add_source("source", "in", key=Serdes.string, value=Serdes.string)
    topology.add_processor("count", Count, "source")
    topology.add_state_store(Stores.key_value("counts", value=Serdes.int64), "count")
    topology.add_sink("sink", "out", "count", key=Serdes.string, value=Serdes.int64)
    return topology


def test_a_topology_made_by_hand():
    with TopologyTestDriver(counting()) as driver:
        source = driver.input_topic("in", value=Serdes.string)
        source.pipe("a", "x", timestamp=4, headers=[("h", b"1")])
        source.pipe("a", "y", timestamp=5)
        out = driver.output_topic("out", value=Serdes.int64)
        assert out.read() == Record("a", 1, 4, [("h", b"1")])
        assert out.read() == Record("a", 2, 5)
        assert out.read() is None
        assert driver.store("counts").get("a") == 2


def test_the_description_is_kafkas():
    assert str(counting().describe()) == (
        "Topologies:\n"
        "   Sub-topology: 0\n"
        "    Source: source (topics: [in])\n"
        "      --> count\n"
        "    Processor: count (stores: [counts])\n"
        "      --> sink\n"
        "      <-- source\n"
        "    Sink: sink (topic: out)\n"
        "      <-- count\n\n"
    )


def test_pictures_of_a_topology():
    topology = counting()
    assert re.match(r"(graph|flowchart) ", topology.to_mermaid())
    assert "count" in topology.to_mermaid()
    assert "<svg" in topology._repr_html_() or "<" in topology._repr_html_()


def test_adding_is_chained_or_not():
    topology = Topology()
    assert topology.add_source("s", ["one", "two"]) is topology
    assert topology.add_processor("p", Count, "s") is topology
    assert topology.add_state_store(Stores.key_value("counts", value=Serdes.json)) is topology
    assert topology.connect("p", "counts") is topology
    assert topology.add_sink("k", lambda key, value, context: f"out-{key}", "p") is topology
    with TopologyTestDriver(topology) as driver:
        driver.input_topic("two").pipe("a", 1)
        assert driver.output_topic("out-a").read_values() == [1]


def test_sources_by_pattern_with_their_options():
    topology = Topology()
    topology.add_source(
        "s",
        re.compile("in-[0-9]+"),
        key=Serdes.string,
        value=Serdes.json,
        timestamp=lambda record, partition_time: record.value["at"],
        offset_reset="latest",
    )
    topology.add_sink("k", "out", "s", partitioner=lambda topic, key, value, partitions: 0)
    with TopologyTestDriver(topology) as driver:
        driver.input_topic("in-7").pipe("a", {"at": 99}, timestamp=1)
        assert driver.output_topic("out").read() == Record("a", {"at": 99}, 99)


def make(body, **hooks):
    """Return a Processor class whose process() is the given function of (self, record)."""
    return type("Made", (Processor,), {"process": body, **hooks})


#: Kafka's driver: one task, whose processors live as long as it does
KAFKA = {"shards": 1, "keep_processors": True}


def run(supplier, inputs, *, stores=(), out_value=Serdes.json, config=None, wall=(), **how):
    builder = StreamsBuilder()
    builder.stream("in").process(supplier, stores=stores).to("out")
    with TopologyTestDriver(builder, config=config or {}, **how) as driver:
        for k, v, t in inputs:
            driver.input_topic("in").pipe(k, v, timestamp=t)
        for ms in wall:
            driver.advance_wall_clock(ms)
        return [(r.key, r.value, r.timestamp) for r in driver.output_topic("out", value=out_value).read_all()]


def test_what_the_context_knows():
    seen = []

    def process(self, record):
        c = self.context
        seen.append(
            (
                c.application_id,
                c.stream_time,
                c.system_time,
                c.record_metadata.topic,
                c.record_metadata.partition,
                c.record_metadata.offset,
                c.is_late,
            )
        )

    builder = StreamsBuilder()
    builder.stream("in").process(make(process))
    with TopologyTestDriver(builder, config={"application_id": "my-app"}, start=500) as driver:
        driver.input_topic("in").pipe("a", 1, timestamp=10)
        driver.advance_wall_clock(50)
        driver.input_topic("in").pipe("a", 1, timestamp=7)
    assert seen == [("my-app", 10, 500, "in", 0, 0, False), ("my-app", 10, 550, "in", 0, 1, True)]


def test_forward_to_one_child():
    def process(self, record):
        self.context.forward(record, child="odd" if record.value % 2 else "even")

    topology = Topology()
    topology.add_source("s", "in")
    topology.add_processor("p", make(process), "s")
    topology.add_sink("odd", "odd", "p")
    topology.add_sink("even", "even", "p")
    with TopologyTestDriver(topology) as driver:
        driver.input_topic("in").pipe_all([("a", 1), ("a", 2), ("a", 3)], 0, 1)
        assert driver.output_topic("odd").read_values() == [1, 3]
        assert driver.output_topic("even").read_values() == [2]


def test_forward_to_an_unknown_child_says_the_nearest():
    topology = Topology()
    topology.add_source("s", "in")
    topology.add_processor("p", make(lambda self, record: self.context.forward(record, "evn")), "s")
    topology.add_sink("even", "even", "p")
    with TopologyTestDriver(topology) as driver, pytest.raises(Exception, match="even"):
        driver.input_topic("in").pipe("a", 1)


def test_a_store_that_was_not_connected_says_so():
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value("counts"))
    builder.stream("in").process(Count)
    with pytest.raises(Exception, match="counts"), TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", 1)


def test_punctuators_of_stream_time_and_wall_clock():
    def init(self, context):
        self.context = context
        context.schedule(10, PunctuationType.STREAM_TIME, lambda now: context.forward(Record("stream", now, now)))
        context.schedule(
            timedelta(milliseconds=100),
            PunctuationType.WALL_CLOCK_TIME,
            lambda now: context.forward(Record("wall", now, now)),
        )

    rows = run(
        make(lambda self, record: None, init=init),
        [("a", 1, 5), ("a", 1, 12), ("a", 1, 19), ("a", 1, 21)],
        wall=[99, 1, 250],
        **KAFKA,
    )
    assert rows == [("stream", 5, 5), ("stream", 12, 12), ("stream", 21, 21), ("wall", 100, 100), ("wall", 350, 350)]


def test_an_anchored_punctuator_keeps_its_grid():
    def init(self, context):
        context.schedule(10, PunctuationType.STREAM_TIME, lambda now: context.forward(Record("s", now, now)), start=7)

    rows = run(make(lambda self, record: None, init=init), [("a", 1, t) for t in (3, 7, 16, 17, 30, 37)], **KAFKA)
    assert [t for _, _, t in rows] == [7, 17, 30, 37]


def test_a_punctuator_may_be_cancelled():
    def init(self, context):
        def fire(now):
            context.forward(Record("x", now, now))
            self.handle.cancel()

        self.handle = context.schedule(1, PunctuationType.STREAM_TIME, fire)
        assert isinstance(self.handle, Cancellable)

    assert len(run(make(lambda self, record: None, init=init), [("a", 1, 1), ("a", 1, 5)], **KAFKA)) == 1


class Timed(Processor):
    def init(self, context):
        self.context = context

    def process(self, record):
        if record.value == "event":
            self.context.timers.register_event_time(record.key, record.timestamp + 10)
        elif record.value == "processing":
            self.context.timers.register_processing_time(record.key, self.context.system_time + 100)
        elif record.value == "delete event":
            self.context.timers.delete_event_time(record.key, 10)
        elif record.value == "delete processing":
            self.context.timers.delete_processing_time(record.key, 100)

    def on_timer(self, timestamp, key, context):
        context.forward(Record(key, "fired", timestamp))


def test_timers_of_event_time_fire_with_their_own_time():
    rows = run(Timed, [("a", "event", 0), ("b", "event", 3), ("c", "", 12), ("c", "", 50)], stores=[Stores.timers("t")])
    assert rows == [("a", "fired", 10), ("b", "fired", 13)]


def test_timers_of_processing_time_fire_with_the_wall_clock():
    rows = run(Timed, [("a", "processing", 0)], stores=[Stores.timers("t")], wall=[99, 5])
    assert rows == [("a", "fired", 100)]


def test_timers_can_be_deleted_and_are_one_per_key_and_time():
    rows = [("a", "event", 0), ("a", "event", 0), ("b", "event", 0), ("a", "delete event", 1), ("z", "", 100)]
    assert run(Timed, rows, stores=[Stores.timers("t")]) == [("b", "fired", 10)]
    rows = [("a", "processing", 0), ("a", "delete processing", 1)]
    assert run(Timed, rows, stores=[Stores.timers("t")], wall=[500]) == []


def test_timers_in_a_topology_made_by_hand():
    topology = Topology()
    topology.add_source("s", "in")
    topology.add_processor("p", Timed, "s")
    topology.add_state_store(Stores.timers("t"), "p")
    topology.add_sink("k", "out", "p")
    with TopologyTestDriver(topology, lanes=3) as driver:
        for key in "abcdefgh":
            driver.input_topic("in").pipe(key, "event", timestamp=0)
        for key in "abcdefgh":
            driver.input_topic("in").pipe(key, "", timestamp=99)
        assert sorted(r.key for r in driver.output_topic("out").read_all()) == list("abcdefgh")


def test_timers_without_a_timer_store_say_what_to_do():
    with pytest.raises(Exception, match=r"Stores\.timers"):
        run(Timed, [("a", "event", 0)])


def test_process_changes_keys_and_the_next_grouping_repartitions():
    def process(self, record):
        self.context.forward(
            record.with_key(record.key[0]).with_timestamp(record.timestamp + 1).with_headers([("x", b"y")])
        )

    builder = StreamsBuilder()
    builder.stream("in").process(make(process)).group_by_key().count(store="n").to_stream().to("out")
    assert "repartition" in builder.build().describe()
    with TopologyTestDriver(builder, lanes=2, partitions=2) as driver:
        driver.input_topic("in").pipe("ab", 1, timestamp=1)
        driver.input_topic("in").pipe("ac", 1, timestamp=2, partition=1)
        record = driver.output_topic("out", value=Serdes.int64).read_all()[-1]
        assert (record.key, record.value, record.timestamp, list(record.headers)) == ("a", 2, 3, [("x", b"y")])


def test_process_values_keeps_the_key_and_needs_no_repartition():
    class Upper(FixedKeyProcessor):
        def init(self, context):
            self.context = context
            self.last = context.store("last")

        def process(self, record):
            old = self.last.get(record.key)
            self.last.put(record.key, record.value)
            self.context.forward(record.with_value([old, record.value]))

    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value("last"))
    builder.stream("in").process_values(Upper, stores=["last"], name="upper").group_by_key().count().to_stream().to("n")
    assert "repartition" not in builder.build().describe()
    assert "Processor: upper (stores: [last])" in builder.build().describe()


def test_a_fixed_key_record_refuses_a_new_key():
    class Bad(FixedKeyProcessor):
        def process(self, record):
            self.context.forward(record.with_key("x"))

    builder = StreamsBuilder()
    builder.stream("in").process_values(Bad).to("out")
    with TopologyTestDriver(builder) as driver, pytest.raises(Exception, match="key"):
        driver.input_topic("in").pipe("a", 1)


def test_processors_made_by_functions_with_arguments():
    class Add(Processor):
        def __init__(self, n):
            self.n = n

        def process(self, record):
            self.context.forward(record.with_value(record.value + self.n))

    assert run(lambda: Add(5), [("a", 1, 0)]) == [("a", 6, 0)]


def test_a_processor_without_init_has_its_context():
    assert run(make(lambda self, record: self.context.forward(record)), [("a", 1, 0)]) == [("a", 1, 0)]


def test_a_supplier_may_bring_its_stores():
    class Bringing:
        def __call__(self):
            return Count()

        def stores(self):
            return [Stores.key_value("counts", value=Serdes.int64)]

    assert run(Bringing(), [("a", 1, 0), ("a", 1, 1)]) == [("a", 1, 0), ("a", 2, 1)]


def test_commit_is_only_a_request():
    def process(self, record):
        self.context.commit()
        self.context.forward(record)

    assert run(make(process), [("a", 1, 0)]) == [("a", 1, 0)]


def test_init_and_close_are_called_once():
    calls = []

    class Life(Processor):
        def init(self, context):
            calls.append("init")

        def process(self, record):
            calls.append(record.value)

        def close(self):
            calls.append("close")

    run(Life, [("a", 1, 0), ("a", 2, 0)], **KAFKA)
    assert calls == ["init", 1, 2, "close"]
    calls.clear()
    run(Life, [("a", 1, 0), ("a", 2, 0)], shards=1)  # production: an object for each epoch
    assert calls == ["init", 1, "close", "init", 2, "close"]


def test_view_reads_any_key_of_another_store():
    seen = []

    class Look(Processor):
        def process(self, record):
            seen.append(self.context.view("totals").get(record.value))

    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(store="totals")
    builder.stream("asks").process(Look)
    with TopologyTestDriver(builder, lanes=4) as driver:
        for key in "aabc":
            driver.input_topic("in").pipe(key, 1)
        for key in "abcd":
            driver.input_topic("asks").pipe("asker", key)
    assert seen == [2, 1, 1, None]


def test_a_shared_store_is_one_for_all_keys():
    def process(self, record):
        total = self.context.store("total").merge("all", record.value, lambda old, new: old + new)
        self.context.forward(record.with_value(total))

    builder = StreamsBuilder()
    builder.stream("in").process(make(process), stores=[Stores.shared("total")]).to("out")
    with TopologyTestDriver(builder, lanes=4, partitions=3) as driver:
        for index, key in enumerate("abcdef"):
            driver.input_topic("in").pipe(key, 1, partition=index % 3)
        assert driver.output_topic("out").read_values() == [1, 2, 3, 4, 5, 6]
        assert driver.store("total").get("all") == 6


def test_a_global_store_with_a_processor_of_its_own():
    class Keep(Processor):
        def process(self, record):
            self.context.store("world").put(record.key, record.value * 2)

    seen = []

    class Look(Processor):
        def process(self, record):
            seen.append(self.context.store("world").get(record.value))

    builder = StreamsBuilder()
    builder.add_global_store(Stores.key_value("world"), "facts", Keep, key=Serdes.string, value=Serdes.json)
    builder.stream("asks").process(Look)
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("facts").pipe("a", 21)
        driver.input_topic("asks").pipe("x", "a")
        assert driver.store("world").get("a") == 42
    assert seen == [42]


# --- records


def test_a_record_has_four_parts_and_copies_itself():
    record = Record("k", "v", 5)
    assert (record.key, record.value, record.timestamp, list(record.headers)) == ("k", "v", 5, [])
    changed = record.with_key("K").with_value("V").with_timestamp(6).with_headers([("h", b"x")])
    assert changed == Record(key="K", value="V", timestamp=6, headers=[("h", b"x")])
    assert changed == Record("K", "V", 6, (("h", b"x"),))
    assert record == Record("k", "v", 5)
    assert "k" in repr(record)
    assert "V" in repr(changed)


def test_a_negative_timestamp_is_refused():
    with pytest.raises(Exception, match=r"(?i)timestamp"):
        Record("k", "v", -1)
    with pytest.raises(Exception, match=r"(?i)timestamp"):
        Record("k", "v", 1).with_timestamp(-5)


# --- wrong use


@pytest.mark.parametrize(
    ("define", "says"),
    [
        (lambda t: t.add_source("s", "in").add_source("s", "other"), "s"),
        (lambda t: t.add_source("s", "in").add_source("z", "in"), "in"),
        (lambda t: t.add_processor("p", Count, "nowhere"), "nowhere"),
        (lambda t: t.add_source("source", "in").add_processor("p", Count, "sorce"), "source"),
        (lambda t: t.add_source("s", "in").add_processor("p", Count), "(?i)parent"),
        (lambda t: t.add_source("s", "in").add_sink("k", "out"), "(?i)parent"),
        (lambda t: t.add_source("s", "in").add_sink("k", "out", "s").add_processor("p", Count, "k"), "(?i)sink"),
        (lambda t: t.add_source("s", "in").add_processor("p", Count, "s").connect("p", "nothing"), "nothing"),
        (lambda t: t.add_state_store(Stores.key_value("a"), "nobody"), "nobody"),
        (lambda t: t.add_source("s", "in", vale=Serdes.json), "value"),
        (lambda t: t.add_source("s", "in").add_processor("p", lambda x: Count(), "s"), "."),
        (lambda t: t.add_source("s", []), "."),
        (lambda t: t.add_source("s", "in", offset_reset="erliest"), "earliest"),
    ],
)
def test_wrong_topologies_say_what_to_do(define, says):
    with pytest.raises(Exception, match=says):
        define(Topology())


def test_a_supplier_must_make_a_new_processor_each_time():
    one = Count()
    topology = Topology()
    topology.add_source("s", "in")
    with pytest.raises(Exception, match=r"(?i)new|same"):
        topology.add_processor("p", lambda: one, "s")
