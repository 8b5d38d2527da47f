"""The suppress buffer as a store: order, size, changelog bytes, restart."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.record import NO_ORIGIN, Origin
from penstock.serde import Serdes
from penstock.state.buffer import BufferStore
from penstock.state.keys import SUPPRESS_HEADERS
from penstock.state.memory import MemoryState
from penstock.state.open import Standalone
from penstock.state.spec import StoreKind, StoreSpec

SPEC = StoreSpec("buffer", StoreKind.BUFFER)


def buffer_of(state: MemoryState | None = None, origin: Origin | None = None, logged: bool = True) -> BufferStore:
    context = Standalone(origin or Origin("topic", 0, 7, 3, b"k", b"v", ()))
    return BufferStore(SPEC.with_(logged=logged), state or MemoryState(), context, Serdes.string, Serdes.string)


def evicted(buffer: BufferStore, until: int) -> list[tuple[Any, Any, Any]]:
    rows: list[tuple[Any, Any, Any]] = []
    buffer.evict_until(until, lambda raw_key, time, key, new, old, *_: rows.append((key, new, old)))
    return rows


def test_rows_leave_by_time_then_key_bytes() -> None:
    buffer = buffer_of()
    for key, time in [("c", 2), ("b", 2), ("z", 1), ("a", 3)]:
        buffer.put(time, key, "v", None, time, ())
    assert [row[0] for row in evicted(buffer, 2)] == ["z", "b", "c"]
    assert buffer.min_timestamp == 3
    assert [row[0] for row in evicted(buffer, 3)] == ["a"]
    assert buffer.min_timestamp is None


def test_the_prior_value_is_the_old_value_of_the_first_update() -> None:
    buffer = buffer_of()
    buffer.put(1, "a", "2", "1", 1, ())
    buffer.put(2, "a", "3", "2", 2, ())
    assert buffer.holds("a")
    assert not buffer.holds("b")
    assert buffer.prior("a") == "1"
    assert evicted(buffer, 1) == [("a", "3", "2")]


def test_the_changelog_row_has_kafkas_bytes() -> None:
    buffer = buffer_of()
    buffer.put(5, "k", "new", "old", 3, (("h", b"x"), ("n", None)))
    assert buffer.seal().changelog == [
        (
            b"k",
            bytes.fromhex("0000000000000003" "0000000000000007")  # timestamp, offset
            + bytes.fromhex("00000005") + b"topic" + bytes.fromhex("00000000")  # topic, partition
            + bytes.fromhex("00000002" "00000001") + b"h" + bytes.fromhex("00000001") + b"x"  # headers
            + bytes.fromhex("00000001") + b"n" + bytes.fromhex("ffffffff")
            + bytes.fromhex("00000003") + b"old"  # prior
            + bytes.fromhex("fffffffe")  # old: the same as prior
            + bytes.fromhex("00000003") + b"new"
            + bytes.fromhex("0000000000000005"),  # buffer time
            3,
            SUPPRESS_HEADERS,
        )
    ]  # fmt: skip


def test_only_rows_that_changed_are_sealed() -> None:
    buffer = buffer_of()
    buffer.put(1, "a", "x", None, 1, ())
    buffer.put(2, "b", "x", None, 2, ())
    assert [row[0] for row in buffer.seal().changelog] == [b"a", b"b"]
    buffer.put(3, "b", "y", "x", 3, ())
    assert [row[0] for row in buffer.seal().changelog] == [b"b"]
    assert buffer.seal().changelog == []


def test_a_row_that_came_and_went_within_an_epoch_is_a_tombstone() -> None:
    buffer = buffer_of()
    buffer.put(1, "a", "x", None, 1, ())
    evicted(buffer, 1)
    assert buffer.seal().changelog == [(b"a", None, 1, ())]


def test_without_logging_there_is_no_changelog_but_the_base_has_the_rows() -> None:
    state = MemoryState()
    buffer = buffer_of(state, logged=False)
    buffer.put(1, "a", "x", None, 1, ())
    sealed = buffer.seal()
    assert sealed.changelog == []
    buffer.apply(sealed)
    assert buffer_of(state).records == 1


def test_the_base_is_the_changelog() -> None:
    state = MemoryState()
    buffer = buffer_of(state)
    buffer.put(1, "a", "x", None, 1, ())
    sealed = buffer.seal()
    buffer.apply(sealed)
    assert list(state.map("buffer").range(None, None)) == [row[:2] for row in sealed.changelog]


def test_size_counts_what_kafka_counts() -> None:
    buffer = buffer_of()
    buffer.put(1, "key", "new!", "old", 1, (("h€", b"xyz"), ("n", None)))
    first = 8 + 3 + 3 + 4 + 8 + 8 + 5 + 4 + (2 + 3) + 1
    assert buffer.size_bytes == first
    buffer.put(1, "key", "newer", "new!", 1, ())
    assert buffer.size_bytes == 8 + 3 + 3 + 4 + 5 + 8 + 8 + 5 + 4
    evicted(buffer, 1)
    assert buffer.size_bytes == 0


def test_a_record_of_a_punctuator_is_buffered_too() -> None:
    state = MemoryState()
    buffer = buffer_of(state, NO_ORIGIN)
    buffer.put(1, "a", "x", None, 1, ())
    buffer.apply(buffer.seal())
    origins: list[Origin] = []
    buffer_of(state).evict_until(1, lambda *row: origins.append(row[-1]))
    assert origins[0].topic is None


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from("abcd"), st.integers(0, 20)),
            st.tuples(st.just("evict"), st.integers(0, 20)),
            st.just(("commit", 0)),
        ),
        max_size=25,
    )
)
def test_a_restart_at_any_barrier_changes_nothing(steps: list[tuple[str, int]]) -> None:
    state = MemoryState()
    kept, reopened = buffer_of(), buffer_of(state)
    for step, number in steps:
        if step == "commit":
            sealed = reopened.seal()
            assert kept.seal().changelog == sealed.changelog
            reopened.apply(sealed)
            reopened = buffer_of(state)
        elif step == "evict":
            assert evicted(kept, number) == evicted(reopened, number)
        else:
            for buffer in (kept, reopened):
                buffer.put(number, step, str(number), None if number % 3 else "old", number, ())
        assert (kept.records, kept.size_bytes) == (reopened.records, reopened.size_bytes)
