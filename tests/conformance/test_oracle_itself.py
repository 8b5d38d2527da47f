"""The adapter is right if well-known topologies give the results that Kafka's documentation tells of."""

import re
from uuid import UUID

import compare
import oracle
import pytest

from penstock.dsl.options import Buffer, Suppressed
from penstock.extractors import TimestampExtractor
from penstock.operators.emit import EmitStrategy
from penstock.processor import FixedKeyProcessor, Processor, PunctuationType, ValueTransformer
from penstock.record import Record, VersionedRecord, Windowed
from penstock.serde import Serde, Serdes
from penstock.state.spec import Stores
from penstock.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows

TEXT = {"key": Serdes.string, "value": Serdes.string}
COUNT = {"key": Serdes.string, "value": Serdes.int64}


def run(topology_fn, script, *, key=Serdes.string, value=Serdes.string, topic="out", **how):
    """Run a script of (topic, key, value, timestamp) of strings and return what came out on one topic."""
    builder = oracle.StreamsBuilder()
    built = topology_fn(builder)
    with oracle.TopologyTestDriver(built or builder, **how) as driver:
        for step in script:
            if step[0] == "wall_clock":
                driver.advance_wall_clock(step[1])
            else:
                driver.input_topic(step[0], **TEXT).pipe(*step[1:])
        return driver.output_topic(topic, key=key, value=value).read_all()


def rows(records):
    return [(record.key, record.value, record.timestamp) for record in records]


def word_count(builder):
    (
        builder.stream("lines", value=Serdes.string)
        .flat_map_values(str.split)
        .group_by(lambda _, word: word, key=Serdes.string, value=Serdes.string)
        .count(store="counts")
        .to_stream()
        .to("out", value=Serdes.int64)
    )


@pytest.mark.parametrize("in_memory", [False, True])
def test_word_count_with_its_internal_topics_and_store(in_memory):
    builder = oracle.StreamsBuilder()
    word_count(builder)
    with oracle.TopologyTestDriver(builder, in_memory=in_memory) as driver:
        driver.input_topic("lines", **TEXT).pipe(None, "all streams lead all", 7, headers=[("h", b"1")])
        out = driver.output_topic("out", **COUNT)
        assert out.read() == Record("all", 1, 7, [("h", b"1")])
        assert [record.value for record in out.read_all()] == [1, 1, 2]
        assert out.read() is None
        assert driver.topics() == ["conformance-counts-changelog", "conformance-counts-repartition", "out"]
        assert driver.all_output()["conformance-counts-changelog"][-1] == (b"all", b"\0\0\0\0\0\0\0\2", 7, ())
        assert driver.stores() == ["counts"]
        assert driver.store_contents("counts") == [("all", 2, 7), ("lead", 1, 7), ("streams", 1, 7)]
        assert driver.store("counts").get("all") == 2


def test_describe_is_kafkas_text():
    builder = oracle.StreamsBuilder()
    builder.stream("in", **TEXT).filter(lambda k, v: True, name="keep").to("out")
    assert builder.build().describe() == (
        "Topologies:\n"
        "   Sub-topology: 0\n"
        "    Source: KSTREAM-SOURCE-0000000000 (topics: [in])\n"
        "      --> keep\n"
        "    Processor: keep (stores: [])\n"
        "      --> KSTREAM-SINK-0000000002\n"
        "      <-- KSTREAM-SOURCE-0000000000\n"
        "    Sink: KSTREAM-SINK-0000000002 (topic: out)\n"
        "      <-- keep\n\n"
    )


def test_stateless_operators():
    def topology(builder):
        seen = []
        stream = (
            builder.stream(["in", "in2"], **TEXT).peek(lambda k, v: seen.append(k)).filter_not(lambda k, v: v == "no")
        )
        stream = stream.map(lambda k, v: (v, k)).map_values(lambda k, v: f"{k}{v}", with_key=True)
        stream = stream.flat_map(lambda k, v: [(k, v), (k, None)]).select_key(lambda k, v: k.upper())
        branches = stream.split("p-").branch(lambda k, v: v is None, "null").default("rest")
        assert list(branches) == ["p-null", "p-rest"]
        branches["p-rest"].merge(branches["p-null"]).to(lambda k, v, origin: "out", **TEXT)

    script = [("in", "k", "v", 1), ("in2", "k", "no", 2), ("in2", "x", "y", 3)]
    assert rows(run(topology, script)) == [("V", "vk", 1), ("V", None, 1), ("Y", "yx", 3), ("Y", None, 3)]


