"""What plain and timestamped key-value stores share: rows of (value, timestamp) by key, and what happens at the
barrier.

Everything inside is bytes: a value is serialised when it is put and decoded when it is got, so an object that the user
changes afterwards does not change the store. Order is that of the serialised keys, as unsigned bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeAlias

from penstock.record import Headers
from penstock.serde import Serde
from penstock.state.base import Entry, OnChange, OnFlush, Sealed, ShardState, StoreContext
from penstock.state.event_time import EventTime
from penstock.state.forward import FlushBatch
from penstock.state.row_forwarding import RowForwarding
from penstock.state.spec import StoreSpec
from penstock.state.ttl import RowExpiry
from penstock.state.verbs import KeyValueVerbs
from penstock.state.write_back import WriteBack, unpack_stamp

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
        self.forwarding = RowForwarding(self.rows, key, value, context)
        self.next_number = self.forwarding.next_number
        self._on_change: OnChange | None = None
        if self._expiry is None:
            self.read, self.write = self._make_read(), self._make_write()
        else:
            self.read, self.write = self._make_expiring_read(self._expiry), self._make_expiring_write(self._expiry)

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
        refuse_key, refuse_value, vanished = self._refuse_key, self._refuse_value, self.forwarding.vanished
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
                if self.forwarding.listener is not None and not self.cached:
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
        if self._expiry is None or self.forwarding.listener is None or self.cached:
            return None
        return self._expiry.earliest()

    def expire(self, now: int) -> None:
        """Delete the rows that have ended, and tell those downstream."""
        self.reach()
        self._expire_due()

    def on_flush(self, listener: OnFlush, *, send_old: bool) -> None:
        """Register the listener of a cached store, or of a store whose rows expire; ``send_old``: give it the value
        before."""
        self.forwarding.listener, self.forwarding.send_old = listener, send_old

    def on_flush_batch(self, listener: FlushBatch) -> None:
        """Register what takes many updates at a time, by their new values, and the old ones where they are asked for."""
        self.forwarding.on_batch = listener

    def announce_vanished(self) -> None:
        """Forward the delete of a row that came and went within an epoch, because someone may have read it in between.

        A cache owes such a row to nobody downstream. But a foreign-key subscription reads the right table in the middle of an
        epoch and is answered with the row: without its delete the answer would stand.
        """
        self.forwarding.announce = True

    def flush(self) -> bool:
        """Delete what has expired; forward what was written since the last flush, once per key, in order of the last
        writes.

        A store that is not cached forwards only the deletes of expired rows.
        """
        if self.forwarding.listener is None:
            return False
        current = self._context.origin
        try:
            expired = self._expire_due()
            if self.forwarding.forward_delta():
                return True
            return (self.cached and self.forwarding.forward()) or expired
        finally:
            self.forwarding.vanished.clear()
            self._context.origin = current

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
        listener = self.forwarding.listener
        if listener is not None and not self.cached:
            old = self._value.deserialize(row.value) if self.forwarding.send_old else None
            listener(self._key.deserialize(key), None, old, end, ())

    def snapshot(self) -> dict[str, Any]:
        """Return the store's time, where rows expire by it."""
        return {} if self._expiry is None else {"time": self._expiry.time.observed}

    def resume(self, snapshot: Mapping[str, Any]) -> None:
        """Restore what ``snapshot`` returned."""
        if self._expiry is not None:
            self._expiry.time.advance(snapshot["time"])

    def seal(self) -> Sealed:
        """Hand out the epoch's rows."""
        if self.forwarding.listener is None:
            self._expire_due()
        whole = self.rows.seal_delta(logged=self.spec.logged)
        if whole is not None:
            self.forwarding.end_epoch()
            return whole
        self.rows.spill()
        rows: Collection[tuple[bytes, Entry]] = self.rows.dirty.items()
        if self.cached and self.forwarding.listener is not None:
            rows = [row for row in rows if row[1][0] is not None or not self.forwarding.was_never_there(row[0])]
        self.forwarding.end_epoch()
        side = {} if self._expiry is None else self._expiry.side_rows(rows)
        sealed = self.rows.seal(rows, logged=self.spec.logged, headers=self.spec.log_headers)
        sealed.side.update(side)
        return sealed

    def apply(self, sealed: Sealed) -> None:
        """Write a committed epoch to the base map."""
        self.rows.apply(sealed)

    def _scan(self, lower: bytes | None, upper: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes, int]]:
        rows = self.rows.scan(lower, upper, reverse)
        if self._expiry is None:
            return rows
        horizon = self._expiry.horizon()
        return (row for row in rows if row[2] > horizon)
