"""Sessions by column: records that extend, merge and reach back leave what they leave one by one."""

import random
from typing import Any

import msgspec
import pytest
from both_ways import Runs, both_ways, records, trying, watch_columns
from hypothesis import given
from hypothesis import strategies as st

from penstock import Serdes, Stores, StreamsBuilder
from penstock.protocol.envelope import pack_headers
from penstock.windows import SessionWindows

SCALE = 5_000
WINDOWS = SessionWindows(3 * SCALE, grace=4 * SCALE)


class Total(msgspec.Struct):
    count: int
    times: list[int]


def grouped(b: StreamsBuilder) -> Any:
    return b.stream("in", key=Serdes.string, value=Serdes.json).group_by_key().windowed_by(WINDOWS)


def counted(b: StreamsBuilder) -> None:
    counts = grouped(b).count(store="s")
    counts.to_stream().to("out", key=Serdes.session_windowed(Serdes.string), value=Serdes.int64)


def listed(b: StreamsBuilder) -> None:
    """What the functions see depends on the order of records and sessions, and on what the serde makes of a tuple."""
    lists = grouped(b).aggregate(
        tuple,
        lambda k, v, a: (type(a).__name__, *a[-3:], v and v["n"]),
        lambda k, a, other: (*a[-2:], "|", *other[-2:]),
        store="s",
        value=Serdes.json,
    )
    lists.to_stream().map(lambda k, v: (k.key, [k.start, k.end, v])).to("out")


def totals(b: StreamsBuilder) -> None:
    """Functions that change what they are given."""

    def add(_: Any, value: Any, total: Total) -> Total:
        total.count += 1
        total.times = [*total.times[-2:], value["n"] if value else -1]
        return total

    def merge(_: Any, one: Total, other: Total) -> Total:
        one.count += other.count
        one.times += other.times[:1]
        return one

    kept = Serdes.json_of(Total)
    made = grouped(b).aggregate(lambda: Total(0, []), add, merge, store="s", value=kept)
    made.to_stream().to("out", key=Serdes.session_windowed(Serdes.string), value=kept)


def reduced(b: StreamsBuilder) -> None:
    """A store with a longer retention; updates are mapped one by one behind it."""
    store = Stores.session("s", retention=20 * SCALE, value=Serdes.json)
    numbers = b.stream("in", key=Serdes.string, value=Serdes.json).filter(lambda k, v: v is not None)
    made = numbers.map_values(lambda v: v["n"]).group_by_key(value=Serdes.json).windowed_by(WINDOWS)
    made.reduce(lambda a, v: (a * 3 + v) % 1000, store=store).to_stream().map(lambda k, v: (str(k), v)).to("out")


def deleting(b: StreamsBuilder) -> None:
    """An aggregate of None deletes the session."""
    made = grouped(b).aggregate(
        lambda: 0, lambda k, v, a: None if v and v["n"] == 2 else a + 1, lambda k, a, o: a + o, store="s"
    )
    made.to_stream().map(lambda k, v: (str(k), v)).to("out")


def with_old_values(b: StreamsBuilder) -> None:
    counts = grouped(b).count(store="s")
    counts.group_by(lambda k, v: (k.key, v), value=Serdes.int64).reduce(
        lambda a, v: a + v, lambda a, v: a - v, store="sums"
    ).to_stream().to("out", value=Serdes.int64)


def uncached(b: StreamsBuilder) -> None:
    store = Stores.session("s", retention=WINDOWS.gap + WINDOWS.grace, cached=False)
    counts = grouped(b).count(store=store)
    counts.to_stream().to("out", key=Serdes.session_windowed(Serdes.string), value=Serdes.int64)


BY_COLUMN = [counted, listed, totals, reduced]
SHAPES = [*BY_COLUMN, deleting, with_old_values, uncached]

some = st.lists(
    st.tuples(
        st.just("in"),
        st.integers(0, 1),
        st.sampled_from([b"a", b"b", b"c"]),
        st.integers(0, 4).map(lambda n: msgspec.json.encode({"n": n})),
        st.integers(0, 40).map(lambda time: time * SCALE),
        st.sampled_from([None, None, None, pack_headers((("h", b"1"),))]),
    ),
    min_size=1,
    max_size=60,
)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@trying(8)
@given(epochs=st.lists(some, min_size=1, max_size=3))
def test_sessions_merge_in_any_order(shape, folders, epochs):
    both_ways(shape, folders, epochs, "fail")


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@trying(4)
@given(epochs=st.lists(records, min_size=1, max_size=2), policy=st.sampled_from(["skip", "dead_letter"]))
def test_records_of_which_some_cannot_be_read_or_fail(shape, folders, epochs, policy):
    both_ways(shape, folders, epochs, policy)


def disorder(seed: int, epochs: int = 4, records: int = 150) -> list[list[Any]]:
    """Return epochs of records that go on in time, some of them behind, a few by so much that they are late, or have no key."""
    rng, drawn = random.Random(seed), []
    for number in range(epochs * records):
        behind = rng.choices([0, rng.randrange(8 * SCALE), rng.randrange(60 * SCALE)], [85, 12, 3])[0]
        headers = pack_headers((("h", b"1"),)) if rng.random() < 0.05 else None
        key = None if rng.random() < 0.01 else b"k%d" % rng.randrange(15)
        drawn.append(
            ("in", rng.randrange(2), key, b'{"n":%d}' % rng.randrange(5), max(0, number * SCALE // 4 - behind), headers)
        )
    return [drawn[at : at + records] for at in range(0, len(drawn), records)]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@trying(4)
@given(seed=st.integers(0, 1 << 30))
def test_sessions_that_close_and_expire(shape, folders, seed):
    both_ways(shape, folders, disorder(seed), "fail")


@pytest.mark.parametrize("shape", BY_COLUMN, ids=lambda shape: shape.__name__)
def test_records_go_by_column_and_so_do_updates(shape, folders, monkeypatch):
    taken = watch_columns(monkeypatch)
    runs = Runs(shape, folders(), "fail")
    seen = []
    for epoch in range(4):
        rows = [
            ("in", n % 2, b"k%d" % (n * n % 17), b'{"n":%d}' % (n % 4), SCALE * (300 * epoch + n) // 4, None)
            for n in range(300)
        ]
        seen.append(runs.epoch(rows))
        assert "failed" not in seen[-1], seen[-1]
    assert taken
    assert all(taken)
    values = [value for epoch in seen for rows in epoch["sinks"].values() for _, value, *_ in rows]
    assert shape is not counted or (None in values and len(values) > 100)
