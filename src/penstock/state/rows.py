"""What plain and timestamped key-value stores share: rows of (value, timestamp) by key, and what happens at the
barrier.

Everything inside is bytes: a value is serialised when it is put and decoded when it is got, so an object that the user
changes afterwards does not change the store. Order is that of the serialised keys, as unsigned bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.batch.column import Column
from penstock.record import Headers
from penstock.serde import Serde
from penstock.state.base import Entry, OnChange, OnFlush, Sealed, ShardState, StoreContext
from penstock.state.batch_delta import BatchDelta
from penstock.state.event_time import EventTime
from penstock.state.forward import FlushBatch, forward_entries
from penstock.state.spec import StoreSpec
from penstock.state.ttl import RowExpiry
from penstock.state.verbs import KeyValueVerbs
from penstock.state.write_back import StoredRow, WriteBack, unpack_stamp, writer_of

#: folds one record into the row of its key: (key, value, timestamp, headers)
Fold: TypeAlias = Callable[[Any, Any, int, Headers], None]


class RowStore(KeyValueVerbs):
    """What plain and timestamped stores share: rows of (value, timestamp) by key, above a write-back map.

    The two hot verbs are closures made once:

    - ``read(key)`` gives ``(value, timestamp)`` or None,
    - ``write(key, value or None, timestamp, headers=())`` puts or deletes.
    """

    #: base rows carry their timestamp
    stamped = False

    read: Callable[[Any], tuple[Any, int] | None]
    write: Callable[..., None]

    def __init__(
        self, spec: StoreSpec, state: ShardState, context: StoreContext, key: Serde[Any], value: Serde[Any]
    ) -> None:
        super().__init__(spec, context, key, value)
        self.cached = bool(spec.cached)
        self.forwards_each = self.cached and context.cache.forwards_each
        self.stamped = self.stamped or spec.ttl is not None
        self.rows = WriteBack(state, spec.name, stamped=self.stamped)
        self._expiry = None if spec.ttl is None else RowExpiry(state, spec.name, spec.ttl, self.rows)
        self._listener: OnFlush | None = None
        self._send_old = False
        self.next_number = count(1).__next__
        self._flushed_to = 0  # number of the last write that has been forwarded
        self._flushed: dict[bytes, Entry] = {}  # what was forwarded in this epoch
        self.vanished: set[bytes] = (
            set()
        )  # rows of this epoch that were deleted before anybody downstream heard of them
        self._announce = False
        self._on_batch: FlushBatch | None = None
        self._on_change: OnChange | None = None
        if self._expiry is None:
            self.read, self.write = self._make_read(), self._make_write()
        else:
            self.read, self.write = self._make_expiring_read(self._expiry), self._make_expiring_write(self._expiry)

    @property
    def serdes(self) -> tuple[Serde[Any], Serde[Any]]:
        """The serdes of keys and values."""
        return self._key, self._value

    # ---- the hot verbs

    def _make_read(self) -> Callable[[Any], tuple[Any, int] | None]:
        in_dirty, in_pending, in_base = self.rows.dirty.get, self.rows.pending.get, self.rows.base.get
        serialize, deserialize, refuse_key = self._key.serialize, self._value.deserialize, self._refuse_key
        stamped, deltas, spill = self.stamped, self.rows.deltas, self.rows.spill

        def read(key: Any) -> tuple[Any, int] | None:
            if key is None:
                refuse_key(key)
            try:
                raw_key = serialize(key)
            except Exception as error:
                refuse_key(key, error)
            if deltas:
                spill()
            entry = in_dirty(raw_key) or in_pending(raw_key)
            if entry is None:
                raw = in_base(raw_key)
                if raw is None:
                    return None
                if stamped:
                    return deserialize(raw[8:]), unpack_stamp(raw)[0]
                return deserialize(raw), -1
            value = entry[0]
            if value is None:
                return None
            return deserialize(value), entry[1]

        return read

    def _make_write(self) -> Callable[..., None]:
        dirty, context, number, cached = self.rows.dirty, self._context, self.next_number, self.cached
        serialize_key, serialize = self._key.serialize, self._value.serialize
        refuse_key, refuse_value, vanished = self._refuse_key, self._refuse_value, self.vanished
        deltas, spill = self.rows.deltas, self.rows.spill
        hold, name = context.cache.hold if cached and context.cache.counts else None, self.spec.name

        def write(key: Any, value: Any, timestamp: int, headers: Headers = ()) -> None:
            if key is None:
                refuse_key(key)
            try:
                raw_key = serialize_key(key)
            except Exception as error:
                refuse_key(key, error)
            try:
                raw = None if value is None else serialize(value)
            except Exception as error:
                refuse_value(key, value, error)
            if deltas:
                spill()
            if cached:
                if raw is None and raw_key in dirty and dirty[raw_key][0] is not None:
                    vanished.add(raw_key)
                dirty[raw_key] = (raw, timestamp, headers, context.origin, number())
                if hold is not None:
                    hold((name, raw_key), len(raw_key) + len(raw or b""))
            else:
                dirty[raw_key] = (raw, timestamp, headers, None, 0)

        return write

    def make_fold(
        self, initializer: Callable[[], Any], aggregator: Callable[[Any, Any, Any], Any], drop: Callable[[str], None]
    ) -> Fold | None:
        """Return read, aggregate and write of one record as one closure, or None where it would not do.

        Only for a cached store without ttl: there an update forwards nothing by itself. The key is serialised once instead of
        twice and no call lies between. Same results as ``read``, the aggregator, ``write``; a record without key or value is
        dropped, as every aggregation of a stream does.
        """
        budget = self._context.cache
        if not self.cached or self.forwards_each or self._expiry is not None or self._on_change is not None:
            return None
        hold, name = budget.hold if budget.counts else None, self.spec.name
        dirty, in_dirty, read, write = self.rows.dirty, self.rows.dirty.get, self.read, self.write
        serialize_key, serialize, deserialize = self._key.serialize, self._value.serialize, self._value.deserialize
        refuse_key, refuse_value, context = self._refuse_key, self._refuse_value, self._context
        number, deltas, spill = self.next_number, self.rows.deltas, self.rows.spill

        def fold(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                drop("null_key" if key is None else "null_value")
                return
            try:
                raw_key = serialize_key(key)
            except Exception as error:
                refuse_key(key, error)
            if deltas:
                spill()
            entry = in_dirty(raw_key)
            if entry is None or entry[0] is None:
                row = read(key) if entry is None else None
                old, later = (initializer(), timestamp) if row is None else row
            else:
                old, later = deserialize(entry[0]), entry[1]
            if later < timestamp:
                later = timestamp
            new = aggregator(key, value, old)
            if new is None:
                write(key, None, timestamp, headers)
                return
            try:
                raw = serialize(new)
            except Exception as error:
                refuse_value(key, new, error)
            dirty[raw_key] = (raw, later, headers, context.origin, number())
            if hold is not None:
                hold((name, raw_key), len(raw_key) + len(raw))

        return fold

    # ---- the hot verbs where rows expire

    def _make_expiring_read(self, expiry: RowExpiry) -> Callable[[Any], tuple[Any, int] | None]:
        lookup, deserialize = self.rows.lookup, self._value.deserialize

        def read(key: Any) -> tuple[Any, int] | None:
            raw_key = self._raw_key(key)
            row = lookup(raw_key)
            if row is None:
                return None
            if row.timestamp <= expiry.horizon():
                if self._listener is not None and not self.cached:
                    self._expire(raw_key, expiry)
                return None
            return deserialize(row.value), row.timestamp

        return read

    def _make_expiring_write(self, expiry: RowExpiry) -> Callable[..., None]:
        write = self._make_write()

        def write_and_observe(key: Any, value: Any, timestamp: int, headers: Headers = ()) -> None:
            write(key, value, expiry.observe(timestamp), headers)

        return write_and_observe

    # ---- changes, for a later step of the epoch

    def on_change(self, listener: OnChange) -> None:
        """Call the listener for each row that is written; to be called before a node opens."""
        write, rows, raw_key = self.write, self.rows.dirty, self._raw_key
        self._on_change = listener

        def write_and_forward(key: Any, value: Any, timestamp: int, headers: Headers = ()) -> None:
            write(key, value, timestamp, headers)
            raw = raw_key(key)
            listener(raw, *rows[raw][:2])

        self.write = write_and_forward

    def replay(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Put a row that another store of the same rows was told of; it is never sealed here."""
        self.rows.dirty[key] = (value, timestamp, (), None, 0)

    def forget(self) -> None:
        """Forget what was replayed: the base has it by now."""
        self.rows.forget()

    def raw_key(self, key: Any) -> bytes:
        """Return the bytes of a key."""
        return self._raw_key(key)

    def peek(self, key: Any) -> tuple[Any, int] | None:
        """Read as ``read`` does, for someone who looks from outside: nothing is forwarded."""
        row = self.rows.lookup(self._raw_key(key))
        if row is None or (self._expiry is not None and row.timestamp <= self._expiry.horizon()):
            return None
        return self._value.deserialize(row.value), row.timestamp

    def approximate_num_entries(self) -> int:
        """Return the number of rows: exact while the epoch is small, else as of the last barrier."""
        return self.rows.count()

    # ---- the barrier

    @property
    def keeps_time(self) -> bool:
        """Whether rows have a time to live."""
        return self._expiry is not None

    def keep_time(self, clock: EventTime) -> None:
        """Expire rows by this clock."""
        if self._expiry is not None:
            self._expiry.clock = clock

    def reach(self) -> None:
        """Advance the store to the time of the clock."""
        if self._expiry is not None:
            self._expiry.reach()

    def earliest_end(self) -> int | None:
        """Return when the first row ends of which those downstream are told at once, or an earlier time; None if there is none."""
        if self._expiry is None or self._listener is None or self.cached:
            return None
        return self._expiry.earliest()

    def expire(self, now: int) -> None:
        """Delete the rows that have ended, and tell those downstream."""
        self.reach()
        self._expire_due()

    def on_flush(self, listener: OnFlush, *, send_old: bool) -> None:
        """Register the listener of a cached store, or of a store whose rows expire; ``send_old``: give it the value
        before."""
        self._listener = listener
        self._send_old = send_old

    def on_flush_batch(self, listener: FlushBatch) -> None:
        """Register what takes many updates at a time, by their new values, and the old ones where they are asked for."""
        self._on_batch = listener

    def announce_vanished(self) -> None:
        """Forward the delete of a row that came and went within an epoch, because someone may have read it in between.

        A cache owes such a row to nobody downstream. But a foreign-key subscription reads the right table in the middle of an
        epoch and is answered with the row: without its delete the answer would stand.
        """
        self._announce = True

    def flush(self) -> bool:
        """Delete what has expired; forward what was written since the last flush, once per key, in order of the last
        writes.

        A store that is not cached forwards only the deletes of expired rows.
        """
        if self._listener is None:
            return False
        current = self._context.origin
        try:
            forwarded = self._expire_due()
            if self._forward_delta():
                return True
            changed = self._unforwarded() if self.cached else ()
            if not (self._on_batch is not None and changed and self._forward_batch(changed)):
                for key, entry in changed:
                    self._forward(key, entry)
            return forwarded or bool(changed)
        finally:
            self.vanished.clear()
            self._context.origin = current

    def _forward_delta(self) -> bool:
        """Forward what was written by column, if that is all, and it can go as it is."""
        for delta in self.rows.deltas:
            if delta.flushed is not None or delta.sealed is not None:
                return False
            if self._on_batch is not None and not self._flushed:
                kept, old = self._to_forward(delta)
                if not len(kept) or self._on_batch(kept.changes(self._key, self._value, old)):
                    kept.flushed = self._flushed
                    self.rows.deltas[:] = [kept] if len(kept) else []
                    return True
                self._on_batch = None
            self.rows.spill()
        return False

    def _to_forward(self, delta: BatchDelta) -> tuple[BatchDelta, pa.Array | None]:
        """Return the rows of a delta that are to be forwarded, and the values before, where these are asked for."""
        deleted = delta.values.null_count
        if not self._send_old and not deleted:
            return delta, None
        names = delta.names
        gone = delta.values.is_null().to_numpy(zero_copy_only=False)
        asked = names if self._send_old else [names[at] for at in np.flatnonzero(gone).tolist()]
        before = pa.array(self.rows.before_many(asked), pa.binary())
        old = before if self._send_old else None
        if not deleted:
            return delta, old
        kept = ~gone
        kept[slice(None) if self._send_old else gone] |= before.is_valid().to_numpy(zero_copy_only=False)
        if self._announce and self.vanished:
            kept |= np.array([name in self.vanished for name in names], dtype=bool)
        if kept.all():
            return delta, old
        return delta.only(kept), None if old is None else old.filter(pa.array(kept))

    def _unforwarded(self) -> list[tuple[bytes, Entry]]:
        """Return the rows written since the last time this was asked, in the order of their last writes."""
        now = self.next_number()
        since, self._flushed_to = self._flushed_to, now
        if now == since + 1:
            return []
        return sorted((row for row in self.rows.dirty.items() if row[1][4] > since), key=lambda row: row[1][4])

    def _expire_due(self) -> bool:
        expiry = self._expiry
        if expiry is None:
            return False
        due = expiry.due()
        for key in due:
            self._expire(key, expiry)
        return bool(due)

    def _expire(self, key: bytes, expiry: RowExpiry) -> None:
        """Delete an expired row; a store that is not cached tells its listener at once."""
        row = self.rows.lookup(key)
        if row is None or row.timestamp > expiry.horizon():
            return  # the listener of another expired row has been here
        end = expiry.end_of(row)
        self.rows.dirty[key] = (None, end, (), self._context.origin, self.next_number())
        if self._listener is not None and not self.cached:
            old = self._value.deserialize(row.value) if self._send_old else None
            self._listener(self._key.deserialize(key), None, old, end, ())

    def _forward_batch(self, changed: Sequence[tuple[bytes, Entry]]) -> bool:
        """Forward all rows at a time; False, and nothing has happened, if they must go one by one.

        As one by one: a row that is neither there now, nor was before, is not forwarded.
        """
        assert self._on_batch is not None
        old = self._forwarded_many([key for key, _ in changed]) if self._send_old else None
        if any(entry[0] is None for _, entry in changed):
            lasting = self._lasting(changed, old)
            changed = [changed[at] for at in lasting]
            old = None if old is None else [old[at] for at in lasting]
        if not changed:
            return True
        keys = Column(data=[key for key, _ in changed], serde=self._key, made=True)
        entries = [entry for _, entry in changed]
        if not forward_entries(self._on_batch, keys, self._value, entries, old=old, deletes=True):
            self._on_batch = None
            return False
        self._flushed.update(changed)
        return True

    def _lasting(self, changed: Sequence[tuple[bytes, Entry]], old: list[bytes | None] | None) -> list[int]:
        """Return the places of changed rows that those downstream have to hear of."""
        if old is None:
            gone = [key for key, entry in changed if entry[0] is None]
            before = dict(zip(gone, self._forwarded_many(gone), strict=True))
            old = [before.get(key) for key, _ in changed]
        announced: Collection[bytes] = self.vanished if self._announce else ()
        return [
            at
            for at, ((key, entry), row) in enumerate(zip(changed, old, strict=True))
            if entry[0] is not None or row is not None or key in announced
        ]

    def _forward(self, key: bytes, entry: Entry) -> None:
        """Forward one row as Kafka's cache does: nothing at all where neither a new nor an old value exists."""
        assert self._listener is not None
        value, timestamp, headers, origin, _ = entry
        old = self._forwarded(key) if value is None or self._send_old else None
        if value is None and old is None and not (self._announce and key in self.vanished):
            return
        self._flushed[key] = entry
        assert origin is not None, "a row without a writer in a cached store"
        self._context.origin = writer_of(origin)
        decode = self._value.deserialize
        self._listener(
            self._key.deserialize(key),
            None if value is None else decode(value),
            decode(old.value) if old is not None and self._send_old else None,
            timestamp,
            headers,
        )

    def _forwarded(self, key: bytes) -> StoredRow | None:
        """Return what those downstream know of a key: what was forwarded last, else the value before the epoch."""
        entry = self._flushed.get(key)
        if entry is None:
            return self.rows.before(key)
        return None if entry[0] is None else StoredRow(entry[0], entry[1])

    def _forwarded_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return what those downstream know of many keys, without timestamps."""
        flushed = self._flushed
        if not flushed:
            return self.rows.before_many(keys)
        below = [key for key in keys if key not in flushed]
        known = dict(zip(below, self.rows.before_many(below), strict=True))
        return [known[key] if key in known else flushed[key][0] for key in keys]

    def snapshot(self) -> dict[str, Any]:
        """Return the store's time, where rows expire by it."""
        return {} if self._expiry is None else {"time": self._expiry.time.observed}

    def resume(self, snapshot: Mapping[str, Any]) -> None:
        """Restore what ``snapshot`` returned."""
        if self._expiry is not None:
            self._expiry.time.advance(snapshot["time"])

    def seal(self) -> Sealed:
        """Hand out the epoch's rows."""
        if self._listener is None:
            self._expire_due()
        whole = self.rows.seal_delta(logged=self.spec.logged)
        if whole is not None:
            self._flushed.clear()
            return whole
        self.rows.spill()
        rows: Collection[tuple[bytes, Entry]] = self.rows.dirty.items()
        if self.cached and self._listener is not None:
            rows = [row for row in rows if row[1][0] is not None or not self._never_was(row[0])]
        self._flushed.clear()
        side = {} if self._expiry is None else self._expiry.side_rows(rows)
        sealed = self.rows.seal(rows, logged=self.spec.logged, headers=self.spec.log_headers)
        sealed.side.update(side)
        return sealed

    def _never_was(self, key: bytes) -> bool:
        return key not in self._flushed and self.rows.before(key) is None

    def apply(self, sealed: Sealed) -> None:
        """Write a committed epoch to the base map."""
        self.rows.apply(sealed)

    def _scan(self, lower: bytes | None, upper: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes, int]]:
        rows = self.rows.scan(lower, upper, reverse)
        if self._expiry is None:
            return rows
        horizon = self._expiry.horizon()
        return (row for row in rows if row[2] > horizon)