@pytest.mark.parametrize("in_memory", [False, True])
def test_tumbling_count_drops_late_records(in_memory):
    def topology(builder):
        counts = builder.stream("in", **TEXT).group_by_key().windowed_by(TimeWindows(10, grace=5)).count(store="w")
        counts.to_stream().to("out", key=Serdes.windowed(Serdes.string, 10), value=Serdes.int64)

    script = [("in", "a", "x", 1), ("in", "a", "x", 9), ("in", "a", "x", 12), ("in", "a", "x", 3), ("in", "a", "x", 15),
              ("in", "a", "x", 4)]  # fmt: skip
    out = run(topology, script, key=Serdes.windowed(Serdes.string, 10), value=Serdes.int64, in_memory=in_memory)
    first, second = Windowed("a", 0, 10), Windowed("a", 10, 20)
    assert rows(out) == [(first, 1, 1), (first, 2, 9), (second, 1, 12), (first, 3, 9), (second, 2, 15)]


def test_windows_that_emit_when_they_close():
    def topology(builder):
        windows = builder.stream("in", **TEXT).group_by_key().windowed_by(TimeWindows(10))
        sums = windows.emit(EmitStrategy.on_window_close).reduce(lambda a, b: a + b)
        sums.to_stream(key=lambda k, v: f"{k.key}@{k.start}").to("out", **TEXT)

    script = [("in", "a", "1", 1), ("in", "a", "2", 2), ("in", "a", "3", 10)]
    assert rows(run(topology, script)) == [("a@0", "12", 2)]


def test_sliding_and_session_aggregates():
    def sliding(builder):
        windows = builder.stream("in", **TEXT).group_by_key().windowed_by(SlidingWindows(10, grace=100))
        table = windows.aggregate(lambda: "", lambda k, v, agg: agg + v, value=Serdes.string, store="sl")
        table.to_stream(key=lambda k, v: f"{k.start}-{k.end}").to("out", **TEXT)

    script = [("in", "a", "x", 20), ("in", "a", "y", 25)]
    assert rows(run(sliding, script)) == [("10-20", "x", 20), ("21-31", "y", 25), ("15-25", "xy", 25)]

    def session(builder):
        windows = builder.stream("in", **TEXT).group_by_key().windowed_by(SessionWindows(10, grace=100))
        table = windows.aggregate(
            lambda: "", lambda k, v, agg: agg + v, merger=lambda k, a, b: a + b, value=Serdes.string
        )
        table.to_stream(key=lambda k, v: f"{k.start}-{k.end}").to("out", **TEXT)

    script = [("in", "a", "x", 0), ("in", "a", "y", 18), ("in", "a", "z", 9)]
    assert rows(run(session, script)) == [
        ("0-0", "x", 0),
        ("18-18", "y", 18),
        ("0-0", None, 0),
        ("18-18", None, 18),
        ("0-18", "xyz", 18),
    ]


def test_session_store_is_listed():
    builder = oracle.StreamsBuilder()
    builder.stream("in", **TEXT).group_by_key().windowed_by(SessionWindows(10)).count(store="s")
    builder.stream("in2", **TEXT).group_by_key().windowed_by(TimeWindows(10)).count(store="t")
    with oracle.TopologyTestDriver(builder) as driver:
        driver.input_topic("in", **TEXT).pipe_all([("a", "x"), ("a", "y")], start=5, step=4)
        driver.input_topic("in2", **TEXT).pipe("a", "x", 12)
        assert driver.store_contents("s") == [("a", 5, 9, 2)]
        assert driver.store_contents("t") == [("a", 10, 1, 12)]


