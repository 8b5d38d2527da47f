"""LRU stores: at most so many rows a shard; the row that was used longest ago makes room for a new one.

As Kafka's ``lruMap``: get and put count as use, ranges do not; a row that makes room is deleted in the changelog too.

The rows are few, so the store holds them all, in order of use. The base maps are only what a new process starts from::

    <store>         key → place (8 bytes, big-endian)  timestamp (8 bytes, where the store is timestamped)  value
    <store>/order   place → key, the row used longest ago first
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from penstock.record import Headers, ValueAndTimestamp
from penstock.serde import Serde
from penstock.state.base import Sealed, ShardState, StoreContext
from penstock.state.spec import StoreSpec
from penstock.state.verbs import KeyValueVerbs
from penstock.state.write_back import pack_stamp, unpack_stamp


class LruStore(KeyValueVerbs):
    """A bounded `KeyValueStore`.

    >>> from penstock.state.open import standalone
    >>> from penstock.state.spec import Stores
    >>> store = standalone(Stores.lru("recent", max_entries=2))
    >>> store.put("a", 1), store.put("b", 2), store.get("a"), store.put("c", 3)
    (None, None, 1, None)
    >>> list(store.all())
    [('a', 1), ('c', 3)]
    """

    #: rows carry their timestamp
    stamped = False

    def __init__(
        self, spec: StoreSpec, state: ShardState, context: StoreContext, key: Serde[Any], value: Serde[Any]
    ) -> None:
        super().__init__(spec, context, key, value)
        assert spec.max_entries is not None
        self._most = spec.max_entries
        self._state = state
        self._order_name = f"{spec.name}/order"
        self._rows: OrderedDict[bytes, tuple[bytes, int]] = OrderedDict()  # least recently used first
        self._places: dict[bytes, int] = {}  # of the keys that are in the base map or sealed
        self._next_place = 0
        self._used: set[bytes] = set()  # keys whose row or place changed in this epoch
        self._log: dict[bytes, tuple[bytes | None, int]] = {}
        self._load()

    def _load(self) -> None:
        rows = self._state.map(self.name)
        for place, key in self._state.map(self._order_name).range(None, None):
            raw = rows.get(key)
            assert raw is not None, f"store {self.name!r}: the order names a row that is not there"
            self._rows[key] = (raw[16:], unpack_stamp(raw, 8)[0]) if self.stamped else (raw[8:], -1)
            self._places[key] = unpack_stamp(place)[0]
            self._next_place = self._places[key] + 1

    # ---- verbs

    def get(self, key: Any) -> Any:
        """Return the value or None; the row is now the one used last."""
        row = self.read(key)
        return None if row is None else self._shape(*row)

    def read(self, key: Any) -> tuple[Any, int] | None:
        """Return (value, timestamp) or None; the row is now the one used last."""
        raw_key = self._raw_key(key)
        row = self._rows.get(raw_key)
        if row is None:
            return None
        self._rows.move_to_end(raw_key)
        self._used.add(raw_key)
        return self._value.deserialize(row[0]), row[1]

    def peek(self, key: Any) -> tuple[Any, int] | None:
        """Read for someone who looks from outside: the order of use stays."""
        row = self._rows.get(self._raw_key(key))
        return None if row is None else (self._value.deserialize(row[0]), row[1])

    def put(self, key: Any, value: Any) -> None:
        """Store the value; None deletes the row. The row used longest ago goes if there are too many."""
        self.write(key, value, self._context.origin.timestamp)

    def write(self, key: Any, value: Any, timestamp: int, headers: Headers = ()) -> None:
        """Put a row with its timestamp; None deletes it."""
        self._set(self._raw_key(key), None if value is None else self._raw_value(key, value), timestamp)

    def approximate_num_entries(self) -> int:
        """Return the number of rows."""
        return len(self._rows)

    def replay(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Put a row of the changelog. Whatever had to go is deleted there, so nothing makes room here."""
        self._place(key, value, timestamp)
        self._note(key, value, timestamp)

    def _set(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self._place(key, value, timestamp)
        if len(self._rows) > self._most:
            eldest, _ = self._rows.popitem(last=False)
            self._note(eldest, None, timestamp)
        self._note(key, value, timestamp)

    def _place(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        if value is None:
            self._rows.pop(key, None)
        else:
            self._rows[key] = (value, timestamp if self.stamped else -1)
            self._rows.move_to_end(key)

    def _note(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self._used.add(key)
        self._log.pop(key, None)  # the changelog is in the order of the last writes: a restore finds the order in it
        self._log[key] = (value, timestamp)

    # ---- the barrier

    def seal(self) -> Sealed:
        """Hand out the rows that were written, and the new places of those that were used."""
        writes: list[tuple[bytes, bytes | None]] = []
        order: list[tuple[bytes, bytes | None]] = []
        for key in self._used:
            place = self._places.pop(key, None)
            if place is not None:
                order.append((pack_stamp(place), None))
            if key not in self._rows:
                writes.append((key, None))
        for key in [key for key in self._rows if key in self._used]:
            place = self._places[key] = self._next_place
            self._next_place += 1
            value, timestamp = self._rows[key]
            writes.append((key, pack_stamp(place) + (pack_stamp(timestamp) if self.stamped else b"") + value))
            order.append((pack_stamp(place), key))
        logged: list[tuple[bytes, bytes | None, int, Headers]] = []
        if self.spec.logged:
            logged = [(key, value, timestamp, ()) for key, (value, timestamp) in self._log.items()]
        self._used.clear()
        self._log.clear()
        return Sealed(writes, logged, {self._order_name: order} if order else {})

    def apply(self, sealed: Sealed) -> None:
        """Write a committed epoch to the base maps."""
        sealed.write_to(self._state, self.name)

    # ---- inside

    def _shape(self, value: Any, timestamp: int) -> Any:
        return value

    def _scan(self, lower: bytes | None, upper: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes, int]]:
        keys = (k for k in self._rows if (lower is None or k >= lower) and (upper is None or k < upper))
        return iter([(key, *self._rows[key]) for key in sorted(keys, reverse=reverse)])


class TimestampedLruStore(LruStore):
    """A bounded `TimestampedKeyValueStore`: what a table is kept in that may forget its oldest rows."""

    stamped = True

    def put(self, key: Any, value: ValueAndTimestamp | None) -> None:
        """Store value and timestamp; None (or a value of None) deletes the row."""
        if value is None or value[0] is None:
            self.write(key, None, self._context.origin.timestamp)
        else:
            self.write(key, value[0], value[1])

    def _shape(self, value: Any, timestamp: int) -> Any:
        return ValueAndTimestamp(value, timestamp)
