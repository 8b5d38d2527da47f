"""What plain and timestamped key-value stores share: rows of (value, timestamp) by key, and what happens at the
barrier.

Everything inside is bytes: a value is serialised when it is put and decoded when it is got, so an object that the user
changes afterwards does not change the store. Order is that of the serialised keys, as unsigned bytes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from types import TracebackType
from typing import Any, NoReturn

from penstock.errors import SerializationError, StoreError
from penstock.record import Headers
from penstock.serde import Serde
from penstock.state.base import OnFlush, Sealed, ShardState, Store, StoreContext
from penstock.state.spec import StoreSpec
from penstock.state.ttl import Expiry
from penstock.state.write_back import Entry, Row, WriteBack, prefix_end, successor, unpack_stamp


class Rows(Iterator[tuple[Any, Any]]):
    """What a range gives: an iterator of (key, value) as of the call, which may also be used in a ``with`` block."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Iterator[tuple[Any, Any]]) -> None:
        self._rows = rows

    def __next__(self) -> tuple[Any, Any]:
        return next(self._rows)

    def close(self) -> None:
        """End the iteration."""
        self._rows = iter(())

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class RowStore(Store):
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
        self.spec = spec
        self.cached = bool(spec.cached)
        self._context = context
        self._key = key
        self._value = value
        self.stamped = self.stamped or spec.ttl is not None
        self._rows = WriteBack(state, spec.name, stamped=self.stamped)
        self._expiry = None if spec.ttl is None else Expiry(state, spec.name, spec.ttl, self._rows, context)
        self._listener: OnFlush | None = None
        self._send_old = False
        self._next_number = count(1).__next__
        self._flushed_to = 0  # number of the last write that has been forwarded
        self._flushed: dict[bytes, Entry] = {}  # what was forwarded in this epoch
        if self._expiry is None:
            self.read, self.write = self._make_read(), self._make_write()
        else:
            self.read, self.write = self._make_expiring_read(self._expiry), self._make_expiring_write(self._expiry)

    # ---- the hot verbs

    def _make_read(self) -> Callable[[Any], tuple[Any, int] | None]:
        in_dirty, in_pending, in_base = self._rows.dirty.get, self._rows.pending.get, self._rows.base.get
        serialize, deserialize, refuse_key = self._key.serialize, self._value.deserialize, self._refuse_key
        stamped = self.stamped

        def read(key: Any) -> tuple[Any, int] | None:
            if key is None:
                refuse_key(key)
            try:
                raw_key = serialize(key)
            except Exception as error:
                refuse_key(key, error)
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
        dirty, context, number = self._rows.dirty, self._context, self._next_number
        serialize_key, serialize = self._key.serialize, self._value.serialize
        refuse_key, refuse_value = self._refuse_key, self._refuse_value

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
            dirty[raw_key] = (raw, timestamp, headers, context.origin, number())

        return write

    # ---- the hot verbs where rows expire

    def _make_expiring_read(self, expiry: Expiry) -> Callable[[Any], tuple[Any, int] | None]:
        lookup, deserialize = self._rows.lookup, self._value.deserialize

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

    def _make_expiring_write(self, expiry: Expiry) -> Callable[..., None]:
        write = self._make_write()

        def write_and_observe(key: Any, value: Any, timestamp: int, headers: Headers = ()) -> None:
            write(key, value, expiry.observe(timestamp), headers)

        return write_and_observe

    def peek(self, key: Any) -> tuple[Any, int] | None:
        """Read as ``read`` does, for someone who looks from outside: nothing is forwarded."""
        row = self._rows.lookup(self._raw_key(key))
        if row is None or (self._expiry is not None and row.timestamp <= self._expiry.horizon()):
            return None
        return self._value.deserialize(row.value), row.timestamp

    # ---- verbs that are the same for both

    def put_all(self, rows: Iterable[tuple[Any, Any]]) -> None:
        """Put every (key, value)."""
        for key, value in rows:
            self.put(key, value)

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Put unless there is a value; return the value that was there, or None."""
        old = self.get(key)
        if old is None:
            self.put(key, value)
        return old

    def delete(self, key: Any) -> Any:
        """Delete the row and return the value it had."""
        old = self.get(key)
        self.put(key, None)
        return old

    def compute(self, key: Any, f: Callable[[Any, Any], Any]) -> Any:
        """Put what ``f(key, old value or None)`` returns (None deletes), and return it."""
        new = f(key, self.get(key))
        self.put(key, new)
        return new

    def merge(self, key: Any, value: Any, f: Callable[[Any, Any], Any]) -> Any:
        """Put ``value`` if there is none, else what ``f(old, value)`` returns (None deletes); return what was put."""
        old = self.get(key)
        new = value if old is None else f(old, value)
        self.put(key, new)
        return new

    def range(self, lower: Any, upper: Any) -> Rows:
        """Iterate (key, value) from ``lower`` to ``upper``, both included; None is an open end."""
        return self._between(lower, upper, reverse=False)

    def reverse_range(self, lower: Any, upper: Any) -> Rows:
        """Iterate as ``range`` does, from the upper end down."""
        return self._between(lower, upper, reverse=True)

    def all(self) -> Rows:
        """Iterate every (key, value)."""
        return self._between(None, None, reverse=False)

    def reverse_all(self) -> Rows:
        """Iterate every (key, value), from the last key to the first."""
        return self._between(None, None, reverse=True)

    def prefix_scan(self, prefix: Any, serde: Serde[Any] | None = None) -> Rows:
        """Iterate the rows whose serialised key begins with the serialised prefix (``serde``: the prefix's, else the
        key's)."""
        if prefix is None:
            raise StoreError(f"store {self.name!r}: the prefix must not be None")
        raw = (serde or self._key).serialize(prefix)
        return self._shown(self._scan(raw, prefix_end(raw), False))

    def approximate_num_entries(self) -> int:
        """Return the number of rows: exact while the epoch is small, else as of the last barrier."""
        return self._rows.count()

    # ---- the barrier

    def on_flush(self, listener: OnFlush, *, send_old: bool) -> None:
        """Register the listener of a cached store, or of a store whose rows expire; ``send_old``: give it the value
        before."""
        self._listener = listener
        self._send_old = send_old

    def flush(self) -> None:
        """Delete what has expired; forward what was written since the last flush, once per key, in order of the last
        writes.

        A store that is not cached forwards only the deletes of expired rows.
        """
        if self._listener is None:
            return
        current = self._context.origin
        try:
            self._expire_due()
            if self.cached:
                for key, entry in self._unforwarded():
                    self._forward(key, entry)
        finally:
            self._context.origin = current

    def _unforwarded(self) -> list[tuple[bytes, Entry]]:
        """Return the rows written since the last time this was asked, in the order of their last writes."""
        now = self._next_number()
        since, self._flushed_to = self._flushed_to, now
        if now == since + 1:
            return []
        return sorted((row for row in self._rows.dirty.items() if row[1][4] > since), key=lambda row: row[1][4])

    def _expire_due(self) -> None:
        if self._expiry is not None:
            for key in self._expiry.due():
                self._expire(key, self._expiry)

    def _expire(self, key: bytes, expiry: Expiry) -> None:
        """Delete an expired row; a store that is not cached tells its listener at once."""
        row = self._rows.lookup(key)
        if row is None or row.timestamp > expiry.horizon():
            return  # the listener of another expired row has been here
        end = expiry.end_of(row)
        self._rows.dirty[key] = (None, end, (), self._context.origin, self._next_number())
        if self._listener is not None and not self.cached:
            old = self._value.deserialize(row.value) if self._send_old else None
            self._listener(self._key.deserialize(key), None, old, end, ())

    def _forward(self, key: bytes, entry: Entry) -> None:
        """Forward one row as Kafka's cache does: nothing at all where neither a new nor an old value exists."""
        assert self._listener is not None
        value, timestamp, headers, origin, _ = entry
        old = self._forwarded(key) if value is None or self._send_old else None
        if value is None and old is None:
            return
        self._flushed[key] = entry
        self._context.origin = origin
        decode = self._value.deserialize
        self._listener(
            self._key.deserialize(key),
            None if value is None else decode(value),
            decode(old.value) if old is not None and self._send_old else None,
            timestamp,
            headers,
        )

    def _forwarded(self, key: bytes) -> Row | None:
        """Return what those downstream know of a key: what was forwarded last, else the value before the epoch."""
        entry = self._flushed.get(key)
        if entry is None:
            return self._rows.before(key)
        return None if entry[0] is None else Row(entry[0], entry[1])

    def seal(self) -> Sealed:
        """Hand out the epoch's rows."""
        if self._listener is None:
            self._expire_due()
        rows = list(self._rows.dirty.items())
        if self.cached and self._listener is not None:
            rows = [row for row in rows if row[1][0] is not None or not self._never_was(row[0])]
        self._flushed.clear()
        side = {} if self._expiry is None else self._expiry.side_rows(rows)
        sealed = self._rows.seal(rows, logged=self.spec.logged)
        sealed.side = side
        return sealed

    def _never_was(self, key: bytes) -> bool:
        return key not in self._flushed and self._rows.before(key) is None

    def apply(self, sealed: Sealed) -> None:
        """Write a committed epoch to the base map."""
        self._rows.apply(sealed)

    # ---- shapes and refusals

    @abstractmethod
    def get(self, key: Any) -> Any:
        """Return what is stored for the key, or None."""

    @abstractmethod
    def put(self, key: Any, value: Any) -> None:
        """Store the value; None deletes."""

    @abstractmethod
    def _shape(self, value: Any, timestamp: int) -> Any:
        """Make what ``get`` and the ranges give of a row."""

    def _between(self, lower: Any, upper: Any, *, reverse: bool) -> Rows:
        first = None if lower is None else self._raw_key(lower)
        last = None if upper is None else self._raw_key(upper)
        if first is not None and last is not None and first > last:
            return Rows(iter(()))
        return self._shown(self._scan(first, None if last is None else successor(last), reverse))

    def _scan(self, lower: bytes | None, upper: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes, int]]:
        rows = self._rows.scan(lower, upper, reverse)
        if self._expiry is None:
            return rows
        horizon = self._expiry.horizon()
        return (row for row in rows if row[2] > horizon)

    def _shown(self, rows: Iterator[tuple[bytes, bytes, int]]) -> Rows:
        decode_key, decode, shape = self._key.deserialize, self._value.deserialize, self._shape
        return Rows((decode_key(key), shape(decode(value), timestamp)) for key, value, timestamp in rows)

    def _raw_key(self, key: Any) -> bytes:
        if key is None:
            self._refuse_key(key)
        try:
            return self._key.serialize(key)
        except Exception as error:
            self._refuse_key(key, error)

    def _refuse_key(self, key: Any, error: Exception | None = None) -> NoReturn:
        if key is None:
            raise StoreError(f"store {self.name!r}: the key must not be None") from error
        raise self._refused(f"the key {key!r}", self._key, error) from error

    def _refuse_value(self, key: Any, value: Any, error: Exception) -> NoReturn:
        raise self._refused(f"the value {value!r} of key {key!r}", self._value, error) from error

    def _refused(self, what: str, serde: Serde[Any], error: Exception | None) -> SerializationError:
        message = f"store {self.name!r}: {serde!r} refused {what}: {error}"
        return SerializationError(message, origin=self._context.origin)
