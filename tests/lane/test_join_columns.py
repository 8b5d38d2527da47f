"""Joins of streams and tables whose records alternate: by column they read what they read one by one."""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from both_ways import Runs, both_ways, needs_kernels, records, trying, watch_columns
from hypothesis import given
from hypothesis import strategies as st

from penstock import Serdes, Stores, StreamsBuilder
from penstock import config as configuration
from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.batch.provenance import provenance_of
from penstock.clock import SystemClock
from penstock.kernels import batch_path
from penstock.lane.sink import Row, SinkBatch
from penstock.lane.task import Task
from penstock.plan.batch_paths import find_batch_paths
from penstock.protocol.envelope import pack_headers
from penstock.record import Origin
from penstock.state.memory import MemoryState
from penstock.state.open import Standalone, open_store
from penstock.windows import TimeWindows


def table_of(b: StreamsBuilder, topic: str = "in", **options: Any) -> Any:
    return b.table(topic, key=Serdes.string, value=Serdes.json, store=options.pop("store", "s"))


def stream_of(b: StreamsBuilder, topic: str = "side") -> Any:
    return b.stream(topic, key=Serdes.string, value=Serdes.json)


def pair(value: Any, row: Any) -> Any:
    return [value["n"], None if row is None else row["n"]]


def inner(b: StreamsBuilder) -> None:
    table = table_of(b)
    stream_of(b).join(table, pair).to("out")


def left_with_key(b: StreamsBuilder) -> None:
    table = table_of(b)
    stream_of(b).left_join(table, lambda k, v, row: [k, *pair(v, row)], with_key=True).to("out")


def several_joins(b: StreamsBuilder) -> None:
    table = table_of(b)
    source = stream_of(b)
    source.join(table, pair).to("out")
    source.left_join(table, pair).map_values(lambda v: {"n": v[1] or 0}).join(table, pair).to("other")
    stream_of(b, "more").join(table, pair).to("third")


def several_tables(b: StreamsBuilder) -> None:
    one, other = table_of(b), table_of(b, "more", store="t")
    joined = stream_of(b).left_join(one, pair).left_join(other, lambda v, row: [*v, None if row is None else row["n"]])
    joined.to("out")


def behind_others(b: StreamsBuilder) -> None:
    table = table_of(b)
    some = stream_of(b).filter(lambda k, v: v is not None).map_values(lambda v: {"n": v["n"] + 1})
    some.flat_map_values(lambda v: [v] * (v["n"] % 3)).left_join(table, pair).to("out")


def then_counted(b: StreamsBuilder) -> None:
    table = table_of(b)
    joined = stream_of(b).join(table, lambda v, row: v["n"] + row["n"])
    joined.group_by_key(value=Serdes.json).aggregate(
        lambda: 0, lambda k, v, a: (a * 3 + v) % 1000, store="sums"
    ).to_stream().to("out")


def then_windowed(b: StreamsBuilder) -> None:
    table = table_of(b)
    joined = stream_of(b).left_join(table, pair)
    counts = joined.group_by_key(value=Serdes.json).windowed_by(TimeWindows(10, grace=5)).count(store="counts")
    counts.to_stream().map(lambda k, v: (str(k), v)).to("out")


def to_two_topics(b: StreamsBuilder) -> None:
    table = table_of(b)
    joined = stream_of(b).left_join(table, pair)
    joined.to("out")
    joined.map_values(lambda v: v[::-1]).to("other")


def updates_go_on(b: StreamsBuilder) -> None:
    table = table_of(b)
    table.to_stream().to("other")
    stream_of(b).left_join(table, pair).to("out")


def updates_go_on_at_once(b: StreamsBuilder) -> None:
    table = table_of(b, store=Stores.key_value("s", cached=False))
    table.to_stream().map_values(lambda v: None if v is None else [v]).to("other")
    stream_of(b).left_join(table, pair).to("out")


def updates_meet_results(b: StreamsBuilder) -> None:
    """Both go to one topic at once: its order is that of the records."""
    table = table_of(b, store=Stores.key_value("s", cached=False))
    table.to_stream().to("out")
    stream_of(b).left_join(table, pair).to("out")


def updates_meet_results_at_the_barrier(b: StreamsBuilder) -> None:
    table = table_of(b)
    table.to_stream().to("out")
    stream_of(b).left_join(table, pair).to("out")


def through_views(b: StreamsBuilder) -> None:
    table = table_of(b)
    seen = table.filter(lambda k, v: v["n"] > 1).map_values(lambda v: None if v["n"] == 3 else {"n": -v["n"]})
    stream_of(b).left_join(seen, pair).to("out")
    stream_of(b, "more").join(table.filter_not(lambda k, v: v["n"] > 1), pair).to("other")


def changing(b: StreamsBuilder) -> None:
    """A joiner that changes the row it is given, and hands it on."""
    table = table_of(b)

    def changed(value: Any, row: Any) -> Any:
        row["n"] += value["n"] + 1
        return row

    stream_of(b).join(table, changed).to("out")