def test_stream_stream_left_join_waits_for_the_window_to_close():
    def topology(builder):
        left, right = builder.stream("l", **TEXT), builder.stream("r", **TEXT)
        joined = left.left_join(right, lambda k, a, b: f"{k}:{a}+{b}", window=JoinWindows(10), with_key=True,
                                key=Serdes.string, value=Serdes.string, other_value=Serdes.string)  # fmt: skip
        joined.to("out", **TEXT)

    script = [("l", "k", "a", 0), ("r", "k", "b", 5), ("l", "k", "c", 16), ("l", "k", "d", 40)]
    assert rows(run(topology, script)) == [("k", "k:a+b", 5), ("k", "k:c+None", 16)]


def test_stores_of_joins_are_listed_as_far_as_they_can_be():
    builder = oracle.StreamsBuilder()
    left, right = builder.stream("l", **TEXT), builder.stream("r", **TEXT)
    left.outer_join(right, lambda a, b: f"{a}{b}", window=JoinWindows(10), store="j").to("out", **TEXT)
    one, two = builder.table("one", **TEXT), builder.table("two", **TEXT)
    one.join(two, lambda a, b: a + b, foreign_key=lambda v: v, name="fk").to_stream().to("out", **TEXT)
    with oracle.TopologyTestDriver(builder) as driver:
        for topic in ("l", "l", "r", "one", "two"):
            driver.input_topic(topic, **TEXT).pipe("k", "x", 1)
        contents = {name: driver.store_contents(name) for name in driver.stores()}
    assert contents["j-outer-this-join-store"] == [("k", 1, "x"), ("k", 1, "x")]
    assert contents["j-outer-other-join-store"] == [("k", 1, "x")]
    assert contents["j-outer-shared-join-store"] is None
    assert contents["fk-subscription-store"] is None
    assert [rows for name, rows in contents.items() if name.startswith("one-STATE-STORE-")] == [[("k", "x", 1)]]


def test_stream_joins_table_and_global_table():
    def topology(builder):
        table = builder.table("t", **TEXT)
        everywhere = builder.global_table("g", **TEXT, store="g-store")
        stream = builder.stream("in", **TEXT).join(table, lambda a, b: a + b)
        stream.left_join(everywhere, lambda a, b: f"{a}/{b}", select=lambda k, v: v).to("out", **TEXT)

    script = [("in", "k", "1", 0), ("t", "k", "2", 1), ("in", "k", "1", 2), ("g", "12", "all", 3), ("in", "k", "1", 4)]
    assert rows(run(topology, script)) == [("k", "12/None", 2), ("k", "12/all", 4)]


def test_table_table_outer_join():
    def topology(builder):
        left, right = builder.table("l", **TEXT), builder.table("r", **TEXT)
        left.outer_join(right, lambda a, b: f"{a}+{b}", store="joined").to_stream().to("out", **TEXT)

    script = [("l", "k", "a", 0), ("r", "k", "b", 9), ("l", "k", None, 3), ("r", "k", None, 10)]
    with pytest.raises(oracle.OracleError, match="specify a value serde"):
        run(topology, script)  # a joined value has another type: Kafka does not guess its serde

    def with_serde(builder):
        left, right = builder.table("l", **TEXT), builder.table("r", **TEXT)
        store = Stores.key_value("joined", value=Serdes.string, cached=False)
        left.outer_join(right, lambda a, b: f"{a}+{b}", store=store).to_stream().to("out", **TEXT)

    assert rows(run(with_serde, script)) == [("k", "a+None", 0), ("k", "a+b", 9), ("k", "None+b", 9), ("k", None, 10)]


def test_foreign_key_join_follows_both_sides():
    def topology(builder):
        orders, customers = builder.table("orders", **TEXT), builder.table("customers", **TEXT)
        joined = orders.join(customers, lambda order, name: f"{order} of {name}", foreign_key=lambda order: order[:2])
        joined.to_stream().to("out", **TEXT)

    script = [("orders", "o1", "c1 x", 0), ("customers", "c1", "Ann", 1), ("customers", "c1", "Bob", 2),
              ("orders", "o1", None, 3)]  # fmt: skip
    assert rows(run(topology, script)) == [("o1", "c1 x of Ann", 1), ("o1", "c1 x of Bob", 2), ("o1", None, 3)]


