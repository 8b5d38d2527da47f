"""Uses that are odd but legal: by position or by name, a timedelta or an int, anything that can be iterated."""

import io
import re
from collections import deque
from datetime import timedelta
from functools import partial

import pytest

from penstock import (
    Buffer,
    EmitStrategy,
    FixedKeyProcessor,
    JoinWindows,
    KeyQuery,
    MultiVersionedKeyQuery,
    PrefixQuery,
    PunctuationType,
    RangeQuery,
    Record,
    Serde,
    Serdes,
    SessionQuery,
    SessionWindows,
    SlidingWindows,
    StoreError,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimestampedKeyQuery,
    TimestampExtractor,
    TimeWindows,
    Topology,
    UnlimitedWindows,
    ValueAndTimestamp,
    VersionedKeyQuery,
    WatermarkStrategy,
    Windowed,
    WindowKeyQuery,
    WindowRangeQuery,
    WrongQuery,
)
from penstock.testing import TopologyTestDriver

SECOND = timedelta(seconds=1)


def results(builder, *records, out="out", **options):
    with TopologyTestDriver(builder, **options) as driver:
        for topic, *rest in records:
            driver.input_topic(topic).pipe(*rest)
        return [(r.key, r.value, r.timestamp) for r in driver.output_topic(out).read_all()]


@pytest.mark.parametrize(
    "topics",
    ["in", ["in"], ("in",), {"in"}, {"in": 1}, deque(["in"]), (name for name in ["in"]), re.compile("i.")],
    ids=lambda topics: type(topics).__name__,
)
def test_topics_are_a_name_several_or_a_pattern(topics):
    builder = StreamsBuilder()
    builder.stream(topics).to("out")
    assert results(builder, ("in", "a", 1, 5)) == [("a", 1, 5)]


def test_a_pattern_reads_every_topic_that_matches_as_a_whole():
    builder = StreamsBuilder()
    builder.stream(re.compile("orders-(eu|us)", re.IGNORECASE)).to("out")
    assert results(builder, ("orders-eu", "a", 1, 5), ("Orders-US", "b", 2, 6)) == [("a", 1, 5), ("b", 2, 6)]
    with pytest.raises(Exception, match="orders-eux"):
        results(builder, ("orders-eux", "a", 1, 5))


def test_records_are_piped_by_position_or_by_name():
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    with TopologyTestDriver(topology_or_builder=builder, partitions=2, start=7) as driver:
        source = driver.input_topic(name="in")
        source.pipe("a", 1, 5, [("h", b"1")], 1)
        source.pipe(key="b", value=2, partition=1, headers={"h": None}, timestamp=6)
        source.pipe(None, None)
        source.pipe_all(((key, n) for n, key in enumerate("cd")), 10, SECOND)
        source.pipe_all(iter([("e", 5)]), step=3, start=20)
        source.pipe_all({"f": 6}.items())
        found = [(r.key, r.value, r.timestamp, r.headers) for r in driver.output_topic("out").read_all()]
    assert found == [
        ("a", 1, 5, (("h", b"1"),)),
        ("b", 2, 6, (("h", None),)),
        (None, None, 7, ()),
        ("c", 0, 10, ()),
        ("d", 1, 1_010, ()),
        ("e", 5, 20, ()),
        ("f", 6, 7, ()),
    ]


def test_the_wall_clock_goes_by_a_timedelta_or_by_milliseconds():
    builder = StreamsBuilder()
    builder.scheduled(SECOND, lambda context: context.forward("k", context.timestamp)).to("out")
    with TopologyTestDriver(builder) as driver:
        driver.advance_wall_clock(timedelta(milliseconds=1_500))
        driver.advance_wall_clock(ms=500)
        driver.advance_wall_clock(1)
        assert driver.output_topic("out").read_values() == [1_000, 2_000]


def test_outputs_are_read_one_by_one_all_or_as_a_table():
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe_all([("a", 1), ("b", 2), ("a", 3), ("b", None), ("c", 4)], 0, 1)
        out = driver.output_topic("out", key=Serdes.string, value=Serdes.json)
        assert out.read() == Record("a", 1, 0)
        assert out.read_table() == {"a": 3, "c": 4}
        assert (out.read(), out.read_all(), out.read_values(), out.read_table()) == (None, [], [], {})


