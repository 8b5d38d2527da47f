"""Rows by column, as they were at a place: what a table's records write, and what the records between them read.

Records of several sources that go together have *places*: their order among all of them. The updates of a table are told with their places
before anything is written; a reader then finds, for each of its records, the last update of its key in front of it, or else the row
that was there before.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, repeat
from operator import is_
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.serde import Serde
from penstock.serde.columns import Column, Columns, Commits, Irregular, OnColumns
from penstock.state.write_back import WriteBack

#: gives the row of each key, decoded for itself alone, None where there is none: (keys, records that they are of)
ReadColumns: TypeAlias = Callable[[Column, Columns], list[Any]]


class Told(NamedTuple):
    """Updates of a store that are not written yet: keys, places in ascending order, new rows (None: deleted)."""

    keys: pa.Array
    places: Any
    rows: list[bytes | None]


def open_put(
    rows: WriteBack,
    name: str,
    serdes: tuple[Serde[Any], Serde[Any]],
    number: Callable[[], int] | None,
    vanished: set[bytes],
) -> OnColumns:
    """Return what puts the values of records into the rows of their keys; all records have a key.

    ``number``: numbers the writes of a cached store. ``vanished``: where it notes rows of this epoch that are deleted.
    """
    key_serde, value_serde = serdes

    def on_columns(columns: Columns, commits: Commits) -> None:
        keys, values = columns.keys.arrow_of(key_serde), columns.values.bytes_of(value_serde)
        raws: list[bytes | None] = values.to_pylist() if isinstance(values, pa.Array) else values
        spots = columns.spots
        if spots.places is not None:
            spots.told[name] = Told(keys, columns.of_source(spots.places), raws)
        commits.append(lambda: _write(rows, keys.to_pylist(), raws, columns, number, vanished))

    return on_columns


def _write(
    rows: WriteBack,
    keys: list[bytes],
    raws: list[bytes | None],
    columns: Columns,
    number: Callable[[], int] | None,
    vanished: set[bytes],
) -> None:
    """Write rows in order; of several of a key the last one stays."""
    dirty = rows.dirty
    headers: Any = repeat(()) if columns.headers is None else columns.headers
    times = columns.timestamps.tolist()
    if number is None:
        dirty.update(zip(keys, zip(raws, times, headers, repeat(None), repeat(0), strict=False), strict=False))
        return
    entries = zip(raws, times, headers, zip(repeat(columns), count(), strict=False), iter(number, None), strict=False)
    if not any(map(is_, raws, repeat(None))):
        dirty.update(zip(keys, entries, strict=True))
        return
    for key, entry in zip(keys, entries, strict=True):
        if entry[0] is None and key in dirty and dirty[key][0] is not None:
            vanished.add(key)
        dirty[key] = entry


def open_read(rows: WriteBack, name: str, serdes: tuple[Serde[Any], Serde[Any]]) -> ReadColumns:
    """Return what reads the rows of keys, each as it is at the place of its record. A record whose key is missing is not for it."""
    key_serde, decode = serdes[0], serdes[1].deserialize

    def read(keys: Column, columns: Columns) -> list[Any]:
        data, spots = keys.arrow_of(key_serde), columns.spots
        if data.null_count:
            raise Irregular
        told = None if spots.places is None else spots.told.get(name)
        if told is None:
            return decoded(rows_now(rows, data), decode)
        return decoded(rows_as_of(rows, data, columns.of_source(spots.places), told), decode)

    return read


def decoded(raws: list[Any], decode: Callable[[bytes], Any]) -> list[Any]:
    """Return what rows hold, anew for each: whoever gets it may change it."""
    if any(map(is_, raws, repeat(None))):
        found = [None if raw is None else decode(raw) for raw in raws]
        odd = any(row is None and raw is not None for row, raw in zip(found, raws, strict=True))
    else:
        found = list(map(decode, raws))
        odd = any(map(is_, found, repeat(None)))
    if odd:  # a row that is there, and reads as none
        raise Irregular
    return found


def rows_now(rows: WriteBack, keys: pa.Array) -> list[bytes | None]:
    """Return the rows of keys; each key is looked up once."""
    encoded = keys.dictionary_encode()
    found = rows.get_many(encoded.dictionary.to_pylist())
    return list(map(found.__getitem__, encoded.indices.to_numpy().tolist()))


def rows_as_of(rows: WriteBack, keys: pa.Array, places: Any, told: Told) -> list[bytes | None]:
    """Return the rows of keys, each as it is at its place: the last one told in front of it, or else the one that is written.

    >>> from penstock.state.memory import MemoryState
    >>> store = WriteBack(MemoryState(), "s", stamped=False)
    >>> store.base.write([(b"a", b"old"), (b"b", b"b")])
    >>> told = Told(pa.array([b"a", b"a"]), np.array([1, 3]), [b"new", None])
    >>> rows_as_of(store, pa.array([b"a", b"b", b"a", b"a"]), np.array([0, 1, 2, 4]), told)
    [b'old', b'b', b'new', None]
    """
    encoded = pa.concat_arrays([told.keys, keys]).dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    updated, asked = codes[: len(told.keys)], codes[len(told.keys) :]
    span = max(int(places.max()), int(told.places[-1])) + 1
    updates = updated * span + told.places
    order = np.argsort(updates, kind="stable")
    before = np.searchsorted(updates[order], asked * span + places) - 1
    last = order[before]  # −1, the last one of all, is of another key, or behind
    known = (before >= 0) & (updated[last] == asked)
    versions = [*told.rows, *_written(rows, encoded.dictionary, asked[~known])]
    return list(map(versions.__getitem__, np.where(known, last, asked + len(told.rows)).tolist()))


def _written(rows: WriteBack, keys: pa.Array, asked: Any) -> list[bytes | None]:
    """Return the written rows of keys; None of those that nobody has asked for."""
    wanted = np.zeros(len(keys), dtype=bool)
    wanted[asked] = True
    if wanted.all():
        return rows.get_many(keys.to_pylist())
    found: list[bytes | None] = [None] * len(keys)
    at = np.flatnonzero(wanted)
    for place, row in zip(at.tolist(), rows.get_many(keys.take(pa.array(at)).to_pylist()), strict=True):
        found[place] = row
    return found
