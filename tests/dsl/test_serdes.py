"""Serdes that are not given come from upstream where the type is unchanged, else they are string and JSON."""

import pytest

from penstock import JoinWindows, Processor, Serdes, SessionWindows, SlidingWindows, Stores, StreamsBuilder, TimeWindows
from penstock.topology.node import SinkNode, SourceNode

pytestmark = pytest.mark.capability("CO2", "CO3", "CO4")

INT, TEXT, LONG, JSON, BYTES = Serdes.int32, Serdes.string, Serdes.int64, Serdes.json, Serdes.bytes


@pytest.fixture
def builder():
    return StreamsBuilder()


def sink_serdes(builder, stream):
    stream.to("out", name="sink")
    sink = builder.build().nodes["sink"]
    assert isinstance(sink, SinkNode)
    return sink.key, sink.value


def store_serdes(builder, name):
    spec = builder.build().stores[name]
    return spec.key, spec.value


class Echo(Processor):
    def process(self, record):
        self.context.forward(record)


def yes(key, value):
    return True


STREAMS = {
    "kept by filter": (lambda s: s.filter(yes), (INT, BYTES)),
    "kept by peek": (lambda s: s.peek(yes), (INT, BYTES)),
    "kept by branches": (lambda s: s.split("x").branch(yes).no_default()["x1"], (INT, BYTES)),
    "kept by repartition": (lambda s: s.repartition(), (INT, BYTES)),
    "kept by deduplicate": (lambda s: s.deduplicate(by=yes, within=5), (INT, BYTES)),
    "kept by a merge of equals": (lambda s: s.merge(s.filter(yes)), (INT, BYTES)),
    "dropped by a merge of others": (lambda s: s.merge(s.map_values(str)), (INT, JSON)),
    "new value": (lambda s: s.map_values(str), (INT, JSON)),
    "new values": (lambda s: s.flat_map_values(str), (INT, JSON)),
    "new key": (lambda s: s.select_key(yes), (TEXT, BYTES)),
    "new record": (lambda s: s.map(yes), (TEXT, JSON)),
    "new records": (lambda s: s.flat_map(yes), (TEXT, JSON)),
    "a processor": (lambda s: s.process(Echo), (TEXT, JSON)),
    "a processor of values": (lambda s: s.process_values(Echo), (INT, JSON)),
    "stream join": (lambda s: s.join(s, yes, window=JoinWindows(1)), (INT, JSON)),
    "table join": (lambda s: s.left_join(s.to_table(), yes), (INT, JSON)),
    "to a table and back": (lambda s: s.to_table().to_stream(), (INT, BYTES)),
    "to a filtered table and back": (lambda s: s.to_table().filter(yes).to_stream(), (INT, BYTES)),
    "to a mapped table and back": (lambda s: s.to_table().map_values(str).to_stream(), (INT, JSON)),
    "to a mapped table with a serde": (lambda s: s.to_table().map_values(str, value=TEXT).to_stream(), (INT, TEXT)),
    "count": (lambda s: s.group_by_key().count().to_stream(), (INT, LONG)),
    "count by a new key": (lambda s: s.group_by(yes, key=BYTES).count().to_stream(), (BYTES, LONG)),
    "reduce": (lambda s: s.group_by_key().reduce(yes).to_stream(), (INT, BYTES)),
    "aggregate": (lambda s: s.group_by_key().aggregate(str, lambda k, v, a: a).to_stream(), (INT, JSON)),
    "aggregate with a serde": (
        lambda s: s.group_by_key().aggregate(str, lambda k, v, a: a, value=TEXT).to_stream(),
        (INT, TEXT),
    ),
    "group serdes win": (lambda s: s.group_by_key(value=TEXT).reduce(yes).to_stream(), (INT, TEXT)),
    "a spec's serdes win": (
        lambda s: s.group_by_key().reduce(yes, store=Stores.key_value("x", value=JSON)).to_stream(),
        (INT, JSON),
    ),
    "an option wins over the spec": (
        lambda s: s.group_by_key().reduce(yes, store=Stores.key_value("x", value=JSON), value=TEXT).to_stream(),
        (INT, TEXT),
    ),
    "time windows": (
        lambda s: s.group_by_key().windowed_by(TimeWindows(10)).count().to_stream(),
        (Serdes.windowed(INT, 10), LONG),
    ),
    "sliding windows": (
        lambda s: s.group_by_key().windowed_by(SlidingWindows(10)).reduce(yes).to_stream(),
        (Serdes.windowed(INT, 10), BYTES),
    ),
    "sessions": (
        lambda s: s.group_by_key().windowed_by(SessionWindows(10)).count().to_stream(),
        (Serdes.session_windowed(INT), LONG),
    ),
    "cogroup": (lambda s: s.group_by_key().cogroup(lambda k, v, a: a).aggregate(str).to_stream(), (INT, JSON)),
    "group a table": (lambda s: s.to_table().group_by(yes, value=TEXT).reduce(yes, yes).to_stream(), (TEXT, TEXT)),
    "foreign key": (lambda s: s.to_table().join(s.to_table(), yes, foreign_key=str).to_stream(), (INT, JSON)),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_sink_without_serdes_takes_those_of_its_stream(builder, name):
    make, expected = STREAMS[name]
    assert sink_serdes(builder, make(builder.stream("in", key=INT, value=BYTES))) == expected


def test_serdes_of_a_sink_win(builder):
    builder.stream("in", key=INT, value=BYTES).to("out", key=TEXT, value=JSON, name="sink")
    sink = builder.build().nodes["sink"]
    assert (sink.key, sink.value) == (TEXT, JSON)


def test_a_repartition_topic_has_the_serdes_of_its_group(builder):
    builder.stream("in", key=INT, value=BYTES).group_by(yes, key=LONG, name="group").count()
    source = builder.build().nodes["group-repartition-source"]
    assert isinstance(source, SourceNode)
    assert (source.key, source.value) == (LONG, BYTES)


def test_a_window_store_has_the_serde_of_the_inner_key(builder):
    builder.stream("in", key=INT).group_by_key().windowed_by(TimeWindows(10)).count(store="counts")
    assert store_serdes(builder, "counts") == (INT, LONG)


def test_a_table_store_has_the_serdes_of_its_topic(builder):
    builder.table("in", key=INT, value=BYTES, store="rows")
    assert store_serdes(builder, "rows") == (INT, BYTES)


def test_the_stores_of_a_stream_join_have_the_serdes_of_their_sides(builder):
    left, right = builder.stream("a", key=INT, value=BYTES), builder.stream("b", key=INT, value=TEXT)
    left.outer_join(right, yes, window=JoinWindows(5), store="j")
    assert store_serdes(builder, "j-outer-this-join-store") == (INT, BYTES)
    assert store_serdes(builder, "j-outer-other-join-store") == (INT, TEXT)


def test_windowed_keys_go_to_the_partition_of_their_key(builder):
    builder.stream("in").group_by_key().windowed_by(TimeWindows(10)).count().to_stream().to("out", name="sink")
    builder.stream("in").to("copy", name="plain")
    nodes = builder.build().nodes
    assert nodes["sink"].partitioner is not None
    assert nodes["plain"].partitioner is None
