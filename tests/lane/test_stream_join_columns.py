"""Joins of streams whose records alternate: by column each meets what it meets one by one, and leaves what it leaves one by one."""

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from both_ways import Runs, both_ways, records, trying, watch_columns
from hypothesis import given
from hypothesis import strategies as st

from penstock import Serdes, Stores, StreamsBuilder
from penstock.protocol.envelope import pack_headers
from penstock.windows import JoinWindows, TimeWindows

#: of one millisecond of the windows in the shapes; a segment is a minute long at least
SCALE = 5_000
WINDOW = JoinWindows(5 * SCALE, grace=3 * SCALE)


class Box(msgspec.Struct):
    n: int


def stream_of(b: StreamsBuilder, topic: str, value: Any = Serdes.json) -> Any:
    return b.stream(topic, key=Serdes.string, value=value)


def pair(left: Any, right: Any) -> Any:
    return [left and left["n"], right and right["n"]]


def inner(b: StreamsBuilder) -> None:
    stream_of(b, "in").join(stream_of(b, "side"), pair, window=WINDOW).to("out")


def with_key(b: StreamsBuilder) -> None:
    joined = stream_of(b, "in").join(
        stream_of(b, "side"), lambda k, v, w: [k, *pair(v, w)], window=WINDOW, with_key=True
    )
    joined.to("out")


def before_alone(b: StreamsBuilder) -> None:
    window = JoinWindows(0, before=6 * SCALE)
    stream_of(b, "in").join(stream_of(b, "side"), pair, window=window).to("out")


def later_by_some(b: StreamsBuilder) -> None:
    window = JoinWindows(0, before=-2 * SCALE, after=6 * SCALE, grace=1)
    stream_of(b, "in").join(stream_of(b, "side"), pair, window=window).to("out")


def typed(b: StreamsBuilder) -> None:
    boxes = Serdes.json_of(Box)
    one, other = stream_of(b, "in", boxes), stream_of(b, "side", boxes)
    one.join(other, lambda v, w: Box(10 * v.n + w.n), window=WINDOW).to("out", value=boxes)


def raw(b: StreamsBuilder) -> None:
    one, other = stream_of(b, "in", Serdes.bytes), stream_of(b, "side", Serdes.bytes)
    one.join(other, lambda v, w: v + w, window=WINDOW).to("out", value=Serdes.bytes)


def several_results(b: StreamsBuilder) -> None:
    """A record goes on as several, and its rows are put several times, at one place."""
    one = stream_of(b, "in").filter(lambda k, v: v is not None).flat_map_values(lambda v: [v, {"n": -v["n"]}])
    one.join(stream_of(b, "side"), pair, window=WINDOW).flat_map_values(lambda v: [v, v[::-1]]).to("out")


def then_counted(b: StreamsBuilder) -> None:
    joined = stream_of(b, "in").join(stream_of(b, "side"), pair, window=WINDOW)
    joined.group_by_key(value=Serdes.json).aggregate(
        lambda: 0, lambda k, v, a: (a * 3 + v[0] + 2 * v[1]) % 1000, store="sums"
    ).to_stream().to("out")


def then_windowed(b: StreamsBuilder) -> None:
    joined = stream_of(b, "in").join(stream_of(b, "side"), pair, window=WINDOW)
    windows = TimeWindows(10 * SCALE, grace=5 * SCALE)
    counts = joined.group_by_key(value=Serdes.json).windowed_by(windows).count(store="counts")
    counts.to_stream().map(lambda k, v: (str(k), v)).to("out")


def then_with_a_table(b: StreamsBuilder) -> None:
    table = b.table("more", key=Serdes.string, value=Serdes.json, store="t")
    joined = stream_of(b, "in").join(stream_of(b, "side"), pair, window=WINDOW)
    joined.left_join(table, lambda v, row: [*v, row and row["n"]]).to("out")


def three_streams(b: StreamsBuilder) -> None:
    joined = stream_of(b, "in").join(stream_of(b, "side"), lambda v, w: {"n": 10 * v["n"] + w["n"]}, window=WINDOW)
    joined.join(stream_of(b, "more"), pair, window=JoinWindows(3 * SCALE)).to("out")


def several_joins(b: StreamsBuilder) -> None:
    one, other = stream_of(b, "in"), stream_of(b, "side")
    one.join(other, pair, window=WINDOW).to("out")
    one.map_values(lambda v: v and {"n": v["n"] + 1}).join(
        stream_of(b, "more"), pair, window=JoinWindows(2 * SCALE)
    ).to("other")


def to_two_topics(b: StreamsBuilder) -> None:
    joined = stream_of(b, "in").join(stream_of(b, "side"), pair, window=WINDOW)
    joined.to("out")
    joined.map_values(lambda v: v[::-1]).to("other")