def test_table_group_by_subtracts_the_old_value():
    def topology(builder):
        grouped = builder.table("t", **TEXT).group_by(lambda k, v: (v[0], v), **TEXT)
        table = grouped.aggregate(
            lambda: 0, lambda k, v, n: n + int(v[1:]), lambda k, v, n: n - int(v[1:]), value=Serdes.int32
        )
        table.to_stream().to("out", key=Serdes.string, value=Serdes.int32)

    out = run(topology, [("t", "a", "x5", 0), ("t", "b", "x2", 1), ("t", "a", "y5", 2)], value=Serdes.int32)
    assert rows(out) == [("x", 5, 0), ("x", 7, 1), ("x", 2, 2), ("y", 5, 2)]


def test_cogroup():
    def topology(builder):
        clicks, buys = (builder.stream(name, **TEXT).group_by_key() for name in ("clicks", "buys"))
        both = clicks.cogroup(lambda k, v, agg: agg + 1).cogroup(buys, lambda k, v, agg: agg + 100)
        both.aggregate(lambda: 0, value=Serdes.int64).to_stream().to("out", **COUNT)

    script = [("clicks", "a", "", 0), ("buys", "a", "", 1), ("clicks", "a", "", 2)]
    assert rows(run(topology, script, value=Serdes.int64)) == [("a", 1, 0), ("a", 101, 1), ("a", 102, 2)]


def test_suppress_until_the_window_closes_and_until_a_time_limit():
    def final(builder):
        counts = builder.stream("in", **TEXT).group_by_key().windowed_by(TimeWindows(10)).count()
        final = counts.suppress(Suppressed.until_window_closes(), name="hold")
        final.to_stream(key=lambda k, v: k.key).to("out", **COUNT)

    script = [("in", "a", "", 1), ("in", "a", "", 9), ("in", "b", "", 12)]
    assert rows(run(final, script, value=Serdes.int64)) == [("a", 2, 9)]

    def limited(builder):
        limit = Suppressed.until_time_limit(100, Buffer.max_records(1))
        builder.table("in", **TEXT).suppress(limit).to_stream().to("out", **TEXT)

    assert rows(run(limited, [("in", "a", "1", 0), ("in", "a", "2", 1), ("in", "b", "3", 2)])) == [("a", "2", 1)]

    def strict(builder):
        limit = Suppressed.until_time_limit(100, Buffer.max_records(1).shut_down_when_full())
        builder.table("in", **TEXT).suppress(limit).to_stream().to("out", **TEXT)

    with pytest.raises(oracle.OracleError, match="exceeded its max capacity"):
        run(strict, [("in", "a", "1", 0), ("in", "b", "2", 1)])


class Counter(Processor):
    """Counts values per key, tells at every second of wall clock and, downstream, at every 10 ms of stream time."""

    def init(self, context):
        self.context, self.store = context, context.store("n")
        context.schedule(1000, PunctuationType.WALL_CLOCK_TIME, self.tell)
        self.handle = context.schedule(10, PunctuationType.STREAM_TIME, self.tell_once)

    def process(self, record):
        self.store.merge(record.key, 1, lambda old, new: old + new)
        meta = self.context.record_metadata
        self.context.forward(record.with_value(f"{meta.topic}-{meta.partition}@{meta.offset}"), "changed")

    def tell(self, timestamp):
        assert self.context.record_metadata is None
        for key, count in self.store.all():
            self.context.forward(Record(key, f"wall {count}", timestamp), "changed")

    def tell_once(self, timestamp):
        self.context.forward(Record("stream", str(self.context.stream_time), timestamp, [("h", b"")]))
        self.handle.cancel()


class Shout(Processor):
    def process(self, record):
        self.context.forward(record.with_value(record.value + "!"))


