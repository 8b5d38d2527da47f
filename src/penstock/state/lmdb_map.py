"""One map of bytes in a shard's LMDB environment: how it is read, and what a write of it does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from heapq import merge
from itertools import islice, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock.state.base import OrderedRows, prefix_end
from penstock.state.lmdb_format import LONG, PLAIN, stored_key, unpack_bucket, user_key
from penstock.state.lmdb_write import load, put_all
from penstock.state.sorted_run import SortedRun, find_column, loops

if TYPE_CHECKING:
    from penstock.state.lmdb_snapshot import LmdbSnapshot
    from penstock.state.lmdb_store import LmdbState

Row: TypeAlias = tuple[bytes, bytes]
Write: TypeAlias = tuple[bytes, bytes | None]
CHUNK = 256  # rows fetched at a time while a range is iterated


class LmdbMap:
    """One ordered map of bytes in an LMDB environment: single rows above runs of many (``runs``)."""

    __slots__ = ("_database", "_overflow", "_runs", "_state", "name")

    def __init__(
        self,
        state: LmdbState | LmdbSnapshot,
        name: str,
        entry: tuple[Any, Any, tuple[int, ...]] | None = None,
    ) -> None:
        """``entry``: its databases and runs; None: it is not written yet."""
        self.name = name
        self._state = state
        self._database: Any
        self._overflow: Any
        self._runs: tuple[int, ...]
        self._database, self._overflow, self._runs = entry or (None, None, ())

    def get(self, key: bytes) -> bytes | None:
        """Return the value or None."""
        view = self._state._view
        if view is None:
            view = self._state.look()
        if self._database is None:
            return None
        stored = key if key and key[0] else b"\x00" + key
        if len(stored) < LONG:
            value: bytes | None = view.get(stored, None, self._database)
            if value is None and self._runs:
                value = loops.find(self._state.runs(self._runs), key)
            return value
        bucket = view.get(stored[:LONG], None, self._overflow)
        return None if bucket is None else unpack_bucket(bucket).get(key)

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the value or None of each key, in their order.

        One after the other: to sort them first, or to ask by a cursor, costs more than it saves (measured with 12,500 and with
        100,000 of 312,000 rows). Keys that are in order already are found in half of the time.
        """
        view = self._state.look()
        if self._database is None or not keys:
            return [None] * len(keys)
        if self._runs:
            return self.column(pa.array(keys, pa.binary())).to_pylist()  # type: ignore[no-any-return]
        return self._single(view, keys)

    def _single(self, view: Any, keys: list[bytes]) -> list[bytes | None]:
        """Return what LMDB has of each key by itself."""
        if min(keys) < PLAIN or max(map(len, keys)) >= LONG:
            return list(map(self.get, keys))
        return list(map(view.get, keys, repeat(None), repeat(self._database)))

    def column(self, names: pa.Array) -> pa.Array:
        """Return the value of each key, null where there is none, by column."""
        view = self._state.look()
        if not self._runs:
            return pa.array(self.get_many(names.to_pylist()), pa.binary())
        found = find_column(self._state.runs(self._runs), names)
        if not len(names) or not (view.stat(self._database)["entries"] or self._has_long_keys()):
            return found
        return pc.coalesce(pa.array(self._single(view, names.to_pylist()), pa.binary()), found)

    def range(self, lower: bytes | None, upper: bytes | None, reverse: bool = False) -> Iterator[Row]:
        """Iterate lower <= key < upper (None: open end) in key order, or backwards."""
        rows = self._rows(lower, upper, reverse)
        self._state.look()
        if not self._has_long_keys():
            return rows
        return merge(rows, self._long_rows(lower, upper, reverse), key=itemgetter(0), reverse=reverse)

    def under(self, prefixes: list[bytes]) -> list[list[Row]]:
        """Return the rows whose keys begin with each prefix, in key order: one cursor goes from each to the next."""
        database = self._databases()[0]
        if database is None:
            return [[] for _ in prefixes]
        if self._runs or self._has_long_keys() or not all(0 < len(prefix) < LONG - 1 for prefix in prefixes):
            return [list(self.range(prefix, prefix_end(prefix))) for prefix in prefixes]
        with self._state.look().cursor(database) as cursor:
            return [_beginning(cursor, stored_key(prefix)) for prefix in prefixes]

    def count(self) -> int:
        """Return the number of entries."""
        database, overflow = self._databases()
        if database is None:
            return 0
        total: int = self._state.look().stat(database)["entries"]
        if self._runs:
            total += loops.count(self._state.runs(self._runs)) - self._in_both(database)
        if self._has_long_keys():
            total += sum(len(unpack_bucket(bucket)) for _, bucket in self._walk(overflow, b"", None, False))
        return total

    def _in_both(self, database: Any) -> int:
        """Return how many single rows hide one of the runs."""
        with self._state.look().cursor(database) as cursor:
            keys = pa.array(map(user_key, cursor.iternext(values=False)), pa.binary())
        found = find_column(self._state.runs(self._runs), keys)
        return len(found) - int(found.null_count)

    def write(self, rows: Iterable[Write]) -> None:
        """Put every row (value None: delete), atomically."""
        newest = dict(rows)
        if newest:
            self._state.run(self.name, partial(put_all, newest))

    def load(self, rows: OrderedRows | SortedRun) -> None:
        """Put every row, atomically: keys ascend, and none is so long that it is stored in a bucket."""
        if len(rows):
            self._state.make_room(2 * rows.size)
            self._state.run(self.name, partial(load, rows))

    def _databases(self) -> tuple[Any, Any]:
        self._state.look()
        return self._database, self._overflow

    def _has_long_keys(self) -> bool:
        return self._overflow is not None and self._state.look().stat(self._overflow)["entries"] > 0

    def _rows(self, lower: bytes | None, upper: bytes | None, reverse: bool) -> Iterator[Row]:
        """Iterate rows but those with long keys, in chunks: a write in between ends the read view, and the next one takes a new one."""
        while True:
            rows, last = self._chunk(lower, upper, reverse)
            yield from rows
            if last is None:
                return
            if reverse:
                upper = last
            else:
                lower = last + b"\x00"

    def _chunk(self, lower: bytes | None, upper: bytes | None, reverse: bool) -> tuple[list[Row], bytes | None]:
        """Return the next rows and, if there may be more, the key up to which these are all. Single rows hide those of runs."""
        view = self._state.look()
        if self._database is None:
            return [], None
        low, high = (None if key is None else stored_key(key) for key in (lower, upper))
        with view.cursor(self._database) as cursor:
            single = list(islice(_steps(cursor, low or b"", high, reverse), CHUNK))
        if single and (single[0][0][0] == 0 or single[-1][0][0] == 0):  # in order: where neither has a zero, none has
            single = [(user_key(key), value) for key, value in single]
        parts = [single]
        if self._runs:
            parts.append(loops.rows(self._state.runs(self._runs), lower, upper, reverse, CHUNK))
        ends = [part[-1][0] for part in parts if len(part) == CHUNK]
        last = None if not ends else max(ends) if reverse else min(ends)
        if not self._runs:
            return single, last
        rows = sorted((dict(parts[1]) | dict(single)).items(), reverse=reverse)
        return [row for row in rows if last is None or (row[0] >= last if reverse else row[0] <= last)], last

    def _long_rows(self, lower: bytes | None, upper: bytes | None, reverse: bool) -> Iterator[Row]:
        low, high = b"" if lower is None else stored_key(lower), None if upper is None else stored_key(upper)
        for _, bucket in self._walk(
            self._overflow, low[:LONG], None if high is None else high[:LONG] + b"\x00", reverse
        ):
            rows = list(unpack_bucket(bucket).items())
            for key, value in reversed(rows) if reverse else rows:
                if (lower is None or key >= lower) and (upper is None or key < upper):
                    yield key, value

    def _walk(self, database: Any, low: bytes, high: bytes | None, reverse: bool) -> Iterator[Row]:
        """Iterate stored rows in chunks; a write in between ends the read view, and the next chunk takes a new one."""
        while database is not None:
            with self._state.look().cursor(database) as cursor:
                chunk = list(islice(_steps(cursor, low, high, reverse), CHUNK))
            yield from chunk
            if len(chunk) < CHUNK:
                return
            if reverse:
                high = chunk[-1][0]
            else:
                low = chunk[-1][0] + b"\x00"