def beside_others(b: StreamsBuilder) -> None:
    """A table and its reader go along with the join."""
    inner(b)
    table = b.table("more", key=Serdes.string, value=Serdes.json, store="t")
    stream_of(b, "third").join(table, pair).to("other")


def rekeyed(b: StreamsBuilder) -> None:
    def moved(topic: str) -> Any:
        return stream_of(b, topic).filter(lambda k, v: v is not None).select_key(lambda k, v: "abcd"[v["n"] % 4])

    moved("in").join(moved("side"), pair, window=WINDOW).to("out")


def rekeyed_twice(b: StreamsBuilder) -> None:
    """Of two sides one is re-keyed, and so is what they come to; the order of that is that of the records."""
    moved = stream_of(b, "in").filter(lambda k, v: v is not None).select_key(lambda k, v: "abcd"[v["n"] % 4])
    joined = moved.join(stream_of(b, "side"), pair, window=WINDOW)
    again = joined.group_by(lambda k, v: str((v[0] + v[1]) % 2), value=Serdes.json)
    again.aggregate(lambda: 0, lambda k, v, a: (a * 7 + v[0] + 2 * v[1]) % 10_000, store="sums").to_stream().to("out")


def changing_the_row(b: StreamsBuilder) -> None:
    """A joiner that changes one side, and hands it on: a row that it finds, or the record itself, which then is kept so."""

    def changed(value: Any, row: Any) -> Any:
        row["n"] += value["n"] + 1
        return row

    stream_of(b, "side").join(stream_of(b, "in"), changed, window=WINDOW).to("out")


def changing_the_record(b: StreamsBuilder) -> None:
    """A joiner that changes the record: it is kept as it is then, and so meets the next row."""

    def changed(value: Any, row: Any) -> Any:
        value["n"] += 1
        row["n"] += 1
        return {"n": value["n"] * row["n"]}

    stream_of(b, "in").join(stream_of(b, "side"), changed, window=WINDOW).to("out")


def changed_behind(b: StreamsBuilder) -> None:
    """A record that is changed by a node behind the join."""

    def changed(both: Any) -> Any:
        both[0]["n"] += 1
        return both[0]["n"] + both[1]["n"]

    stream_of(b, "in").join(stream_of(b, "side"), lambda v, w: [v, w], window=WINDOW).map_values(changed).to("out")


def changing_updates(b: StreamsBuilder) -> None:
    """A joiner that changes the update of a table, of which the bytes are at hand."""

    def changed(value: Any, row: Any) -> Any:
        value["n"] += 1
        return {"n": value["n"] * row["n"]}

    table = b.table("in", key=Serdes.string, value=Serdes.json, store="t")
    table.to_stream().join(stream_of(b, "side"), changed, window=WINDOW).to("out")


def in_memory(b: StreamsBuilder) -> None:
    store = Stores.window("s", retention=WINDOW.retention, size=WINDOW.size, retain_duplicates=True, persistent=False)
    stream_of(b, "in").join(stream_of(b, "side"), pair, window=WINDOW, store=store).to("out")


def left(b: StreamsBuilder) -> None:
    stream_of(b, "in").left_join(stream_of(b, "side"), pair, window=WINDOW).to("out")


def outer(b: StreamsBuilder) -> None:
    stream_of(b, "in").outer_join(stream_of(b, "side"), pair, window=WINDOW).to("out")


def outer_with_key(b: StreamsBuilder) -> None:
    window = JoinWindows(0, before=-SCALE, after=4 * SCALE)
    joined = stream_of(b, "in").outer_join(
        stream_of(b, "side"), lambda k, v, w: [k, *pair(v, w)], window=window, with_key=True
    )
    joined.to("out")


def left_then_windowed(b: StreamsBuilder) -> None:
    """Rows that leave late are of their own time to the windows behind."""
    joined = stream_of(b, "in").left_join(stream_of(b, "side"), pair, window=JoinWindows(2 * SCALE))
    windows = TimeWindows(4 * SCALE, grace=2 * SCALE)
    counts = joined.group_by_key(value=Serdes.json).windowed_by(windows).count(store="counts")
    counts.to_stream().map(lambda k, v: (str(k), v)).to("out")


def three_outer(b: StreamsBuilder) -> None:
    joined = stream_of(b, "in").outer_join(
        stream_of(b, "side"), lambda v, w: {"n": 10 * (v["n"] if v else 0) + (w["n"] if w else 0)}, window=WINDOW
    )
    joined.left_join(stream_of(b, "more"), pair, window=JoinWindows(3 * SCALE)).to("out")


def typed_outer(b: StreamsBuilder) -> None:
    boxes = Serdes.json_of(Box)
    one, other = stream_of(b, "in", boxes), stream_of(b, "side", boxes)
    one.outer_join(other, lambda v, w: [v and v.n, w and w.n], window=JoinWindows(3 * SCALE)).to("out")