def test_processors_with_a_store_and_punctuators():
    def topology(builder):
        topology = compare.topology_class(builder)()
        topology.add_source("src", "in", **TEXT)
        topology.add_processor("count", Counter, "src").add_processor("changed", Shout, "count")
        topology.add_state_store(Stores.key_value("n", **COUNT), "count")
        return topology.add_sink("sink", "out", "changed", **TEXT)

    script = [
        ("in", "a", "x", 0),
        ("in", "a", "x", 5),
        ("wall_clock", 1000),
        ("in", "b", "x", 30),
        ("in", "b", "x", 60),
    ]
    assert [(r.key, r.value, r.timestamp) for r in run(topology, script)] == [
        ("a", "in-0@0!", 0),
        ("stream", "0!", 0),
        ("a", "in-0@1!", 5),
        ("a", "wall 2!", 1000),
        ("b", "in-0@2!", 30),
        ("b", "in-0@3!", 60),
    ]


def test_processors_inside_the_dsl():
    class Upper(FixedKeyProcessor):
        def init(self, context):
            self.context, self.store = context, context.store("seen")

        def process(self, record):
            if self.store.put_if_absent(record.key, record.value) is None:
                self.context.forward(record.with_value(record.value.upper()))

    class Tail(ValueTransformer):
        def transform(self, key, value):
            return f"{key}~{value}"

    def topology(builder):
        builder.add_state_store(Stores.key_value("seen", **TEXT, persistent=False))
        stream = builder.stream("in", **TEXT).process_values(Upper, stores=["seen"])
        stream.to_table(**TEXT).transform_values(Tail).to_stream().to("out", **TEXT)

    assert rows(run(topology, [("in", "k", "v", 0), ("in", "k", "w", 1)])) == [("k", "k~V", 0)]


def test_versioned_table_is_joined_as_of_the_record():
    def topology(builder):
        table = builder.table("t", **TEXT, store=Stores.versioned("v", 1000))
        builder.stream("in", **TEXT).join(table, lambda a, b: a + b).to("out", **TEXT)
        return builder.build()

    script = [("t", "k", "1", 10), ("t", "k", "2", 20), ("in", "k", "x", 15), ("in", "k", "x", 25)]
    assert rows(run(topology, script)) == [("k", "x1", 15), ("k", "x2", 25)]
    builder = oracle.StreamsBuilder()
    with oracle.TopologyTestDriver(topology(builder)) as driver:
        for step in script[:2]:
            driver.pipe(step[0], b"k", step[2].encode(), step[3])
        assert driver.store_contents("v") == [("k", "1", 10, 20), ("k", "2", 20, None)]
        assert driver.store("v").get("k", 12) == VersionedRecord("1", 10)


def test_python_values_travel_through_python_serdes():
    pairs = Serde(lambda pair: ",".join(pair).encode(), lambda data: tuple(data.decode().split(",")), name="pairs")

    def topology(builder):
        table = (
            builder.stream("in", **TEXT)
            .group_by_key()
            .aggregate(lambda: ("", ""), lambda k, v, agg: (agg[1], v), value=pairs)
        )
        table.to_stream().to("out", value=pairs)

    out = run(topology, [("in", "a", "1", 0), ("in", "a", "2", 1)], value=pairs)
    assert [record.value for record in out] == [("", "1"), ("1", "2")]


def test_an_exception_of_a_python_function_is_the_cause():
    def topology(builder):
        builder.stream("in", **TEXT).map_values(int).to("out", **COUNT)

    with pytest.raises(oracle.OracleError, match="KSTREAM-MAPVALUES-0000000001") as caught:
        run(topology, [("in", "a", "one", 0)])
    assert isinstance(caught.value.__cause__, ValueError)
    skipped = run(topology, [("in", "a", "one", 0), ("in", "a", "1", 1)], value=Serdes.int64,
                  config={"on_processing_error": "skip"})  # fmt: skip
    assert rows(skipped) == [("a", 1, 1)]


