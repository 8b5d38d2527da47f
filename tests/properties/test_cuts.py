"""Results do not depend on lanes, partitions or where the epochs were cut (promises 4 and 6 of the design).

Each topology is run once record by record with one lane and one partition (which the conformance suite proves equal to Kafka
Streams), then with every combination of lanes, partitions and barrier size. Compared: with caching off, every update in order per
key; with caching on, the final tables; in both cases the contents of the stores.
"""

from zlib import crc32

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from penstock import (
    EmitStrategy,
    JoinWindows,
    Processor,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from penstock.testing import TopologyTestDriver

TEXT = {"key": Serdes.string, "value": Serdes.string}
LANES, PARTITIONS, BARRIERS = (1, 2, 5), (1, 3), (1, 7, 1000)


def kv(name, cached, value=Serdes.string):
    return Stores.key_value(name, key=Serdes.string, value=value, cached=cached)


def append(key, value, agg):
    return f"{agg},{value}"[-60:]


def aggregate(builder, cached):
    stream = builder.stream("a", **TEXT).filter(lambda key, value: value != "v0").map_values(str.upper)
    stream.group_by_key().aggregate(str, append, store=kv("s", cached)).to_stream().to("out", **TEXT)


def rekeyed_count(builder, cached):
    grouped = builder.stream("a", **TEXT).group_by(lambda key, value: value, **TEXT)
    grouped.count(store=kv("s", cached, Serdes.int64)).to_stream().to("out", key=Serdes.string, value=Serdes.int64)


def tumbling(builder, cached):
    windows = TimeWindows(10, grace=5)
    store = Stores.window("s", 15, 10, key=Serdes.string, value=Serdes.string, cached=cached)
    counted = builder.stream("a", **TEXT).group_by_key().windowed_by(windows).aggregate(str, append, store=store)
    counted.to_stream().to("out", key=Serdes.windowed(Serdes.string, 10), value=Serdes.string)


def sliding(builder, cached):
    store = Stores.window("s", 25, 10, key=Serdes.string, value=Serdes.string, cached=cached)
    windowed = builder.stream("a", **TEXT).group_by_key().windowed_by(SlidingWindows(10, grace=5))
    out = windowed.aggregate(str, append, store=store).to_stream()
    out.to("out", key=Serdes.windowed(Serdes.string, 10), value=Serdes.string)


def sessions(builder, cached):
    store = Stores.session("s", 30, key=Serdes.string, value=Serdes.string, cached=cached)
    windowed = builder.stream("a", **TEXT).group_by_key().windowed_by(SessionWindows(6, grace=4))
    out = windowed.aggregate(str, append, merger=lambda key, one, other: f"{one}+{other}", store=store).to_stream()
    out.to("out", key=Serdes.session_windowed(Serdes.string), value=Serdes.string)


def table_aggregate(builder, cached):
    grouped = builder.table("a", **TEXT, store=kv("t", cached)).group_by(lambda key, value: (value, value), **TEXT)
    counted = grouped.count(store=kv("s", cached, Serdes.int64))
    counted.to_stream().to("out", key=Serdes.string, value=Serdes.int64)


def table_join(builder, cached):
    left = builder.table("a", **TEXT, store=kv("l", cached))
    right = builder.table("b", **TEXT, store=kv("r", cached))
    left.outer_join(right, lambda one, other: f"{one}/{other}", store=kv("s", cached)).to_stream().to("out", **TEXT)


def stream_join(builder, cached):
    left, right = builder.stream("a", **TEXT), builder.stream("b", **TEXT)
    left.outer_join(
        right, lambda one, other: f"{one}/{other}", window=JoinWindows(8, grace=2), **TEXT, other_value=Serdes.string
    ).to("out", **TEXT)


def stream_table_join(builder, cached):
    table = builder.table("b", **TEXT, store=kv("t", cached))
    builder.stream("a", **TEXT).left_join(table, lambda value, row: f"{value}/{row}").to("out", **TEXT)


def rekeyed_stream_table_join(builder, cached):
    table = builder.table("b", **TEXT, store=kv("t", cached))
    moved = builder.stream("a", **TEXT).select_key(lambda key, value: value and f"k{value[1:]}")
    moved.left_join(table, lambda value, row: f"{value}/{row}").to("out", **TEXT)


def foreign_key_join(builder, cached):
    left = builder.table("a", **TEXT, store=kv("l", cached))
    right = builder.table("b", **TEXT, store=kv("r", cached))
    joined = left.left_join(
        right, lambda one, other: f"{one}/{other}", foreign_key=lambda value: f"k{value[1:]}", store=kv("s", cached)
    )
    joined.to_stream().to("out", **TEXT)


class Running(Processor):
    def init(self, context):
        self.context, self.store = context, context.store("s")

    def process(self, record):
        total = append(record.key, record.value, self.store.get(record.key) or "")
        self.store.put(record.key, total)
        self.context.forward(record.with_value(total))


def processor(builder, cached):
    builder.add_state_store(kv("s", cached))
    builder.stream("a", **TEXT).process(Running, stores=["s"]).to("out", **TEXT)


#: one topic straight into the operator: records may come late and out of order
ONE_TOPIC = (aggregate, processor)
#: an operator with a clock: late records are dropped alike for any lanes and cuts, as long as there is one partition
WITH_CLOCK = (tumbling, sliding, sessions)
#: several topics or a re-key: the order between partitions is that of event time, so the input is in order
ORDERED = (
    rekeyed_count,
    table_aggregate,
    table_join,
    stream_join,
    stream_table_join,
    rekeyed_stream_table_join,
    foreign_key_join,
)
#: a foreign-key join answers for the newest left row only: what the row was earlier in the epoch is stale by then
COLLAPSING = (foreign_key_join,)


def run(topology, cached, script, *, lanes=1, partitions=1, barrier=None):
    builder = StreamsBuilder()
    topology(builder, cached)
    how = {"lanes": lanes, "shards": 1 if lanes == 1 else 16, "partitions": partitions}
    how["keep_processors"] = lanes == 1 and barrier is None
    with TopologyTestDriver(builder, **how, auto_commit=barrier is None) as driver:
        topics = {name: driver.input_topic(name, **TEXT) for name in {step[0] for step in script}}
        for number, (topic, key, value, timestamp) in enumerate(script, 1):
            topics[topic].pipe(key, value, timestamp, partition=crc32(key.encode()) % partitions)
            if barrier and number % barrier == 0:
                driver.commit()
        driver.commit()
        per_key: dict[bytes, list] = {}
        for key, value, timestamp, headers in driver.all_output().get("out", ()):
            per_key.setdefault(key, []).append((value, timestamp, headers))
        return per_key, {name: live_rows(driver, name, script) for name in driver._application.topology.stores}


def live_rows(driver, name, script):
    """The rows of a store; of a store that expires, those that are surely alive: a shard of many hears of time less often."""
    retention = driver._application.topology.stores[name].retention
    rows = driver.store_contents(name)
    if retention is None or rows is None:
        return rows
    now = max(step[3] for step in script)
    return [row for row in rows if row[1] > now - retention]


def settled(rows):
    """The last value of each key; a count of none is as good as no row."""
    last = {key: updates[-1][0] for key, updates in rows.items()}
    return {key: value for key, value in last.items() if value not in (None, bytes(8))}


def without_times(stores):
    """The stores without the timestamps of their rows, which tell of the updates that a cache has collapsed."""
    return {
        name: None if rows is None else [row[:2] if len(row) == 3 else row[:3] for row in rows if 0 not in row[1:2]]
        for name, rows in stores.items()
    }


def ordered(updates, order):
    """The updates of each key. An unmatched row of an outer join waits for the slowest partition, so it may come after a later match."""
    return {key: order(rows) for key, rows in updates.items()}


def check(topology, cached, script, partitions=PARTITIONS, lanes_of=LANES):
    updates, stores = run(topology, cached, script)
    for lanes in lanes_of:
        for count in partitions:
            for barrier in BARRIERS:
                case = f"lanes={lanes} partitions={count} barrier={barrier}"
                some_updates, some_stores = run(
                    topology, cached, script, lanes=lanes, partitions=count, barrier=barrier
                )
                if cached or topology in COLLAPSING:
                    assert settled(some_updates) == settled(updates), case
                    assert without_times(some_stores) == without_times(stores), case
                else:
                    order = sorted if topology is stream_join and count > 1 else list
                    assert ordered(some_updates, order) == ordered(updates, order), case
                    assert some_stores == stores, case


keys = st.sampled_from([f"k{n}" for n in range(6)])
values = st.sampled_from([f"v{n}" for n in range(5)])
few = settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


@st.composite
def out_of_order(draw, topics=("a",)):
    """Records of one topic around a clock that mostly goes forward."""
    now, script = 20, []
    for _ in range(draw(st.integers(5, 40))):
        now += draw(st.integers(0, 6))
        late = draw(st.sampled_from([0, 0, 0, 1, 3, 9, 20]))
        script.append((draw(st.sampled_from(topics)), draw(keys), draw(values), max(0, now - late)))
    return script


@st.composite
def in_order(draw, nulls=False):
    """Records of two topics, each later than the one before; tombstones among them."""
    now, script = 0, []
    for _ in range(draw(st.integers(5, 40))):
        now += draw(st.integers(1, 4))
        value = draw(values | st.none()) if nulls else draw(values)
        script.append((draw(st.sampled_from("ab")), draw(keys), value, now))
    return script


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "uncached"])
@pytest.mark.parametrize("topology", ONE_TOPIC, ids=lambda f: f.__name__)
@few
@given(script=out_of_order())
def test_an_operator_on_one_topic(topology, cached, script):
    check(topology, cached, script)


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "uncached"])
@pytest.mark.parametrize("topology", WITH_CLOCK, ids=lambda f: f.__name__)
@few
@given(script=out_of_order())
def test_an_operator_with_a_clock_drops_the_same_late_records(topology, cached, script):
    check(topology, cached, script, partitions=(1,))


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "uncached"])
@pytest.mark.parametrize("topology", WITH_CLOCK, ids=lambda f: f.__name__)
@few
@given(script=in_order())
def test_an_operator_with_a_clock_over_several_partitions(topology, cached, script):
    check(topology, cached, [step for step in script if step[0] == "a"] or [("a", "k0", "v1", 0)])


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "uncached"])
@pytest.mark.parametrize("topology", ORDERED, ids=lambda f: f.__name__)
@few
@given(script=in_order(nulls=True))
def test_several_topics_and_re_keys(topology, cached, script):
    two_topics = topology not in (rekeyed_count, table_aggregate)
    script = [step for step in script if two_topics or step[0] == "a"] or [("a", "k0", "v1", 0)]
    if topology is stream_join:  # let every shard and partition hear that all windows are over
        script += [("a", f"k{n}", f"end{round}", 1000 * round) for round in (1, 2) for n in range(6)]
    check(topology, cached, script)