def test_durations_are_timedeltas_or_milliseconds_everywhere():
    assert TimeWindows(SECOND, timedelta(milliseconds=500), SECOND) == TimeWindows(1_000, advance=500, grace=1_000)
    assert SlidingWindows(SECOND, SECOND) == SlidingWindows(difference=1_000, grace=1_000)
    assert SessionWindows(SECOND, SECOND) == SessionWindows(gap=1_000, grace=1_000)
    assert JoinWindows(SECOND, SECOND, SECOND, SECOND) == JoinWindows(1_000, before=1_000, after=1_000, grace=1_000)
    assert UnlimitedWindows(5) == UnlimitedWindows(start=5)
    assert Suppressed.until_time_limit(SECOND, Buffer.unbounded()) == Suppressed.until_time_limit(
        wait=1_000, buffer=Buffer.unbounded()
    )
    assert Stores.window("w", SECOND, SECOND, True) == Stores.window(
        "w", retention=1_000, size=1_000, retain_duplicates=True
    )
    assert Stores.session("s", SECOND) == Stores.session("s", retention=1_000)
    assert Stores.versioned("v", SECOND) == Stores.versioned("v", history=1_000)
    assert Stores.key_value("k", ttl=SECOND) == Stores.key_value("k", ttl=1_000)
    assert WatermarkStrategy.bounded(SECOND).idle_after(SECOND) == WatermarkStrategy.bounded(1_000).idle_after(1_000)
    assert Serdes.windowed(Serdes.string, SECOND) == Serdes.windowed(inner=Serdes.string, size=1_000)


def test_a_buffer_has_every_limit_that_was_given():
    both = Buffer.max_records(5).max_bytes(100)
    assert (both.records, both.bytes) == (5, 100)
    assert both == Buffer.max_bytes(100).max_records(5) == Buffer.max_records(5, max_bytes=100)
    assert both.shut_down_when_full().emit_early_when_full() == both
    assert Suppressed.until_window_closes(both.shut_down_when_full()) == Suppressed.until_window_closes(
        buffer=Buffer.max_bytes(100).shut_down_when_full().max_records(5)
    )


def test_both_limits_of_a_buffer_count():
    builder = StreamsBuilder()
    table = builder.stream("in").group_by_key().count()
    table.suppress(Suppressed.until_time_limit(1_000, Buffer.max_records(2).max_bytes(1_000_000))).to_stream().to("out")
    rows = [("in", key, 1, 0) for key in "abc"]
    assert results(builder, *rows, shards=1) == [("a", 1, 0)]


def test_functions_may_be_anything_that_can_be_called():
    class Adds:
        def __init__(self, by):
            self.by = by

        def __call__(self, value):
            return value + self.by

        def keep(self, key, value):
            return value > self.by

    builder = StreamsBuilder()
    stream = builder.stream("in").filter(Adds(1).keep).map_values(Adds(10)).map_values(partial(pow, exp=2))
    stream.map_values(lambda key, value, scale=2: value * scale, with_key=True).to("out")
    assert results(builder, ("in", "a", 1, 0), ("in", "a", 2, 0)) == [("a", 288, 0)]


def test_a_printed_stream_goes_to_a_path_or_to_what_can_be_written(tmp_path):
    text = io.StringIO()
    builder = StreamsBuilder()
    stream = builder.stream("in")
    stream.print("said", text)
    stream.print(file=tmp_path / "said")
    results(builder, ("in", "a", 1, 0))
    assert text.getvalue() == "[said]: a, 1\n"
    assert (tmp_path / "said").read_text() == "[KSTREAM-SOURCE-0000000000]: a, 1\n"


def test_branches_are_named_by_position_too():
    builder = StreamsBuilder()
    branches = builder.stream("in").split("s-").branch(lambda key, value: value > 1, "big").default("small")
    assert list(branches) == ["s-big", "s-small"]
    branches["s-big"].merge(branches["s-small"].map_values(lambda value: -value)).to("out")
    assert [value for _, value, _ in results(builder, ("in", "a", 1, 0), ("in", "a", 2, 0))] == [-1, 2]
    builder = StreamsBuilder()
    assert list(builder.stream("in").split().branch(lambda key, value: True).no_default()) == [
        "KSTREAM-BRANCH-00000000011"
    ]


