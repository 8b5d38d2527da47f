"""The source of a table: records become updates of rows.

By column the updates are told by place before anything is written, so that joins with the table may go along with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.operators.base import Forward, Operator, OperatorContext
from penstock.operators.materialized import open_rows
from penstock.record import Change, Headers


@dataclass(frozen=True, slots=True)
class TableSource(Operator):
    """Turn a stream of records into the updates of a table, kept in ``store`` if there is one.

    A record without a key is dropped, one without a value deletes the row. A record older than the row still replaces
    it, unless the store is versioned.
    """

    store: str | None = None
    send_old: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        drop = context.drop
        if self.store is None:

            def on_record_unstored(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
                if key is None:
                    drop("null_key")
                else:
                    forward(key, Change(value), timestamp, headers)

            return on_record_unstored

        store = context.store(self.store)
        read, update = open_rows(store, forward, self.send_old)
        # a cached store knows the value before by itself
        reads = self.send_old and not store.cached

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                drop("null_key")
                return
            row = read(key) if reads else None
            update(key, value, None if row is None else row[0], timestamp, headers, timestamp)

        return on_record


@dataclass(frozen=True, slots=True)
class PunctualTableSource(TableSource):
    """The source of a table that takes no late records: those that event time had passed, by the watermarks of its source, are dropped.

    What else becomes of them, its source says: they are counted, or kept in the dead-letter topic.
    """

    timed: ClassVar[bool] = True

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        take = TableSource.open(self, context, forward)
        clock = context.event_time()

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if context.is_late:
                context.drop_late("late_record", timestamp, timestamp, clock.now)
            else:
                take(key, value, timestamp, headers)

        return on_record


#: ``KStream.to_table``: the same node under another name.
StreamToTable = TableSource
