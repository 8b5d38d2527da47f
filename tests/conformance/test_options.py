"""Options of sources, sinks, stores, groups and repartitions, and what is added to a builder, equal Kafka Streams'."""

import re
from datetime import timedelta
from typing import Any

import oracle
import pytest
from compare import check, run_both

from penstock import Serdes, StreamsBuilder
from penstock.extractors import TimestampExtractor
from penstock.processor import Processor
from penstock.state.spec import Stores
from penstock.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows

TEXT = {"key": Serdes.string, "value": Serdes.string}
NUMBERS = {"key": Serdes.int64, "value": Serdes.float64}
H = (("h", b"1"), ("n", None))
SCRIPT = [
    ("in", "a", "x", 5, H),
    ("other", "a", "p", 3),
    ("in", None, "y", 5),
    ("in", "b", None, 5, H),
    ("other", "b", None, 3),
    ("in", "a", "z", 2),
    ("other", "x", "q", 20),
    ("in", "b", "x", 30, H),
    ("other", None, "r", 20),
    ("in", "a", None, 30),
    ("in", "c", "y", 12),
]
INPUTS = {"in": (Serdes.string, Serdes.string), "other": (Serdes.string, Serdes.string)}


def compare_both(topology: Any, script: Any = SCRIPT, inputs: Any = INPUTS, **what: Any) -> None:
    check(topology, script, inputs=inputs, in_memory=False, **what)


class Keep(Processor):
    """Writes its store, and forwards what was there before."""

    def process(self, record: Any) -> None:
        store = self.context.store("kept")
        if record.key is not None:
            self.context.forward(record.with_value(f"{store.get(record.key)}->{record.value}"))
            store.put(record.key, record.value)


class Look(Processor):
    """Reads a global store."""

    def process(self, record: Any) -> None:
        store = self.context.store("kept")
        found = None if record.key is None else store.get(record.key)
        self.context.forward(record.with_value(f"{record.value}/{found}"))


class Fill(Processor):
    """Fills a global store in its own way."""

    def process(self, record: Any) -> None:
        if record.key is not None:
            self.context.store("kept").put(record.key, record.value and f"<{record.value}>")


# --- what is added to a builder


@pytest.mark.capability("SB4")
@pytest.mark.parametrize(
    "spec", [Stores.key_value("kept", **TEXT), Stores.lru("kept", 2, **TEXT)], ids=["plain", "lru"]
)
def test_a_store_added_to_the_builder_is_shared_by_name(spec):
    def topology(builder):
        builder.add_state_store(spec)
        builder.stream("in", **TEXT).process(Keep, stores=["kept"]).to("out", **TEXT)
        builder.stream("other", **TEXT).process(Keep, stores=["kept"], name="second").to("out2", **TEXT)

    compare_both(topology)


@pytest.mark.capability("SB5", "PA5")
@pytest.mark.parametrize("spec", [Stores.key_value("kept", **TEXT, logged=False)], ids=["plain"])
def test_a_global_store_is_filled_by_its_own_processor(spec):
    def topology(builder):
        builder.add_global_store(spec, "other", Fill, **TEXT)
        builder.stream("in", **TEXT).process(Look).to("out", **TEXT)

    compare_both(topology)


@pytest.mark.capability("SB3")
@pytest.mark.parametrize(
    "store", [None, "named", Stores.key_value("spec", persistent=False)], ids=["none", "name", "spec"]
)
def test_a_global_table_is_joined_by_any_key(store):
    def topology(builder):
        table = builder.global_table("other", **TEXT, store=store)
        stream = builder.stream("in", **TEXT)
        stream.left_join(table, lambda one, two: f"{one}{two}", select=lambda key, value: value).to("out", **TEXT)

    compare_both(topology)


@pytest.mark.capability("KT9", "SB3")
def test_only_stores_that_were_asked_for_have_a_name_to_query():
    def names(builder):
        table = builder.table("in", **TEXT)
        stored = builder.table("other", **TEXT, store="others")
        joined = table.join(stored, lambda one, two: one, store="joined")
        return [
            table.queryable_store_name,
            stored.queryable_store_name,
            table.filter(lambda key, value: True).queryable_store_name,
            stored.map_values(lambda value: value, store="mapped", **TEXT).queryable_store_name,
            joined.queryable_store_name,
            builder.global_table("third", **TEXT, store="global").queryable_store_name,
        ]

    assert names(StreamsBuilder()) == names(oracle.StreamsBuilder()) == [
        None, "others", None, "mapped", "joined", "global",
    ]  # fmt: skip