class Remembers:
    """A processor that is of no class of ours: it has what is needed."""

    def init(self, context):
        self.context = context
        self.seen = context.store("seen")
        self.timers = context.timers
        self.beat = context.schedule(SECOND, PunctuationType.WALL_CLOCK_TIME, self.tell, start=500)

    def process(self, record):
        self.seen.put(record.key, record.value)
        self.timers.register_event_time(record.key, record.timestamp + 10)
        self.timers.register_event_time(record.key, record.timestamp + 11)
        self.timers.delete_event_time(record.key, record.timestamp + 11)

    def on_timer(self, timestamp, key, context):
        context.forward(Record(key, ["timer", self.seen.get(key)], timestamp))

    def tell(self, now):
        self.context.forward(Record("beat", sorted(key for key, _ in self.seen.all()), now, [("why", b"beat")]))
        self.beat.cancel()


def test_a_processor_needs_no_base_class():
    topology = Topology()
    topology.add_source("in", ["in"]).add_processor("remembers", lambda: Remembers(), "in")
    topology.add_sink("out", lambda key, value: "out", "remembers")
    topology.add_state_store(Stores.key_value("seen")).add_state_store(Stores.timers("timers"), "remembers")
    topology.connect("remembers", "seen")
    with TopologyTestDriver(topology, keep_processors=True, shards=1) as driver:
        driver.input_topic("in").pipe("a", 1, 5)
        driver.input_topic("in").pipe("b", 2, 15)
        driver.advance_wall_clock(500)
        driver.advance_wall_clock(5_000)
        found = driver.output_topic("out").read_all()
    assert found[0] == Record("a", ["timer", 1], 15)
    assert found[1:] == [Record("beat", ["a", "b"], 500, (("why", b"beat"),))]


def test_stores_are_named_given_or_brought_along():
    class Puts(FixedKeyProcessor):
        stores = (Stores.key_value("brought"),)

        def process(self, record):
            for name in ("named", "given", "brought"):
                self.context.store(name).put(record.key, record.value)
            self.context.forward(record.with_value(record.value).with_timestamp(9).with_headers([("x", b"y")]))

    builder = StreamsBuilder().add_state_store(Stores.key_value("named"))
    stores = (each for each in ("named", Stores.key_value("given")))
    builder.stream("in").process_values(Puts, stores=stores, name="puts").to("out")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", 1)
        assert [driver.store(name).get("a") for name in ("named", "given", "brought")] == [1, 1, 1]
        assert driver.output_topic("out").read() == Record("a", 1, 9, [("x", b"y")])


def test_the_driver_holds_an_epoch_open_from_when_it_is_told_to():
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(store="counts").to_stream().to("out", value=Serdes.int64)
    with TopologyTestDriver(builder) as driver:
        driver.auto_commit = False
        driver.input_topic("in").pipe_all([("a", 1), ("a", 1)])
        assert driver.output_topic("out").read() is None
        driver.commit()
        assert driver.output_topic("out").read_values() == [2]
        driver.auto_commit = True
        driver.input_topic("in").pipe("a", 1)
        assert driver.output_topic("out").read_values() == [3]


@pytest.fixture
def stores():
    builder = StreamsBuilder()
    grouped = builder.stream("in").group_by_key()
    grouped.count(store="counts")
    grouped.windowed_by(TimeWindows(10, grace=100)).count(store="windows")
    grouped.windowed_by(SessionWindows(10, grace=100)).count(store="sessions")
    builder.stream("in").to_table(store=Stores.versioned("versions", 1_000))
    builder.global_table("all", store="everywhere")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("all").pipe("x", 7, 3)
        driver.input_topic("in").pipe_all([("a", 1), ("a", 2), ("ab", 3)], 5, 10)
        yield driver


def test_queries_take_their_arguments_by_position_or_by_name(stores):
    ask = stores.query
    assert ask("counts", KeyQuery("a")).value == 2
    assert ask("counts", KeyQuery(key="zz")).found is False
    assert ask("counts", TimestampedKeyQuery("a")).value == ValueAndTimestamp(2, 15)
    assert list(ask("counts", RangeQuery())) == list(ask("counts", RangeQuery("a", "ab"))) == [("a", 2), ("ab", 1)]
    assert list(ask("counts", RangeQuery(upper="a", reverse=True))) == [("a", 2)]
    assert list(ask(store="counts", query=PrefixQuery("ab"))) == [("ab", 1)]
    assert list(ask("windows", WindowKeyQuery("a", 0, 10))) == [
        (0, ValueAndTimestamp(1, 5)),
        (10, ValueAndTimestamp(1, 15)),
    ]
    assert [start for start, _ in ask("windows", WindowKeyQuery(key="a", since=1, until=10))] == [10]
    assert [window for window, _ in ask("windows", WindowRangeQuery(20, 20))] == [Windowed("ab", 20, 30)]
    assert list(ask("sessions", SessionQuery("a"))) == [(Windowed("a", 5, 15), 2)]
    assert ask("versions", VersionedKeyQuery("a", 10)).value.value == 1
    assert ask("versions", VersionedKeyQuery("a")).value.value == 2
    assert [v.value for v in ask("versions", MultiVersionedKeyQuery("a", 0, 100, reverse=True))] == [2, 1]
    assert ask("everywhere", KeyQuery("x")).value == 7
    answer = ask("counts", KeyQuery("a"), at_least={("in", 0): 2}, wait_ms=0)
    assert answer.position["in", 0] == 2
    assert answer.epoch > 0
    with stores.snapshot() as snapshot:
        stores.input_topic("in").pipe("a", 1, 40)
        assert snapshot.query("counts", KeyQuery("a")).value == snapshot.store("counts").get("a") == 2


