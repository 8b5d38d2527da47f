"""The test driver: topics, time, barriers, lanes, and what it says when something is wrong."""

import pytest

from penstock import Processor, PunctuationType, Record, Serdes, Stores, Topology
from penstock.errors import ConfigError, StoreError, TopologyError
from penstock.testing import TopologyTestDriver

TEXT = {"key": Serdes.string, "value": Serdes.string}


class Count(Processor):
    """Counts by key in a store, forwards every new count."""

    def init(self, context):
        self.context = context
        self.counts = context.store("counts")

    def process(self, record):
        count = (self.counts.get(record.key) or 0) + 1
        self.counts.put(record.key, count)
        self.context.forward(record.with_value(count))


def counting():
    return (
        Topology()
        .add_source("in", "words", **TEXT)
        .add_processor("count", Count, "in")
        .add_state_store(Stores.key_value("counts", key=Serdes.string, value=Serdes.int64), "count")
        .add_sink("out", "counts", "count", key=Serdes.string, value=Serdes.int64)
    )


def test_a_record_is_processed_to_its_end_before_pipe_returns():
    with TopologyTestDriver(counting()) as driver:
        words = driver.input_topic("words", value=Serdes.string)
        counts = driver.output_topic("counts", value=Serdes.int64)
        words.pipe("a", "x", timestamp=3, headers=[("h", b"1")])
        assert counts.read() == Record("a", 1, 3, [("h", b"1")])
        words.pipe("a", "x", timestamp=4)
        assert counts.read_values() == [2]
        assert counts.read() is None


def test_pipe_all_steps_through_time():
    with TopologyTestDriver(counting()) as driver:
        driver.input_topic("words", value=Serdes.string).pipe_all(
            [("a", "x"), ("b", "y"), ("a", "z")], start=100, step=10
        )
        out = driver.output_topic("counts", value=Serdes.int64).read_all()
        assert [(r.key, r.value, r.timestamp) for r in out] == [("a", 1, 100), ("b", 1, 110), ("a", 2, 120)]


def test_without_a_timestamp_a_record_gets_the_wall_clock():
    with TopologyTestDriver(counting(), start=7) as driver:
        driver.advance_wall_clock(5)
        driver.input_topic("words", value=Serdes.string).pipe("a", "x")
        assert driver.output_topic("counts", value=Serdes.int64).read().timestamp == 12


def test_read_table_keeps_the_last_value_and_leaves_out_deleted_keys():
    topology = Topology().add_source("in", "t", **TEXT).add_sink("out", "o", "in", **TEXT)
    with TopologyTestDriver(topology) as driver:
        driver.input_topic("t", value=Serdes.string).pipe_all([("a", "1"), ("b", "1"), ("a", "2"), ("b", None)])
        assert driver.output_topic("o", value=Serdes.string).read_table() == {"a": "2"}


def test_the_store_and_the_changelog_show_the_state_of_the_barrier():
    with TopologyTestDriver(counting(), config={"application_id": "app"}) as driver:
        driver.input_topic("words", value=Serdes.string).pipe_all([("a", "x"), ("a", "y")])
        assert driver.store("counts").get("a") == 2
        assert driver.topics() == {"counts", "app-counts-changelog"}
        changelog = driver.output_topic("app-counts-changelog", value=Serdes.int64)
        assert changelog.read_values() == [1, 2]


def test_an_open_epoch_shows_nothing_until_the_commit():
    with TopologyTestDriver(counting(), auto_commit=False, config={"application_id": "app"}) as driver:
        driver.input_topic("words", value=Serdes.string).pipe_all([("a", "x"), ("a", "y"), ("b", "z")])
        assert driver.output_topic("counts", value=Serdes.int64).read() is None
        assert driver.store("counts").get("a") is None
        driver.commit()
        assert driver.output_topic("counts", value=Serdes.int64).read_values() == [1, 2, 1]
        assert driver.store("counts").get("a") == 2
        # one changelog row for each key of the epoch
        assert driver.output_topic("app-counts-changelog", value=Serdes.int64).read_values() == [2, 1]


def test_an_open_epoch_runs_partitions_in_the_order_of_their_time():
    topology = Topology().add_source("in", ["t", "u"], **TEXT).add_sink("out", "o", "in", **TEXT)
    with TopologyTestDriver(topology, auto_commit=False, partitions=2) as driver:
        t, u = driver.input_topic("t", value=Serdes.string), driver.input_topic("u", value=Serdes.string)
        t.pipe("k", "t5", 5)
        t.pipe("k", "t1", 1)  # behind its own partition: stays behind t5
        u.pipe("k", "u4", 4)
        u.pipe("k", "u3", 3, partition=1)
        driver.commit()
        assert driver.output_topic("o", value=Serdes.string).read_values() == ["u3", "u4", "t5", "t1"]


@pytest.mark.parametrize("lanes", [1, 2, 5])
def test_every_lane_count_gives_the_same_counts(lanes):
    with TopologyTestDriver(counting(), lanes=lanes, partitions=3) as driver:
        words = driver.input_topic("words", value=Serdes.string)
        for n in range(60):
            words.pipe(f"k{n % 7}", "x", n, partition=n % 7 % 3)
        table = driver.output_topic("counts", value=Serdes.int64).read_table()
        assert table == {f"k{k}": len(range(k, 60, 7)) for k in range(7)}
        assert dict(driver.store("counts").all()) == table


