"""Table-table joins by primary key: an update on either side joins the other side's present row.

One join is two nodes and a merge. Each side reads the other table through a view. What an update gives, with the other
side's row or without::

    kind, side         other side has a row             other side has none
    inner, both        joiner(new), or a tombstone      nothing
    left, "this"       joiner(new), or a tombstone      joiner(new, None), or a tombstone; nothing for an absent row
    left, "other"      joiner(left, new or None)        nothing
    outer, both        joiner(new or None)              joiner(new, None), or a tombstone; nothing for an absent row
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from penstock.operators.base import Forward, Lookup, Operator, OperatorContext, TableView
from penstock.operators.materialized import open_rows
from penstock.operators.stream_join import JoinKind
from penstock.record import Change, Headers


@dataclass(frozen=True, slots=True)
class TableTableJoin(Operator):
    """One side of a table-table join (KTABLE-JOINTHIS, KTABLE-JOINOTHER).

    ``side`` "this" gets the updates of the left table and reads the right one through ``other``; "other" the reverse.
    ``joiner(left, right)`` on both. ``versioned``: the table that feeds this side is versioned, its out-of-order
    updates are dropped. The result's timestamp is the later one of both rows, its headers those of the update.
    """

    calls: ClassVar[tuple[str, ...]] = ("joiner",)

    other: TableView
    joiner: Callable[[Any, Any], Any]
    kind: JoinKind
    side: Literal["this", "other"]
    send_old: bool = False
    versioned: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        lookup, drop = self.other.open(context), context.drop
        send_old, versioned = self.send_old, self.versioned
        join = self._join()
        # whether a result is made where this side has no row (the other has), and where the other has none (this has)
        without_this = self.kind == "outer" or (self.kind == "left" and self.side == "other")
        without_other = self.kind == "outer" or (self.kind == "left" and self.side == "this")

        def on_record(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                drop("null_key")
                return
            if versioned and not change.is_latest:
                drop("out_of_order")
                return
            new, old = change.new, change.old
            row = lookup(key)
            if row is None:
                if not without_other or (new is None and old is None):
                    return
                other, both = None, False
            else:
                other, both = row[0], without_this
                if row[1] > timestamp:
                    timestamp = row[1]
            result = join(new, other) if both or new is not None else None
            before = join(old, other) if send_old and (both or old is not None) else None
            forward(key, Change(result, before, change.is_latest), timestamp, headers)

        return on_record

    def _join(self) -> Callable[[Any, Any], Any]:
        """Return the joiner as ``(this, other) -> result``."""
        joiner = self.joiner
        return joiner if self.side == "this" else lambda this, other: joiner(other, this)


@dataclass(frozen=True, slots=True)
class TableJoinMerge(Operator):
    """Bring both sides of a table-table join together (KTABLE-MERGE); keeps the result where it has a ``store``."""

    store: str | None = None
    send_old: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        if self.store is not None:
            return self._open_stored(context.store(self.store), forward)
        if self.send_old:

            def on_record(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
                forward(key, change, timestamp, headers)

        else:

            def on_record(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
                forward(key, Change(change.new, None, change.is_latest), timestamp, headers)

        return on_record

    def _open_stored(self, store: Any, forward: Forward) -> Forward:
        _, update = open_rows(store, forward, self.send_old)

        def on_record(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
            update(key, change.new, change.old, timestamp, headers, timestamp)

        return on_record


@dataclass(frozen=True, slots=True)
class JoinView(TableView):
    """Read a table-table join that has no store of its own: both parents are read and joined at the time of asking."""

    left: TableView
    right: TableView
    joiner: Callable[[Any, Any], Any]
    kind: JoinKind

    @property
    def stores(self) -> tuple[str, ...]:
        """The stores of both parents, each once."""
        return tuple(dict.fromkeys((*self.left.stores, *self.right.stores)))

    def open(self, context: OperatorContext) -> Lookup:
        """Bind to one shard; return ``lookup(key)``."""
        left, right, joiner = self.left.open(context), self.right.open(context), self.joiner
        needs_left, needs_right = self.kind != "outer", self.kind == "inner"

        def lookup(key: Any) -> tuple[Any, int] | None:
            left_row = left(key)
            if left_row is None and needs_left:
                return None
            right_row = right(key)
            if right_row is None and needs_right:
                return None
            if left_row is None:
                if right_row is None:
                    return None
                return _present(joiner(None, right_row[0]), right_row[1])
            if right_row is None:
                return _present(joiner(left_row[0], None), left_row[1])
            return _present(joiner(left_row[0], right_row[0]), max(left_row[1], right_row[1]))

        return lookup


def _present(value: Any, timestamp: int) -> tuple[Any, int] | None:
    """A joiner may return None: then there is no row."""
    return None if value is None else (value, timestamp)
