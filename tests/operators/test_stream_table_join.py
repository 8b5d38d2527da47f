"""Stream-table and stream-global-table joins, over real stores."""

from __future__ import annotations

from typing import Any

import pytest
from one_shard import OneShard

from penstock.errors import TopologyError
from penstock.operators.stream_table_join import StreamGlobalTableJoin, StreamTableJoin
from penstock.operators.views import StoreView
from penstock.state.spec import StoreKind, Stores, StoreSpec

TABLE = StoreView("T", StoreKind.KEY_VALUE)
VERSIONED = StoreView("V", StoreKind.VERSIONED, versioned=True)
BUFFER = StoreSpec("waiting", StoreKind.BUFFER, retain_duplicates=True)


def joined(value: Any, row: Any) -> str:
    return f"{value}+{row}"


def plain(**options: Any) -> tuple[OneShard, Any]:
    shard = OneShard(Stores.key_value("T", timestamped=True, cached=False))
    shard.stores["T"].write("a", "row", 1000)
    return shard, shard.chain(StreamTableJoin(table=TABLE, **{"joiner": joined, **options}))


def test_a_record_meets_the_present_row_and_keeps_its_own_timestamp_and_headers():
    shard, send = plain()
    assert send("a", "v", 5, (("h", b"1"),)) == [("a", "v+row", 5)]
    assert shard.headers == [(("h", b"1"),)]
    assert send("b", "v", 6) == []


def test_a_left_join_gives_a_result_without_a_row():
    _, send = plain(left=True)
    assert send("b", "v", 6) == [("b", "v+None", 6)]


def test_without_a_key_an_inner_join_drops_and_a_left_join_keeps():
    shard, send = plain()
    assert send(None, "v", 1) == []
    assert shard.dropped == ["null_key"]
    _, send = plain(left=True)
    assert send(None, "v", 1) == [(None, "v+None", 1)]


@pytest.mark.parametrize("left", [False, True])
def test_without_a_value_a_record_is_dropped(left):
    shard, send = plain(left=left)
    assert send("a", None, 1) == send(None, None, 1) == []
    assert shard.dropped == ["null_value"] * 2


def test_the_joiner_may_ask_for_the_key():
    _, send = plain(joiner=lambda key, value, row: (key, value, row), with_key=True)
    assert send("a", "v", 1) == [("a", ("a", "v", "row"), 1)]


def versioned(**options: Any) -> tuple[OneShard, Any]:
    shard = OneShard(Stores.versioned("V", history=1000), BUFFER)
    return shard, shard.chain(StreamTableJoin(table=VERSIONED, **{"joiner": joined, **options}))


def test_a_versioned_table_is_read_as_of_the_record_timestamp():
    shard, send = versioned(left=True)
    shard.stores["V"].put("a", "old", 10)
    shard.stores["V"].put("a", "new", 20)
    assert send("a", "v", 9) + send("a", "v", 19) + send("a", "v", 20) == [
        ("a", "v+None", 9),
        ("a", "v+old", 19),
        ("a", "v+new", 20),
    ]


def test_with_grace_a_record_waits_for_late_table_updates():
    shard, send = versioned(grace=5, buffer="waiting")
    assert send("a", "v", 10) == []
    shard.stores["V"].put("a", "late row", 10)
    assert send("b", "v", 14) == []
    assert send("b", "v", 15) == [("a", "v+late row", 10)]


def test_with_grace_records_leave_by_time_then_key_then_arrival():
    _, send = versioned(grace=5, buffer="waiting", left=True)
    for key, value, timestamp in (("b", "1", 10), ("a", "2", 10), ("b", "3", 9), ("b", "4", 10)):
        send(key, value, timestamp)
    assert [value for _, value, _ in send("x", "moves time", 100)] == ["3+None", "2+None", "1+None", "4+None"]


def test_with_grace_a_record_that_is_already_too_old_is_joined_at_once():
    _, send = versioned(grace=5, buffer="waiting", left=True)
    send("a", "v", 100)
    assert send("a", "late", 94) == [("a", "late+None", 94)]
    assert send("a", "at the edge", 95) == [("a", "at the edge+None", 95)]
    assert send("a", "waits", 96) == []


def test_with_grace_a_record_leaves_with_its_own_headers_and_origin():
    shard, send = versioned(grace=5, buffer="waiting", left=True)
    send("a", "v", 10, (("h", b"its own"),))
    shard.commit()
    send("b", "v", 100, (("h", b"trigger"),))
    assert shard.headers == [(("h", b"its own"),)]
    assert (shard.origins[0].topic, shard.origins[0].offset) == ("in", 0)
    assert shard.origin.offset == 1


def test_with_grace_a_left_join_keeps_records_without_a_key_and_an_inner_join_drops_them():
    _, send = versioned(grace=5, buffer="waiting", left=True)
    assert send(None, "v", 10) == [(None, "v+None", 10)]
    shard, send = versioned(grace=5, buffer="waiting")
    assert send(None, "v", 10) == send("a", None, 100) == []
    assert shard.dropped == ["null_key", "null_value"]


def test_a_record_that_does_not_wait_moves_the_time_of_the_grace_buffer_too():
    _, send = versioned(grace=5, buffer="waiting", left=True)
    send("a", "v", 10)
    send("a", None, 100)
    assert send("a", "is late", 11) == [("a", "v+None", 10), ("a", "is late+None", 11)]


def test_grace_needs_a_versioned_table():
    with pytest.raises(TopologyError, match="versioned"):
        plain(grace=5, buffer="waiting")


def test_a_global_table_is_joined_by_the_selected_key():
    shard = OneShard(Stores.key_value("G", timestamped=True, cached=False))
    shard.stores["G"].write("x", "row", 1)
    how = {"store": "G", "select": lambda key, value: value, "joiner": joined}
    inner = shard.chain(StreamGlobalTableJoin(**how))
    left = shard.chain(StreamGlobalTableJoin(left=True, **how))
    assert inner("a", "x", 5) == [("a", "x+row", 5)]
    assert inner(None, "x", 5) == [(None, "x+row", 5)]
    assert inner("a", "y", 5) == []
    assert left("a", "y", 5) == [("a", "y+None", 5)]


def test_without_a_selected_key_a_global_join_drops_and_a_left_join_keeps():
    shard = OneShard(Stores.key_value("G", timestamped=True, cached=False))
    how = {"store": "G", "select": lambda key, value: None, "joiner": joined}
    assert shard.chain(StreamGlobalTableJoin(**how))("a", "v", 5) == []
    assert shard.chain(StreamGlobalTableJoin(left=True, **how))("a", "v", 5) == [("a", "v+None", 5)]
    assert shard.chain(StreamGlobalTableJoin(left=True, **how))("a", None, 5) == []
    assert shard.dropped == ["null_key", "null_value"]


def test_records_behind_one_whose_joiner_raises_still_wait():
    def fussy(value: Any, row: Any) -> str:
        if value == "bad":
            raise ValueError("bad")
        return joined(value, row)

    shard, send = versioned(grace=5, buffer="waiting", left=True, joiner=fussy)
    for timestamp, value in enumerate(("fine", "bad", "next")):
        send("a", value, timestamp)
    with pytest.raises(ValueError, match="bad"):
        send("z", "moves time", 100)
    assert [value for _, value, _ in shard.results] == ["fine+None"]
    assert [value for _, value, _ in send("z", "moves time", 101)] == ["next+None"]