def table_of_a_stream(b: StreamsBuilder) -> None:
    """Two updates of a key at one place."""
    rows = stream_of(b, "in").flat_map_values(lambda v: [] if v is None else [{"n": -1}, v]).to_table(store="s")
    stream_of(b).left_join(rows, pair).to("out")


def old_values(b: StreamsBuilder) -> None:
    table = table_of(b)
    table.group_by(lambda k, v: (str(v["n"]), v), value=Serdes.json).count(store="counts").to_stream().to("other")
    stream_of(b).left_join(table, pair).to("out")


def rekeyed(b: StreamsBuilder) -> None:
    table = table_of(b)
    moved = stream_of(b).filter(lambda k, v: v is not None).select_key(lambda k, v: "abcd"[v["n"] % 4])
    moved.left_join(table, pair).to("out")


def apart(b: StreamsBuilder) -> None:
    """Sources that do not meet."""
    stream_of(b, "in").group_by_key().count(store="s").to_stream().to("out", value=Serdes.int64)
    stream_of(b).map_values(lambda v: [v]).to("other")
    table_of(b, "more", store="t").to_stream().to("third")


def merged(b: StreamsBuilder) -> None:
    """Sources that meet in a topic."""
    stream_of(b, "in").merge(stream_of(b)).map_values(lambda v: [v]).to("out")


def beside_counts(b: StreamsBuilder) -> None:
    """Rows that stand for many records come with others, and their value could be read as one of theirs."""
    numbers = stream_of(b).filter(lambda k, v: v is not None).map(lambda k, v: ("abcd"[v["n"] % 4], v["n"]))
    numbers.group_by_key(key=Serdes.string, value=Serdes.int64).count(store="c").to_stream().to(
        "other", value=Serdes.int64
    )
    moved = stream_of(b, "more").filter(lambda k, v: v is not None).select_key(lambda k, v: "abcd"[v["n"] % 4])
    moved.left_join(table_of(b), pair).to("out")


def with_itself(b: StreamsBuilder) -> None:
    """A record meets the row that it has just written."""
    source = stream_of(b)
    source.left_join(source.to_table(store="s"), pair).to("out")


def with_counts(b: StreamsBuilder) -> None:
    """A table that is folded tells nobody of its updates by place."""
    counts = stream_of(b, "in").group_by_key().count(store="s")
    stream_of(b).left_join(counts, lambda v, count: [v["n"], count]).to("out")


def each_other(b: StreamsBuilder) -> None:
    """Each stream is a table for the other: neither can go first."""
    one, other = stream_of(b, "in"), stream_of(b)
    tables = one.to_table(store="s"), other.to_table(store="t")
    one.left_join(tables[1], pair).to("out")
    other.left_join(tables[0], pair).to("other")


def by_foreign_key(b: StreamsBuilder) -> None:
    """Updates of tables by column, whose readers take them one by one."""
    one, other = table_of(b), table_of(b, "side", store="t")
    one.left_join(other, pair, foreign_key=lambda v: "abc"[v["n"] % 3]).to_stream().to("out")


def tables(b: StreamsBuilder) -> None:
    one, other = table_of(b), table_of(b, "side", store="t")
    one.outer_join(other, lambda v, w: [v and v["n"], w and w["n"]]).to_stream().to("out")


def of_versions(b: StreamsBuilder) -> None:
    table = table_of(b, store=Stores.versioned("s", history=20))
    stream_of(b).left_join(table, pair).to("out")
    stream_of(b, "more").join(table, pair, grace=5).to("other")


def expiring(b: StreamsBuilder) -> None:
    table = table_of(b, store=Stores.key_value("s", ttl=8))
    stream_of(b).left_join(table, pair).to("out")


def bounded(b: StreamsBuilder) -> None:
    table = table_of(b, store=Stores.lru("s", max_entries=2))
    stream_of(b).left_join(table, pair).to("out")


#: all records of these go by column; the others refuse some, or all
BY_COLUMN: list[Callable[[StreamsBuilder], None]] = [
    inner, left_with_key, several_joins, several_tables, behind_others, then_counted, then_windowed, to_two_topics, updates_go_on,
    updates_go_on_at_once, updates_meet_results_at_the_barrier, through_views, changing, table_of_a_stream, rekeyed, apart,
]  # fmt: skip
SHAPES = [
    *BY_COLUMN,
    beside_counts,
    merged,
    by_foreign_key,
    tables,
    old_values,
    updates_meet_results,
    with_itself,
    with_counts,
    each_other,
    of_versions,
    expiring,
    bounded,
]