def test_optimization_merges_repartition_topics():
    def topology(builder, optimize):
        stream = builder.stream("in", **TEXT).select_key(lambda k, v: v)
        stream.group_by_key(**TEXT).count()
        stream.group_by_key(**TEXT).reduce(lambda a, b: b)
        return builder.build(optimize=optimize).describe().count("-repartition)\n")

    assert topology(oracle.StreamsBuilder(), ()) == 2
    assert topology(oracle.StreamsBuilder(), ["merge_repartition_topics"]) == 1
    assert topology(oracle.StreamsBuilder(), "all") == 1


def test_sources_by_pattern_extractor_and_partitioner():
    def topology(builder):
        stream = builder.stream(
            re.compile("in-.*"), **TEXT, timestamp=lambda record: int(record.value), offset_reset="latest"
        )
        stream.filter(lambda k, v: k != "x").to(
            "out", **TEXT, partitioner=lambda topic, k, v, n: () if k == "drop" else 0
        )

    script = [("in-1", "a", "5", 0), ("in-2", "drop", "6", 0), ("in-2", "b", "7", 0), ("in-2", "b", "-1", 0)]
    assert rows(run(topology, script)) == [("a", "5", 5), ("b", "7", 7)]


def test_built_in_extractors_are_kafkas():
    def topology(builder):
        builder.stream("in", **TEXT, timestamp=TimestampExtractor.wall_clock).to("out", **TEXT)

    assert rows(run(topology, [("wall_clock", 77), ("in", "a", "5", 0)])) == [("a", "5", 77)]


@pytest.mark.parametrize(
    ("serde", "value"),
    [(Serdes.bytes, b"\x00\xff"), (Serdes.int32, -7), (Serdes.int64, 1 << 40), (Serdes.float32, 0.5),
     (Serdes.float64, 0.1), (Serdes.boolean, True), (Serdes.uuid, UUID(int=5)), (Serdes.json, {"a": [1, None]}),
     (Serdes.string, "é€")],
)  # fmt: skip
def test_values_of_every_serde_pass_through_lambdas_and_stores(serde, value):
    seen = []

    def topology(builder):
        table = builder.table("in", key=serde, value=serde, store="t")
        table.to_stream().peek(lambda k, v: seen.append((k, v))).map_values(lambda v: v).to(
            "out", key=serde, value=serde
        )

    builder = oracle.StreamsBuilder()
    topology(builder)
    with oracle.TopologyTestDriver(builder) as driver:
        driver.input_topic("in", key=serde, value=serde).pipe(value, value, 3)
        assert driver.all_output()["out"] == [(serde.serialize(value), serde.serialize(value), 3, ())]
        assert driver.output_topic("out", key=serde, value=serde).read_all() == [Record(value, value, 3)]
        assert driver.store_contents("t") == [(value, value, 3)]
    assert seen == [(value, value)]


def test_global_store_with_its_own_processor():
    class Upper(Processor):
        def process(self, record):
            self.context.store("g").put(record.key, record.value.upper())

    class Look(Processor):
        def process(self, record):
            self.context.forward(record.with_value(self.context.store("g").get(record.key)))

    def topology(builder):
        builder.add_global_store(Stores.key_value("g", **TEXT), "facts", Upper, **TEXT)
        builder.stream("in", **TEXT).process(Look).to("out", **TEXT)

    assert rows(run(topology, [("facts", "k", "v", 0), ("in", "k", "x", 1)])) == [("k", "V", 1)]


def test_window_and_session_stores_of_the_processor_api():
    class Keep(Processor):
        def init(self, context):
            self.context, self.w, self.s = context, context.store("w"), context.store("s")

        def process(self, record):
            key, value, at = record.key, record.value, record.timestamp
            self.w.put(key, value, at)
            self.s.put(Windowed(key, at, at + 1), value)
            with self.w.fetch(key, 0, 100) as windows:
                found = [
                    list(windows),
                    self.w.fetch(key, at),
                    list(self.w.fetch_range("a", "b", 0, 9)),
                    list(self.w.backward_all()),
                ]
            found += [list(self.s.find_sessions(key, 0, 100)), self.s.fetch_session(key, at, at + 1)]
            found += [list(self.s.fetch_range(None, None))]
            self.context.forward(record.with_value(repr(found)))

    def topology(builder):
        stores = [Stores.window("w", 1000, 10, **TEXT), Stores.session("s", 1000, **TEXT)]
        builder.stream("in", **TEXT).process(Keep, stores=stores).to("out", **TEXT)

    window, session = Windowed("a", 5, 15), Windowed("a", 5, 6)
    (record,) = run(topology, [("in", "a", "x", 5)])
    assert record.value == repr(
        [[(5, "x")], "x", [(window, "x")], [(window, "x")], [(session, "x")], "x", [(session, "x")]]
    )


