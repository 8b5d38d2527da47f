"""Timer stores: per-key timers of a processor, in event and processing time. Ours: Kafka Streams has no such store.

A timer is a row ``domain timestamp key`` without a value, so that the rows of a domain sort by time, then key::

    dirty     this epoch's registrations and removals     ┐ the first layer that
    pending   sealed epochs that are not applied yet      │ knows a row speaks
    base      the committed rows (memory or LMDB)         ┘

Finding what is due costs what fires: rows not yet in the base wait in a heap, the base is read from its first row on.
A row may be in both; whichever comes up first fires, the other finds the row gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import islice
from typing import Any, Literal, TypeAlias

from penstock.errors import StoreError
from penstock.record import Headers
from penstock.serde import Serde
from penstock.state.base import Sealed, ShardState, Store, StoreContext
from penstock.state.keys import parse_timer_key, timer_key, unpack_time
from penstock.state.spec import StoreSpec

Domain: TypeAlias = Literal["event", "processing"]

#: rows of the base read at a time; it changes at ``apply`` alone, which reads them again
AHEAD = 64

_NUMBERS: dict[str, int] = {"event": 0, "processing": 1}
#: (is registered, timestamp of the record that did it)
_Entry: TypeAlias = tuple[bool, int]


class TimerStore(Store):
    """The timers of one processor in one shard.

    >>> from penstock.state.open import standalone
    >>> from penstock.state.spec import Stores
    >>> timers = standalone(Stores.timers("reminders"))
    >>> for key, at in ("ann", 30), ("bob", 10), ("bob", 10), ("cy", 20):
    ...     timers.register("event", key, at)
    >>> timers.delete("event", "cy", 20)
    >>> list(timers.due("event", 25)), timers.earliest("event")
    ([(10, 'bob')], 30)
    """

    def __init__(
        self, spec: StoreSpec, state: ShardState, context: StoreContext, key: Serde[Any], value: object = None
    ) -> None:
        self.spec = spec
        self._state = state
        self._context = context
        self._key = key
        self._base = state.map(spec.name)
        self._dirty: dict[bytes, _Entry] = {}
        self._pending: list[tuple[Sealed, dict[bytes, _Entry]]] = []
        self._waiting: tuple[list[bytes], list[bytes]] = ([], [])  # by domain: rows that may not be in the base yet
        self._ahead: tuple[list[bytes], list[bytes]] = ([], [])  # by domain: the base's next rows, the first one last
        self._open_base()

    # ---- verbs

    def register(self, domain: Domain, key: Any, timestamp: int) -> None:
        """Ask for the timer to fire once time has reached ``timestamp``; asking twice is asking once."""
        number = _number(domain)
        row = self._row(number, key, timestamp)
        known = self._dirty.get(row)
        if known is None or not known[0]:
            self._dirty[row] = True, self._context.origin.timestamp
            heappush(self._waiting[number], row)

    def delete(self, domain: Domain, key: Any, timestamp: int) -> None:
        """Take a timer back; nothing happens if there is none."""
        self._dirty[self._row(_number(domain), key, timestamp)] = False, self._context.origin.timestamp

    def due(self, domain: Domain, now: int) -> Iterator[tuple[int, Any]]:
        """Take out and iterate (timestamp, key) of the timers up to ``now``, by time, then key bytes.

        A timer that is registered while this runs, for a time up to ``now``, fires in the same run.
        """
        number, decode = _number(domain), self._key.deserialize
        while (row := self._next(number)) is not None and unpack_time(row, 1) <= now:
            self._pass(number, row)
            self._dirty[row] = False, self._context.origin.timestamp
            yield unpack_time(row, 1), decode(row[9:])

    def earliest(self, domain: Domain) -> int | None:
        """Return the time of the next timer, or None."""
        row = self._next(_number(domain))
        return None if row is None else unpack_time(row, 1)

    # ---- the order of rows

    def _next(self, number: int) -> bytes | None:
        """Return the next registered row of a domain, leaving it where it is; rows that are gone are passed over."""
        waiting = self._waiting[number]
        while True:
            ahead = self._ahead[number]
            first = ahead[-1] if ahead else None
            row = waiting[0] if waiting and (first is None or waiting[0] <= first) else first
            if row is None or self._is_registered(row):
                return row
            self._pass(number, row)

    def _pass(self, number: int, row: bytes) -> None:
        """Step over a row in both sources."""
        waiting = self._waiting[number]
        while waiting and waiting[0] == row:
            heappop(waiting)
        ahead = self._ahead[number]
        if ahead and ahead[-1] == row:
            ahead.pop()
            if not ahead:
                self._read_ahead(number, row + b"\0")

    def _read_ahead(self, number: int, lower: bytes) -> None:
        rows = islice(self._base.range(lower, bytes((number + 1,))), AHEAD)
        self._ahead[number][:] = [row for row, _ in rows][::-1]

    def _open_base(self) -> None:
        for number in _NUMBERS.values():
            self._read_ahead(number, bytes((number,)))

    def _is_registered(self, row: bytes) -> bool:
        entry = self._dirty.get(row)
        return self._was_registered(row) if entry is None else entry[0]

    def _was_registered(self, row: bytes) -> bool:
        for _, layer in reversed(self._pending):
            entry = layer.get(row)
            if entry is not None:
                return entry[0]
        return self._base.get(row) is not None

    # ---- the barrier

    def seal(self) -> Sealed:
        """Hand out the epoch's changes; a timer registered and fired within the epoch, or registered again, leaves no trace."""
        writes: list[tuple[bytes, bytes | None]] = []
        changelog: list[tuple[bytes, bytes | None, int, Headers]] = []
        rows = {row: e for row, e in self._dirty.items() if e[0] != self._was_registered(row)}
        for row, (registered, timestamp) in rows.items():
            value = b"" if registered else None
            writes.append((row, value))
            if self.spec.logged:
                changelog.append((row, value, max(timestamp, 0), ()))
        sealed = Sealed(writes, changelog)
        self._pending.append((sealed, rows))
        self._dirty = {}
        return sealed

    def apply(self, sealed: Sealed) -> None:
        """Write a committed epoch to the base map."""
        sealed.write_to(self._state, self.name)
        self._pending = [(mine, rows) for mine, rows in self._pending if mine is not sealed]
        if not self._pending and not self._dirty:  # every row is in the base now
            for waiting in self._waiting:
                waiting.clear()
        self._open_base()

    def _row(self, number: int, key: Any, timestamp: int) -> bytes:
        if key is None:
            raise StoreError(f"store {self.name!r}: the key of a timer must not be None")
        if timestamp < 0:
            raise StoreError(f"store {self.name!r}: a timer's time must not be negative, but is {timestamp}")
        return timer_key(number, timestamp, self._key.serialize(key))


def _number(domain: str) -> int:
    number = _NUMBERS.get(domain)
    if number is None:
        raise StoreError(f"a timer's domain is 'event' or 'processing', not {domain!r}")
    return number


def restore_timer_row(
    spec: StoreSpec, key: bytes, value: bytes | None, timestamp: int
) -> list[tuple[str, bytes, bytes | None]]:
    """Return what a changelog row of a timer store is in the base: (map name, key, value or None)."""
    assert parse_timer_key(key)[0] in (0, 1), f"store {spec.name!r}: this is not the row of a timer: {key!r}"
    return [(spec.name, key, value)]
