"""Versioned stores: every version of a key for the length of ``history``. Results equal Kafka's versioned store.

A key is a list of *boundaries*, each the timestamp of a put with its value, or without one (a tombstone). A version
is valid from its boundary to the next. The last boundary is kept apart, the others as history::

    <store>           key → flags (1 byte: 1 has a value, 2 joined)  timestamp (8 bytes)  value
    <store>/history   key length (4 bytes)  key  timestamp (8 bytes) → 0x01 value | 0x00
    <store>/expiry    valid to (8 bytes)  history key → nothing
    <store>/time      observed → the store's time

Rules, by the store's time (the greatest timestamp ever put, over all shards):

- A put older than time − history is refused. A put of an accepted time goes to its place, whatever came before it.
- ``get(key, as_of)`` before time − history finds only the last version, if that is old enough; the last version never
  expires.
- Versions go by whole segments of their *end*: ``history`` shows a version until the segment of its end is older than
  time − history; then it is deleted, at the barrier, through the index by time.
- *Joined*, the one rule that a list of versions does not explain. Kafka keeps the last value and the history in two
  places, and writes a tombstone only as the end of a version before it. So a delete at the very timestamp of the last
  version leaves a tombstone only if some version ends at that timestamp (the last one is *joined* to it), and else
  leaves no boundary at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from struct import Struct
from typing import Any, NamedTuple

from penstock.record import Headers, VersionedRecord
from penstock.serde import Serde
from penstock.state.base import OnChange, Sealed, ShardState, StoreContext
from penstock.state.event_time import EventTime
from penstock.state.spec import StoreSpec
from penstock.state.ttl import StoreTime, index_name
from penstock.state.typed import TypedStore
from penstock.state.write_back import WriteBack, pack_stamp, unpack_stamp

PUT_LATEST = -1  #: what ``put`` returns for a version without an end (Kafka: PUT_RETURN_CODE_VALID_TO_UNDEFINED)
PUT_REJECTED = -(1 << 63)  #: what ``put`` returns for a version that was not put (Kafka: PUT_RETURN_CODE_NOT_PUT)

_LATEST = Struct(">Bq")
_LENGTH = Struct(">I")
_HAS_VALUE, _JOINED = 1, 2
_FOREVER = (1 << 63) - 1


class Boundary(NamedTuple):
    """A version, or a tombstone where there is no value; ``joined``: see above, only of the last one."""

    timestamp: int
    value: bytes | None
    joined: bool = True


def segment_interval(spec: StoreSpec) -> int:
    """Return the length of a segment: the given one, else Kafka's choice for that history.

    >>> from penstock.state.spec import Stores
    >>> [segment_interval(Stores.versioned("v", history)) for history in (3000, 60_000, 86_400_000)]
    [2000, 20000, 3600000]
    """
    history = spec.history or 0
    if spec.segment_interval is not None:
        return spec.segment_interval
    if history <= 60_000:
        return max(history // 3, 2_000)
    if history <= 300_000:
        return max(history // 5, 20_000)
    if history <= 3_600_000:
        return max(history // 12, 60_000)
    return max(history // 24, 300_000)


class VersionedStore(TypedStore):
    """Versions of values by key.

    >>> from penstock.state.open import standalone
    >>> from penstock.state.spec import Stores
    >>> store = standalone(Stores.versioned("prices", history=1000))
    >>> store.put("pear", 1, 100), store.put("pear", 3, 300), store.put("pear", 2, 200)
    (-1, -1, 300)
    >>> store.get("pear"), store.get("pear", as_of=299)
    (VersionedRecord(value=3, timestamp=300, valid_to=None), VersionedRecord(value=2, timestamp=200, valid_to=300))
    """

    def __init__(
        self, spec: StoreSpec, state: ShardState, context: StoreContext, key: Serde[Any], value: Serde[Any]
    ) -> None:
        super().__init__(spec, context, key, value)
        self._retention = spec.history or 0
        self._interval = segment_interval(spec)
        self._latest = WriteBack(state, spec.name, stamped=False)
        self._history_name = f"{spec.name}/history"
        self._history = WriteBack(state, self._history_name, stamped=False)
        self._index_name = index_name(spec.name)
        self._index = state.map(self._index_name)
        self._time = StoreTime(state, spec.name)
        self._clock: EventTime | None = None
        self._ends: list[tuple[bytes, bytes | None]] = []  # index rows of this epoch
        self._log: list[tuple[bytes, bytes | None, int, Headers]] = []
        self._unapplied: list[tuple[Sealed, Sealed]] = []
        self._on_change: OnChange | None = None

    # ---- time

    @property
    def keeps_time(self) -> bool:
        """True: versions expire when the history retention has passed."""
        return True

    def keep_time(self, clock: EventTime) -> None:
        """Expire versions by this clock."""
        self._clock = clock

    def reach(self) -> None:
        """Advance the store to the time of the clock."""
        if self._clock is not None and self._clock.now >= 0:
            self._time.observed = self._clock.now

    @property
    def _now(self) -> int:
        """The time that rules are applied by: that of the clock, which shows an earlier one to a row that time gives out."""
        clock = self._clock
        return self._time.observed if clock is None or clock.now < 0 else min(clock.now, self._time.observed)

    # ---- verbs

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        """Put a version (None: a tombstone). Return its end, PUT_LATEST if it is the last, PUT_REJECTED if it is too
        old."""
        raw_key = self._raw_key(key)
        return self._logged_put(raw_key, None if value is None else self._raw_value(key, value), timestamp)

    def delete(self, key: Any, timestamp: int) -> VersionedRecord | None:
        """Put a tombstone, and return the version that was valid at its time."""
        raw_key = self._raw_key(key)
        old = None if self._is_expired(timestamp) else self._as_of(raw_key, timestamp)
        self._logged_put(raw_key, None, timestamp)
        return old

    def get(self, key: Any, as_of: int | None = None) -> VersionedRecord | None:
        """Return the last version, or the one that was valid at ``as_of``; None if that is a tombstone or forgotten."""
        raw_key = self._raw_key(key)
        return self._shown(self._last(raw_key)) if as_of is None else self._as_of(raw_key, as_of)

    def read(self, key: Any) -> tuple[Any, int] | None:
        """Return (value, timestamp) of the last version, as the stores of other tables do."""
        found = self.get(key)
        return None if found is None else (found.value, found.timestamp)

    peek = read

    def history(
        self, key: Any, since: int | None = None, until: int | None = None, reverse: bool = False
    ) -> Iterator[VersionedRecord]:
        """Iterate the versions valid at some time from ``since`` to ``until``, both included, oldest first or newest
        first."""
        first = 0 if since is None else since
        last = _FOREVER if until is None else until
        found = list(self._versions(self._raw_key(key), first, last))
        return iter(found[::-1] if reverse else found)

    def latest_rows(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Iterate (key, value, timestamp) of the last versions as bytes, in key order; deleted keys have none."""
        for key, raw, _ in self._latest.scan(None, None, False):
            flags, timestamp = _LATEST.unpack_from(raw)
            if flags & _HAS_VALUE:
                yield key, raw[_LATEST.size :], timestamp

    # ---- the barrier

    def snapshot(self) -> dict[str, Any]:
        """Return the store's time."""
        return {"time": self._time.observed}

    def resume(self, snapshot: Mapping[str, Any]) -> None:
        """Restore what ``snapshot`` returned."""
        self._time.advance(snapshot["time"])

    def seal(self) -> Sealed:
        """Hand out the epoch's versions, and delete those whose segment has expired."""
        self._forget_expired()
        older = self._history.seal(self._history.dirty.items(), logged=False)
        sealed = self._latest.seal(self._latest.dirty.items(), logged=False)
        self._unapplied.append((sealed, older))
        sealed.side.update(self._time.unsaved())
        if older.writes:
            sealed.side[self._history_name] = list(older.writes)
        if self._ends:
            sealed.side[self._index_name] = self._ends
        if self.spec.logged:
            sealed.changelog = self._log
        self._ends, self._log = [], []
        return sealed

    def apply(self, sealed: Sealed) -> None:
        """Write a committed epoch to the base maps."""
        self._latest.apply(sealed)
        for mine, older in self._unapplied:
            if mine is sealed:
                self._history.settle(older)
        self._unapplied = [pair for pair in self._unapplied if pair[0] is not sealed]

    def replay(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Put a row of the changelog: as ``put`` did, without counting and logging again. It has only those that were not refused."""
        self._insert(key, value, timestamp)

    def on_change(self, listener: OnChange) -> None:
        """Call the listener for each version that is put."""
        self._on_change = listener

    def forget(self) -> None:
        """Forget what was replayed: the base has it by now."""
        self._latest.forget()
        self._history.forget()
        self._ends = []

    def raw_key(self, key: Any) -> bytes:
        """Return the bytes of a key."""
        return self._raw_key(key)

    def _forget_expired(self) -> None:
        """Delete the versions that end in a segment before the live ones, and last tombstones of that age.

        An index row may be out of date: a version's end moves when another is put before it, a tombstone may be
        overwritten.
        """
        for raw, _ in self._index.range(None, pack_stamp(self._least_live())):
            self._ends.append((raw, None))
            end, row = unpack_stamp(raw)[0], raw[8:]
            key, timestamp = row[4:-8], unpack_stamp(row, len(row) - 8)[0]
            last = self._last(key)
            if last is None:
                continue
            if last.timestamp == timestamp:
                if last.value is None:
                    self._latest.dirty[key] = (None, -1, (), None, 0)
            elif next(self._boundaries(key, timestamp + 1), last).timestamp == end:
                self._history.dirty[row] = (None, -1, (), None, 0)

    def _least_live(self) -> int:
        """Return the start of the oldest segment that is not expired."""
        horizon = max(self._time.observed - self._retention, 0)
        return horizon - horizon % self._interval

    # ---- writing

    def _logged_put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        if self._is_expired(timestamp):  # not logged: a restore, which goes by the rows alone, would take it
            self._context.drop("expired")
            return PUT_REJECTED
        self._log.append((key, value, timestamp, ()))
        if self._on_change is not None:
            self._on_change(key, value, timestamp)
        return self._insert(key, value, timestamp)

    def _is_expired(self, timestamp: int) -> bool:
        return timestamp < self._now - self._retention

    def _insert(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        self._time.advance(timestamp if self._clock is None else self._clock.now)
        last = self._last(key)
        if last is not None and timestamp < last.timestamp:
            return self._insert_before(key, value, timestamp, last)
        if last is None:
            self._set_last(key, Boundary(timestamp, value, joined=value is None))
        elif timestamp > last.timestamp:
            self._set_history(key, last.timestamp, last.value, end=timestamp)
            self._set_last(key, Boundary(timestamp, value, joined=value is None or last.value is not None))
        elif value is None and not last.joined:
            self._remove_last(key, last)
        else:
            self._set_last(key, Boundary(timestamp, value, last.joined))
        return PUT_LATEST

    def _insert_before(self, key: bytes, value: bytes | None, timestamp: int, last: Boundary) -> int:
        """Put a version among the older ones; the version before it now ends here."""
        following = next(self._boundaries(key, timestamp + 1), last).timestamp
        preceding = next(self._boundaries(key, 0, timestamp, reverse=True), None)
        if preceding is not None:
            self._ends.append((pack_stamp(timestamp) + self._history_key(key, preceding.timestamp), b""))
        self._set_history(key, timestamp, value, end=following)
        if following == last.timestamp and not last.joined:
            self._set_last(key, last._replace(joined=True))
        return following

    def _remove_last(self, key: bytes, last: Boundary) -> None:
        """Take away a last version that nothing is joined to: what came before it, a tombstone if anything, is last
        again."""
        before = next(self._boundaries(key, 0, last.timestamp, reverse=True), None)
        if before is None:
            self._latest.dirty[key] = (None, last.timestamp, (), None, 0)
            return
        assert before.value is None, "a version with a value always joins the one after it"
        self._history.dirty[self._history_key(key, before.timestamp)] = (None, -1, (), None, 0)
        self._set_last(key, Boundary(before.timestamp, None))

    def _set_last(self, key: bytes, last: Boundary) -> None:
        flags = (last.value is not None) * _HAS_VALUE | last.joined * _JOINED
        raw = _LATEST.pack(flags, last.timestamp) + (last.value or b"")
        self._latest.dirty[key] = (raw, last.timestamp, (), None, 0)
        if last.value is None:  # a last tombstone is of no use once its own segment is expired
            self._ends.append((pack_stamp(last.timestamp) + self._history_key(key, last.timestamp), b""))

    def _set_history(self, key: bytes, timestamp: int, value: bytes | None, end: int) -> None:
        row = self._history_key(key, timestamp)
        self._history.dirty[row] = (b"\x00" if value is None else b"\x01" + value, timestamp, (), None, 0)
        self._ends.append((pack_stamp(end) + row, b""))

    # ---- reading

    def _last(self, key: bytes) -> Boundary | None:
        row = self._latest.lookup(key)
        if row is None:
            return None
        flags, timestamp = _LATEST.unpack_from(row.value)
        value = row.value[_LATEST.size :] if flags & _HAS_VALUE else None
        return Boundary(timestamp, value, bool(flags & _JOINED))

    def _boundaries(self, key: bytes, since: int, before: int = _FOREVER, reverse: bool = False) -> Iterator[Boundary]:
        """Iterate the history of a key with since <= timestamp < before."""
        lower, upper = self._history_key(key, since), self._history_key(key, before)
        for row, raw, _ in self._history.scan(lower, upper, reverse):
            yield Boundary(unpack_stamp(row, len(row) - 8)[0], raw[1:] if raw[0] else None)

    def _as_of(self, key: bytes, as_of: int) -> VersionedRecord | None:
        last = self._last(key)
        if last is None or last.timestamp <= as_of:
            return self._shown(last)
        if as_of < self._now - self._retention:
            return None
        found = next(self._boundaries(key, 0, as_of + 1, reverse=True), None)
        return self._shown(found, next(self._boundaries(key, as_of + 1), last).timestamp)

    def _versions(self, key: bytes, since: int, until: int) -> Iterator[VersionedRecord]:
        last = self._last(key)
        if last is None:
            return
        if until >= self._now - self._retention:
            older = [*self._boundaries(key, 0), last]
            live = self._least_live()
            for version, following in pairwise(older):
                end = following.timestamp
                if version.value is not None and version.timestamp <= until and end > since and end >= live:
                    yield self._record(version, version.value, end)
        if last.value is not None and last.timestamp <= until:
            yield self._record(last, last.value, None)

    def _shown(self, version: Boundary | None, valid_to: int | None = None) -> VersionedRecord | None:
        if version is None or version.value is None:
            return None
        return self._record(version, version.value, valid_to)

    def _record(self, version: Boundary, value: bytes, valid_to: int | None) -> VersionedRecord:
        return VersionedRecord(self._value.deserialize(value), version.timestamp, valid_to)

    def _history_key(self, key: bytes, timestamp: int) -> bytes:
        return _LENGTH.pack(len(key)) + key + pack_stamp(timestamp)