def test_joins_with_uneven_windows_foreign_keys_of_two_arguments_and_grace():
    def uneven(builder):
        left, right = builder.stream("l", **TEXT), builder.stream("r", **TEXT)
        left.join(right, lambda a, b: a + b, window=JoinWindows(0, before=-2, after=5), store="j", name="j").to(
            "out", **TEXT
        )

    script = [("l", "k", "a", 10), ("r", "k", "1", 11), ("r", "k", "2", 12), ("r", "k", "3", 15), ("r", "k", "4", 16)]
    assert rows(run(uneven, script)) == [("k", "a2", 12), ("k", "a3", 15)]

    def foreign(builder):
        left, right = builder.table("l", **TEXT), builder.table("r", **TEXT)
        joined = left.left_join(right, lambda a, b: f"{a}{b}", foreign_key=lambda k, v: k[0], name="fk",
                                store=Stores.key_value("fk", value=Serdes.string))  # fmt: skip
        joined.to_stream().to("out", **TEXT)

    assert rows(run(foreign, [("l", "xy", "a", 0), ("r", "x", "b", 1)])) == [("xy", "aNone", 0), ("xy", "ab", 1)]

    def grace(builder):
        table = builder.table("t", **TEXT, store=Stores.versioned("v", 100))
        builder.stream("in", **TEXT).join(table, lambda a, b: a + b, grace=10, name="g").to("out", **TEXT)

    script = [("in", "k", "a", 1), ("t", "k", "1", 1), ("in", "k", "b", 12)]
    assert rows(run(grace, script)) == [("k", "a1", 1)]


def test_windowed_cogroups_and_unlimited_windows():
    def cogroup(builder):
        one, two = (builder.stream(name, **TEXT).group_by_key() for name in ("a", "b"))
        both = one.cogroup(lambda k, v, agg: agg + v).cogroup(two, lambda k, v, agg: agg + v.upper())
        table = both.windowed_by(SessionWindows(5)).aggregate(
            lambda: "", merger=lambda k, x, y: x + y, value=Serdes.string
        )
        table.to_stream(key=lambda k, v: k.key).to("out", **TEXT)

    assert rows(run(cogroup, [("a", "k", "x", 0), ("b", "k", "y", 3)])) == [
        ("k", "x", 0),
        ("k", None, 0),
        ("k", "xY", 3),
    ]

    def unlimited(builder):
        table = builder.stream("in", **TEXT).group_by_key().windowed_by(UnlimitedWindows(5)).count()
        table.to_stream(key=lambda k, v: k.key).to("out", **COUNT)

    assert rows(run(unlimited, [("in", "a", "", 4), ("in", "a", "", 9)], value=Serdes.int64)) == [("a", 1, 9)]


def test_grouped_tables_repartition_and_options_of_stores():
    def topology(builder):
        stream = builder.stream("in", **TEXT).repartition(name="again", partitions=3)
        table = stream.to_table(store=Stores.lru("few", 2, logged=False), name="table")
        table.filter(lambda k, v: v != "no", store=Stores.key_value("kept", persistent=False, cached=True))
        grouped = table.group_by(lambda k, v: (v, v), **TEXT)
        grouped.count(store="n").to_stream().to("out", **COUNT)
        grouped.reduce(lambda agg, v: agg + v, lambda agg, v: agg[len(v) :]).to_stream().to("out2", **TEXT)

    builder = oracle.StreamsBuilder()
    topology(builder)
    with oracle.TopologyTestDriver(builder, config={"processing_guarantee": "exactly_once"}) as driver:
        source = driver.input_topic("in", **TEXT)
        for key in "abc":
            source.pipe(key, "x", 1)
        assert driver.store_contents("few") == [("b", "x", 1), ("c", "x", 1)]
        assert driver.store_contents("kept") == [("a", "x", 1), ("b", "x", 1), ("c", "x", 1)]
        assert driver.output_topic("out", **COUNT).read_table() == {"x": 3}
        assert driver.output_topic("out2", **TEXT).read_values() == ["x", "xx", "xxx"]
        assert "conformance-few-changelog" not in driver.topics()
        assert "conformance-again-repartition" in driver.topics()


