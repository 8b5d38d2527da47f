"""Stream-stream joins over real window stores."""

from __future__ import annotations

from typing import Any

import pytest
from one_shard import OneShard

from penstock.operators.stream_join import JoinKind, JoinWindow, StreamStreamJoin, StreamStreamSelfJoin
from penstock.serde import Serdes
from penstock.state.outer_join import LeftOrRightSerde
from penstock.state.spec import StoreKind, Stores, StoreSpec
from penstock.windows import JoinWindows


def joined(left: Any, right: Any) -> str:
    return f"{left}+{right}"


class Join:
    """Both sides of one join in one shard: ``left(...)`` and ``right(...)`` send a record and give the results."""

    def __init__(self, kind: JoinKind, windows: JoinWindows, before: OneShard | None = None, **options: Any) -> None:
        both = LeftOrRightSerde(Serdes.string, Serdes.string)
        self.shard = OneShard(
            Stores.window("L", windows.retention, windows.size, retain_duplicates=True),
            Stores.window("R", windows.retention, windows.size, retain_duplicates=True),
            StoreSpec("parked", StoreKind.OUTER_JOIN, value=both),
            before=before,
        )
        how = {"joiner": joined, **options}
        shared = None if kind == "inner" else "parked"
        common = {"windows": windows, "kind": kind, "clock": "join", "shared_store": shared, **how}
        this = StreamStreamJoin(store_other="R", left_side=True, outer=kind != "inner", **common)
        other = StreamStreamJoin(store_other="L", left_side=False, outer=kind == "outer", **common)
        self.left = self.shard.chain(JoinWindow("L"), this)
        self.right = self.shard.chain(JoinWindow("R"), other)

    def parked(self) -> list[Any]:
        return list(self.shard.stores["parked"].all())


def test_records_join_within_the_window_and_not_outside_it():
    join = Join("inner", JoinWindows(10))
    assert join.left("a", "l", 100) == []
    assert join.right("a", "early", 89) == []
    assert join.right("a", "first", 90) == [("a", "l+first", 100)]
    assert join.right("a", "last", 110) == [("a", "l+last", 110)]
    assert join.right("a", "late", 111) == []
    assert join.right("b", "other key", 100) == []


def test_every_match_gives_a_result_in_the_order_of_time_then_arrival():
    join = Join("inner", JoinWindows(10, grace=100))
    for value, timestamp in (("r5", 5), ("r3", 3), ("r3 again", 3)):
        join.right("a", value, timestamp)
    assert join.left("a", "l", 4) == [("a", "l+r3", 4), ("a", "l+r3 again", 4), ("a", "l+r5", 5)]


def test_the_window_is_mirrored_for_the_right_side():
    join = Join("inner", JoinWindows(0, before=0, after=10))
    join.left("a", "l", 100)
    assert join.right("a", "r", 99) == []
    assert join.right("a", "r", 110) == [("a", "l+r", 110)]


def test_a_late_record_still_joins_what_the_other_store_holds():
    join = Join("inner", JoinWindows(10, grace=0))
    join.right("a", "r", 100)
    join.right("b", "moves time", 1000)
    join.right("a", "r2", 1000)
    assert join.left("a", "very late", 991) == [("a", "very late+r2", 1000)]


def test_a_record_without_key_or_value_is_dropped_by_an_inner_join():
    join = Join("inner", JoinWindows(10))
    assert join.left(None, "l", 1) == join.left("a", None, 1) == join.right(None, "r", 1) == []
    assert join.shard.dropped == ["null_key", "null_value", "null_key"]
    assert join.right("a", "r", 1) == []


def test_the_left_side_of_a_left_join_keeps_records_without_a_key():
    join = Join("left", JoinWindows(10))
    assert join.left(None, "l", 1) == [(None, "l+None", 1)]
    assert join.right(None, "r", 1) == []
    assert join.shard.dropped == ["null_key"]


def test_both_sides_of_an_outer_join_keep_records_without_a_key():
    join = Join("outer", JoinWindows(10))
    assert join.left(None, "l", 1) == [(None, "l+None", 1)]
    assert join.right(None, "r", 1) == [(None, "None+r", 1)]
    assert join.left(None, None, 1) == []


def test_an_unmatched_record_waits_until_its_window_and_the_grace_are_over():
    join = Join("left", JoinWindows(10, grace=5))
    assert join.left("a", "l", 100) == []
    assert join.left("b", "at the edge", 115) == []
    assert join.left("b", "after it", 116) == [("a", "l+None", 100)]


def test_a_match_takes_the_waiting_record_away():
    join = Join("left", JoinWindows(10))
    join.left("a", "l", 100)
    assert join.right("a", "r", 105) == [("a", "l+r", 105)]
    assert join.parked() == []
    assert join.left("b", "later", 500) == []


def test_a_match_takes_all_duplicates_of_the_same_time_away_and_gives_a_result_for_each():
    join = Join("outer", JoinWindows(10))
    join.left("a", "l1", 100)
    join.left("a", "l2", 100)
    assert join.right("a", "r", 100) == [("a", "l1+r", 100), ("a", "l2+r", 100)]
    assert join.parked() == []


def test_an_unmatched_record_is_emitted_at_once_if_its_window_has_ended_whatever_the_grace():
    join = Join("left", JoinWindows(10, grace=1000))
    join.right("x", "moves time", 100)
    assert join.left("a", "l", 89) == [("a", "l+None", 89)]
    assert join.left("a", "l", 90) == []


