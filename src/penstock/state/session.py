"""Session stores: a value per key and session (start, end). Verbs are Kafka's in snake_case.

Everything inside is bytes; see ``segmented`` for layers, segments and expiry (by the session's end). Order of
iteration: the sessions of one key by end, then start; over several keys by segment, then key, then end, then start in a
persistent store, and by end, then start, then key in an in-memory one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from penstock.batch.column import Column
from penstock.errors import StoreError
from penstock.record import Headers, Windowed
from penstock.serde import Serde
from penstock.serde.windowed import SessionWindowedSerde
from penstock.state.base import ShardState, StoreContext
from penstock.state.forward import forward_entries
from penstock.state.key_value import Rows
from penstock.state.keys import MAX_TIME, pack_session_suffix
from penstock.state.layer import Found
from penstock.state.positions import SESSION
from penstock.state.segmented import Segmented
from penstock.state.segmented_store import Changes, SegmentedStore
from penstock.state.segments import restore_rows
from penstock.state.spec import StoreSpec


class SessionStore(SegmentedStore):
    """One session store of one shard.

    >>> from penstock.state.open import standalone
    >>> from penstock.state.spec import Stores
    >>> store = standalone(Stores.session("visits", retention=60_000))
    >>> store.put(Windowed("ann", 10, 25), 2)
    >>> store.put(Windowed("ann", 70, 70), 1)
    >>> list(store.find_sessions("ann", 20, 65))
    [(Windowed(key='ann', start=10, end=25), 2)]
    >>> store.remove(Windowed("ann", 10, 25))
    >>> list(store.fetch("ann"))
    [(Windowed(key='ann', start=70, end=70), 1)]
    """

    put: Callable[..., None]

    def __init__(
        self, spec: StoreSpec, state: ShardState, context: StoreContext, key: Serde[Any], value: Serde[Any]
    ) -> None:
        super().__init__(spec, Segmented(spec, state, SESSION), context, key, value)
        self.put = self._make_put()

    # ---- writing

    def _make_put(self) -> Callable[..., None]:
        rows, context, number, cached = self.rows, self._context, self.next_number, self.cached
        serialize_key, serialize = self._key.serialize, self._value.serialize
        refuse_key, refuse_value, expired = self._refuse_key, self._refuse_value, self._expired
        hold, name = self._holder(), self.spec.name

        def put(session: Windowed, value: Any, headers: Headers = ()) -> None:
            """Store the value of a session; None deletes it. One older than the retention is dropped and counted."""
            key, start, end = session
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
            if not 0 <= start <= end:
                self._refuse_session(session)
            origin = context.origin
            entry = (raw, origin.timestamp, headers, origin, number() if cached else 0)
            if hold is not None:
                hold((name, raw_key, start, end), len(raw_key) + len(raw or b""))
            if rows.observe(end) or (raw is None and end >= rows.kept):
                rows.put(raw_key, (end, start), entry)
            else:
                expired(raw_key, (end, start), entry)

        return put

    def remove(self, session: Windowed, headers: Headers = ()) -> None:
        """Delete a session; one that is no longer kept is gone already, and nothing is counted."""
        if session[0] is None:
            self._refuse_key(None)
        if session[2] >= self.rows.kept:
            self.put(session, None, headers)

    # ---- many at a time

    def _forward_batch(self, changed: Changes) -> bool:
        """Forward all rows at a time; a delete of what nobody knows is not told."""
        assert self._on_batch is not None
        told = [row for row in changed if row[3][0] is not None or self._forwarded(row[1], row[2], True) is not None]
        if told:
            data: list[bytes | None] = [key + pack_session_suffix(*position) for _, key, position, _ in told]
            keys = Column(data=data, serde=SessionWindowedSerde(self._key), made=True)
            ends = [position[0] for _, _, position, _ in told]
            entries = [row[3] for row in told]
            if not forward_entries(self._on_batch, keys, self._value, entries, times=ends, deletes=True):
                self._on_batch = None
                return False
            self._flushed_batches.append(told)
        return True

    # ---- reading

    def fetch_session(self, key: Any, start: int, end: int) -> Any:
        """Return the value of exactly this session, or None."""
        if key is None:
            self._refuse_key(key)
        if end < self.rows.bound:
            return None
        row = self.rows.get(self._key.serialize(key), (end, start))
        return None if row is None else self._value.deserialize(row[0])

    def find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> Rows:
        """Iterate (Windowed, value) of a key's sessions with end >= earliest_end and start <= latest_start."""
        return Rows(iter(self._sessions(key, earliest_end, latest_start)))

    def backward_find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> Rows:
        """Iterate as ``find_sessions`` does, the latest first."""
        return Rows(reversed(self._sessions(key, earliest_end, latest_start)))

    def fetch(self, key: Any) -> Rows:
        """Iterate (Windowed, value) of all sessions of a key."""
        return self.find_sessions(key, 0, MAX_TIME)

    def backward_fetch(self, key: Any) -> Rows:
        """Iterate (Windowed, value) of all sessions of a key, the latest first."""
        return self.backward_find_sessions(key, 0, MAX_TIME)

    def find_sessions_range(self, lower: Any, upper: Any, earliest_end: int, latest_start: int) -> Rows:
        """Iterate as ``find_sessions`` does, over the keys from ``lower`` to ``upper`` (None: open end)."""
        return self._of_keys(lower, upper, earliest_end, latest_start, reverse=False)

    def backward_find_sessions_range(self, lower: Any, upper: Any, earliest_end: int, latest_start: int) -> Rows:
        """Iterate as ``find_sessions_range`` does, backwards."""
        return self._of_keys(lower, upper, earliest_end, latest_start, reverse=True)

    def fetch_range(self, lower: Any, upper: Any) -> Rows:
        """Iterate (Windowed, value) of all sessions of a range of keys."""
        return self.find_sessions_range(lower, upper, 0, MAX_TIME)

    def backward_fetch_range(self, lower: Any, upper: Any) -> Rows:
        """Iterate as ``fetch_range`` does, backwards."""
        return self.backward_find_sessions_range(lower, upper, 0, MAX_TIME)

    def find_sessions_ended(self, earliest_end: int, latest_end: int) -> Rows:
        """Iterate (Windowed, value) of all sessions that end in this span, by end, then start, then key.

        Not bounded by the retention, as in Kafka Streams: a session closes one millisecond after it.
        """
        return self._shown(self.rows.scan(earliest_end, latest_end, by_time=True, expired=True))

    def ended(self, earliest_end: int, latest_end: int) -> Iterator[tuple[bytes, Windowed, Any]]:
        """Iterate as ``find_sessions_ended`` does, with the bytes of the keys."""
        decode = self._value.deserialize
        for key, position, value, _ in self.rows.scan(earliest_end, latest_end, by_time=True, expired=True):
            yield key, self._windowed(key, position), decode(value)

    # ---- shapes and refusals

    def _sessions(self, key: Any, earliest_end: int, latest_start: int) -> list[tuple[Windowed, Any]]:
        decode = self._value.deserialize
        return [
            (Windowed(key, start, end), decode(value))
            for (end, start), value, _ in self._of_key(key, earliest_end, MAX_TIME)
            if start <= latest_start
        ]

    def _of_keys(self, lower: Any, upper: Any, earliest_end: int, latest_start: int, *, reverse: bool) -> Rows:
        first = None if lower is None else self._key.serialize(lower)
        last = None if upper is None else self._key.serialize(upper)
        by_time = not self.spec.persistent
        found = self.rows.scan(earliest_end, MAX_TIME, first, last, reverse=reverse, by_time=by_time)
        return self._shown(_started_by(found, latest_start))

    def _windowed(self, key: bytes, position: Any) -> Windowed:
        end, start = position
        return Windowed(self._key.deserialize(key), start, end)

    def _flush_time(self, position: Any, timestamp: int) -> int:
        """A session's update is as old as the session's end."""
        end: int = position[0]
        return end

    def _refuse_session(self, session: Windowed) -> NoReturn:
        raise StoreError(
            f"store {self.name!r}: a session runs from 0 or later to its end, not from {session[1]} to {session[2]}"
        )


def _started_by(found: Iterator[Found], latest_start: int) -> Iterator[Found]:
    return (row for row in found if row[1][1] <= latest_start)


def restore_session_row(
    spec: StoreSpec, key: bytes, value: bytes | None, timestamp: int
) -> list[tuple[str, bytes, bytes | None]]:
    """Return what a changelog row of a session store is in the base: (map name, key, value or None) each."""
    return restore_rows(spec, SESSION, key, value, timestamp)
