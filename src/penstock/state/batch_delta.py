"""The delta that the records of one batch have written to a store with one row for each key: by a fold, or a put.

Where nothing else happens to the store in that epoch its rows are forwarded, sealed and logged as they are, and no Python object is
ever made of one. Anything else makes single rows of the delta first (`WriteBack.spill`), which costs what single rows cost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.batch.fallback import Fallback
from penstock.batch.provenance import Provenance
from penstock.record import Headers
from penstock.serde import Serde
from penstock.state.base import Entry, Sealed
from penstock.state.bulk import are_short
from penstock.state.delta import StoreDelta, order_of_places
from penstock.state.sorted_run import SortedRun, pack


class RowsBefore(NamedTuple):
    """What there was of many keys: values (null: no row) and timestamps (−1 where there is none)."""

    values: pa.Array
    times: Any


@dataclass(frozen=True, slots=True)
class ChangelogColumns(Collection[tuple[bytes, bytes | None, int, Headers]]):
    """Changelog rows without headers, by column.

    >>> list(ChangelogColumns(pa.array([b"a"]), pa.array([b"1"]), np.array([5])))
    [(b'a', b'1', 5, ())]
    """

    names: pa.Array
    values: pa.Array
    times: Any

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[tuple[bytes, bytes | None, int, Headers]]:
        return zip(self.names.to_pylist(), self.values.to_pylist(), self.times.tolist(), repeat(()), strict=False)

    def __contains__(self, row: object) -> bool:
        return any(row == mine for mine in self)


class BatchDelta:
    """Rows without headers, keys ascending, and the batch whose records wrote them; a row of null is deleted.

    ``number``: numbers single rows, in the order of their writing.
    """

    def __init__(self, delta: StoreDelta, batch: Batch, number: Callable[[], int]) -> None:
        self._delta = delta
        self._batch = batch
        self._number = number
        self.has_headers = batch.headers is not None
        #: where it is noted what was forwarded in this epoch; None: this was not
        self.flushed: dict[bytes, Entry] | None = None
        #: as what it was handed out
        self.sealed: Sealed | None = None

    @cached_property
    def _in_order(self) -> StoreDelta:
        """The rows in the order of the last writes."""
        return self._delta.in_order()

    def __len__(self) -> int:
        return len(self._delta.keys)

    @property
    def names(self) -> list[bytes]:
        """The keys, ascending."""
        return self._delta.keys.to_pylist()  # type: ignore[no-any-return]

    @property
    def values(self) -> pa.Array:
        """The new values in the order of the keys, null where a row is deleted."""
        return self._delta.values

    def only(self, kept: Any) -> BatchDelta:
        """Return some of the rows."""
        return BatchDelta(self._delta.where(kept), self._batch, self._number)

    def changes(self, key: Serde[Any], value: Serde[Any], old: pa.Array | None = None) -> Batch:
        """Return the rows as records for those downstream, each with the origin of the record that wrote it last.

        ``old``: the values before, in the order of the keys.
        """
        batch, delta = self._batch, self._in_order
        rows = delta.writers if batch.rows is None else batch.rows[delta.writers]
        provenance = batch.provenance
        return Batch(
            Column(data=delta.keys, serde=key, made=True),
            Column(data=delta.values, serde=value, made=True),
            delta.times,
            None,
            Provenance(provenance.origin, provenance.indexes, provenance.times, provenance.count, provenance.arrays),
            rows,
            old=None
            if old is None
            else Column(data=old.take(pa.array(order_of_places(self._delta.writers))), serde=value),
        )

    def entries(self) -> dict[bytes, Entry]:
        """Return single rows, in the order of the last writes; those that were forwarded have no number."""
        delta = self._in_order
        numbers: Iterator[int] = iter(self._number, None) if self.flushed is None else repeat(0)
        return dict(zip(delta.keys.to_pylist(), delta.written_by(self._batch, numbers), strict=True))

    def seal(self, *, stamped: bool, logged: bool) -> Sealed | None:
        """Return the rows as the writes of an epoch; None if some of them have to be written one by one."""
        delta = self._delta
        if not are_short(delta.keys):
            return None
        self.sealed = Sealed(SortedRun(pack(delta.keys, delta.values, delta.times if stamped else None)))
        if logged:
            ordered = self._in_order
            self.sealed.changelog = ChangelogColumns(ordered.keys, ordered.values, ordered.times)
        return self.sealed


def read_rows(rows: pa.Array, *, stamped: bool) -> RowsBefore:
    """Return base rows (null: there is none) as values and times.

    >>> values, times = read_rows(pa.array([bytes(7) + b"5old", None]), stamped=True)
    >>> values.to_pylist(), times.tolist()
    ([b'old', None], [53, -1])
    """
    times = np.full(len(rows), -1, dtype=np.int64)
    if not stamped or rows.null_count == len(rows):
        return RowsBefore(rows, times)
    known = rows.drop_null() if rows.null_count else rows
    stamps = pc.binary_slice(known, 0, 8)
    times[rows.is_valid().to_numpy(zero_copy_only=False)] = np.frombuffer(stamps.buffers()[2], ">i8", len(known))
    return RowsBefore(pc.binary_slice(rows, 8, _ALL), times)


def int64_sums(rows: pa.Array, numbers: Any) -> pa.Array:
    """Return numbers added to rows of 8 bytes (null: zero), as such rows. Others, and sums of more than 8 bytes, are not for columns.

    >>> int64_sums(pa.array([bytes(7) + b"\\x05", None]), np.array([1, 2])).to_pylist()
    [b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x06', b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02']
    """
    before = np.zeros(len(rows), dtype=np.int64)
    known = rows.drop_null()
    if len(known):
        if pc.min_max(pc.binary_length(known)).as_py() != {"min": 8, "max": 8}:
            raise Fallback("not_an_int64")
        whole = known.cast(pa.binary(8))
        data = np.frombuffer(whole.buffers()[1], ">i8", len(whole), 8 * whole.offset)
        before[rows.is_valid().to_numpy(zero_copy_only=False)] = data
    after = before + numbers
    if (after < before).any():
        raise Fallback("sum_overflow")
    packed = pa.py_buffer(after.astype(">i8").tobytes())
    return pa.Array.from_buffers(pa.binary(8), len(rows), [None, packed]).cast(pa.binary())


def before_of(rows: Iterable[tuple[bytes, int] | None]) -> RowsBefore:
    """Return rows (value, timestamp) by column."""
    pairs = [(None, -1) if row is None else row for row in rows]
    values = pa.array([value for value, _ in pairs], pa.binary())
    return RowsBefore(values, np.array([time for _, time in pairs], dtype=np.int64))


#: longer than any value
_ALL = (1 << 31) - 1