def test_records_are_really_sharded():
    shards = set()

    class Where(Processor):
        def init(self, context):
            self.shard = context.shard

        def process(self, record):
            shards.add(self.shard)

    topology = Topology().add_source("in", "t", **TEXT).add_processor("where", Where, "in")
    with TopologyTestDriver(topology, lanes=4) as driver:
        driver.input_topic("t", value=Serdes.string).pipe_all([(f"k{n}", "x") for n in range(40)])
    assert len(shards) > 4


def test_a_shared_store_brings_its_processors_into_one_shard():
    topology = (
        Topology()
        .add_source("in", "words", **TEXT)
        .add_processor("count", Count, "in")
        .add_state_store(Stores.shared("counts", key=Serdes.string, value=Serdes.int64), "count")
    )
    with TopologyTestDriver(topology, lanes=4) as driver:
        driver.input_topic("words", value=Serdes.string).pipe_all([(f"k{n}", "x") for n in range(20)])
        assert len([state for state in driver._application.states if state.map("counts").count()]) == 1


class Tick(Processor):
    def __init__(self, kind):
        self.kind = kind

    def init(self, context):
        context.schedule(10, self.kind, lambda at: context.forward(Record("tick", str(at), at)))

    def process(self, record):
        pass


@pytest.mark.parametrize(
    ("kind", "expected"), [(PunctuationType.WALL_CLOCK_TIME, ["10", "35"]), (PunctuationType.STREAM_TIME, ["4", "27"])]
)
def test_punctuators_run_when_their_time_comes(kind, expected):
    topology = (
        Topology()
        .add_source("in", "t", **TEXT)
        .add_processor("tick", lambda: Tick(kind), "in")
        .add_sink("out", "o", "tick", **TEXT)
    )
    with TopologyTestDriver(topology, shards=1) as driver:  # each shard has punctuators of its own
        driver.advance_wall_clock(10)
        driver.input_topic("t", value=Serdes.string).pipe("a", "x", 4)
        driver.input_topic("t", value=Serdes.string).pipe("a", "x", 27)
        driver.advance_wall_clock(25)
        assert driver.output_topic("o", value=Serdes.string).read_values() == expected


def test_a_topic_that_is_written_and_read_is_fed_back():
    topology = (
        Topology().add_source("in", "a", **TEXT).add_sink("out", "b", "in", **TEXT).add_source("again", "b", **TEXT)
    ).add_sink("end", "c", "again", **TEXT)
    for auto_commit in (True, False):
        with TopologyTestDriver(topology, auto_commit=auto_commit) as driver:
            driver.input_topic("a", value=Serdes.string).pipe("k", "v", 1)
            driver.commit()
            assert driver.output_topic("c", value=Serdes.string).read() == Record("k", "v", 1)


def test_wrong_use_says_what_to_do():
    driver = TopologyTestDriver(counting())
    with pytest.raises(TopologyError, match="did you mean 'words'"):
        driver.input_topic("word")
    with pytest.raises(StoreError, match="did you mean 'counts'"):
        driver.store("count")
    with pytest.raises(ConfigError, match="partitions=1"):
        driver.input_topic("words", value=Serdes.string).pipe("a", "x", partition=1)
    with pytest.raises(ConfigError, match="did you mean 'lanes'"):
        TopologyTestDriver(counting(), config={"lane": 2})
    with pytest.raises(TopologyError, match="lanes must be at least 1"):
        TopologyTestDriver(counting(), lanes=0)
    with pytest.raises(ConfigError, match="dead_letter_topic"):
        TopologyTestDriver(counting(), config={"on_processing_error": "dead_letter"})


class Look(Processor):
    """Tells what the last barrier knew of a key."""

    def init(self, context):
        self.context = context

    def process(self, record):
        self.context.forward(record.with_value(self.context.view("counts").get(record.value)))


def test_a_view_shows_the_last_barrier_and_nothing_of_the_open_epoch():
    topology = counting().add_source("asks", "asks", **TEXT).add_processor("look", Look, "asks")
    topology.add_sink("found", "found", "look", key=Serdes.string, value=Serdes.int64)
    with TopologyTestDriver(topology, lanes=2, auto_commit=False) as driver:
        words, asks = driver.input_topic("words", **TEXT), driver.input_topic("asks", **TEXT)
        found = driver.output_topic("found", key=Serdes.string, value=Serdes.int64)
        words.pipe("a", "x", 1)
        asks.pipe("k", "a", 2)
        driver.commit()
        words.pipe("a", "y", 3)
        asks.pipe("k", "a", 4)
        driver.commit()
        assert found.read_values() == [None, 1]


def test_a_store_that_no_node_uses_cannot_be_read():
    topology = Topology().add_source("in", "words").add_state_store(Stores.key_value("unused"))
    with TopologyTestDriver(topology) as driver, pytest.raises(StoreError, match="no node uses the store 'unused'"):
        driver.store("unused")
