"""What window and session stores share above the bytes: serdes, caching, the barrier, refusals."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias

from penstock.batch.column import Column
from penstock.record import Windowed
from penstock.serde import Serde
from penstock.state.base import OnFlush, Sealed, StoreContext
from penstock.state.event_time import EventTime
from penstock.state.forward import FlushBatch, forward_entries
from penstock.state.key_value import Rows
from penstock.state.layer import Entry, Found
from penstock.state.segmented import Segmented
from penstock.state.spec import StoreSpec
from penstock.state.typed import TypedStore
from penstock.state.write_back import writer_of

#: rows that were written since the last flush, in order: (number of the write, key bytes, position, entry)
Changes: TypeAlias = list[tuple[int, bytes, Any, Entry]]


class SegmentedStore(TypedStore):
    """What window and session stores share: serdes, caching, the barrier."""

    def __init__(
        self, spec: StoreSpec, rows: Segmented, context: StoreContext, key: Serde[Any], value: Serde[Any]
    ) -> None:
        super().__init__(spec, context, key, value)
        self.cached = bool(spec.cached) and not spec.retain_duplicates
        self.forwards_each = self.cached and context.cache.forwards_each
        self.rows = rows
        self._listener: OnFlush | None = None
        self._send_old = False
        self.next_number = count(1).__next__
        self._flushed_to = 0  # number of the last write that has been forwarded
        self._flushed: dict[tuple[bytes, Any], Entry] = {}  # what was forwarded in this epoch, one by one
        self._flushed_batches: list[Changes] = []  # and by column since; ``_known`` brings these together
        self._refused: dict[tuple[bytes, Any], Entry] = {}  # expired puts: forwarded, not stored
        self._writers = 0  # nodes that write here
        self._on_batch: FlushBatch | None = None

    def _holder(self) -> Callable[[Hashable, int], None] | None:
        """Return what counts an update that is held back; None where nobody counts."""
        return self._context.cache.hold if self.cached and self._context.cache.counts else None

    def drop(self, reason: str) -> None:
        """Count a record that the store refuses."""
        self._context.drop(reason)

    # ---- reading

    def _of_key(self, key: Any, since: int, until: int) -> list[tuple[Any, bytes, int]]:
        if key is None:
            self._refuse_key(key)
        return self.rows.of_key(self._key.serialize(key), since, until)

    def _between(self, lower: Any, upper: Any, since: int, until: int, *, reverse: bool) -> Rows:
        first = None if lower is None else self._key.serialize(lower)
        last = None if upper is None else self._key.serialize(upper)
        return self._shown(self.rows.scan(since, until, first, last, reverse=reverse))

    def _shown(self, found: Iterable[Found]) -> Rows:
        windowed, decode, shape = self._windowed, self._value.deserialize, self._shape
        return Rows((windowed(key, position), shape(decode(value), ts)) for key, position, value, ts in found)

    @abstractmethod
    def _windowed(self, key: bytes, position: Any) -> Windowed:
        """Make the windowed key of a row."""

    def _shape(self, value: Any, timestamp: int) -> Any:
        """Make what the verbs give of a row."""
        return value

    # ---- time

    @property
    def keeps_time(self) -> bool:
        """Rows expire."""
        return True

    def keep_time(self, clock: EventTime) -> None:
        """Go by this clock."""
        self.rows.clock = clock

    def reach(self) -> None:
        """Advance the store to the time of the clock."""
        self.rows.reach()

    def keep_for_later(self) -> None:
        """Seal what is kept now: later steps of the epoch read it."""
        self.rows.keep_for_later()

    def follow(self, put_time: Callable[[int], int] | None = None) -> None:
        """Count a node that writes here; ``put_time``: the greatest time that it has put when its records have come to a time."""
        self._writers += 1
        if put_time is not None:
            self.rows.put_time = put_time

    def watch(self) -> None:
        """Keep in mind the first row that was not emitted on close, for ``earliest``; to be called before the first write."""
        self.rows.watched = True

    def earliest(self) -> int | None:
        """Return the position of the first row that was not emitted on close, or an older one; None if there is none."""
        return self.rows.earliest()

    # ---- emit on close

    @property
    def emitted(self) -> int:
        """Position (start of a window, end of a session) up to which results were emitted on close; −1: none yet."""
        return self.rows.emitted

    @emitted.setter
    def emitted(self, position: int) -> None:
        self.rows.emitted = position

    # ---- the barrier

    def on_flush(self, listener: OnFlush, *, send_old: bool) -> None:
        """Register the listener of a cached store; ``send_old``: give it the value before as well."""
        self._listener = listener
        self._send_old = send_old

    def _expired(self, key: bytes, position: Any, entry: Entry) -> None:
        """Count a put that came too late. A cached store still forwards it, as Kafka's does."""
        self._context.drop("expired")
        if self.cached and self._listener is not None:
            self._refused[key, position] = entry

    def flush(self) -> bool:
        """Forward what was written since the last flush, once per window, in the order of the last writes."""
        if self._listener is None or not self.cached:
            return False
        now = self.next_number()
        since, self._flushed_to = self._flushed_to, now
        if now == since + 1:
            return False
        changed = [
            (entry[4], key, position, entry)
            for key, (_, entries) in self.rows.dirty.keys.items()
            for position, entry in entries.items()
            if since < entry[4]
        ]
        refused = self._refused.copy()
        self._refused.clear()
        if refused:
            changed = [row for row in changed if (row[1], row[2]) not in refused]
            changed += [(entry[4], key, position, entry) for (key, position), entry in refused.items()]
        changed.sort()  # by their numbers, each of which is there once
        current = self._context.origin
        try:
            if refused or self._on_batch is None or not changed or not self._forward_batch(changed):
                for _, key, position, entry in changed:
                    self._forward(key, position, entry, stored=(key, position) not in refused)
        finally:
            self._context.origin = current
        return bool(changed)

    def on_flush_batch(self, listener: FlushBatch) -> None:
        """Register what takes many updates at a time, by their new values; only where nobody asks for old ones."""
        self._on_batch = listener

    def _flushed_keys(self, keys: Sequence[bytes], positions: Sequence[Any]) -> Column | None:
        """Return the windowed keys of rows; None where they are not known by column."""
        return None

    def _forward_batch(self, changed: Changes) -> bool:
        """Forward all rows at a time; False, and nothing has happened, if they must go one by one."""
        assert self._on_batch is not None
        _, keys, positions, entries = zip(*changed, strict=True)
        windowed = self._flushed_keys(keys, positions)
        if windowed is None or not forward_entries(self._on_batch, windowed, self._value, entries):
            self._on_batch = None
            return False
        self._flushed_batches.append(changed)
        return True

    def _known(self) -> dict[tuple[bytes, Any], Entry]:
        """Return what those downstream know of the rows of this epoch."""
        for changed in self._flushed_batches:
            self._flushed.update(((key, position), entry) for _, key, position, entry in changed)
        self._flushed_batches.clear()
        return self._flushed

    def _forward(self, key: bytes, position: Any, entry: Entry, *, stored: bool) -> None:
        """Forward one row as Kafka's cache does: nothing at all where neither a new nor an old value exists."""
        assert self._listener is not None
        value, timestamp, headers, origin, _ = entry
        old = self._forwarded(key, position, stored) if value is None or self._send_old else None
        if value is None and old is None:
            return
        self._known()[key, position] = entry
        self._context.origin = writer_of(origin)
        decode = self._value.deserialize
        self._listener(
            self._windowed(key, position),
            None if value is None else decode(value),
            decode(old) if old is not None and self._send_old else None,
            self._flush_time(position, timestamp),
            headers,
        )

    def _flush_time(self, position: Any, timestamp: int) -> int:
        """Return the timestamp that an update carries."""
        return timestamp

    def _forwarded(self, key: bytes, position: Any, stored: bool) -> bytes | None:
        """Return what those downstream know of a row: what was forwarded last, else the value before the epoch.

        Invariant: the row may have expired since it was written to, later in the epoch. Its delete is forwarded all the
        same, or results would depend on where the epoch was cut. A put that was refused found the row expired: it had
        no old value.
        """
        entry = self._known().get((key, position))
        if entry is not None:
            return entry[0]
        row = self.rows.before(key, position) if stored else None
        return None if row is None else row[0]

    def snapshot(self) -> dict[str, Any]:
        """Return the store's times, sequence number and mark of emission."""
        return self.rows.snapshot()

    def resume(self, snapshot: Mapping[str, Any]) -> None:
        """Restore what ``snapshot`` returned."""
        self.rows.resume(snapshot)

    def seal(self) -> Sealed:
        """Hand out the epoch's rows."""
        never_was = self._never_was if self.cached and self._listener is not None else None
        sealed = self.rows.seal(logged=self.spec.logged, never_was=never_was)
        self._flushed.clear()
        self._flushed_batches.clear()
        self._refused.clear()
        return sealed

    def _never_was(self, key: bytes, position: Any) -> bool:
        """Whether nobody has seen a row that is deleted: it was made and deleted within the epoch."""
        return (key, position) not in self._known() and self.rows.before(key, position) is None

    def apply(self, sealed: Sealed) -> None:
        """Write a committed epoch to the base."""
        self.rows.apply(sealed)
