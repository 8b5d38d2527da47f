"""Raw rows and envelope rows as batches, in the order of a lane."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.lane.mixed import Mixes, Sorted, SourceRun, Work, never, split_runs
from penstock.lane.ordering import (
    MadeOrigins,
    NumberedOrigins,
    Origins,
    ShortRun,
    SourceBatch,
    SourceRows,
    numbers,
    order_by,
    raw_headers,
)
from penstock.protocol.envelope import COUNTED, unpack_headers, unpack_place, unpack_places
from penstock.record import Headers


def _whole(column: Any) -> pa.Array:
    """Return a column in one piece."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def _taken(table: pa.Table, order: Any) -> pa.Table:
    """Return rows in an order; those that are in it already are not copied."""
    if len(order) == len(table) and (order == np.arange(len(order))).all():
        return table
    return table.take(pa.array(order))


def raw_batches(
    rows: SourceRows,
    topics: Sequence[str],
    source_of: dict[str, str],
    mixes: Mixes = never,
    *,
    as_read: bool = False,
) -> Iterator[Work]:
    """Return raw rows whose times are known as batches in the order of a lane, shard by shard.

    ``as_read``: there is no order between partitions to keep, the rows of each are together.
    """
    if not len(rows.table):
        return
    if as_read and (rows.topic == rows.topic[0]).all():
        order = np.arange(len(rows.topic))
    else:
        order = order_by((rows.offset, rows.partition, rows.topic, rows.reached, rows.shard))
    nodes = [source_of[name] for name in topics]
    known = sorted(set(nodes))
    source_of_topic = np.array([known.index(node) for node in nodes], dtype=np.int64)
    code = source_of_topic[rows.topic[order]]
    yield from Sorted(order, rows.shard[order], code, known, partial(RawRows, rows, topics)).work(mixes)


class RawRows:
    """Raw rows in an order."""

    def __init__(self, rows: SourceRows, topics: Sequence[str], order: Any) -> None:
        self._topics = topics
        self._table = _taken(rows.table.select(["key", "value", "headers"]), order)
        self._plain = self._table["headers"].null_count == len(self._table)
        found = {name: getattr(rows, name)[order] for name in ("topic", "partition", "offset", "timestamp", "reached")}
        found["index"] = found["partition"]
        self._numbers = found

    def batch(self, part: slice, shard: int, source: str) -> SourceBatch:
        """Return rows that follow each other."""
        key, value = (_whole(self._table[name][part]) for name in ("key", "value"))
        headers = None if self._plain else cache(partial(raw_headers, self._table["headers"][part]))
        numbers_of_part = {name: column[part] for name, column in self._numbers.items()}
        origins = NumberedOrigins(self._topics, numbers_of_part, (key, value, headers))
        return SourceBatch(shard, source, (key, value, numbers_of_part["timestamp"]), headers, origins)

    cut = staticmethod(split_runs)


def envelope_batches(table: pa.Table, topics: Sequence[str], mixes: Mixes = never) -> Iterator[Work]:
    """Return re-keyed records as batches in the order of a lane, shard by shard."""
    if not len(table):
        return
    shards, kind = numbers(table["partition"]), numbers(table["kind"])
    places = unpack_places(_whole(table["place"]))
    if places is None:
        keys = [("partition", "ascending"), ("place", "ascending")]
        order = pc.sort_indices(table, sort_keys=keys).to_numpy()
    else:
        by = [places[name] for name in ("offset", "partition", "topic", "reached")]
        subs = list(places["sub"].T[::-1]) if "sub" in places else []  # what has none comes before its siblings
        order = order_by((*subs, *by, shards))
    names = _whole(table["name"]).dictionary_encode()
    sources = [name for name in names.dictionary.to_pylist() for _ in range(2)]
    counted = kind[order] == COUNTED
    code = names.indices.to_numpy()[order].astype(np.int64) * 2 + counted  # odd: what stands for many records
    take = partial(EnvelopeRows, table, topics, places)
    yield from Sorted(order, shards[order], code, sources, take).work(never if counted.any() else mixes)


class EnvelopeRows:
    """Re-keyed records in an order."""

    def __init__(self, table: pa.Table, topics: Sequence[str], places: dict[str, Any] | None, order: Any) -> None:
        self._topics = topics
        self._table = _taken(table, order)
        self._times = numbers(self._table["timestamp"])
        self._places = None if places is None else {name: column[order] for name, column in places.items()}
        self._plain = self._table["headers"].null_count == len(self._table)

    def batch(self, part: slice, shard: int, source: str) -> SourceBatch:
        """Return rows that follow each other."""
        columns = _whole(self._table["key"][part]), _whole(self._table["value"][part]), self._times[part]
        return SourceBatch(shard, source, columns, self._headers(part), self._origins(part))

    def _headers(self, part: slice) -> Callable[[], list[Headers]] | None:
        return None if self._plain else cache(partial(_unpacked, self._table["headers"][part]))

    def _origins(self, part: slice) -> Origins:
        if self._places is None:
            return MadeOrigins([unpack_place(place, self._topics) for place in self._table["place"][part].to_pylist()])
        return NumberedOrigins(self._topics, {name: column[part] for name, column in self._places.items()})

    @staticmethod
    def cut(batch: SourceBatch, runs: list[SourceRun]) -> Iterator[SourceBatch | ShortRun]:
        """Yield a batch or its runs; what stands for many records goes by column, however few there are."""
        if not any(run.code % 2 for run in runs):
            yield from split_runs(batch, runs)
            return
        for begin, end, shard, source, code in runs:
            yield batch.part(slice(begin, end), shard, source, counted=bool(code % 2))


def _unpacked(packed: Any) -> list[Headers]:
    return [unpack_headers(headers) for headers in packed.to_pylist()]