@pytest.mark.parametrize(
    ("store", "query", "says"),
    [
        ("windows", KeyQuery("a"), r"WindowKeyQuery\(key, since, until\)"),
        ("sessions", WindowKeyQuery("a", 0, 1), r"SessionQuery\(key\)"),
        ("versions", KeyQuery("a"), r"VersionedKeyQuery\(key, as_of\)"),
        ("counts", SessionQuery("a"), r"KeyQuery\(key\)"),
        ("counts", "a", r"KeyQuery\(key\)"),
        ("windows", WindowKeyQuery("a", SECOND, 5), "since is a time in milliseconds"),
    ],
)
def test_a_query_that_a_store_does_not_answer_says_which_it_does(stores, store, query, says):
    with pytest.raises(WrongQuery, match=says):
        stores.query(store, query)
    with pytest.raises(StoreError, match="did you mean 'counts'"):
        stores.query("count", KeyQuery("a"))


def test_serdes_are_made_by_position_or_by_name():
    assert Serdes.avro("long", "mock://odd") == Serdes.avro(schema="long", registry="mock://odd")
    assert Serdes.json_schema({"type": "integer"}, "mock://odd") == Serdes.json_schema(
        schema={"type": "integer"}, registry="mock://odd"
    )
    own = Serde(serialize=str.encode, deserialize=bytes.decode)
    assert own.deserialize(Serde(str.encode, bytes.decode).serialize("ä")) == "ä"
    windowed = Serdes.session_windowed(own)
    assert windowed.deserialize(windowed.serialize(Windowed("a", 1, 2))) == Windowed(key="a", start=1, end=2)


def test_results_of_windows_leave_once_if_that_is_asked_for():
    builder = StreamsBuilder()
    windowed = builder.stream("in").group_by_key().windowed_by(TimeWindows(size=10))
    windowed.emit(EmitStrategy.on_window_close).count().to_stream(lambda window, count: window.key).to("out")
    rows = [("in", "a", 1, 1), ("in", "a", 1, 2), ("in", "a", 1, 12)]
    assert [(key, value) for key, value, _ in results(builder, *rows)] == [("a", 2)]


def test_a_join_says_its_window_its_grace_or_its_key_by_the_other_side():
    builder = StreamsBuilder()
    stream = builder.stream("in")
    table = builder.table("t", store=Stores.versioned("v", history=timedelta(days=1)))
    stream.join(builder.stream("other"), lambda k, a, b: [k, a, b], window=JoinWindows(SECOND), with_key=True).to("out")
    stream.left_join(table, lambda a, b: [a, b], grace=SECOND).to("out")
    stream.join(builder.global_table("g"), lambda k, a, b: [k, a, b], select=lambda k, v: f"{k}-{v}", with_key=True).to(
        "out"
    )
    rows = [("g", "a-1", "G", 0), ("t", "a", "T", 0), ("in", "a", 1, 5), ("other", "a", 2, 6), ("in", "z", 9, 5_000)]
    assert sorted(map(str, (value for _, value, _ in results(builder, *rows)))) == [
        "['a', 1, 'G']",
        "['a', 1, 2]",
        "[1, 'T']",
    ]


def test_an_extractor_takes_the_record_or_the_time_of_its_partition_as_well():
    for extractor in (
        lambda record: record.value,
        lambda record, partition_time: max(record.value, partition_time),
        TimestampExtractor.skip_on_invalid,
    ):
        builder = StreamsBuilder()
        builder.stream("in", timestamp=extractor).to("out")
        assert results(builder, ("in", "a", 5, 5)) == [("a", 5, 5)]
