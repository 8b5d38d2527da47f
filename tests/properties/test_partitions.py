"""A partition that is far ahead never costs a slow partition its records: clocks follow the slowest (section 6 of the design).

Each key lives in one partition. What comes out for the keys of a partition must be what comes out when its records are the only
ones: time windows, sliding windows, sessions and joins, however far the others are ahead and whenever they show up.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import (
    EmitStrategy,
    JoinWindows,
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
PARTITIONS = 3
#: how far each partition is ahead of the one before: many retentions and segments
AHEAD = 10_000_000


def append(key, value, agg):
    return f"{agg},{value}"


def of_windows(windows, size):
    def build(builder):
        store = Stores.window("s", 200, size, persistent=False, **TEXT)
        table = builder.stream("a", **TEXT).group_by_key().windowed_by(windows).aggregate(str, append, store=store)
        table.to_stream(key=lambda window, _: window.key).to("out", **TEXT)

    return build


def sessions(builder):
    store = Stores.session("s", 200, persistent=False, **TEXT)
    windowed = builder.stream("a", **TEXT).group_by_key().windowed_by(SessionWindows(30, grace=40))
    table = windowed.aggregate(str, append, merger=lambda key, one, other: f"{one}+{other}", store=store)
    table.to_stream(key=lambda window, _: window.key).to("out", **TEXT)


def cogrouped(builder):
    store = Stores.window("s", 200, 20, persistent=False, **TEXT)
    one, other = (builder.stream(topic, **TEXT).group_by_key() for topic in "ab")
    windowed = one.cogroup(append).cogroup(other, append).windowed_by(TimeWindows(20, grace=40))
    windowed.aggregate(str, store=store).to_stream(key=lambda window, _: window.key).to("out", **TEXT)


def joined(how):
    def build(builder):
        left, right = builder.stream("a", **TEXT), builder.stream("b", **TEXT)
        join = getattr(left, how)
        join(right, lambda one, other: f"{one}/{other}", window=JoinWindows(30, grace=40), **TEXT).to("out", **TEXT)

    return build


def self_join(builder):
    stream = builder.stream("a", **TEXT)
    stream.join(stream, lambda one, other: f"{one}/{other}", window=JoinWindows(30, grace=40), **TEXT).to("out", **TEXT)


TOPOLOGIES = {
    "tumbling": of_windows(TimeWindows(20, grace=40), 20),
    "hopping": of_windows(TimeWindows(20, advance=7, grace=40), 20),
    "sliding": of_windows(SlidingWindows(20, grace=40), 20),
    "sessions": sessions,
    "cogrouped": cogrouped,
    "inner join": joined("join"),
    "left join": joined("left_join"),
    "outer join": joined("outer_join"),
    "self join": self_join,
}

RECORDS = st.lists(
    st.tuples(
        st.integers(0, PARTITIONS - 1),
        st.sampled_from("ab"),
        st.sampled_from("xy"),
        st.integers(0, 40),
        st.integers(1, 9),
    ),
    max_size=40,
)


#: lanes and shards of a run
LAYOUTS = ((1, 1), (1, 4), (4, 4))


def run(name, records, layout=(1, 1), barrier=None):
    """Return the values of each key, and what was dropped; no record is more than the grace behind its own partition."""
    builder = StreamsBuilder()
    TOPOLOGIES[name](builder)
    results = {}
    lanes, shards = layout
    with TopologyTestDriver(
        builder, config={"shards": shards}, lanes=lanes, partitions=PARTITIONS, auto_commit=barrier is None
    ) as driver:
        topics = {topic: driver.input_topic(topic, value=Serdes.string) for topic in topics_of(name)}
        clocks = [index * AHEAD for index in range(PARTITIONS)]
        for number, (partition, topic, key, lag, step) in enumerate(records):
            if barrier is not None and number % barrier == 0:
                driver.commit()
            clocks[partition] += step
            if topic in topics:
                at = max(clocks[partition] - lag, partition * AHEAD)
                topics[topic].pipe(f"{key}{partition}", f"{topic}{at}", at, partition=partition)
        driver.commit()
        for record in driver.output_topic("out", **TEXT).read_all():
            results.setdefault(record.key, []).append(record.value)
        return results, driver.metrics()["dropped_by_reason"]


def topics_of(name):
    return "ab" if name in ("cogrouped", "inner join", "left join", "outer join") else "a"


def matches(results):
    """Leave out the unmatched records of left and outer joins: when they leave depends on the common clock."""
    kept = {key: [value for value in values if value is None or "None" not in value] for key, values in results.items()}
    return {key: values for key, values in kept.items() if values}


@pytest.mark.parametrize("name", TOPOLOGIES)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(records=RECORDS, layout=st.sampled_from(LAYOUTS))
def test_a_fast_partition_never_costs_a_slow_one_its_records(name, records, layout):
    together, dropped = run(name, records, layout)
    assert not dropped
    for partition in range(PARTITIONS):
        alone, _ = run(name, [record for record in records if record[0] == partition], layout)
        ours = {key: values for key, values in together.items() if key.endswith(str(partition))}
        assert matches(ours) == matches(alone)


@pytest.mark.parametrize("name", TOPOLOGIES)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(records=RECORDS, layout=st.sampled_from(LAYOUTS), barrier=st.sampled_from((1, 5, 100)))
def test_no_record_is_late_for_the_lead_of_another_partition_wherever_epochs_are_cut(name, records, layout, barrier):
    _, dropped = run(name, records, layout, barrier)
    assert not dropped


def finals(builder):
    windowed = builder.stream("a", **TEXT).group_by_key().windowed_by(TimeWindows(20, grace=40))
    table = windowed.emit(EmitStrategy.on_window_close).aggregate(str, append, **TEXT)
    table.to_stream(key=lambda window, _: f"{window.key}@{window.start}").to("out", **TEXT)


def suppressed(builder):
    table = (
        builder.stream("a", **TEXT).group_by_key().windowed_by(TimeWindows(20, grace=40)).aggregate(str, append, **TEXT)
    )
    last = table.suppress(Suppressed.until_window_closes())
    last.to_stream(key=lambda window, _: f"{window.key}@{window.start}").to("out", **TEXT)


TOPOLOGIES_OF_FINALS = {"on close": finals, "suppressed": suppressed}


@pytest.mark.parametrize("build", TOPOLOGIES_OF_FINALS.values(), ids=TOPOLOGIES_OF_FINALS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    records=st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from("xy"),
            st.integers(0, 40),
            st.integers(1, 30),
            st.sampled_from((0, 0, 0, 5000)),
        ),
        max_size=30,
    ),
    layout=st.sampled_from(LAYOUTS),
    barrier=st.sampled_from((None, 1, 4)),
)
def test_every_record_is_in_one_final_result_or_counted_as_late(build, records, layout, barrier):
    """Partitions come late, fall idle and come back: a window is given out once, and nothing is lost in silence."""
    builder = StreamsBuilder()
    build(builder)
    lanes, shards = layout
    with TopologyTestDriver(
        builder, config={"shards": shards}, lanes=lanes, partitions=4, auto_commit=barrier is None
    ) as driver:
        topic, clocks = driver.input_topic("a", value=Serdes.string), [0, 0, 0]
        for number, (partition, key, lag, step, wait) in enumerate(records):
            if barrier is not None and number % barrier == 0:
                driver.commit()
            driver.advance_wall_clock(wait)
            clocks[partition] += step
            at = max(clocks[partition] - lag, 0)
            topic.pipe(f"{key}{partition}", f"{number}", at, partition=partition)
        driver.commit()
        driver.advance_wall_clock(10_000)
        for partition in range(4):
            topic.pipe("end", "end", 10**6, partition=partition)
        driver.commit()
        driver.advance_wall_clock(10_000)
        driver.commit()
        rows = driver.output_topic("out", **TEXT).read_all()
        late = driver.metrics()["dropped_by_reason"].get("late_window", 0)
    assert len({row.key for row in rows}) == len(rows), "a window was given out twice"
    taken = [value for row in rows for value in row.value.split(",") if value not in ("", "end")]
    assert len(set(taken)) == len(taken)
    assert len(taken) + late == len(records)
