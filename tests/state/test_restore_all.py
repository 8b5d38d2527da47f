"""Nothing of a task is lost with its machine: changelogs and snapshot bring back every kind of store, every clock, every mark.

A topology runs for a while. Then a second one is made whose stores have nothing but the changelog rows, and whose tasks have
nothing but the snapshots, sent through JSON. From there on the two must be the same: every record they write, changelogs
included, and all rows of their stores.
"""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import (
    Buffer,
    EmitStrategy,
    JoinWindows,
    Processor,
    PunctuationType,
    Record,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from penstock.engine.committed_state import CommittedState
from penstock.engine.record import decode, encode
from penstock.state import restore as restoring
from penstock.state.restore import Restorer
from penstock.state.spec import StoreKind
from penstock.testing import TopologyTestDriver

TEXT = {"key": Serdes.string, "value": Serdes.string}
APPLICATION = "test-app"


def append(key, value, agg):
    return f"{agg},{value}"[-40:]


def both(one, other):
    return f"{one}/{other}"


def as_text(stream):
    stream.map(lambda key, value: (str(key), str(value))).to("out", **TEXT)


def key_value(builder):
    stream = builder.stream("a", **TEXT).group_by_key()
    as_text(stream.aggregate(str, append, store=Stores.key_value("s", cached=True, **TEXT)).to_stream())
    as_text(builder.table("b", **TEXT, store=Stores.key_value("t", cached=False, ttl=25, **TEXT)).to_stream())


def windows(builder):
    grouped = builder.stream("a", **TEXT).group_by_key()
    for name, window in ("w1", TimeWindows(10, grace=5)), ("w2", TimeWindows(10, advance=4, grace=5)):
        as_text(
            grouped.windowed_by(window).aggregate(str, append, store=window_store(name, 10, cached=True)).to_stream()
        )
    sliding = grouped.windowed_by(SlidingWindows(8, grace=5))
    as_text(sliding.aggregate(str, append, store=window_store("w3", 8, cached=False)).to_stream())


def window_store(name, size, **options):
    return Stores.window(name, 40, size, **TEXT, **options).with_(segment_interval=10)


def session(builder):
    grouped = builder.stream("a", **TEXT).group_by_key().windowed_by(SessionWindows(6, grace=4))
    table = grouped.aggregate(str, append, merger=lambda key, one, other: f"{one}+{other}"[-40:])
    as_text(table.to_stream())


def emitted_on_close(builder):
    grouped = builder.stream("a", **TEXT).group_by_key()
    for window in TimeWindows(10, grace=5), SlidingWindows(8, grace=5):
        as_text(grouped.windowed_by(window).emit(EmitStrategy.on_window_close).aggregate(str, append).to_stream())
    sessions = grouped.windowed_by(SessionWindows(6, grace=4)).emit(EmitStrategy.on_window_close)
    as_text(sessions.aggregate(str, append, merger=lambda key, one, other: f"{one}+{other}").to_stream())


def versioned(builder):
    table = builder.table("b", **TEXT, store=Stores.versioned("v", 20, **TEXT))
    as_text(builder.stream("a", **TEXT).left_join(table, both))
    as_text(table.to_stream())


def grace_join(builder):
    table = builder.table("b", **TEXT, store=Stores.versioned("v", 30, **TEXT))
    as_text(builder.stream("a", **TEXT).left_join(table, both, grace=15))


def least_recently_used(builder):
    as_text(builder.table("a", **TEXT, store=Stores.lru("l", 2, **TEXT)).to_stream())


class Remembers(Processor):
    """Timers of both kinds, punctuations of both kinds, one of which is cancelled."""

    def process(self, record):
        if record.value is not None:
            self.context.timers.register_event_time(record.key, record.timestamp + 7)
            self.context.timers.register_processing_time(record.key, record.timestamp + 9)
        if record.value == "v1":
            self.stops.cancel()

    def init(self, context):
        self.context = context
        context.schedule(5, PunctuationType.STREAM_TIME, self.tell("every"), start=3)
        self.stops = context.schedule(4, PunctuationType.STREAM_TIME, self.tell("stops"))
        context.schedule(6, PunctuationType.WALL_CLOCK_TIME, self.tell("wall"))

    def tell(self, what):
        return lambda at: self.context.forward(Record("p", f"{what}{at}:{self.context.stream_time}", at))

    def on_timer(self, at, key, context):
        context.forward(Record(key, f"timer{at}", at))


def timers(builder):
    builder.add_state_store(Stores.timers("timers", key=Serdes.string))
    as_text(builder.stream("a", **TEXT).process(Remembers, stores=["timers"]))


def suppress(builder):
    table = builder.table("a", **TEXT, store=Stores.key_value("t", **TEXT))
    limited = Buffer.max_records(2).emit_early_when_full()
    as_text(table.suppress(Suppressed.until_time_limit(8, limited)).to_stream())
    windowed = builder.stream("b", **TEXT).group_by_key().windowed_by(TimeWindows(10, grace=5)).count()
    as_text(windowed.suppress(Suppressed.until_window_closes()).to_stream())


def stream_joins(builder):
    left, right = builder.stream("a", **TEXT), builder.stream("b", **TEXT)
    for how in "join", "left_join", "outer_join":
        as_text(getattr(left, how)(right, both, window=JoinWindows(6, grace=4), **TEXT))


def foreign_key_join(builder):
    left = builder.table("a", **TEXT, store=Stores.key_value("l", **TEXT))
    right = builder.table("b", **TEXT, store=Stores.key_value("r", **TEXT))
    for how in "join", "left_join":
        as_text(getattr(left, how)(right, both, foreign_key=lambda value: "k" + value[1:]).to_stream())


def deduplicate(builder):
    as_text(builder.stream("a", **TEXT).deduplicate(by=lambda key, value: value, within=10))


TOPOLOGIES = (
    key_value,
    windows,
    session,
    emitted_on_close,
    versioned,
    grace_join,
    least_recently_used,
    timers,
    suppress,
    stream_joins,
    foreign_key_join,
    deduplicate,
)

STEPS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from(["k0", "k1", "k2"]),
        st.sampled_from(["v0", "v1", "v2", None]),
        st.integers(0, 14),
        st.integers(0, 9),
    ),
    min_size=2,
    max_size=40,
)


