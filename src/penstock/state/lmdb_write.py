"""Rows into a database of LMDB, inside a transaction: in any order, or in bulk."""

from __future__ import annotations

from typing import Any

from penstock.state.base import SortedRows
from penstock.state.lmdb_format import LONG, pack_bucket, stored_key, unpack_bucket


def put_all(rows: dict[bytes, bytes | None], transaction: Any, database: Any, overflow: Any) -> None:
    """Put rows in any order (None: delete)."""
    puts: dict[bytes, bytes] = {}
    for key, value in rows.items():
        stored = key if key and key[0] else stored_key(key)
        if len(stored) >= LONG:
            _put_long(transaction, overflow, stored[:LONG], key, value)
        elif value is None:
            transaction.delete(stored, db=database)
        else:
            puts[stored] = value
    # LMDB writes neighbours much faster
    transaction.cursor(database).putmulti([(stored, puts[stored]) for stored in sorted(puts)])


def load(rows: SortedRows, transaction: Any, database: Any, _overflow: Any) -> None:
    """Put rows in order; after all that are there, without looking for the place of each."""
    cursor = transaction.cursor(database)
    after = not cursor.last() or cursor.key() < next(iter(rows))[0]
    cursor.putmulti(iter(rows), append=after)


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
