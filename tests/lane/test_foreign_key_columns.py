"""Foreign-key joins by column: the same as one by one, between the steps, too."""

import pickle
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from both_ways import Runs, both_ways, records, trying, watch_columns
from hypothesis import given
from hypothesis import strategies as st

from penstock import Serde, Serdes, Stores, StreamsBuilder
from penstock.kernels import table_rows
from penstock.kernels.foreign_key_responses import ResponseResolver
from penstock.lane import mixed, step_batches
from penstock.protocol.envelope import pack_headers

KEYS = "abcd"


class Left(msgspec.Struct):
    n: int = 0


class Both(msgspec.Struct):
    n: int
    other: int | None = None


def table_of(b: StreamsBuilder, topic: str = "in", store: Any = None, value: Serde[Any] = Serdes.json) -> Any:
    return b.table(topic, key=Serdes.string, value=value, store=store or f"rows-{topic}")


def named(value: Any) -> Any:
    """Return the foreign key; rows of 4 have none."""
    return None if value["n"] == 4 else KEYS[value["n"]]


def pair(value: Any, row: Any) -> Any:
    return [value and value["n"], row and row["n"]]


def inner(b: StreamsBuilder) -> None:
    table_of(b).join(table_of(b, "side"), pair, foreign_key=named, store="joined").to_stream().to("out")


def left(b: StreamsBuilder) -> None:
    table_of(b).left_join(table_of(b, "side"), pair, foreign_key=named, store="joined").to_stream().to("out")


def without_stores(b: StreamsBuilder) -> None:
    one = b.table("in", key=Serdes.string, value=Serdes.json)
    other = b.table("side", key=Serdes.string, value=Serdes.json)
    one.join(other, pair, foreign_key=named).to_stream().to("out")


def with_key(b: StreamsBuilder) -> None:
    joined = table_of(b).left_join(table_of(b, "side"), pair, foreign_key=lambda k, v: k if v["n"] % 2 else named(v))
    joined.to_stream().to("out")


def typed(b: StreamsBuilder) -> None:
    left, right = table_of(b, value=Serdes.json_of(Left)), table_of(b, "side", value=Serdes.json_of(Left))
    join = left.join(
        right,
        lambda v, w: Both(v.n, w.n),
        foreign_key=lambda v: KEYS[v.n % 4],
        store="joined",
        value=Serdes.json_of(Both),
    )
    join.to_stream().to("out", value=Serdes.json_of(Both))  # fmt: skip


def typed_left(b: StreamsBuilder) -> None:
    left, right = table_of(b, value=Serdes.json_of(Left)), table_of(b, "side", value=Serdes.json_of(Left))
    join = left.left_join(
        right,
        lambda v, w: Both(v.n, None if w is None else w.n),
        foreign_key=lambda v: None if v.n == 3 else KEYS[v.n % 4],
        store="joined",
        value=Serdes.json_of(Both),
    )
    join.to_stream().to("out", value=Serdes.json_of(Both))


def changing(b: StreamsBuilder) -> None:
    """A joiner that changes what it is given, and hands it on."""

    def changed(value: Any, row: Any) -> Any:
        value["n"] += row["n"] + 1
        row["n"] = -1
        return value

    table_of(b).join(table_of(b, "side"), changed, foreign_key=named).to_stream().to("out")


def emptying(b: StreamsBuilder) -> None:
    """A joiner that gives nothing, sometimes."""
    join = table_of(b).join(
        table_of(b, "side"), lambda v, w: None if v["n"] == w["n"] else [v, w], foreign_key=named, store="joined"
    )
    join.to_stream().to("out")


def with_itself(b: StreamsBuilder) -> None:
    table = table_of(b)
    table.left_join(table, pair, foreign_key=named).to_stream().to("out")


def two_joins(b: StreamsBuilder) -> None:
    """A table that is joined with two others, and one that two others are joined with."""
    one, other, third = table_of(b), table_of(b, "side"), table_of(b, "more")
    one.join(other, pair, foreign_key=named).to_stream().to("out")
    one.left_join(third, pair, foreign_key=named).to_stream().to("other")
    third.left_join(other, pair, foreign_key=named).to_stream().to("third")


def one_after_the_other(b: StreamsBuilder) -> None:
    """The left table of the second join is the result of the first."""
    one, other, third = table_of(b), table_of(b, "side"), table_of(b, "more")
    both = one.left_join(other, lambda v, w: {"n": v["n"], "w": w and w["n"]}, foreign_key=named, store="both")
    both.left_join(third, lambda v, w: [v, w and w["n"]], foreign_key=lambda v: KEYS[v["n"] % 4]).to_stream().to("out")


