"""Rows by column become record batches, one open batch for each partition; the loop is in C (``native/_record_batches.c``).

A batch is open until it is full or wanted. Batches that have arrived are used again: to make memory new costs as much as to fill it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.kafka_wire.protocol.primitives import TopicPartition
from penstock.kafka_wire.protocol.requests import Identity
from penstock.kafka_wire.settings import CODECS, ProducerSettings
from penstock.native.columns import column_of
from penstock.native.loader import loop
from penstock.native.record_batches import FRAME, Headers, PartitionedRows, RecordBatch

loops = loop("record_batches")

#: a row to write: topic, partition (None: by the key), key, value, timestamp in milliseconds, headers
Row: TypeAlias = tuple[str, int | None, bytes | None, bytes | None, int, Headers]
#: rows for one topic by column: topic; partitions (int32, −1 where the key decides; None: it decides always); arrays of keys and of values;
#: timestamps (int64); headers (None: no row has any)
RowColumns: TypeAlias = tuple[str, Any, pa.Array, pa.Array, Any, Sequence[Headers] | None]
#: memory of batches that are not in use is kept up to this many bytes
KEPT_BYTES = 64 << 20


@dataclass(slots=True)
class PartitionBatches:
    """The batches of one partition: those under way, in order, and after them the one that is open."""

    partition: TopicPartition
    #: of the next row
    sequence: int = 0
    #: whether its leader has taken a batch of this identity. Until then it would take any sequence number, not only the first
    is_known: bool = False
    open: RecordBatch | None = None
    under_way: deque[RecordBatch] = field(default_factory=deque)


def rows_of(columns: RowColumns, spread: int, first: int) -> PartitionedRows:
    """Return rows as the loop takes them, by the partition that they go to."""
    _, partitions, keys, values, times, headers = columns
    made: PartitionedRows = loops.PartitionedRows(
        len(times), partitions, column_of(keys), column_of(values), times, headers, spread, first
    )
    return made


def columns_of(rows: list[Row]) -> Iterator[RowColumns]:
    """Yield rows by column, those of one topic together; nobody sees the order of two topics."""
    topics: dict[str, list[Row]] = {}
    for row in rows:
        topics.setdefault(row[0], []).append(row)
    for topic, its in topics.items():
        _, numbers, keys, values, times, headers = zip(*its, strict=True)
        partitions = np.array([-1 if number is None else number for number in numbers], np.int32)
        key_column, value_column = pa.array(keys, pa.binary()), pa.array(values, pa.binary())
        yield topic, partitions, key_column, value_column, np.array(times, np.int64), headers if any(headers) else None


def row_at(columns: RowColumns, at: int) -> Row:
    """Return one of the rows."""
    topic, partitions, keys, values, times, headers = columns
    partition = None if partitions is None or partitions[at] < 0 else int(partitions[at])
    return topic, partition, keys[at].as_py(), values[at].as_py(), int(times[at]), headers[at] if headers else ()


class Batches:
    """Makes batches, seals them, and takes them back."""

    def __init__(self, settings: ProducerSettings) -> None:
        self._limit = settings.batch_bytes
        self._largest = settings.largest
        self._free: list[RecordBatch] = []
        self._kept = 0
        self._number = CODECS[settings.codec]
        self._codec: Any = None
        if self._number:
            self._codec = pa.Codec(settings.codec, compression_level=settings.level)

    def add(self, stream: PartitionBatches, rows: PartitionedRows, first: int, last: int) -> int:
        """Add rows to the open batch until it is full; return the first that is not in it. A row that does not fit alone is not."""
        if stream.open is None:
            stream.open = self._new()
        return stream.open.add(rows, first, last, self._limit, self._largest)

    def seal(self, stream: PartitionBatches, identity: Identity, *, transactional: bool) -> RecordBatch | None:
        """Close the open batch of a partition and number its rows; None if there is none."""
        batch, stream.open = stream.open, None
        if batch is None or batch.count == 0:
            return None
        if self._codec is not None:
            with memoryview(batch) as whole, whole[FRAME:] as records:
                packed = self._codec.compress(records)
            batch.replace(packed)
        batch.seal(*identity, stream.sequence, transactional, self._number)
        stream.sequence = (stream.sequence + batch.count) & 0x7FFFFFFF
        return batch

    def take_back(self, batch: RecordBatch | None) -> None:
        """Be given a batch that nobody needs any more."""
        if batch is not None and self._kept < KEPT_BYTES:
            self._kept += len(batch)
            batch.clear()
            self._free.append(batch)

    def _new(self) -> RecordBatch:
        batch: RecordBatch = self._free.pop() if self._free else loops.RecordBatch()
        if not self._free:
            self._kept = 0
        return batch