def test_waiting_records_leave_in_the_order_of_time_right_before_left_then_key():
    join = Join("outer", JoinWindows(10))
    join.left("b", "l", 5)
    join.left("a", "l", 5)
    join.right("c", "r", 5)
    join.right("d", "r", 4)
    assert join.left("x", "moves time", 100) == [
        ("d", "None+r", 4),
        ("c", "None+r", 5),
        ("a", "l+None", 5),
        ("b", "l+None", 5),
    ]


def test_waiting_records_leave_without_headers_at_the_place_of_the_record_that_moved_time():
    join = Join("left", JoinWindows(10))
    join.left("a", "l", 5, (("h", b"its own"),))
    join.left("b", "l", 100, (("h", b"trigger"),))
    (origin,) = join.shard.origins
    assert join.shard.headers == [()]
    assert (origin.topic, origin.partition, origin.offset, origin.timestamp) == ("in", 0, 1, 100)
    assert (origin.key, origin.value, origin.headers) == (None, None, ())
    assert origin.sub  # before the rows of the record itself
    assert join.shard.origin.key == b"k"


def test_a_record_that_has_no_key_moves_time_and_waiting_records_leave_before_the_next_one():
    join = Join("left", JoinWindows(10))
    join.left("a", "l", 5)
    assert join.left(None, "moves time, but has no key", 100) == [(None, "moves time, but has no key+None", 100)]
    assert join.left("b", "behind", 99) == [("a", "l+None", 5)]


def test_time_that_a_record_of_another_shard_moves_lets_waiting_records_leave():
    join = Join("left", JoinWindows(10))
    join.left("a", "l", 5)
    join.shard.pass_time(15)
    assert join.shard.results == []
    join.shard.pass_time(16)
    assert join.shard.results == [("a", "l+None", 5)]
    assert join.left("b", "is late, and its window has closed", 3) == [
        ("b", "is late, and its window has closed+None", 3)
    ]


def test_every_closed_row_leaves_at_once():
    join = Join("left", JoinWindows(5))
    for timestamp in (10, 12, 14):
        join.left("a", f"l{timestamp}", timestamp)
    assert join.right("x", "r", 16) == [("a", "l10+None", 10)]
    assert join.right("x", "r", 18) == [("a", "l12+None", 12)]


def test_both_sides_share_one_clock():
    join = Join("outer", JoinWindows(10))
    join.left("a", "l", 5)
    assert join.right("b", "r", 100) == [("a", "l+None", 5)]


def test_the_joiner_may_ask_for_the_key():
    join = Join("outer", JoinWindows(10), joiner=lambda key, left, right: f"{key}:{left}+{right}", with_key=True)
    join.left("a", "l", 5)
    assert join.right("a", "r", 5) == [("a", "a:l+r", 5)]
    join.right("b", "r", 5)
    assert join.left("x", "l", 100) == [("b", "b:None+r", 5)]


def run(barriers: bool, reopened: bool = False) -> list[tuple[Any, Any, int]]:
    join = Join("outer", JoinWindows(5, grace=3))
    results = []
    for step in range(80):
        send = join.left if step % 3 else join.right
        results += send("abc"[step * 7 % 3], f"v{step}", step * 5 % 37 + step)
        if barriers or reopened:
            join.shard.commit()
        if reopened:
            join = Join("outer", JoinWindows(5, grace=3), before=join.shard)
    return results


def test_results_do_not_depend_on_barriers():
    assert len(run(barriers=False)) > 60
    assert run(barriers=False) == run(barriers=True)


def test_results_do_not_change_if_the_shard_is_opened_again_after_every_barrier():
    assert run(barriers=True) == run(barriers=True, reopened=True)


def self_join(windows: JoinWindows) -> tuple[OneShard, Any]:
    shard = OneShard(Stores.window("S", windows.retention, windows.size, retain_duplicates=True))
    operator = StreamStreamSelfJoin(store="S", windows=windows, joiner=joined)
    return shard, shard.chain(JoinWindow("S"), operator)


def test_a_self_join_gives_what_an_inner_join_of_a_stream_with_itself_gives():
    _, send = self_join(JoinWindows(10, grace=50))
    plain = Join("inner", JoinWindows(10, grace=50))
    for value, timestamp in (("a", 10), ("b", 15), ("c", 12), ("d", 12), ("e", 30)):
        # in one topology both sides see the record: the left side joins first, before the right store has it
        expected = plain.left("k", value, timestamp) + plain.right("k", value, timestamp)
        assert sorted(send("k", value, timestamp)) == sorted(expected)


def test_a_self_join_meets_itself_unless_it_is_expired():
    shard, send = self_join(JoinWindows(10))
    assert send("k", "a", 100) == [("k", "a+a", 100)]
    assert send("k", "b", 200) == [("k", "b+b", 200)]
    assert send("other", "expired", 181) == []
    assert send("another", "just not", 182) == [("another", "just not+just not", 182)]
    assert send(None, "x", 200) == send("k", None, 200) == []
    assert shard.dropped[-2:] == ["null_key", "null_value"]


def test_rows_behind_one_whose_joiner_raises_still_wait():
    def fussy(left: Any, right: Any) -> str:
        if right is None and left == "bad":
            raise ValueError("bad")
        return joined(left, right)

    join = Join("outer", JoinWindows(5), joiner=fussy)
    for number, value in enumerate(("fine", "bad", "next", "last")):
        join.left(f"k{number}", value, number)
    with pytest.raises(ValueError, match="bad"):
        join.right("z", "moves time", 100)
    assert join.shard.results == [("k0", "fine+None", 0)]
    assert [row.value for row in join.parked()] == ["next", "last"]
    assert join.right("z", "moves time", 101) == [("k2", "next+None", 2), ("k3", "last+None", 3)]
