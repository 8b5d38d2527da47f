"""A batch: thousands of records by column, as the kernels of a chain hand them on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.batch.column import Column
from penstock.batch.fallback import Undecodable
from penstock.batch.provenance import Provenance
from penstock.errors import RegistryError
from penstock.record import Headers, Origin
from penstock.serde.base import Serde


class Batch:
    """Records of one shard on their way through a chain, in order.

    ``headers`` None: no record has any. ``rows``: the source record of each, by its place in the batch; None: one for each.
    ``shared``: other nodes have the same objects. ``counts``: how many records each stands for, None: itself. ``old``: of updates of a
    table whose readers ask for them, the values before.
    """

    __slots__ = ("counts", "headers", "keys", "old", "provenance", "rows", "shared", "timestamps", "values")

    def __init__(
        self,
        keys: Column,
        values: Column,
        timestamps: Any,
        headers: Sequence[Headers] | None,
        provenance: Provenance,
        rows: Any = None,
        shared: bool = False,
        counts: Any = None,
        old: Column | None = None,
    ) -> None:
        self.keys = keys
        self.values = values
        self.timestamps = timestamps
        self.headers = headers
        self.provenance = provenance
        self.rows = rows
        self.shared = shared
        self.counts = counts
        self.old = old

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def size(self) -> int:
        """Size of keys and values, in bytes."""
        return self.keys.size + self.values.size

    @property
    def count(self) -> int:
        """How many records there are, with all that each stands for."""
        return len(self.timestamps) if self.counts is None else int(self.counts.sum())

    def origin(self, at: int) -> Origin:
        """Return the origin of a record."""
        return self.provenance.origin(at if self.rows is None else int(self.rows[at]))

    @property
    def places(self) -> Any:
        """The place of each record: among all that go together, or else of its source record in the batch."""
        places = self.provenance.places
        if places is None:
            return np.arange(len(self)) if self.rows is None else self.rows
        return self.of_source(places)

    def of_source(self, column: Any) -> Any:
        """Return a column of the source records as one of these records."""
        return column if self.rows is None else column[self.rows]

    def as_shared(self) -> Batch:
        """Return the same records, for several nodes."""
        return Batch(
            self.keys, self.values, self.timestamps, self.headers, self.provenance, self.rows, True, old=self.old
        )

    def having(self, keys: Column | None = None, values: Column | None = None) -> Batch:
        """Return the same records with other keys or values."""
        keys, values = keys or self.keys, values or self.values
        return Batch(keys, values, self.timestamps, self.headers, self.provenance, self.rows, self.shared)

    def check(self) -> None:
        """Raise ``Undecodable`` if some of it, which nobody may have asked for, cannot be read."""
        self.keys.check()
        self.values.check()

    def records(self) -> Iterator[tuple[Any, Any, int, Headers, Origin]]:
        """Yield the records one by one: key, value, timestamp, headers, origin."""
        headers = [()] * len(self) if self.headers is None else self.headers
        origins = map(self.origin, range(len(self)))
        yield from zip(self.keys.items, self.values.items, self.timestamps.tolist(), headers, origins, strict=True)

    def pick(self, at: list[int]) -> Batch:
        """Return the records at these places."""
        return self.spread(at, self.keys.pick(at), self.values.pick(at))

    def unchanged(self) -> Batch | None:
        """Return the records as they were, whatever functions have done to them; None if nothing says what they were.

        Nor does anything say how they would be if other nodes have them, too: which functions have had their turn, and which have not.
        """
        if self.shared and not self.values.is_fixed:
            return None
        keys, values = self.keys.unchanged(), self.values.unchanged()
        return None if keys is None or values is None else self.having(keys, values)

    def at(self, places: Any, timestamps: Any) -> Batch:
        """Return the records at these places, with timestamps of their own."""
        picked = self.pick(places.tolist())
        picked.timestamps = timestamps
        return picked

    def spread(self, at: list[int], keys: Column, values: Column) -> Batch:
        """Return records that have come of those at these places, with keys and values of their own."""
        places = np.array(at, dtype=np.int64)
        headers = None if self.headers is None else [self.headers[i] for i in at]
        rows = places if self.rows is None else self.rows[places]
        return Batch(keys, values, self.timestamps[places], headers, self.provenance, rows, self.shared)


def rows_of(column: Column, serde: Serde[Any], *, read: bool = False) -> tuple[pa.Array, dict[int, Exception]]:
    """Return items as bytes, null where the serde raises, and what it raises there, by place.

    >>> from penstock.serde import Serdes
    >>> rows, refused = rows_of(Column([1, {2}, None]), Serdes.json)
    >>> rows.to_pylist(), list(refused)
    ([b'1', None, None], [1])
    """
    try:
        return column.arrow_of(serde, read=read), {}
    except (Undecodable, RegistryError):
        raise
    except Exception:  # whatever it raises: each item is asked for by itself
        refused: dict[int, Exception] = {}
    rows: list[bytes | None] = []
    for place, item in enumerate(column.items):
        try:
            rows.append(None if item is None else serde.serialize(item))
        except Exception as error:
            refused[place] = error
            rows.append(None)
    return pa.array(rows, pa.binary()), refused
