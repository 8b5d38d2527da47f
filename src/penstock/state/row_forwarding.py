"""What a cached store forwards at the barrier: what was written since the last time, once for each key, as Kafka's cache does.

Those downstream know of a key what was forwarded last, or else its value before the epoch. A row that is neither there now, nor was
known to them, is not forwarded.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.batch.column import Column
from penstock.serde import Serde
from penstock.state.base import Entry, OnFlush, StoreContext
from penstock.state.batch_delta import BatchDelta
from penstock.state.forward import FlushBatch, forward_entries
from penstock.state.write_back import StoredRow, WriteBack, writer_of


class RowForwarding:
    """The way from the rows of one store to those downstream."""

    def __init__(self, rows: WriteBack, key: Serde[Any], value: Serde[Any], context: StoreContext) -> None:
        self._rows = rows
        self._key = key
        self._value = value
        self._context = context
        self.listener: OnFlush | None = None
        #: whether the value before is wanted, too
        self.send_old = False
        #: takes many updates at a time, by their new values, and the old ones where they are asked for
        self.on_batch: FlushBatch | None = None
        #: forward the delete of a row that came and went within an epoch
        self.announce = False
        #: rows of this epoch that were deleted before anybody downstream heard of them
        self.vanished: set[bytes] = set()
        #: numbers the writes
        self.next_number = count(1).__next__
        self._flushed_to = 0  # number of the last write that has been forwarded
        self._flushed: dict[bytes, Entry] = {}  # what was forwarded in this epoch

    def forward(self) -> bool:
        """Forward what was written since the last call; whether anything was."""
        changed = self._unforwarded()
        if not (self.on_batch is not None and changed and self._forward_batch(changed)):
            for key, entry in changed:
                self._forward(key, entry)
        return bool(changed)

    def forward_delta(self) -> bool:
        """Forward what was written by column, if that is all, and it can go as it is."""
        for delta in self._rows.deltas:
            if delta.flushed is not None or delta.sealed is not None:
                return False
            if self.on_batch is not None and not self._flushed:
                kept, old = self._to_forward(delta)
                if not len(kept) or self.on_batch(kept.changes(self._key, self._value, old)):
                    kept.flushed = self._flushed
                    self._rows.deltas[:] = [kept] if len(kept) else []
                    return True
                self.on_batch = None
            self._rows.spill()
        return False

    def was_never_there(self, key: bytes) -> bool:
        """Whether nobody has seen a row that is deleted: it was made and deleted within the epoch."""
        return key not in self._flushed and self._rows.before(key) is None

    def end_epoch(self) -> None:
        """Forget what was forwarded: it is what was there before the next epoch."""
        self._flushed.clear()

    def _to_forward(self, delta: BatchDelta) -> tuple[BatchDelta, pa.Array | None]:
        """Return the rows of a delta that are to be forwarded, and the values before, where these are asked for."""
        deleted = delta.values.null_count
        if not self.send_old and not deleted:
            return delta, None
        names = delta.names
        gone = delta.values.is_null().to_numpy(zero_copy_only=False)
        asked = names if self.send_old else [names[at] for at in np.flatnonzero(gone).tolist()]
        before = pa.array(self._rows.before_many(asked), pa.binary())
        old = before if self.send_old else None
        if not deleted:
            return delta, old
        kept = ~gone
        kept[slice(None) if self.send_old else gone] |= before.is_valid().to_numpy(zero_copy_only=False)
        if self.announce and self.vanished:
            kept |= np.array([name in self.vanished for name in names], dtype=bool)
        if kept.all():
            return delta, old
        return delta.only(kept), None if old is None else old.filter(pa.array(kept))

    def _unforwarded(self) -> list[tuple[bytes, Entry]]:
        """Return the rows written since the last time this was asked, in the order of their last writes."""
        now = self.next_number()
        since, self._flushed_to = self._flushed_to, now
        if now == since + 1:
            return []
        return sorted((row for row in self._rows.dirty.items() if row[1][4] > since), key=lambda row: row[1][4])

    def _forward_batch(self, changed: Sequence[tuple[bytes, Entry]]) -> bool:
        """Forward all rows at a time; False, and nothing has happened, if they must go one by one."""
        assert self.on_batch is not None
        old = self._known_of_many([key for key, _ in changed]) if self.send_old else None
        if any(entry[0] is None for _, entry in changed):
            lasting = self._lasting(changed, old)
            changed = [changed[at] for at in lasting]
            old = None if old is None else [old[at] for at in lasting]
        if not changed:
            return True
        keys = Column(data=[key for key, _ in changed], serde=self._key, made=True)
        entries = [entry for _, entry in changed]
        if not forward_entries(self.on_batch, keys, self._value, entries, old=old, deletes=True):
            self.on_batch = None
            return False
        self._flushed.update(changed)
        return True

    def _lasting(self, changed: Sequence[tuple[bytes, Entry]], old: list[bytes | None] | None) -> list[int]:
        """Return the places of changed rows that those downstream have to hear of."""
        if old is None:
            gone = [key for key, entry in changed if entry[0] is None]
            before = dict(zip(gone, self._known_of_many(gone), strict=True))
            old = [before.get(key) for key, _ in changed]
        announced: Collection[bytes] = self.vanished if self.announce else ()
        return [
            at
            for at, ((key, entry), row) in enumerate(zip(changed, old, strict=True))
            if entry[0] is not None or row is not None or key in announced
        ]

    def _forward(self, key: bytes, entry: Entry) -> None:
        assert self.listener is not None
        value, timestamp, headers, origin, _ = entry
        old = self._known_of(key) if value is None or self.send_old else None
        if value is None and old is None and not (self.announce and key in self.vanished):
            return
        self._flushed[key] = entry
        assert origin is not None, "a row without a writer in a cached store"
        self._context.origin = writer_of(origin)
        decode = self._value.deserialize
        self.listener(
            self._key.deserialize(key),
            None if value is None else decode(value),
            decode(old.value) if old is not None and self.send_old else None,
            timestamp,
            headers,
        )

    def _known_of(self, key: bytes) -> StoredRow | None:
        """Return what those downstream know of a key."""
        entry = self._flushed.get(key)
        if entry is None:
            return self._rows.before(key)
        return None if entry[0] is None else StoredRow(entry[0], entry[1])

    def _known_of_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return what those downstream know of many keys, without timestamps."""
        flushed = self._flushed
        if not flushed:
            return self._rows.before_many(keys)
        below = [key for key in keys if key not in flushed]
        known = dict(zip(below, self._rows.before_many(below), strict=True))
        return [known[key] if key in known else flushed[key][0] for key in keys]
