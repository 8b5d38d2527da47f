"""Window stores: a value (or several, ``retain_duplicates``) per key and window start. Verbs are Kafka's in snake_case.

Everything inside is bytes; see ``segmented`` for layers, segments and expiry. Order of iteration: the windows of one
key by start; over several keys by segment, then key, then start in the default store, and by start, then key in an
in-memory or time-ordered one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from penstock.batch.column import Column
from penstock.errors import StoreError
from penstock.record import Headers, ValueAndTimestamp, Windowed
from penstock.serde import Serde
from penstock.serde.windowed import WindowedSerde
from penstock.state.base import ShardState, StoreContext
from penstock.state.delta import StoreDelta
from penstock.state.duplicate_rows import DuplicateRows, Matches, SpanQuery
from penstock.state.key_value import Rows
from penstock.state.keys import MAX_SEQUENCE, MAX_TIME, pack_time
from penstock.state.positions import DUPLICATES, WINDOW
from penstock.state.segmented import Segmented
from penstock.state.segmented_store import SegmentedStore
from penstock.state.segments import restore_rows
from penstock.state.spec import StoreSpec


class WindowStore(SegmentedStore):
    """One window store of one shard.

    Hot verbs for operators, closures made once:

    - ``read(key, start)`` gives ``(value, timestamp)`` or None,
    - ``write(key, start, value or None, timestamp, headers=())`` puts or deletes,
    - ``add(key, value, start, headers=())`` puts into a store without timestamps; with duplicates each call makes a row
      of its own.

    >>> from penstock.state.open import standalone
    >>> from penstock.state.spec import Stores
    >>> store = standalone(Stores.window("visits", retention=60_000, size=10_000))
    >>> store.put("ann", 1, 0)
    >>> store.put("ann", 2, 10_000)
    >>> store.fetch("ann", 10_000), list(store.fetch("ann", 0, 10_000))
    (2, [(0, 1), (10000, 2)])
    >>> list(store.all())[1]
    (Windowed(key='ann', start=10000, end=20000), 2)
    """

    read: Callable[[Any, int], tuple[Any, int] | None]
    write: Callable[..., None]
    add: Callable[..., None]

    def __init__(
        self, spec: StoreSpec, state: ShardState, context: StoreContext, key: Serde[Any], value: Serde[Any]
    ) -> None:
        rows = DuplicateRows(spec, state) if spec.retain_duplicates else Segmented(spec, state, WINDOW)
        super().__init__(spec, rows, context, key, value)
        self._size = spec.window_size or 0
        self.read = self._make_read()
        self.write = self._make_write()
        self.add = self._make_add() if spec.retain_duplicates else self._put_plain

    # ---- the hot verbs

    def _make_read(self) -> Callable[[Any, int], tuple[Any, int] | None]:
        rows, serialize, deserialize = self.rows, self._key.serialize, self._value.deserialize
        in_dirty, before, refuse_key = rows.dirty.keys.get, rows.before, self._refuse_key
        if self.spec.retain_duplicates:
            return self._no_single_value

        def read(key: Any, start: int) -> tuple[Any, int] | None:
            if key is None:
                refuse_key(key)
            if start < rows.bound:
                return None
            try:
                raw_key = serialize(key)
            except Exception as error:
                refuse_key(key, error)
            found = in_dirty(raw_key)
            if found is not None:
                entry = found[1].get(start)
                if entry is not None:
                    value = entry[0]
                    return None if value is None else (deserialize(value), entry[1])
            row = before(raw_key, start)
            return None if row is None else (deserialize(row[0]), row[1])

        return read

    def _make_write(self) -> Callable[..., None]:
        rows, context, number, cached = self.rows, self._context, self.next_number, self.cached
        serialize_key, serialize = self._key.serialize, self._value.serialize
        refuse_key, refuse_value, expired = self._refuse_key, self._refuse_value, self._expired
        in_dirty, put, observe = rows.dirty.keys.get, rows.put, rows.observe
        hold, name = self._holder(), self.spec.name
        if self.spec.retain_duplicates:
            return self._no_single_value

        def write(key: Any, start: int, value: Any, timestamp: int, headers: Headers = ()) -> None:
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
            origin = context.origin
            entry = (raw, timestamp, headers, origin, number() if cached else 0)
            if start < 0:
                self._refuse_start(start)
            if hold is not None:
                hold((name, raw_key, start), len(raw_key) + len(raw or b""))
            if not observe(start):
                return expired(raw_key, start, entry)
            found = in_dirty(raw_key)
            if found is not None and start in found[1]:
                found[1][start] = entry
                return None
            return put(raw_key, start, entry)

        return write

    def _make_add(self) -> Callable[..., None]:
        rows, context = self.rows, self._context
        serialize_key, serialize = self._key.serialize, self._value.serialize
        refuse_key, refuse_value, put = self._refuse_key, self._refuse_value, rows.put
        log_only, in_memory = self._log_only, not self.spec.persistent

        def add(key: Any, value: Any, start: int, headers: Headers = ()) -> None:
            if key is None:
                refuse_key(key)
            try:
                raw_key = serialize_key(key)
            except Exception as error:
                refuse_key(key, error)
            origin = context.origin
            sequence = rows.sequence = (rows.sequence + 1) & MAX_SEQUENCE
            if value is None:  # there is no one row to delete; a store in memory takes in the time, as in Kafka
                if in_memory:
                    rows.observe(start)
                return log_only(raw_key, start, None, headers)
            try:
                raw = serialize(value)
            except Exception as error:
                refuse_value(key, value, error)
            if start < 0:
                self._refuse_start(start)
            if not rows.observe(start):
                context.drop("expired")
                return log_only(raw_key, start, raw, headers)
            return put(raw_key, (start, sequence), (raw, origin.timestamp, headers, origin, 0))

        return add

    def find(self, asked: SpanQuery, published: StoreDelta | None, times: Any) -> Matches | None:
        """Return the rows of a store with duplicates that records ask for, as they are at their places, at these times of the store."""
        assert isinstance(self.rows, DuplicateRows)
        return self.rows.find(asked, published, times)

    def _flushed_keys(self, keys: Sequence[bytes], positions: Sequence[Any]) -> Column | None:
        if self.spec.retain_duplicates or not self._size:
            return None
        ends = {start: pack_time(start) for start in set(positions)}
        data: list[bytes | None] = [key + ends[start] for key, start in zip(keys, positions, strict=True)]
        return Column(data=data, serde=WindowedSerde(self._key, self._size), made=True)

    def _log_only(self, raw_key: bytes, start: int, raw: bytes | None, headers: Headers) -> None:
        """Log the put with the present sequence number, as Kafka does, though the store has nothing to keep."""
        rows, timestamp = self.rows, self._context.origin.timestamp
        row = raw_key + rows.positions.suffix((start, rows.sequence))
        rows.only_logged.append((row, raw, timestamp, headers if self.spec.log_headers else ()))

    def read_range(self, key: Any, since: int, until: int, reverse: bool = False) -> list[tuple[int, Any, int]]:
        """Return (start, value, timestamp) of a key's windows that start in [since, until], by start."""
        deserialize = self._value.deserialize
        found = self._of_key(key, since, until)
        if self.spec.retain_duplicates:
            rows = [(position[0], deserialize(value), timestamp) for position, value, timestamp in found]
        else:
            rows = [(start, deserialize(value), timestamp) for start, value, timestamp in found]
        if reverse:
            rows.reverse()
        return rows

    def fetch_list(self, key: Any, since: int, until: int) -> list[tuple[int, Any]]:
        """Return (start, value) of a key's windows that start in [since, until], by start, then order of putting."""
        deserialize = self._value.deserialize
        if self.spec.retain_duplicates:
            return [(position[0], deserialize(value)) for position, value, _ in self._of_key(key, since, until)]
        return [(start, deserialize(value)) for start, value, _ in self._of_key(key, since, until)]

    def read_all(self, since: int, until: int) -> Iterator[tuple[bytes, Any, int, Any, int]]:
        """Iterate (bytes of the key, key, start, value, timestamp) of all windows that start in [since, until], by start, then key.

        Past the retention, too, as long as the segment is there: a window closes when its store may have come further.
        """
        decode_key, decode, start_of = self._key.deserialize, self._value.deserialize, self.rows.positions.time
        for key, position, value, timestamp in self.rows.scan(since, until, by_time=True, expired=True):
            yield key, decode_key(key), start_of(position), decode(value), timestamp

    # ---- Kafka's verbs

    def put(self, key: Any, value: Any, start: int) -> None:
        """Store the value of a key's window; None deletes it (and does nothing where duplicates are kept).

        A window older than the retention is dropped and counted. Timestamped stores take a `ValueAndTimestamp`.
        """
        if self.spec.retain_duplicates:
            self.add(key, value, start)
        elif self.spec.timestamped and value is not None and value[0] is not None:
            self.write(key, start, value[0], value[1], self._context.origin.headers)
        else:
            self._put_plain(key, None if self.spec.timestamped else value, start)

    def _put_plain(self, key: Any, value: Any, start: int) -> None:
        origin = self._context.origin
        self.write(key, start, value, origin.timestamp, origin.headers)

    def fetch(self, key: Any, since: int, until: int | None = None) -> Any:
        """Return the value of the window that starts at ``since``; with ``until``, iterate (start, value)."""
        if until is not None:
            return self._windows(key, since, until, reverse=False)
        row = self.read(key, since)
        return None if row is None else self._shape(*row)

    def backward_fetch(self, key: Any, since: int, until: int) -> Rows:
        """Iterate (start, value) of a key's windows, the newest first."""
        return self._windows(key, since, until, reverse=True)

    def fetch_range(self, lower: Any, upper: Any, since: int, until: int) -> Rows:
        """Iterate (Windowed, value) of the keys from ``lower`` to ``upper`` (None: open end) in [since, until]."""
        return self._between(lower, upper, since, until, reverse=False)

    def backward_fetch_range(self, lower: Any, upper: Any, since: int, until: int) -> Rows:
        """Iterate as ``fetch_range`` does, backwards."""
        return self._between(lower, upper, since, until, reverse=True)

    def fetch_all(self, since: int, until: int) -> Rows:
        """Iterate (Windowed, value) of all windows that start in [since, until]."""
        return self._between(None, None, since, until, reverse=False)

    def backward_fetch_all(self, since: int, until: int) -> Rows:
        """Iterate as ``fetch_all`` does, backwards."""
        return self._between(None, None, since, until, reverse=True)

    def all(self) -> Rows:
        """Iterate every (Windowed, value)."""
        return self._between(None, None, 0, MAX_TIME, reverse=False)

    def backward_all(self) -> Rows:
        """Iterate every (Windowed, value), backwards."""
        return self._between(None, None, 0, MAX_TIME, reverse=True)

    # ---- shapes and refusals

    def _windows(self, key: Any, since: int, until: int, *, reverse: bool) -> Rows:
        rows, shape = self.read_range(key, since, until, reverse), self._shape
        return Rows((start, shape(value, timestamp)) for start, value, timestamp in rows)

    def _windowed(self, key: bytes, position: Any) -> Windowed:
        start = self.rows.positions.time(position)
        return Windowed(self._key.deserialize(key), start, min(start + self._size, MAX_TIME))

    def _shape(self, value: Any, timestamp: int) -> Any:
        return ValueAndTimestamp(value, timestamp) if self.spec.timestamped else value

    def _no_single_value(self, *_: Any, **__: Any) -> NoReturn:
        raise StoreError(
            f"store {self.name!r} keeps duplicates: a window has no single value; use put and fetch(key, since, until)"
        )

    def _refuse_start(self, start: int) -> NoReturn:
        raise StoreError(f"store {self.name!r}: a window cannot start before 0, and this one starts at {start}")


def restore_window_row(
    spec: StoreSpec, key: bytes, value: bytes | None, timestamp: int
) -> list[tuple[str, bytes, bytes | None]]:
    """Return what a changelog row of a window store is in the base: (map name, key, value or None) each."""
    return restore_rows(spec, DUPLICATES if spec.retain_duplicates else WINDOW, key, value, timestamp)
