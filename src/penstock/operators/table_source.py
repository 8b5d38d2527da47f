"""The source of a table: records become updates of rows.

By column the updates are told by place before anything is written, so that joins with the table may go along with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.batch.batch import Batch, Commits, OnBatch
from penstock.operators.base import Forward, Operator, OperatorContext
from penstock.operators.folds import with_keys
from penstock.operators.materialized import open_rows
from penstock.record import Change, Headers
from penstock.state.rows import RowStore


@dataclass(frozen=True, slots=True)
class TableSource(Operator):
    """Turn a stream of records into the updates of a table, kept in ``store`` if there is one.

    A record without a key is dropped, one without a value deletes the row. A record older than the row still replaces
    it, unless the store is versioned.
    """

    tells_places: ClassVar[bool] = True

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

    def open_batch(self, context: OperatorContext, forward: OnBatch | None) -> OnBatch | None:
        """Return the same for many records: as columns, updates are their new values."""
        drop = context.drop
        if self.store is None:
            return None if forward is None else with_keys(forward, drop)
        store = context.store(self.store)
        put = store.make_column_put() if isinstance(store, RowStore) else None
        if put is None:
            return None
        if store.cached:
            if forward is not None:
                store.on_flush_batch(forward)
            return with_keys(put, drop)
        if forward is None or self.send_old:
            return None

        def put_and_forward(batch: Batch, commits: Commits) -> None:
            put(batch, commits)
            forward(batch, commits)

        return with_keys(put_and_forward, drop)

    def touches(self) -> tuple[str, ...]:
        """The store, if there is one."""
        return () if self.store is None else (self.store,)


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

    def open_batch(self, context: OperatorContext, forward: OnBatch | None) -> OnBatch | None:
        """Return nothing: each record is asked for its time."""
        return None


#: ``KStream.to_table``: the same node under another name.
StreamToTable = TableSource