def with_itself(b: StreamsBuilder) -> None:
    source = stream_of(b, "in")
    source.join(source, pair, window=WINDOW).to("out")


def with_its_own(b: StreamsBuilder) -> None:
    """Both sides come from one source, one of them changed."""
    source = stream_of(b, "in")
    source.join(source.map_values(lambda v: v and {"n": -v["n"]}), pair, window=WINDOW).to("out")


def again_with_one_of_them(b: StreamsBuilder) -> None:
    one = stream_of(b, "in")
    joined = one.join(stream_of(b, "side"), lambda v, w: {"n": v["n"] + w["n"]}, window=WINDOW)
    joined.join(one, pair, window=WINDOW).to("out")


def merged_before(b: StreamsBuilder) -> None:
    both = stream_of(b, "in").merge(stream_of(b, "more"))
    both.join(stream_of(b, "side"), pair, window=WINDOW).to("out")


def into_one_topic(b: StreamsBuilder) -> None:
    one = stream_of(b, "in")
    one.join(stream_of(b, "side"), pair, window=WINDOW).to("out")
    one.to("out")


#: all records of these go by column; the others refuse some, or all
BY_COLUMN: list[Callable[[StreamsBuilder], None]] = [
    inner, with_key, before_alone, later_by_some, typed, raw, several_results, then_counted, then_windowed, then_with_a_table,
    three_streams, several_joins, to_two_topics, beside_others, rekeyed, rekeyed_twice, left, outer, outer_with_key,
    typed_outer,
]  # fmt: skip
SHAPES = [
    # what time gives out of an outer join has a place of its own for nodes that act on time: one by one
    *BY_COLUMN, left_then_windowed, three_outer,
    changing_the_row, changing_the_record, changed_behind, changing_updates, in_memory, with_itself, with_its_own,
    again_with_one_of_them, merged_before, into_one_topic,
]  # fmt: skip

alternating = st.lists(
    st.tuples(
        st.sampled_from(["in", "in", "side", "side", "more", "third"]),
        st.integers(0, 1),
        st.sampled_from([b"a", b"b", b"b", b"c"]),
        st.sampled_from([*(msgspec.json.encode({"n": n}) for n in range(5)), None]),
        st.integers(0, 40).map(lambda time: time * SCALE),
        st.sampled_from([None, None, None, pack_headers((("h", b"1"),))]),
    ),
    min_size=1,
    max_size=60,
)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@trying(6)
@given(epochs=st.lists(alternating, min_size=1, max_size=3))
def test_records_meet_those_in_front_of_them(shape, folders, epochs):
    both_ways(shape, folders, epochs, "fail", apart=True)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@trying(3)
@given(epochs=st.lists(records, min_size=1, max_size=2), policy=st.sampled_from(["skip", "dead_letter"]))
def test_records_of_which_some_cannot_be_read_or_fail(shape, folders, epochs, policy):
    both_ways(shape, folders, epochs, policy)


def disorder(seed: int, epochs: int = 4, records: int = 120) -> list[list[Any]]:
    """Return epochs of records that go on in time, some of them behind, a few by so much that they have expired, or have no key."""
    rng, drawn = random.Random(seed), []
    for number in range(epochs * records):
        behind = rng.choices([0, rng.randrange(8 * SCALE), rng.randrange(80 * SCALE)], [85, 13, 2])[0]
        headers = pack_headers((("h", b"1"),)) if rng.random() < 0.05 else None
        key = None if rng.random() < 0.01 else b"k%d" % rng.randrange(12)
        value = None if rng.random() < 0.01 else b'{"n":%d}' % rng.randrange(5)
        place = rng.choice(["in", "side", "more"]), rng.randrange(2)
        drawn.append((*place, key, value, max(0, number * SCALE // 3 - behind), headers))
    return [drawn[at : at + records] for at in range(0, len(drawn), records)]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@trying(3)
@given(seed=st.integers(0, 1 << 30))
def test_windows_that_expire(shape, folders, seed):
    if shape is not raw:
        both_ways(shape, folders, disorder(seed), "skip")


@pytest.mark.parametrize("shape", BY_COLUMN, ids=lambda shape: shape.__name__)
def test_records_that_alternate_go_by_column(shape, folders, monkeypatch):
    taken = watch_columns(monkeypatch)
    runs, topics = Runs(shape, folders(), "fail"), ("in", "side", "side", "more", "third")
    for epoch in range(3):
        rows = [
            (topics[n % 5], n % 2, b"abcdefg"[n % 7 : n % 7 + 1], b'{"n":%d}' % (n % 4), SCALE * (80 + 800 * epoch + n) // 8, None)
            for n in range(800)
        ]  # fmt: skip
        seen = runs.epoch(rows)
        assert "failed" not in seen, seen
        assert seen["sinks"]
    assert taken
    assert all(taken)