def driver_of(build, auto_commit):
    builder = StreamsBuilder()
    build(builder)
    return TopologyTestDriver(builder, auto_commit=auto_commit, shards=1, keep_processors=auto_commit)


def feed(driver, records, topics, barrier):
    """Pipe records; with an open epoch, a barrier after so many of them, and one at the end."""
    for number, (topic, key, value, timestamp) in enumerate(records, 1):
        driver.input_topic(topic if topic in topics else topics[0], value=Serdes.string).pipe(key, value, timestamp)
        driver.advance_wall_clock(1)
        if number % barrier == 0:
            driver.commit()
    driver.commit()


def written(driver, since=None):
    """Return all output by topic, from the counts in ``since`` on."""
    rows = {topic: records[(since or Counter())[topic] :] for topic, records in driver.all_output().items()}
    return {topic: records for topic, records in rows.items() if records}


@pytest.fixture(autouse=True)
def by_column(monkeypatch):
    """Few rows are restored by column too, where the kind of store allows."""
    monkeypatch.setattr(restoring, "FEW", 10)


def rebuilt(build, driver, auto_commit):
    """Return a driver with nothing but what the changelogs and the snapshots of another hold, and its place in its topics."""
    again = driver_of(build, auto_commit)
    (state,) = again._application.states
    for name, spec in driver._application.topology.stores.items():
        rows = driver.all_output().get(f"{APPLICATION}-{name}-changelog", [])
        incoming = Restorer(spec)
        for start in range(
            0, len(rows), 7
        ):  # as a restore reads them: some at a time, and some of these written together
            keys, values, times, _ = (list(column) for column in zip(*rows[start : start + 7], strict=True))
            incoming.add(keys, values, times)
            if start % 2:
                incoming.write_to(state)
        incoming.write_to(state)
    again._clock.advance(driver._clock.now_ms())
    again._runner.close()
    again._runner = again._new_runner(auto_commit, recorded(driver._runner.committed()))
    again._application.offsets = dict(driver._application.offsets)
    return again


def recorded(committed):
    """Return the state of a barrier as the epoch record keeps it."""
    record = committed.record("token", fingerprint="", topology="", committed_at=0)
    return CommittedState.from_record(decode(encode(record)), committed.lanes)


def contents(driver):
    """Return what the stores hold: those that cannot be listed by their base rows, versioned ones by the history of each key."""
    application, found = driver._application, {}
    (state,) = application.states
    for name, spec in application.topology.stores.items():
        match spec.kind:
            case StoreKind.BUFFER | StoreKind.OUTER_JOIN | StoreKind.TIMERS:
                found[name] = list(state.map(name).range(None, None))
            case StoreKind.VERSIONED:
                found[name] = [list(driver.store(name).history(key)) for key in ("k0", "k1", "k2")]
            case _:
                found[name] = driver.store_contents(name)
    return found


@pytest.mark.parametrize("build", TOPOLOGIES, ids=lambda build: build.__name__)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, cut=st.integers(0, 40), barrier=st.sampled_from([1, 3, 100]), auto_commit=st.booleans())
def test_tasks_rebuilt_from_changelogs_and_snapshots_go_on_as_if_nothing_had_happened(
    build, steps, cut, barrier, auto_commit
):
    now, records = 0, []
    for topic, key, value, lag, step in steps:
        now += step
        records.append((topic, key, value, max(now - lag, 0)))
    first = driver_of(build, auto_commit)
    topics = sorted(
        topic for node in first._application.stage.sources.values() if not node.internal for topic in node.topics
    )
    feed(first, records[:cut], topics, barrier)
    second = rebuilt(build, first, auto_commit)
    assert contents(second) == contents(first)
    since = Counter({topic: len(rows) for topic, rows in first.all_output().items()})
    for driver in first, second:
        feed(driver, records[cut:], topics, barrier)
    assert written(second) == written(first, since)
    assert contents(second) == contents(first)
    for driver in first, second:
        driver._runner.catch_up()
    assert snapshots(second) == snapshots(first)


def snapshots(driver):
    """Return what the tasks know at the barrier, by level and shard."""
    shots = driver._runner.committed().snapshots
    return {level: {shard: certain(shot) for shard, shot in of.items()} for level, of in shots.items()}


def certain(snapshot):
    """A snapshot without the times at which something may be due: they are exact, or too early."""
    stores = {
        name: {key: number for key, number in numbers.items() if key != "least"}
        for name, numbers in snapshot["stores"].items()
    }
    return {**snapshot, "due": None, "stores": stores}