def updates_go_on(b: StreamsBuilder) -> None:
    one, other = table_of(b), table_of(b, "side")
    one.to_stream().to("other")
    one.join(other, pair, foreign_key=named, store="joined").to_stream().to("out")
    other.to_stream().map_values(lambda v: [v]).to("third")


def then_folded(b: StreamsBuilder) -> None:
    joined = table_of(b).join(table_of(b, "side"), pair, foreign_key=named, store="joined")
    moved = joined.to_stream().group_by(lambda k, v: str(v and v[0]), value=Serdes.json)
    moved.aggregate(lambda: 0, lambda k, v, a: (a * 3 + v[1]) % 1000, store="sums").to_stream().to("out")


def then_joined(b: StreamsBuilder) -> None:
    """The result is a table that a stream is joined with."""
    joined = table_of(b).left_join(table_of(b, "side"), pair, foreign_key=named, store="joined")
    b.stream("more", key=Serdes.string, value=Serdes.json).left_join(joined, lambda v, w: [v, w]).to("out")


def then_grouped(b: StreamsBuilder) -> None:
    """The result is asked for old values."""
    joined = table_of(b).left_join(table_of(b, "side"), pair, foreign_key=named, store="joined")
    joined.group_by(lambda k, v: (str(v[1]), v), value=Serdes.json).count(store="counts").to_stream().to(
        "out", value=Serdes.int64
    )


def through_views(b: StreamsBuilder) -> None:
    one = table_of(b).filter(lambda k, v: v["n"] != 1)
    other = table_of(b, "side").map_values(lambda v: None if v["n"] == 2 else {"n": v["n"] + 10})
    one.left_join(other, pair, foreign_key=named).to_stream().to("out")


def of_a_fold(b: StreamsBuilder) -> None:
    """The right table is folded."""
    counts = b.stream("side", key=Serdes.string, value=Serdes.json).group_by_key().count(store="counts")
    table_of(b).left_join(counts, lambda v, n: [v["n"], n], foreign_key=named).to_stream().to("out")


def at_once(b: StreamsBuilder) -> None:
    one = table_of(b, store=Stores.key_value("s", cached=False))
    other = table_of(b, "side", store=Stores.key_value("t", cached=False))
    one.join(other, pair, foreign_key=named, store=Stores.key_value("joined", cached=False)).to_stream().to("out")


def told_at_once(b: StreamsBuilder) -> None:
    """The right table tells each update at once, the left one what is left of them at the barrier."""
    other = table_of(b, "side", store=Stores.key_value("t", cached=False))
    table_of(b).left_join(other, pair, foreign_key=named, store="joined").to_stream().to("out")


def without_times(b: StreamsBuilder) -> None:
    one = table_of(b, store=Stores.key_value("s", timestamped=False))
    other = table_of(b, "side", store=Stores.key_value("t", timestamped=False))
    one.left_join(other, pair, foreign_key=named).to_stream().to("out")


def versions(b: StreamsBuilder) -> None:
    one = table_of(b, store=Stores.versioned("s", history=20))
    other = table_of(b, "side", store=Stores.versioned("t", history=20))
    one.join(other, pair, foreign_key=named).to_stream().to("out")


def mixed_kinds(b: StreamsBuilder) -> None:
    other = table_of(b, "side", store=Stores.versioned("t", history=20))
    table_of(b).join(other, pair, foreign_key=named).to_stream().to("out")


def expiring(b: StreamsBuilder) -> None:
    one = table_of(b, store=Stores.key_value("s", ttl=15))
    other = table_of(b, "side", store=Stores.key_value("t", ttl=15))
    one.left_join(other, pair, foreign_key=named).to_stream().to("out")


def _unpickled(data: bytes) -> Any:
    return pickle.loads(data) if data[:1] == b"\x80" else msgspec.json.decode(data)


#: a serde of which nothing is known
UNKNOWN = Serde(pickle.dumps, _unpickled, name="unknown")


def of_unknown_serdes(b: StreamsBuilder) -> None:
    one, other = table_of(b, value=UNKNOWN), table_of(b, "side", value=UNKNOWN)
    one.left_join(other, pair, foreign_key=named, value=UNKNOWN, store="joined").to_stream().to(
        "out", value=Serdes.json
    )