def in_minutes(windows, size, *functions):
    """A topology of windows that a default store drops by segments, within the script."""

    def topology(builder, cached):
        session = isinstance(windows, SessionWindows)
        kept = windows.retention
        store = Stores.session("s", kept, cached=cached) if session else Stores.window("s", kept, size, cached=cached)
        windowed = builder.stream("a", **TEXT).group_by_key().windowed_by(windows)
        out = windowed.aggregate(str, append, *functions, store=store, **TEXT).to_stream()
        key = Serdes.session_windowed(Serdes.string) if session else Serdes.windowed(Serdes.string, size)
        out.to("out", key=key, value=Serdes.string)

    return topology


MINUTES = {
    "hopping": in_minutes(TimeWindows(100_000, advance=30_000, grace=50_000), 100_000),
    "sliding": in_minutes(SlidingWindows(60_000, grace=50_000), 60_000),
    "sessions": in_minutes(SessionWindows(60_000, grace=40_000), 0, lambda key, one, other: f"{one}+{other}"),
}


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "uncached"])
@pytest.mark.parametrize("name", MINUTES)
@few
@given(script=out_of_order())
def test_windows_of_minutes_in_default_stores(name, cached, script):
    """Segments are dropped within the script, and sessions are merged that their store has expired."""
    scaled = [(topic, key, value, timestamp * 10_000) for topic, key, value, timestamp in script]
    check(MINUTES[name], cached, scaled, partitions=(1,))


