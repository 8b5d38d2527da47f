"""Rows into a database of LMDB, inside a transaction: in any order, or in bulk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.state.base import SortedRows
from penstock.state.lmdb_format import LONG, PLAIN, pack_bucket, stored_key, unpack_bucket


def put_all(rows: dict[bytes, bytes | None], transaction: Any, database: Any, overflow: Any) -> None:
    """Put rows in any order (None: delete)."""
    keys = sorted(rows)  # LMDB writes neighbours much faster
    if not keys:
        return
    if max(map(len, keys)) >= LONG - 1:
        rows = _without_long_ones(rows, transaction, overflow)
        keys = [key for key in keys if key in rows]
    stored = keys
    if keys and keys[0] < PLAIN:  # such as are not stored as they are: all keep their order
        stored = list(map(stored_key, keys))
    values = list(map(rows.__getitem__, keys))
    if None in values:
        for key, value in zip(stored, values, strict=True):
            if value is None:
                transaction.delete(key, db=database)
        stored = [key for key, value in zip(stored, values, strict=True) if value is not None]
        values = [value for value in values if value is not None]
    if stored:
        _put_sorted(stored[0], zip(stored, values, strict=True), transaction, database)


def load(rows: SortedRows, transaction: Any, database: Any, _overflow: Any) -> None:
    """Put rows in order."""
    stored = rows.stored()
    _put_sorted(next(iter(stored))[0], iter(stored), transaction, database)


def _put_sorted(first: bytes, rows: Iterator[tuple[bytes, bytes | None]], transaction: Any, database: Any) -> None:
    """Put rows in ascending order; after all that are there, without looking for the place of each."""
    cursor = transaction.cursor(database)
    after = not cursor.last() or cursor.key() < first
    cursor.putmulti(rows, append=after)


def _without_long_ones(rows: dict[bytes, bytes | None], transaction: Any, overflow: Any) -> dict[bytes, bytes | None]:
    """Write the rows whose keys live in buckets; return the others."""
    others: dict[bytes, bytes | None] = {}
    for key, value in rows.items():
        stored = stored_key(key)
        if len(stored) >= LONG:
            _put_long(transaction, overflow, stored[:LONG], key, value)
        else:
            others[key] = value
    return others


def _put_long(transaction: Any, overflow: Any, prefix: bytes, key: bytes, value: bytes | None) -> None:
    rows = unpack_bucket(transaction.get(prefix, b"", overflow))
    if value is None:
        rows.pop(key, None)
    else:
        rows[key] = value
    if rows:
        transaction.put(prefix, pack_bucket(rows), db=overflow)
    else:
        transaction.delete(prefix, db=overflow)