#: topic, partition, key, value, timestamp, headers: a key is often updated several times between two records of it
alternating = st.lists(
    st.tuples(
        st.sampled_from(["in", "in", "side", "side", "more"]),
        st.integers(0, 1),
        st.sampled_from([b"a", b"b", b"b", b"c"]),
        st.sampled_from([*(msgspec.json.encode({"n": n}) for n in range(5)), None]),
        st.integers(0, 40),
        st.sampled_from([None, None, None, pack_headers((("h", b"1"),))]),
    ),
    min_size=1,
    max_size=60,
)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@trying(10)
@given(epochs=st.lists(alternating, min_size=1, max_size=2))
def test_records_read_the_rows_of_their_moment(shape, folders, epochs):
    both_ways(shape, folders, epochs, "fail", apart=True)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@trying(4)
@given(epochs=st.lists(records, min_size=1, max_size=2), policy=st.sampled_from(["skip", "dead_letter"]))
def test_records_of_which_some_cannot_be_read_or_fail(shape, folders, epochs, policy):
    both_ways(shape, folders, epochs, policy)


@pytest.mark.parametrize("shape", BY_COLUMN, ids=lambda shape: shape.__name__)
def test_records_that_alternate_go_by_column(shape, folders, monkeypatch):
    taken = watch_columns(monkeypatch)
    runs = Runs(shape, folders(), "fail")
    for epoch in range(3):
        rows = [
            (("in", "side", "side", "more")[n % 4], n % 2, b"abcdefgh"[n % 7 : n % 7 + 1], b'{"n":%d}' % (n % 5), 400 * epoch + n, None)
            for n in range(400)
        ]  # fmt: skip
        seen = runs.epoch(rows)
        assert "failed" not in seen, seen
        assert seen["sinks"]
    assert taken
    assert all(taken)


@needs_kernels
def test_sources_of_which_one_was_given_up_do_not_go_together():
    builder = StreamsBuilder()
    inner(builder)
    config = configuration.load({}, environ={})
    topology = builder.build()
    paths = find_batch_paths(topology)
    task = Task(topology, 0, MemoryState(), application_id="a", config=config, clock=SystemClock(), batch_paths=paths)
    sources = {task.topology.node(source).topics[0]: source for source in task.entries}
    assert task.batches.takes(*sources.values())
    task.stores["s"].write("a", {"n": 1}, 0)
    origin = Origin("side", 0, 0, 0, None, None, (), 0, 0)
    wrong = Batch(Column(["a"]), Column(["no object"]), np.array([0]), None, provenance_of([origin]))
    for _ in range(batch_path.TRUST):
        assert task.batches.takes(*sources.values())
        assert not task.batches.process(sources["side"], wrong)
    assert not task.batches.takes(*sources.values())
    assert task.batches.takes(sources["in"])


def orders_by_country(b: StreamsBuilder, *, left: bool) -> None:
    lands = b.global_table("lands", key=Serdes.string, value=Serdes.json, store="lands")
    orders = stream_of(b, "in")
    join = orders.left_join if left else orders.join
    join(lands, lambda k, v, row: [k, *pair(v, row)], select=lambda k, v: v and v.get("land"), with_key=True).to("out")


def global_join(left: bool, rows: list[tuple[str, Any]], *, by_column: bool) -> tuple[list[Any], dict[Any, int]]:
    """Run records through a join with a global table, in a task of its own; return what left it, and what was dropped."""
    builder = StreamsBuilder()
    orders_by_country(builder, left=left)
    topology = builder.build()
    lands = open_store(topology.stores["lands"], MemoryState(), Standalone())
    for land in ("at", "be"):
        lands.write(land, {"n": len(land) + ord(land[0])}, 0)
    config = configuration.load({}, environ={})
    task = Task(
        topology,
        0,
        MemoryState(),
        application_id="a",
        config=config,
        clock=SystemClock(),
        global_stores={"lands": lands},
        batch_paths=find_batch_paths(topology),
    )
    (source,) = task.entries
    origins = [Origin("in", 0, at, at, None, None, (), 0, at) for at in range(len(rows))]
    keys, values = [key for key, _ in rows], [value for _, value in rows]
    times = np.arange(len(rows), dtype=np.int64)
    if by_column:
        assert task.batches.takes(source)
        assert task.batches.process(source, Batch(Column(keys), Column(values), times, None, provenance_of(origins)))
        left_by_column = [out for out in task.outputs if isinstance(out, SinkBatch)]
        found = [
            pair for out in left_by_column for pair in zip(out.keys.to_pylist(), out.values.to_pylist(), strict=True)
        ]
    else:
        task.process_all(source, zip(keys, values, times.tolist(), [()] * len(rows), origins, strict=True))
        found = [(row.key, row.value) for row in task.outputs if isinstance(row, Row)]
    return found, task.dropped


@needs_kernels
@pytest.mark.parametrize("left", [True, False])
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.none()
            | st.builds(lambda n, land: {"n": n, "land": land}, st.integers(0, 9), st.sampled_from(["at", "be", "no"])),
        ),
        min_size=1,
    )
)
def test_joins_with_a_global_table_are_the_same_by_column(left, rows):
    assert global_join(left, rows, by_column=True) == global_join(left, rows, by_column=False)
