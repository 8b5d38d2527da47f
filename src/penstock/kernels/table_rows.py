"""Rows by column, as they were at a place: what a table's records write, and what the records between them read.

Records of several sources that go together have *places*: their order among all of them. The updates of a table are published with their
places before anything is written; a reader then finds, for each of its records, the last update of its key in front of it, or else the row
that was there before.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, repeat
from operator import is_
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.batch.fallback import Fallback
from penstock.batch.grouping import KeyGroups, key_order
from penstock.kernels.transaction import BatchTransaction, OnBatch
from penstock.serde import Serde
from penstock.serde.json_lines import json_lines
from penstock.state.batch_delta import BatchDelta
from penstock.state.delta import StoreDelta
from penstock.state.rows import RowStore
from penstock.state.write_back import WriteBack

#: fewer records are written as single rows, and looked up as they come
FEW = 64


class FoundRows(NamedTuple):
    """The rows of many keys, each decoded for itself alone: None where there is none, and whether that is so anywhere."""

    rows: list[Any]
    gaps: bool


#: finds the rows of keys: (keys, records that they are of, their transaction)
ReadBatch: TypeAlias = Callable[[Column, Batch, BatchTransaction], FoundRows]


class RawFound(NamedTuple):
    """The rows of many keys, not decoded: rows (null: none), their timestamps, and which of them each key has."""

    rows: pa.Array
    times: Any
    at: Any


#: finds the rows of keys as they are stored: (bytes of keys, records that they are of, their transaction)
ReadRaw: TypeAlias = Callable[[pa.Array, Batch, BatchTransaction], RawFound]


def open_put(
    rows: WriteBack,
    name: str,
    serdes: tuple[Serde[Any], Serde[Any]],
    number: Callable[[], int] | None,
    vanished: set[bytes],
) -> OnBatch:
    """Return what puts the values of records into the rows of their keys; all records have a key.

    ``number``: numbers the writes of a cached store. ``vanished``: where it notes rows of this epoch that are deleted.
    """
    key_serde, value_serde = serdes

    def on_batch(batch: Batch, transaction: BatchTransaction) -> None:
        keys, values = batch.keys.arrow_of(key_serde), batch.values.arrow_of(value_serde)
        provenance = batch.provenance
        if provenance.places is not None:
            places = batch.of_source(provenance.places)
            transaction.published[name] = StoreDelta(keys, values, batch.timestamps, places=places)
        groups = None
        if len(keys) >= FEW and batch.headers is None and rows.is_untouched():
            groups = KeyGroups(keys)

        def commit() -> None:
            if groups is None or not rows.is_untouched():
                _write(rows, keys.to_pylist(), values.to_pylist(), batch, number, vanished)
                return
            newest = values.take(pa.array(groups.last))
            vanished.update(_came_and_went(groups, values, newest))
            delta = StoreDelta(groups.names, newest, batch.timestamps[groups.last], writers=groups.last)
            rows.lay(BatchDelta(delta, batch, number or _unnumbered))

        transaction.on_commit(commit)

    return on_batch


def open_put_to(store: RowStore) -> OnBatch:
    """Return what puts the values of records into the rows of a store."""
    number = store.next_number if store.cached else None
    return open_put(store.rows, store.name, store.serdes, number, store.forwarding.vanished)


def _unnumbered() -> int:
    return 0


def _came_and_went(groups: KeyGroups, values: pa.Array, newest: pa.Array) -> list[bytes]:
    """Return the keys that have had a value, and were deleted at last."""
    if not newest.null_count:
        return []
    there = values.is_valid().to_numpy(zero_copy_only=False)[groups.order]
    gone = ~newest.is_valid().to_numpy(zero_copy_only=False)
    return [
        groups.keys[group] for group in np.flatnonzero(gone & np.logical_or.reduceat(there, groups.starts)).tolist()
    ]


def _write(
    rows: WriteBack,
    keys: list[bytes],
    raws: list[bytes | None],
    batch: Batch,
    number: Callable[[], int] | None,
    vanished: set[bytes],
) -> None:
    """Write rows in order; of several of a key the last one stays."""
    rows.spill()
    dirty = rows.dirty
    headers: Any = repeat(()) if batch.headers is None else batch.headers
    times = batch.timestamps.tolist()
    if number is None:
        dirty.update(zip(keys, zip(raws, times, headers, repeat(None), repeat(0), strict=False), strict=False))
        return
    entries = zip(raws, times, headers, zip(repeat(batch), count(), strict=False), iter(number, None), strict=False)
    if not any(map(is_, raws, repeat(None))):
        dirty.update(zip(keys, entries, strict=True))
        return
    for key, entry in zip(keys, entries, strict=True):
        if entry[0] is None and key in dirty and dirty[key][0] is not None:
            vanished.add(key)
        dirty[key] = entry


def open_read(rows: WriteBack, name: str, serdes: tuple[Serde[Any], Serde[Any]]) -> ReadBatch:
    """Return what reads the rows of keys, each as it is at the place of its record. A record whose key is missing is not for it."""

    def read(keys: Column, batch: Batch, transaction: BatchTransaction) -> FoundRows:
        data = keys.arrow_of(serdes[0])
        if data.null_count:
            raise Fallback("null_key")
        published = _published(name, batch, transaction)
        if published is None:
            return _decoded(*rows_now(rows.get_many, data), serdes[1])
        return _decoded(*rows_as_of(rows.get_many, data, batch.places, published), serdes[1])

    return read


def open_read_raw(rows: WriteBack, name: str) -> ReadRaw:
    """Return what reads the rows of keys, with their timestamps, each as it is at the place of its record."""

    def read(keys: pa.Array, batch: Batch, transaction: BatchTransaction) -> RawFound:
        published = _published(name, batch, transaction)
        if published is None:
            found, at = rows_now(rows.lookup_many, keys)
        else:
            found, at = rows_as_of(rows.lookup_many, keys, batch.places, published, timed=True)
        values = pa.array([None if row is None else row[0] for row in found], pa.binary())
        times = np.array([-1 if row is None else row[1] for row in found], dtype=np.int64)
        return RawFound(values, times, at)

    return read


#: looks rows up as they are written
Look: TypeAlias = Callable[[list[bytes]], list[Any]]


def _published(name: str, batch: Batch, transaction: BatchTransaction) -> StoreDelta | None:
    """Return what is about to be written to a store; None where only one source takes part."""
    return None if batch.provenance.places is None else transaction.published.get(name)


def _decoded(raws: list[bytes | None], at: Any, serde: Serde[Any]) -> FoundRows:
    """Return what rows hold, decoded anew for each record: whoever gets it may change it."""
    gaps = np.fromiter(map(is_, raws, repeat(None)), dtype=bool, count=len(raws))[at].sum()
    data: Any
    if json_lines(serde) is None:
        data = list(map(raws.__getitem__, at.tolist()))
    else:
        data = pa.array(raws, pa.binary()).take(pa.array(at))
    column = Column(data=data, serde=serde)
    items = column.items
    if column.has_nulls and sum(map(is_, items, repeat(None))) != gaps:  # a row that is there, and reads as none
        raise Fallback("row_reads_as_null")
    return FoundRows(items, bool(gaps))


def rows_now(look: Look, keys: pa.Array) -> tuple[list[Any], Any]:
    """Return rows, and which of them each key has; each key is looked up once, many of them in their order."""
    encoded = keys.dictionary_encode()
    names, at = encoded.dictionary, encoded.indices.to_numpy()
    if len(names) < FEW:
        return look(names.to_pylist()), at
    order = key_order(names)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return look(names.take(pa.array(order)).to_pylist()), rank[at]


def rows_as_of(
    look: Look, keys: pa.Array, places: Any, published: StoreDelta, *, timed: bool = False
) -> tuple[list[Any], Any]:
    """Return rows, and which of them each key has at its place: the last one published in front of it, or else the one that is written.

    ``timed``: rows are (value, timestamp).

    >>> from penstock.state.memory import MemoryState
    >>> store = WriteBack(MemoryState(), "s", stamped=False)
    >>> store.base.write([(b"a", b"old"), (b"b", b"b")])
    >>> published = StoreDelta(pa.array([b"a", b"a"]), pa.array([b"new", None]), np.array([7, 8]), places=np.array([1, 3]))
    >>> found, at = rows_as_of(store.get_many, pa.array([b"a", b"b", b"a", b"a"]), np.array([0, 1, 2, 4]), published)
    >>> [found[place] for place in at]
    [b'old', b'b', b'new', None]
    """
    rows = published.values.to_pylist()
    if timed:
        rows = [None if raw is None else (raw, time) for raw, time in zip(rows, published.times.tolist(), strict=True)]
    encoded = pa.concat_arrays([published.keys, keys]).dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    updated, asked = codes[: len(rows)], codes[len(rows) :]
    span = max(int(places.max()), int(published.places[-1])) + 1
    updates = updated * span + published.places
    order = np.argsort(updates, kind="stable")
    before = np.searchsorted(updates[order], asked * span + places) - 1
    last = order[before]  # −1, the last one of all, is of another key, or behind
    known = (before >= 0) & (updated[last] == asked)
    found = [*rows, *_written(look, encoded.dictionary, asked[~known])]
    return found, np.where(known, last, asked + len(rows))


def _written(look: Look, keys: pa.Array, asked: Any) -> list[Any]:
    """Return the written rows of keys; None of those that nobody has asked for."""
    wanted = np.zeros(len(keys), dtype=bool)
    wanted[asked] = True
    if wanted.all():
        return look(keys.to_pylist())
    found: list[Any] = [None] * len(keys)
    at = np.flatnonzero(wanted)
    for place, row in zip(at.tolist(), look(keys.take(pa.array(at)).to_pylist()), strict=True):
        found[place] = row
    return found