# --- sources and sinks


SOURCES = {
    "serdes": {},
    "name": {"name": "source"},
    "earliest": {"offset_reset": "earliest"},
    "latest": {"offset_reset": "latest", "name": "new"},
    "none": {"offset_reset": "none"},
    "duration": {"offset_reset": timedelta(hours=1)},
    "timestamp": {"timestamp": lambda record, partition_time: max(record.timestamp, partition_time) + 1},
    "skip": {"timestamp": TimestampExtractor.skip_on_invalid},
}


@pytest.mark.capability("CO1", "SB1", "SB2")
@pytest.mark.parametrize("name", SOURCES)
def test_options_of_a_source(name):
    def topology(builder):
        builder.stream("in", **TEXT, **SOURCES[name]).to("out", **TEXT)
        table = SOURCES[name] | ({"name": f"{SOURCES[name]['name']}-table"} if "name" in SOURCES[name] else {})
        builder.table("other", **TEXT, **table).to_stream().to("rows", **TEXT)

    compare_both(topology)


@pytest.mark.capability("CO1", "CO2")
def test_serdes_of_a_source_and_of_a_sink():
    def topology(builder):
        builder.stream("in", **NUMBERS).map(lambda key, value: (int(value), key / 2)).to("out", **NUMBERS, name="sink")

    script = [("in", 1, 2.5, 0), ("in", -(2**40), -1.0, 3), ("in", 7, 1e18, 2)]
    compare_both(topology, script, {"in": (Serdes.int64, Serdes.float64)})


@pytest.mark.capability("CO2", "RT2")
@pytest.mark.parametrize("answer", [0, None, [0], ()], ids=["one", "default", "several", "none"])
def test_the_partitioner_of_a_sink(answer):
    def topology(builder):
        builder.stream("in", **TEXT).to("out", **TEXT, partitioner=lambda topic, key, value, partitions: answer)

    compare_both(topology)


# --- stores


STORES = {
    "name": "kept",
    "spec": Stores.key_value("kept"),
    "in memory": Stores.key_value("kept", persistent=False),
    "not logged": Stores.key_value("kept", logged=False),
    "cached": Stores.key_value("kept", cached=True),
    "not cached": Stores.key_value("kept", cached=False),
    "serdes": Stores.key_value("kept", key=Serdes.string, value=Serdes.string),
    "versioned": Stores.versioned("kept", history=100),
}


@pytest.mark.capability("CO3", "KG2", "KS11", "ST7")
@pytest.mark.parametrize("name", STORES)
def test_options_of_a_tables_store(name):
    def topology(builder):
        stream = builder.stream("in", **TEXT)
        stream.group_by_key(**TEXT).reduce(lambda one, two: one + two, store=STORES[name], **TEXT).to_stream().to(
            "out", **TEXT
        )
        other = STORES[name] if isinstance(STORES[name], str) else STORES[name].with_(name="other-kept")
        other = "other-kept" if isinstance(other, str) else other
        builder.stream("other", **TEXT).to_table(store=other, **TEXT).to_stream().to("rows", **TEXT)

    compare_both(topology, changelogs="log" not in name)


WINDOW_STORES = {
    "longer": (TimeWindows(10, grace=5), Stores.window("kept", retention=1_000_000, size=10)),
    "in memory": (TimeWindows(10), Stores.window("kept", retention=10, size=10, persistent=False)),
    "not logged": (TimeWindows(10), Stores.window("kept", retention=10, size=10, logged=False)),
    "not cached": (TimeWindows(10, grace=5), Stores.window("kept", retention=1_000_000, size=10, cached=False)),
    "longer in memory": (TimeWindows(10, grace=5), Stores.window("kept", retention=25, size=10, persistent=False)),
    "sliding": (SlidingWindows(10, grace=5), Stores.window("kept", retention=1_000_000, size=10)),
    "sliding not cached": (SlidingWindows(10, grace=5), Stores.window("kept", 1_000_000, size=10, cached=False)),
    "sessions": (SessionWindows(5, grace=5), Stores.session("kept", retention=1_000_000)),
    "sessions in memory": (SessionWindows(5), Stores.session("kept", retention=100, persistent=False)),
    "sessions not logged": (SessionWindows(5), Stores.session("kept", retention=5, logged=False)),
    "sessions not cached": (SessionWindows(5, grace=5), Stores.session("kept", retention=1_000_000, cached=False)),
}


