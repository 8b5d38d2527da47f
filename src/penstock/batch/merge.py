"""Records by column that come from several sources, brought together in the order of their places."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.batch.provenance import Provenance, are_alike
from penstock.record import Origin


def merge_batches(parts: Sequence[Batch], turns: Sequence[Any] | None = None) -> Batch:
    """Return the records of all parts, by their turns, or else by the places of their source records; equal ones stay in their order."""
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate(turns or [part.places for part in parts]), kind="stable")
    edges = np.cumsum([0, *(part.provenance.count for part in parts)])
    rows = [_rows(part) + edge for part, edge in zip(parts, edges.tolist(), strict=False)]
    headers = None
    if any(part.headers is not None for part in parts):
        found = [one for part in parts for one in part.headers or [()] * len(part)]
        headers = [found[at] for at in order.tolist()]
    return Batch(
        _merged([part.keys for part in parts], order),
        _merged([part.values for part in parts], order),
        np.concatenate([part.timestamps for part in parts])[order],
        headers,
        _provenance([part.provenance for part in parts], edges.tolist()),
        np.concatenate(rows)[order],
        any(part.shared for part in parts),
    )


def _rows(columns: Batch) -> Any:
    return np.arange(len(columns)) if columns.rows is None else columns.rows


def _merged(columns: Sequence[Column], order: Any) -> Column:
    """Return the items of all columns in an order; bytes stay bytes where all are alike."""
    whole = Column.joined(columns)
    return whole.pick(order.tolist())


def _provenance(parts: Sequence[Provenance], edges: list[int]) -> Provenance:
    """Return the source records of all parts, one part behind the other."""

    def origin(at: int) -> Origin:
        part = bisect_right(edges, at) - 1
        return parts[part].origin(at - edges[part])

    def indexes() -> Any:
        return np.concatenate([part.indexes() for part in parts])

    known = [part.arrays for part in parts if part.arrays is not None]
    arrays = None
    if len(known) == len(parts) and are_alike(known):
        arrays = {name: np.concatenate([one[name] for one in known]) for name in known[0]}
    provenance = Provenance(
        origin, indexes, lambda: np.concatenate([part.times() for part in parts]), edges[-1], arrays
    )
    sizes = np.diff(edges).tolist()
    places = [np.arange(size) if part.places is None else part.places for part, size in zip(parts, sizes, strict=True)]
    provenance.places = np.concatenate(places)
    return provenance


def binary(data: pa.Array | list[bytes | None]) -> pa.Array:
    """Return bytes as a column of the one type that all columns of bytes have that are to be put together."""
    if not isinstance(data, pa.Array):
        return pa.array(data, pa.binary())
    return data if data.type == pa.binary() else data.cast(pa.binary())
