"""The rows of a left or outer stream-stream join that wait for a match until their window is closed.

Rows are ordered by (timestamp, right before left, key bytes) and each holds the list of all values of that key, side
and timestamp; formats are in ``state.keys``. A row whose window is closed leaves at once: results of a key do not depend on which
other keys are in the same shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from penstock.serde import Serde
from penstock.state.base import Sealed, ShardState, StoreContext
from penstock.state.keys import (
    MAX_TIME,
    join_side_key,
    join_side_value,
    pack_list,
    pack_time,
    parse_join_side_key,
    parse_join_side_value,
    parse_list,
    unpack_time,
)
from penstock.state.spec import StoreSpec
from penstock.state.typed import TypedStore
from penstock.state.write_back import WriteBack


class LeftOrRightSerde(Serde[tuple[bool, Any]]):
    """The serde of ``(is left, value)``, given those of the left and of the right stream's values.

    >>> from penstock.serde import Serdes
    >>> serde = LeftOrRightSerde(Serdes.string, Serdes.int32)
    >>> serde.serialize((True, "a")), serde.serialize((False, 1))
    (b'\\x01a', b'\\x00\\x00\\x00\\x00\\x01')
    >>> serde.deserialize(b'\\x01a')
    (True, 'a')
    """

    __slots__ = ()

    def __init__(self, left: Serde[Any], right: Serde[Any]) -> None:
        super().__init__(
            _writer(left.serialize, right.serialize),
            _reader(left.deserialize, right.deserialize),
            f"left_or_right({left!r}, {right!r})",
            _recipe=(LeftOrRightSerde, (left, right)),
        )


def _writer(left: Callable[[Any], bytes], right: Callable[[Any], bytes]) -> Callable[[tuple[bool, Any]], bytes]:
    def write(side_and_value: tuple[bool, Any]) -> bytes:
        is_left, value = side_and_value
        return join_side_value(is_left, left(value) if is_left else right(value))

    return write


def _reader(left: Callable[[bytes], Any], right: Callable[[bytes], Any]) -> Callable[[bytes], tuple[bool, Any]]:
    def read(data: bytes) -> tuple[bool, Any]:
        is_left, value = parse_join_side_value(data)
        return is_left, left(value) if is_left else right(value)

    return read


class Unmatched(NamedTuple):
    """A row whose window closed without a match, and the bytes that it is ordered by."""

    raw_key: bytes
    key: Any
    timestamp: int
    left: bool
    value: Any


class OuterJoinStore(TypedStore):
    """Unmatched rows of one join, both sides; the value serde is a `LeftOrRightSerde`.

    >>> from penstock.serde import Serdes
    >>> from penstock.state.memory import MemoryState
    >>> from penstock.state.open import Standalone
    >>> from penstock.state.spec import StoreKind
    >>> spec = StoreSpec("parked", StoreKind.OUTER_JOIN)
    >>> both = LeftOrRightSerde(Serdes.string, Serdes.string)
    >>> store = OuterJoinStore(spec, MemoryState(), Standalone(), Serdes.string, both)
    >>> store.park("k", 10, True, "a")
    >>> store.park("k", 10, False, "b")
    >>> store.take_closed(15, 5, 5), store.take_closed(16, 5, 5)[0][1:]
    ([], ('k', 10, False, 'b'))
    """

    def __init__(
        self, spec: StoreSpec, state: ShardState, context: StoreContext, key: Serde[Any], value: Serde[Any]
    ) -> None:
        super().__init__(spec, context, key, value)
        self._rows = WriteBack(state, spec.name, stamped=False)
        first = next(self._rows.scan(None, None), None)
        oldest = MAX_TIME if first is None else unpack_time(first[0])
        #: no row of this side (right, left) is older
        self._oldest = [oldest, oldest]

    def park(self, key: Any, timestamp: int, left: bool, value: Any) -> None:
        """Let a record wait: add its value to the list of its key, side and timestamp."""
        raw_key = join_side_key(timestamp, left, self._key.serialize(key))
        row = self._rows.lookup(raw_key)
        values = [] if row is None else parse_list(row.value)
        values.append(self._value.serialize((left, value)))
        self._put(raw_key, pack_list(values), timestamp)
        if timestamp < self._oldest[left]:
            self._oldest[left] = timestamp

    def forget(self, key: Any, timestamp: int, left: bool, at: int) -> None:
        """Delete all that waits under this key, side and timestamp: a match was found by a record of time ``at``."""
        raw_key = join_side_key(timestamp, left, self._key.serialize(key))
        if self._rows.lookup(raw_key) is not None:
            self._put(raw_key, None, at)

    def take_closed(self, now: int, left_wait: int, right_wait: int) -> list[Unmatched]:
        """Remove and return, in order, the rows whose time plus their side's wait is before ``now``."""
        closed: list[tuple[bytes, bytes]] = []
        for left, end in ((False, now - right_wait), (True, now - left_wait)):
            if self._oldest[left] < end:
                rows = self._rows.scan(pack_time(self._oldest[left]), pack_time(end))
                closed += [(raw_key, raw) for raw_key, raw, _ in rows if parse_join_side_key(raw_key)[1] is left]
                self._oldest[left] = end
        return self._take(sorted(closed), now)

    def earliest(self, left_wait: int, right_wait: int) -> int | None:
        """Return the least time at which a row is closed, or an earlier one; None if none waits."""
        if self._rows.is_small():
            first = next(self._rows.scan(pack_time(min(self._oldest)), None), None)
            oldest = MAX_TIME if first is None else unpack_time(first[0])
            self._oldest = [max(oldest, side) for side in self._oldest]
        due = min(self._oldest[False] + right_wait, self._oldest[True] + left_wait) + 1
        return None if min(self._oldest) == MAX_TIME else due

    def _take(self, rows: list[tuple[bytes, bytes]], at: int) -> list[Unmatched]:
        for raw_key, _ in rows:
            self._put(raw_key, None, at)
        return [one for raw_key, raw in rows for one in self._decode(raw_key, raw)]

    # ---- many records at a time

    @property
    def side_serdes(self) -> tuple[Serde[Any], Serde[Any]]:
        """The serdes of the right side's values, and of the left side's."""
        left, right = self._value.__reduce__()[1]
        return right, left

    def closed_by(self, now: int, waits: tuple[int, int]) -> dict[bytes, bytes]:
        """Return the rows that ``take_closed`` would take; ``waits``: of the right side, of the left side."""
        found: dict[bytes, bytes] = {}
        for side, wait in enumerate(waits):
            if self._oldest[side] < now - wait:
                rows = self._rows.scan(pack_time(self._oldest[side]), pack_time(now - wait))
                found |= {raw_key: raw for raw_key, raw, _ in rows if parse_join_side_key(raw_key)[1] == side}
        return found

    def waiting(self, raw_keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return those of the rows that are there."""
        rows = ((raw_key, self._rows.lookup(raw_key)) for raw_key in raw_keys)
        return {raw_key: row.value for raw_key, row in rows if row is not None}

    def settle(self, gone: Iterable[tuple[bytes, int]], staying: Iterable[tuple[bytes, bytes, int]]) -> None:
        """Delete rows, for a record of that time each, and let records wait: (row, value with its side, time)."""
        for raw_key, at in gone:
            self._put(raw_key, None, at)
        for raw_key, raw, timestamp in staying:
            row = self._rows.lookup(raw_key)
            self._put(raw_key, pack_list([*([] if row is None else parse_list(row.value)), raw]), timestamp)

    def note(self, side: bool, times: Any, end: int | None) -> None:
        """Know of the times of records that have waited, and up to when all rows have been taken (None: nobody has looked)."""
        if len(times):
            self._oldest[side] = min(self._oldest[side], int(times.min()))
        if end is not None:
            self._oldest[side] = max(self._oldest[side], end)

    def all(self) -> list[Unmatched]:
        """Return every row, in order."""
        rows = self._rows.scan(None, None)
        return [one for raw_key, raw, _ in rows for one in self._decode(raw_key, raw)]

    def _decode(self, raw_key: bytes, raw: bytes) -> list[Unmatched]:
        key, timestamp, left = _parts(raw_key)
        decoded, deserialize = self._key.deserialize(key), self._value.deserialize
        return [
            Unmatched(raw_key, decoded, timestamp, left, deserialize(item)[1])
            for item in parse_list(raw)
            if item is not None
        ]

    def _put(self, raw_key: bytes, raw: bytes | None, timestamp: int) -> None:
        self._rows.dirty[raw_key] = (raw, timestamp, (), self._context.origin, 0)

    def seal(self) -> Sealed:
        """Hand out the epoch's rows; one that came and went within the epoch was never there."""
        return self._rows.seal(self._rows.lasting(), logged=self.spec.logged)

    def apply(self, sealed: Sealed) -> None:
        """Write a committed epoch to the base maps."""
        self._rows.apply(sealed)


def restore_rows(spec: StoreSpec, row: bytes, value: bytes | None) -> list[tuple[str, bytes, bytes | None]]:
    """Return what a changelog row is in the base: (map name, key, value or None) each."""
    return [(spec.name, row, value)]


def _parts(raw_key: bytes) -> tuple[bytes, int, bool]:
    timestamp, left, key = parse_join_side_key(raw_key)
    return key, timestamp, left