def test_a_session_store_without_a_cache_expires_sessions_by_the_time_of_its_sources():
    """Without a cache a session past the retention is not found, as in Kafka Streams, whichever shard the record is in that moved time."""
    script = [("a", "k5", "v1", 270_000), ("a", "k1", "v1", 380_000), ("a", "k5", "v2", 320_000)]
    ends = {lanes: [key[-8:] for key in run(MINUTES["sessions"], False, script, lanes=lanes)[0]] for lanes in (1, 5)}
    apart = (320_000).to_bytes(8)
    assert apart in ends[1]
    assert ends[5] == ends[1]
    for lanes in (1, 5):
        assert run(MINUTES["sessions"], True, script, lanes=lanes)[0] == run(MINUTES["sessions"], True, script)[0]


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "uncached"])
def test_a_right_row_that_comes_and_goes_within_an_epoch_leaves_no_trace_in_a_foreign_key_join(cached):
    check(foreign_key_join, cached, [("b", "k2", "v1", 32), ("a", "k1", "v2", 56), ("b", "k2", None, 68)])


def final_windows(builder, cached):
    windowed = builder.stream("a", **TEXT).group_by_key().windowed_by(TimeWindows(10, grace=0))
    closed = windowed.emit(EmitStrategy.on_window_close).count(
        store=Stores.window("s", 10, 10, key=Serdes.string, value=Serdes.int64)
    )
    closed.to_stream().to("out", key=Serdes.windowed(Serdes.string, 10), value=Serdes.int64)


def suppressed(builder, cached):
    store = Stores.window("s", 10, 10, key=Serdes.string, value=Serdes.int64, cached=cached)
    counted = builder.stream("a", **TEXT).group_by_key().windowed_by(TimeWindows(10, grace=0)).count(store=store)
    out = counted.suppress(Suppressed.until_window_closes()).to_stream()
    out.to("out", key=Serdes.windowed(Serdes.string, 10), value=Serdes.int64)


@pytest.mark.parametrize("topology", [final_windows, suppressed], ids=lambda f: f.__name__)
@few
@given(script=out_of_order())
def test_final_results_are_the_same_for_any_cut_with_one_lane(topology, script):
    """The rows of a closed window come out once, whatever the barrier; other lanes close theirs when they hear of the time."""
    script = [*script, *(("a", f"k{n}", "v1", 1000) for n in range(6))]
    once, stores = run(topology, False, script)
    for barrier in BARRIERS:
        again, again_stores = run(topology, False, script, barrier=barrier)
        assert (again, again_stores) == (once, stores)
    for lanes in (2, 5):
        for barrier in BARRIERS:
            spread, _ = run(topology, False, script, lanes=lanes, barrier=barrier)
            assert {key: [row[0] for row in rows] for key, rows in spread.items()} == {
                key: [row[0] for row in rows] for key, rows in once.items()
            }