def test_the_dead_letter_topic_gets_what_failed():
    def topology(builder):
        builder.stream("in", **TEXT).map_values(int).to("out", **COUNT)

    config = {"on_processing_error": "dead_letter", "dead_letter_topic": "dead"}
    (dead,) = run(topology, [("in", "a", "one", 0)], topic="dead", config=config)
    assert (dead.key, dead.value) == ("a", "one")
    assert dict(dead.headers)["__streams.errors.topic"] == b"in"


# --- the comparison -------------------------------------------------------------------------------------------------


def lying_side(change):
    """The oracle as the subject of a comparison, with a lie in what it tells."""

    class Liar(oracle.TopologyTestDriver):
        def all_output(self):
            return {topic: change(topic, records) for topic, records in super().all_output().items()}

    side = compare.kafka_side()
    side.name, side.driver = "liar", lambda topology, config: Liar(topology, config=config, in_memory=True)
    return side


SCRIPT = [
    ("lines", None, "a", 0),
    ("lines", None, "b b", 1, [("h", b"1")]),
    ("wall_clock", 10),
    ("lines", None, "c", 2),
]
INPUTS = {"lines": (Serdes.string, Serdes.string)}


def test_equal_sides_compare_equal():
    both = compare.check(word_count, SCRIPT, inputs=INPUTS, subject=compare.kafka_side(in_memory=False))
    assert len(both.kafka.output["out"]) == 4
    assert both.kafka.stores["counts"] == [("a", 1, 0), ("b", 2, 1), ("c", 1, 2)]


def test_a_difference_names_the_step_and_shows_both_records():
    def change(topic, records):
        return [r if r[0] != b"b" or topic != "out" else (r[0], r[1], 99, r[3]) for r in records]

    with pytest.raises(AssertionError) as caught:
        compare.check(word_count, SCRIPT, inputs=INPUTS, subject=lying_side(change))
    text = str(caught.value)
    assert "first at step 1 of 4: ('lines', None, 'b b', 1, [('h', b'1')])" in text
    assert "topic 'out' differs from record 1" in text
    assert "@99" in text
    assert "0: ('lines', None, 'a', 0)" in text


def test_switches_leave_topics_out():
    def change(topic, records):
        return [] if topic.endswith("-changelog") else records

    with pytest.raises(AssertionError, match="conformance-counts-changelog"):
        compare.check(word_count, SCRIPT, inputs=INPUTS, subject=lying_side(change))
    compare.check(word_count, SCRIPT, inputs=INPUTS, subject=lying_side(change), changelogs=False)


def test_a_step_that_fails_must_fail_on_both_sides():
    def topology(builder):
        builder.stream("lines", **TEXT).map_values(int).to("out", value=Serdes.int64)

    script = [("lines", None, "1", 0), ("lines", None, "x", 1), ("lines", None, "2", 2)]
    both = compare.check(topology, script, inputs=INPUTS, subject=lying_side(lambda topic, records: records))
    assert both.kafka.failed == 1
    assert len(both.kafka.output["out"]) == 1
    side = lying_side(lambda topic, records: records)
    side.driver = lambda topology, config: oracle.TopologyTestDriver(topology, config={"on_processing_error": "skip"})
    with pytest.raises(AssertionError, match=r"step 1 failed: OracleError.*ValueError"):
        compare.check(topology, script, inputs=INPUTS, subject=side)