@pytest.mark.capability("CO3", "TW1", "SW1", "ST5", "ST6", "ST7")
@pytest.mark.parametrize("name", WINDOW_STORES)
def test_options_of_a_windowed_store(name):
    windows, store = WINDOW_STORES[name]

    def topology(builder):
        grouped = builder.stream("in", **TEXT).group_by_key(**TEXT).windowed_by(windows)
        key = Serdes.session_windowed(Serdes.string) if "sessions" in name else Serdes.windowed(Serdes.string, 10)
        grouped.count(store=store, key=Serdes.string, value=Serdes.int64).to_stream().to(
            "out", key=key, value=Serdes.int64
        )

    compare_both(topology)


TOO_SHORT = {
    "time": (TimeWindows(10, grace=5), Stores.window("kept", retention=14, size=10)),
    "sliding": (SlidingWindows(10, grace=5), Stores.window("kept", retention=24, size=10)),
    "sessions": (SessionWindows(10, grace=5), Stores.session("kept", retention=14)),
}


@pytest.mark.capability("CO3")
@pytest.mark.parametrize("name", TOO_SHORT)
@pytest.mark.parametrize("missing", [1, 0])
def test_a_retention_shorter_than_the_windows_is_refused(name, missing):
    windows, store = TOO_SHORT[name]
    store = store.with_(retention=store.retention + 1 - missing)

    def topology(builder):
        grouped = builder.stream("in", **TEXT).group_by_key(**TEXT).windowed_by(windows)
        grouped.count(store=store, key=Serdes.string, value=Serdes.int64)

    both = run_both(topology, [], inputs=INPUTS)
    assert both.kafka.failed == both.penstock.failed == (-1 if missing else None)


SETTINGS = {"retention.ms": 60_000, "segment.bytes": "1048576", "preallocate": False}
CONFIGURED = {
    "table": lambda b: b.table("in", **TEXT, store=Stores.key_value("kept", topic_config=SETTINGS)),
    "to_table": lambda b: b.stream("in", **TEXT).to_table(store=Stores.key_value("kept", topic_config=SETTINGS), **TEXT),
    "versioned": lambda b: b.table("in", **TEXT, store=Stores.versioned("kept", 100, topic_config=SETTINGS)),
    "lru": lambda b: b.table("in", **TEXT, store=Stores.lru("kept", 10, topic_config=SETTINGS)),
    "count": lambda b: b.stream("in", **TEXT).group_by_key(**TEXT).count(
        store=Stores.key_value("kept", topic_config=SETTINGS)
    ),
    "windows": lambda b: b.stream("in", **TEXT).group_by_key(**TEXT).windowed_by(TimeWindows(10)).count(
        store=Stores.window("kept", 10, 10, topic_config=SETTINGS)
    ),
    "sessions": lambda b: b.stream("in", **TEXT).group_by_key(**TEXT).windowed_by(SessionWindows(10)).count(
        store=Stores.session("kept", 10, topic_config=SETTINGS)
    ),
    "join": lambda b: b.stream("in", **TEXT).left_join(
        b.stream("other", **TEXT), lambda one, two: one, window=JoinWindows(5), **TEXT, other_value=Serdes.string,
        store=Stores.window("kept", 10, 10, topic_config=SETTINGS),
    ),
    "joined table": lambda b: b.table("in", **TEXT, store="a").join(
        b.table("other", **TEXT, store="b"), lambda one, two: one,
        store=Stores.key_value("kept", topic_config=SETTINGS), **TEXT,
    ),
    "processor": lambda b: b.stream("in", **TEXT).process(
        Keep, stores=[Stores.key_value("kept", topic_config=SETTINGS, **TEXT)]
    ),
    "none": lambda b: b.table("in", **TEXT, store="kept"),
}  # fmt: skip


@pytest.mark.capability("CO3", "CO6", "ST7")
@pytest.mark.parametrize("name", CONFIGURED)
def test_settings_of_changelog_topics(name):
    builders = oracle.StreamsBuilder(), StreamsBuilder()
    for builder in builders:
        CONFIGURED[name](builder)
    kafka, penstock = (builder.build() for builder in builders)
    stores = penstock.to_json()["stores"]
    assert {store["name"]: store["topic_config"] for store in stores if store["logged"]} == kafka.topic_configs()
    assert penstock.describe() == kafka.describe()


