"""Open epochs of the test driver are run by the lanes; both ways of running an application go on from each other."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import (
    Processor,
    PunctuationType,
    Record,
    Serdes,
    SessionWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from penstock.errors import ConfigError
from penstock.lane.task_batches import TaskBatches
from penstock.plan.batch_paths import has_kernels
from penstock.testing import TopologyTestDriver

TEXT = {"key": Serdes.string, "value": Serdes.string}


def counting(**options):
    builder = StreamsBuilder()
    counts = builder.stream("in", **TEXT).group_by_key().count(store=Stores.key_value("counts", **options))
    counts.to_stream().to("out", value=Serdes.int64)
    return builder


@pytest.mark.skipif(not has_kernels(), reason="kernels are switched off")
def test_many_records_go_by_batch_as_in_production(monkeypatch):
    taken = []
    process = TaskBatches.process
    monkeypatch.setattr(
        TaskBatches, "process", lambda self, source, batch: taken.append(len(batch)) or process(self, source, batch)
    )
    with TopologyTestDriver(counting(), auto_commit=False, shards=1) as driver:
        driver.input_topic("in", **TEXT).pipe_all([(f"k{n % 7}", "v") for n in range(1000)])
        driver.commit()
        assert driver.output_topic("out").read_table() == {f"k{n}": len(range(n, 1000, 7)) for n in range(7)}
    assert taken == [1000]


def test_an_epoch_that_fails_leaves_nothing_behind():
    builder = StreamsBuilder()
    stream = builder.stream("in", **TEXT)
    stream.group_by_key().count(store="counts")
    stream.map_values(lambda value: 1 / int(value)).foreach(lambda key, value: None)
    with TopologyTestDriver(builder, auto_commit=False) as driver:
        topic = driver.input_topic("in", **TEXT)
        topic.pipe("a", "1")
        driver.commit()
        topic.pipe_all([("a", "2"), ("b", "0")])
        with pytest.raises(Exception, match="ZeroDivisionError"):
            driver.commit()
        assert dict(driver.store("counts").all()) == {"a": 1}
        topic.pipe("b", "1")
        driver.commit()
        assert dict(driver.store("counts").all()) == {"a": 1, "b": 1}


def test_objects_that_live_as_long_as_the_driver_are_refused():
    with pytest.raises(ConfigError, match="keep_processors=True is Kafka's driver"):
        TopologyTestDriver(counting(), auto_commit=False, keep_processors=True)
    with TopologyTestDriver(counting(), keep_processors=True) as driver:
        with pytest.raises(ConfigError, match="keep_processors"):
            driver.auto_commit = False
        driver.input_topic("in", **TEXT).pipe("a", "v")
        assert driver.store("counts").get("a") == 1


@pytest.mark.parametrize("cached", [False, True])
def test_what_a_test_writes_to_a_store_is_there_for_the_next_epoch_and_in_the_changelog(cached):
    with TopologyTestDriver(counting(cached=cached), auto_commit=False) as driver:
        counts = driver.store("counts")
        counts.put("a", 40)
        assert counts.get("a") == 40
        counts.put("b", 1)
        counts.delete("b")
        driver.input_topic("in", **TEXT).pipe_all([("a", "v"), ("b", "v")])
        driver.commit()
        assert dict(counts.all()) == {"a": 41, "b": 1}
        last = {row[0]: row[1] for row in driver.all_output()["test-app-counts-changelog"]}
        assert last == {b"a": (41).to_bytes(8), b"b": (1).to_bytes(8)}


def test_windows_that_a_test_has_written_are_kept_as_long_as_others():
    builder = StreamsBuilder()
    store = Stores.window("w", 100, 10, cached=False).with_(segment_interval=10)
    builder.stream("in", **TEXT).group_by_key().windowed_by(TimeWindows(10)).count(store=store)
    with TopologyTestDriver(builder, auto_commit=False) as driver:
        windows = driver.store("w")
        windows.put("a", 7, 0)
        assert windows.fetch("a", 0) == 7
        driver.input_topic("in", **TEXT).pipe("a", "v", 5)
        driver.commit()
        assert windows.fetch("a", 0) == 8
        driver.input_topic("in", **TEXT).pipe("b", "v", 500)
        driver.commit()
        assert list(windows.fetch("a", 0, 1000)) == []


def test_a_letter_of_a_record_that_cannot_be_timed_has_the_time_that_it_came_with():
    builder = StreamsBuilder()
    builder.stream("in", value=Serdes.json, timestamp=lambda record: record.value["at"]).to("out")
    config = {"on_deserialization_error": "dead_letter", "dead_letter_topic": "dead"}
    for auto_commit in (True, False):
        with TopologyTestDriver(builder, config=config, auto_commit=auto_commit) as driver:
            driver.pipe_raw("in", 0, b"k", b"{", 7)
            driver.pipe_raw("in", 0, b"k", b'{"at": 3}', 8)
            driver.commit()
            assert [row[:3] for row in driver.all_output()["dead"]] == [(b"k", b"{", 7)]
            assert [row[2] for row in driver.all_output()["out"]] == [3]


# ---- from one way to the other


def test_what_waits_is_committed_before_barriers_follow_each_record_again():
    with TopologyTestDriver(counting(cached=True), auto_commit=False) as driver:
        driver.input_topic("in", **TEXT).pipe_all([("a", "v"), ("a", "v")])
        driver.auto_commit = True
        assert driver.output_topic("out").read_values() == [2]
        driver.input_topic("in", **TEXT).pipe_all([("a", "v"), ("a", "v")])
        assert driver.output_topic("out").read_values() == [3, 4]


class Wakes(Processor):
    """Timers of both kinds, and punctuations of both kinds."""

    def init(self, context):
        super().init(context)
        context.schedule(7, PunctuationType.STREAM_TIME, self.tell("stream"))
        context.schedule(5, PunctuationType.WALL_CLOCK_TIME, self.tell("wall"))

    def tell(self, what):
        return lambda at: self.context.forward(Record("p", f"{what}{at}:{self.context.stream_time}", at))

    def process(self, record):
        self.context.timers.register_event_time(record.key, record.timestamp + 8)

    def on_timer(self, at, key, context):
        context.forward(Record(key, f"timer{at}", at))


def everything(builder):
    """Windows, sessions, suppressed results behind a re-key, timers, punctuations."""
    stream = builder.stream("in", **TEXT)
    counts = stream.group_by(lambda key, value: value, **TEXT).windowed_by(TimeWindows(10, grace=5)).count(store="w")
    closed = counts.suppress(Suppressed.until_window_closes()).to_stream()
    closed.map(lambda window, count: (window.key, f"{window.start}:{count}")).to("closed", **TEXT)
    sessions = stream.group_by_key().windowed_by(SessionWindows(4, grace=3)).count(store="s").to_stream()
    sessions.map(lambda window, count: (str(window), str(count))).to("sessions", **TEXT)
    stream.process(Wakes, stores=[Stores.timers("timers", key=Serdes.string)]).to("wakes", **TEXT)


STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.integers(0, 9), st.integers(0, 6), st.booleans()),
    max_size=25,
)


def by_key(topic):
    rows = {}
    for record in topic.read_all():
        rows.setdefault(record.key, []).append(record)
    return rows


def run(steps, *, turns):
    """Pipe records, with a barrier after each; ``turns``: change the way where a step says so."""
    builder = StreamsBuilder()
    everything(builder)
    now = 0
    with TopologyTestDriver(builder, shards=2, lanes=2, config={"cache_max_bytes": 0}) as driver:
        for key, value, step, lag, turn in steps:
            if turn and turns:
                driver.auto_commit = not driver.auto_commit
            now += step
            driver.input_topic("in", **TEXT).pipe(key, value, max(now - lag, 0))
            driver.commit()
            driver.advance_wall_clock(2)
            driver.commit()
        found = {topic: by_key(driver.output_topic(topic, **TEXT)) for topic in ("closed", "sessions", "wakes")}
        rows = {name: driver.store_contents(name) for name in ("w", "s")}
        return found, rows, driver.metrics()["dropped_by_reason"], driver.metrics()["records_in"]


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_each_way_goes_on_where_the_other_has_left_off(steps):
    assert run(steps, turns=True) == run(steps, turns=False)