def of_numbers(b: StreamsBuilder) -> None:
    """Foreign keys that are no text."""
    other = b.stream("side", key=Serdes.string, value=Serdes.json).filter(lambda k, v: v is not None)
    lands = other.select_key(lambda k, v: v["n"]).to_table(key=Serdes.int64, value=Serdes.json, store="lands")
    table_of(b).join(lands, pair, foreign_key=lambda v: v["n"], store="joined").to_stream().to("out")


#: all records of these go by column; the others refuse some, or all
BY_COLUMN: list[Callable[[StreamsBuilder], None]] = [
    inner, left, without_stores, with_key, typed, typed_left, changing, emptying, with_itself, two_joins, one_after_the_other,
    updates_go_on, then_folded, then_joined, without_times, of_numbers,
]  # fmt: skip
SHAPES = [
    *BY_COLUMN, then_grouped, through_views, of_a_fold, at_once, told_at_once, versions, mixed_kinds, expiring, of_unknown_serdes
]  # fmt: skip

updates = st.lists(
    st.tuples(
        st.sampled_from(["in", "in", "side", "side", "more"]),
        st.integers(0, 1),
        st.sampled_from([b"a", b"b", b"c", b"d"]),
        st.sampled_from([*(msgspec.json.encode({"n": n}) for n in range(5)), None]),
        st.integers(0, 40),
        st.sampled_from([None, None, None, pack_headers((("h", b"1"),))]),
    ),
    min_size=1,
    max_size=50,
)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@trying(8)
@given(
    epochs=st.lists(updates, min_size=1, max_size=3),
    most=st.sampled_from([3, 1 << 15]),
    optimize=st.sampled_from([(), "all"]),
)
def test_updates_are_joined_as_one_by_one(shape, folders, epochs, most, optimize):
    both_ways(shape, folders, epochs, "fail", apart=True, most=most, optimize=optimize, between=True)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@trying(2)
@given(epochs=st.lists(records, min_size=1, max_size=2), policy=st.sampled_from(["skip", "dead_letter"]))
def test_updates_of_which_some_cannot_be_read_or_fail(shape, folders, epochs, policy):
    both_ways(shape, folders, epochs, policy)


@pytest.mark.parametrize("shape", BY_COLUMN, ids=lambda shape: shape.__name__)
def test_updates_go_by_column(shape, folders, monkeypatch):
    monkeypatch.setattr(step_batches, "FEW", 1)
    monkeypatch.setattr(mixed, "FEW_MIXED", 1)
    monkeypatch.setattr(mixed, "SHORT", 1)
    taken = watch_columns(monkeypatch)
    runs = Runs(shape, folders(), "fail")
    for epoch in range(3):
        rows = [
            (
                ("in", "in", "side", "more")[n % 4],
                n % 2,
                b"abcdefgh"[n * 5 % 8 : n * 5 % 8 + 1],
                None if n % 13 == 12 else b'{"n":%d}' % ((n + n // 16) % 5),
                400 * epoch + n,
                None,
            )
            for n in range(400)
        ]
        seen = runs.epoch(rows)
        assert "failed" not in seen, seen
        assert seen["sinks"]
    assert taken
    assert all(taken)


def test_a_response_to_a_row_that_has_changed_since_is_dropped_by_column(folders, monkeypatch):
    """The right row is told to a subscription that the left row has left behind in the same epoch."""
    first = [("in", 0, b"b", b'{"n":0}', 1, None), ("side", 0, b"a", b'{"n":1}', 2, None)]
    then = [("in", 0, b"b", None, 12, None), ("side", 0, b"a", b'{"n":2}', 11, None)]
    epochs = [first, then]
    both_ways(told_at_once, folders, epochs, "fail", between=True)
    monkeypatch.setattr(step_batches, "FEW", 1)
    monkeypatch.setattr(table_rows, "FEW", 1)
    resolved = []
    resolving = ResponseResolver.open

    def noted(self, *args):
        on_batch = resolving(self, *args)

        def noting(columns, commits):
            resolved.append(len(columns))
            on_batch(columns, commits)

        return noting

    monkeypatch.setattr(ResponseResolver, "open", noted)
    runs = Runs(told_at_once, folders(), "fail")
    seen = [runs.epoch(epoch) for epoch in epochs]
    assert [reason for epoch in seen for _, reason in epoch["dropped"]] == ["stale_response"]
    assert sum(resolved) > 1, "responses did not go by column"
