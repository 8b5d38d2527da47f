"""Grouping and aggregation of a table: re-key its updates, take the old row out of its group, put the new row in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.operators.base import Forward, Operator, OperatorContext
from penstock.operators.materialized import open_rows
from penstock.operators.stateless import as_pair
from penstock.record import Change, Headers


def zero() -> int:
    """Begin a count."""
    return 0


def count_up(key: Any, value: Any, agg: int) -> int:
    """Count a row in."""
    return agg + 1


def count_down(key: Any, value: Any, agg: int) -> int:
    """Count a row out."""
    return agg - 1


@dataclass(frozen=True, slots=True)
class TableRepartitionMap(Operator):
    """Re-key a table's updates with ``mapper(key, value) -> (key, value)``, called for the old row and for the new one.

    One update goes out where both have the same key, else the old row's removal and then the new row's arrival. A pair
    without a key or a value is left out. ``versioned``: the table is versioned, its out-of-order updates are skipped.
    """

    calls: ClassVar[tuple[str, ...]] = ("mapper",)

    mapper: Callable[[Any, Any], tuple[Any, Any]]
    versioned: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        mapper, versioned = self.mapper, self.versioned

        def mapped(key: Any, value: Any) -> tuple[Any, Any] | None:
            pair = None if value is None else mapper(key, value)
            if pair is None:
                return None
            new_key, new_value = as_pair(pair, "group_by")
            return None if new_key is None or new_value is None else (new_key, new_value)

        def on_record(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                raise ValueError("a table that is grouped has a row without a key")
            is_latest = change.is_latest
            if versioned and not is_latest:
                return
            new, old = mapped(key, change.new), mapped(key, change.old)
            if new is not None and old is not None and old[0] == new[0] and type(old[0]) is type(new[0]):
                forward(old[0], Change(new[1], old[1], is_latest), timestamp, headers)
                return
            if old is not None:
                forward(old[0], Change(None, old[1], is_latest), timestamp, headers)
            if new is not None:
                forward(new[0], Change(new[1], None, is_latest), timestamp, headers)

        return on_record


@dataclass(frozen=True, slots=True)
class TableAggregate(Operator):
    """Aggregate re-keyed updates: ``subtractor(key, value, agg)`` takes the old row out, ``adder`` puts the new row in.

    Nothing is subtracted where there is no aggregate yet. A result of None deletes the row.
    """

    calls: ClassVar[tuple[str, ...]] = ("adder", "subtractor", "initializer")

    store: str
    initializer: Callable[[], Any]
    adder: Callable[[Any, Any, Any], Any]
    subtractor: Callable[[Any, Any, Any], Any]
    send_old: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        read, update = open_rows(context.store(self.store), forward, self.send_old)
        initializer, adder, subtractor = self.initializer, self.adder, self.subtractor

        def on_record(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                raise ValueError("a grouped table has an update without a key")
            row = read(key)
            old = agg = None if row is None else row[0]
            later = timestamp
            if change.old is not None and row is not None:
                agg = subtractor(key, change.old, agg)
                later = max(timestamp, row[1])
            if change.new is not None:
                agg = adder(key, change.new, initializer() if agg is None else agg)
                if row is not None:
                    later = max(timestamp, row[1])
            update(key, agg, old, later, headers, timestamp)

        return on_record


@dataclass(frozen=True, slots=True)
class TableReduce(Operator):
    """Combine re-keyed updates: ``subtractor(agg, value)`` takes the old row out, ``adder(agg, value)`` the new one in.

    The first row of a group is taken as it is.
    """

    calls: ClassVar[tuple[str, ...]] = ("adder", "subtractor")

    store: str
    adder: Callable[[Any, Any], Any]
    subtractor: Callable[[Any, Any], Any]
    send_old: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        read, update = open_rows(context.store(self.store), forward, self.send_old)
        adder, subtractor = self.adder, self.subtractor

        def on_record(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                raise ValueError("a grouped table has an update without a key")
            row = read(key)
            old = agg = None if row is None else row[0]
            later = timestamp
            if change.old is not None and row is not None:
                agg = subtractor(agg, change.old)
                later = max(timestamp, row[1])
            if change.new is not None:
                if agg is None or row is None:
                    agg = change.new
                else:
                    agg = adder(agg, change.new)
                    later = max(timestamp, row[1])
            update(key, agg, old, later, headers, timestamp)

        return on_record