def _beginning(cursor: Any, stored: bytes) -> list[Row]:
    """Return the rows whose stored keys begin so."""
    found: list[Row] = []
    for row in cursor.iternext() if cursor.set_range(stored) else ():
        if not row[0].startswith(stored):
            break
        found.append(row)
    return found if stored[0] else [(key[1:], value) for key, value in found]


def _steps(cursor: Any, low: bytes, high: bytes | None, reverse: bool) -> Iterator[Row]:
    # set_range refuses keys over LMDB's limit; cutting the low end only starts the walk earlier
    if reverse:
        return _steps_back(cursor, low, high)
    found = cursor.set_range(low[:LONG]) if low else cursor.first()
    steps: Iterator[Row] = cursor.iternext() if found else iter(())
    return steps if high is None and len(low) <= LONG else _steps_between(steps, low, high)


def _steps_between(steps: Iterator[Row], low: bytes, high: bytes | None) -> Iterator[Row]:
    for key, value in steps:
        if high is not None and key >= high:
            return
        if key >= low:
            yield key, value


def _steps_back(cursor: Any, low: bytes, high: bytes | None) -> Iterator[Row]:
    found = cursor.last() if high is None or not cursor.set_range(high[:LONG]) else True
    for key, value in cursor.iterprev() if found else ():
        if key < low:
            return
        if high is None or key < high:
            yield key, value
