"""Table-table joins by key, over real stores."""

from __future__ import annotations

from typing import Any

import pytest
from one_shard import OneShard

from penstock.operators.stream_join import JoinKind
from penstock.operators.table import TableSource
from penstock.operators.table_join import JoinView, TableJoinMerge, TableTableJoin
from penstock.operators.views import StoreView
from penstock.record import Change
from penstock.state.spec import StoreKind, Stores

LEFT, RIGHT = StoreView("L", StoreKind.KEY_VALUE), StoreView("R", StoreKind.KEY_VALUE)


def joined(left: Any, right: Any) -> str:
    return f"{left}+{right}"


class Join:
    """Two tables and their join: ``left(...)`` and ``right(...)`` send an update and give (key, new, timestamp)."""

    def __init__(self, kind: JoinKind, *, send_old: bool = False, store: str | None = None) -> None:
        self.shard = OneShard(
            Stores.key_value("L", timestamped=True, cached=False),
            Stores.key_value("R", timestamped=True, cached=False),
            Stores.key_value("result", timestamped=True, cached=False),
        )
        merge = TableJoinMerge(store=store, send_old=send_old)
        how = {"joiner": joined, "kind": kind, "send_old": send_old}
        old = kind != "inner" or send_old
        this = TableTableJoin(other=RIGHT, side="this", **how)
        other = TableTableJoin(other=LEFT, side="other", **how)
        self.left = self._new_values(TableSource("L", send_old=old), this, merge)
        self.right = self._new_values(TableSource("R", send_old=kind == "outer" or send_old), other, merge)

    def _new_values(self, *operators: Any) -> Any:
        send = self.shard.chain(*operators)
        return lambda *record: [(key, change.new, timestamp) for key, change, timestamp in send(*record)]

    def last_change(self) -> Change[Any]:
        return self.shard.results[-1][1]


def test_an_inner_join_needs_both_rows():
    join = Join("inner")
    assert join.left("a", "l", 10) == []
    assert join.right("a", "r", 5) == [("a", "l+r", 10)]
    assert join.left("a", "l2", 20) == [("a", "l2+r", 20)]
    assert join.left("a", None, 21) == [("a", None, 21)]
    assert join.right("a", "r2", 22) == []


def test_a_tombstone_for_an_absent_row_is_forwarded_by_an_inner_join_where_the_other_row_exists():
    join = Join("inner")
    join.right("a", "r", 5)
    assert join.left("a", None, 6) == [("a", None, 6)]
    assert join.left("b", None, 7) == []


def test_a_left_join_gives_a_result_without_the_right_row():
    join = Join("left")
    assert join.left("a", "l", 10) == [("a", "l+None", 10)]
    assert join.right("a", "r", 5) == [("a", "l+r", 10)]
    assert join.right("a", None, 30) == [("a", "l+None", 30)]
    assert join.left("a", None, 31) == [("a", None, 31)]
    assert join.left("a", None, 32) == []
    assert join.right("a", "r", 33) == []


def test_an_outer_join_gives_a_result_with_either_row():
    join = Join("outer")
    assert join.right("a", "r", 5) == [("a", "None+r", 5)]
    assert join.left("a", "l", 3) == [("a", "l+r", 5)]
    assert join.right("a", None, 6) == [("a", "l+None", 6)]
    assert join.left("a", None, 7) == [("a", None, 7)]
    assert join.left("a", None, 8) == join.right("a", None, 8) == []


@pytest.mark.parametrize("kind", ["inner", "left", "outer"])
def test_old_values_are_joined_with_the_same_other_row(kind):
    join = Join(kind, send_old=True)
    join.right("a", "r", 1)
    join.left("a", "l1", 2)
    join.left("a", "l2", 3)
    assert join.last_change() == Change("l2+r", "l1+r")
    join.right("a", "r2", 4)
    assert join.last_change() == Change("l2+r2", "l2+r")


def test_old_values_are_not_sent_unless_asked_for():
    join = Join("left")
    join.left("a", "l1", 2)
    join.left("a", "l2", 3)
    assert join.last_change() == Change("l2+None", None)


def test_the_result_may_be_kept_in_a_store():
    join = Join("inner", store="result")
    join.left("a", "l", 10)
    join.right("a", "r", 20)
    assert join.shard.stores["result"].read("a") == ("l+r", 20)
    join.left("a", None, 30)
    assert join.shard.stores["result"].read("a") is None


def test_a_record_without_a_key_is_dropped():
    shard = OneShard(Stores.key_value("R", timestamped=True, cached=False))
    send = shard.chain(TableTableJoin(other=RIGHT, joiner=joined, kind="inner", side="this"))
    assert send(None, Change("l"), 1) == []
    assert shard.dropped == ["null_key"]


@pytest.mark.parametrize(("versioned", "expected"), [(True, []), (False, ["l+r"])])
def test_an_out_of_order_update_is_dropped_only_if_the_table_is_versioned(versioned, expected):
    shard = OneShard(Stores.key_value("R", timestamped=True, cached=False))
    shard.stores["R"].write("a", "r", 1)
    send = shard.chain(TableTableJoin(other=RIGHT, joiner=joined, kind="inner", side="this", versioned=versioned))
    assert [change.new for _, change, _ in send("a", Change("l", None, False), 5)] == expected
    assert shard.dropped == (["out_of_order"] if versioned else [])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("inner", [("l+r", 9), None, None, None]),
        ("left", [("l+r", 9), ("l+None", 4), None, None]),
        ("outer", [("l+r", 9), ("l+None", 4), ("None+r", 6), None]),
    ],
)
def test_a_join_without_a_store_is_read_by_joining_anew(kind, expected):
    shard = OneShard(
        Stores.key_value("L", timestamped=True, cached=False), Stores.key_value("R", timestamped=True, cached=False)
    )
    shard.stores["L"].write("both", "l", 3)
    shard.stores["R"].write("both", "r", 9)
    shard.stores["L"].write("left", "l", 4)
    shard.stores["R"].write("right", "r", 6)
    view = JoinView(LEFT, RIGHT, joined, kind)
    lookup = view.open(shard)  # type: ignore[arg-type]
    assert [lookup(key) for key in ("both", "left", "right", "neither")] == expected
    assert view.stores == ("L", "R")