# --- groups, repartitions, names


@pytest.mark.capability("CO4", "KS12")
@pytest.mark.parametrize("name", [None, "words"])
def test_options_of_a_group(name):
    def topology(builder):
        stream = builder.stream("in", **TEXT)
        stream.group_by(lambda key, value: value, **TEXT, name=name).count(store="by-value").to_stream().to(
            "out", key=Serdes.string, value=Serdes.int64
        )
        stream.group_by_key(**TEXT).count(store="by-key").to_stream().to("out2", key=Serdes.string, value=Serdes.int64)

    compare_both(topology)


@pytest.mark.capability("CO4", "KT6")
@pytest.mark.parametrize("name", [None, "rows"])
def test_options_of_a_grouped_table(name):
    def topology(builder):
        table = builder.table("in", **TEXT)
        grouped = table.group_by(lambda key, value: (value, key), **TEXT, name=name)
        grouped.count(store="counts").to_stream().to("out", key=Serdes.string, value=Serdes.int64)

    compare_both(topology)


REPARTITIONS = {
    "none": TEXT,
    "name": {**TEXT, "name": "moved"},
    "partitions": {**TEXT, "partitions": 1},
    "partitioner": {**TEXT, "partitioner": lambda topic, key, value, partitions: 0, "name": "moved"},
}


@pytest.mark.capability("CO8", "KS9")
@pytest.mark.parametrize("name", REPARTITIONS)
def test_options_of_a_repartition(name):
    def topology(builder):
        builder.stream("in", **TEXT).select_key(lambda key, value: value).repartition(**REPARTITIONS[name]).to(
            "out", **TEXT
        )

    compare_both(topology)


@pytest.mark.capability("CO9", "KS7")
def test_every_node_can_be_named():
    def topology(builder):
        stream = builder.stream("in", **TEXT, name="source").filter(lambda key, value: value != "y", name="keep")
        stream = stream.map_values(lambda value: value and value + "!", name="loud").peek(
            lambda key, value: None, name="see"
        )
        branches = stream.split("by-").branch(lambda key, value: key == "a", name="a").default(name="rest")
        branches["by-a"].merge(branches["by-rest"], name="again").to("out", **TEXT, name="sink")
        table = branches["by-rest"].to_table(**TEXT, store="rows", name="table")
        table.map_values(lambda value: value and value * 2, name="twice", store="doubled", **TEXT).to_stream(
            name="changes"
        ).to("out2", **TEXT)

    compare_both(topology)


@pytest.mark.capability("CO9")
@pytest.mark.parametrize("name", ["", "with space", "ä", "x" * 250, ".", "..", "a/b"])
def test_a_name_that_kafka_refuses_is_refused(name):
    for builder in (oracle.StreamsBuilder(), StreamsBuilder()):
        with pytest.raises(Exception, match=r".") as caught:
            builder.stream("in", **TEXT).filter(lambda key, value: True, name=name)
        assert not isinstance(caught.value, AttributeError)


# --- windows of joins


@pytest.mark.capability("W5", "KS13")
@pytest.mark.parametrize(
    "windows",
    [
        JoinWindows(3),
        JoinWindows(10, grace=5),
        JoinWindows(0),
        JoinWindows(10, before=0),
        JoinWindows(10, after=0),
        JoinWindows(10, before=-2, after=17, grace=3),
        JoinWindows(timedelta(milliseconds=27)),
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["join", "left_join", "outer_join"])
def test_the_windows_of_a_join(method, windows):
    def topology(builder):
        left, right = builder.stream("in", **TEXT), builder.stream("other", **TEXT)
        serdes = {**TEXT, "other_value": Serdes.string}
        joined = getattr(left, method)(right, lambda one, two: f"{one}{two}", window=windows, **serdes)
        joined.to("out", **TEXT)

    compare_both(topology, headers=method == "join")


def test_a_pattern_is_a_source_too():
    def topology(builder):
        builder.stream(re.compile("i.*"), **TEXT, name="matching").to("out", **TEXT)

    compare_both(topology, [step for step in SCRIPT if step[0] == "in"])
