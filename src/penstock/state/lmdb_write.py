"""Rows into a map of LMDB, inside a transaction: in any order one by one, or in bulk as a run (``runs``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from penstock.native.loader import in_c
from penstock.state import sorted_run as runs
from penstock.state.base import OrderedRows
from penstock.state.lmdb_format import LONG, PLAIN, pack_bucket, run_key, stored_key, unpack_bucket, user_key
from penstock.state.sorted_run import SortedRun, loops

#: whether runs are made: with the Python twin they are only read
is_built = in_c("sorted_runs") is not None

#: so many rows in order are a run; fewer cost less one by one, now and when they are read
BULK = 1024
#: single rows that become columns at a time
SLICE = 50_000


@dataclass(slots=True)
class OpenMap:
    """A map inside a transaction of writing: where its rows are. Values that are read here are views, which end with the transaction."""

    transaction: Any
    #: single rows, those with long keys, and the runs of all maps
    database: Any
    overflow: Any
    run_values: Any
    #: the numbers of its runs, newest first; who changes them says so here
    runs: tuple[int, ...] = ()

    def run(self, number: int) -> Any:
        """Return a run."""
        return self.transaction.get(run_key(number), None, self.run_values)

    def add_run(self, run: bytes) -> None:
        """Put a run above the others; those that are not much larger are merged into it."""
        older = list(map(self.run, self.runs))
        taken = runs.how_many_to_merge(runs.size_of(run), ((runs.size_of(one), len(one)) for one in older))
        left = self.runs[taken:]
        if taken or (runs.has_deleted(run) and not left):
            run = loops.merge([run, *older[:taken]], bool(left))
        del older
        self.drop_runs(self.runs[:taken])
        if runs.size_of(run):
            with self.transaction.cursor(self.run_values) as cursor:
                number = int.from_bytes(cursor.key(), "big") + 1 if cursor.last() else 0
            self.transaction.put(run_key(number), run, db=self.run_values)
            left = (number, *left)
        self.runs = left

    def drop_runs(self, numbers: tuple[int, ...]) -> None:
        """Delete runs."""
        for number in numbers:
            self.transaction.delete(run_key(number), db=self.run_values)


def empty(place: OpenMap) -> None:
    """Delete all rows."""
    for database in (place.database, place.overflow):
        place.transaction.drop(database, delete=False)
    place.drop_runs(place.runs)
    place.runs = ()


def put_all(rows: dict[bytes, bytes | None], place: OpenMap) -> None:
    """Put rows in any order (None: delete)."""
    transaction, database = place.transaction, place.database
    keys = sorted(rows)  # LMDB writes neighbours much faster
    if not keys:
        return
    if max(map(len, keys)) >= LONG - 1:
        rows = _without_long_ones(rows, transaction, place.overflow)
        keys = [key for key in keys if key in rows]
    if place.runs:
        _delete_from_runs([key for key in keys if rows[key] is None], place)
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


def load(rows: OrderedRows | SortedRun, place: OpenMap) -> None:
    """Put rows in order; those of a run may be deleted."""
    if is_built and len(rows) >= BULK:
        run = rows.run if isinstance(rows, SortedRun) else runs.pack(rows.names, rows.values)
        _make_runs_of_single_rows(place)
        place.add_run(run)
        return
    if isinstance(rows, SortedRun):
        put_all(dict(rows), place)
        return
    stored = rows.stored()
    _put_sorted(next(iter(stored))[0], iter(stored), place.transaction, place.database)


def _make_runs_of_single_rows(place: OpenMap) -> None:
    """Make a run of the rows that LMDB has one by one: they are newer than the other runs, and older than the next."""
    parts = []
    with place.transaction.cursor(place.database) as cursor:
        rows = cursor.iternext()
        while some := list(islice(rows, SLICE)):
            keys = [user_key(bytes(key)) for key, _ in some]
            parts.append((pa.array(keys, pa.large_binary()), pa.array([value for _, value in some], pa.large_binary())))
    if parts:
        run = runs.pack(*(pa.concat_arrays(columns) for columns in zip(*parts, strict=True)))
        place.transaction.drop(place.database, delete=False)
        place.add_run(run)


def _delete_from_runs(keys: list[bytes], place: OpenMap) -> None:
    """Hide rows of the runs."""
    names = pa.array(keys, pa.binary())
    there = runs.find_column(list(map(place.run, place.runs)), names).is_valid()
    names = names.filter(there)
    if len(names):
        place.add_run(runs.pack(names, pa.nulls(len(names), pa.binary())))


def _put_sorted(first: bytes, rows: Iterator[tuple[bytes, bytes | None]], transaction: Any, database: Any) -> None:
    """Put rows in ascending order; after all that are there, without looking for the place of each."""
    cursor = transaction.cursor(database)
    after = not cursor.last() or bytes(cursor.key()) < first
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
    rows = unpack_bucket(bytes(transaction.get(prefix, b"", overflow)))
    if value is None:
        rows.pop(key, None)
    else:
        rows[key] = value
    if rows:
        transaction.put(prefix, pack_bucket(rows), db=overflow)
    else:
        transaction.delete(prefix, db=overflow)
