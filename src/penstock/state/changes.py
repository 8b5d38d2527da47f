"""Changes of a table within an epoch, for a later step of the same epoch that reads it.

A record that comes back behind a re-key to a table of its own sub-topology is processed in a later step. It is to meet the table as
it was when all steps had done with the records up to its own source record, whatever the epoch goes on to change: so the changes are
kept with the position of the source record that made them, and the later step applies them one by one.

Packed, in msgpack: ``[[key, [[reached, topic, partition, offset, value, timestamp], ...]], ...]``, the changes of a key in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import msgspec

from penstock.record import Origin

#: position of a source record in the order of an epoch: partition time, topic, partition, offset
SourcePosition: TypeAlias = tuple[int, str, int, int]


class TableChange(NamedTuple):
    """A row that was put, or deleted (None)."""

    position: SourcePosition
    value: bytes | None
    timestamp: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[bytes, list[TableChange]]]).decode


def source_position(origin: Origin) -> SourcePosition:
    """Return the position of the source record of a record; that of no record is before all others."""
    return origin.reached, origin.topic or "", origin.partition, origin.offset


class TableChanges:
    """The changes by key.

    Invariant: those of a key are added, and taken, in the order of their source records.

    >>> changes = TableChanges()
    >>> changes.add(b"k", TableChange((5, "t", 0, 1), b"1", 5)); changes.add(b"k", TableChange((5, "t", 0, 2), None, 4))
    >>> later = TableChanges.unpack(changes.pack())
    >>> list(later.take(b"k", (5, "t", 0, 1))), list(later.take(b"k", (5, "t", 0, 1)))
    ([TableChange(position=(5, 't', 0, 1), value=b'1', timestamp=5)], [])
    """

    def __init__(self) -> None:
        self._by_key: dict[bytes, deque[TableChange]] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def add(self, key: bytes, change: TableChange) -> None:
        """Keep a change."""
        self._by_key.setdefault(key, deque()).append(change)

    def take(self, key: bytes, until: SourcePosition) -> Iterator[TableChange]:
        """Take out the changes of a key up to a source record, itself included."""
        waiting = self._by_key.get(key)
        while waiting and waiting[0].position <= until:
            yield waiting.popleft()

    def join(self, other: TableChanges) -> None:
        """Add those that another step has made."""
        for key, changes in other._by_key.items():
            known = self._by_key.get(key, ())
            self._by_key[key] = deque(sorted((*known, *changes), key=itemgetter(0)))

    def clear(self) -> None:
        """Forget all of them."""
        self._by_key.clear()

    def pack(self) -> bytes:
        """Return the changes as bytes."""
        return _encode([(key, list(changes)) for key, changes in self._by_key.items()])

    @classmethod
    def unpack(cls, data: bytes) -> TableChanges:
        """Return the changes that ``pack`` packed."""
        found = cls()
        found._by_key = {key: deque(changes) for key, changes in _decode(data)}
        return found
