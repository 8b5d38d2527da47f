"""The envelope: rows that travel between the steps of an epoch and back to the driver, as Arrow.

One schema for all of them, so that rows already final ride through the later steps untouched::

    kind       int8      RECORD for a later step, SINK, CHANGELOG, or NOTE for the driver
    lane       int32     RECORD: the lane of its shard, by which the exchange sends it
    name       string    RECORD: source node; SINK: topic; CHANGELOG: store; NOTE: what it is about
    partition  int32     SINK: partition, −1 for the producer's choice; RECORD, CHANGELOG: shard
    key, value binary    as Kafka has them; null is null
    timestamp  int64
    headers    binary    msgpack of [[name, value], ...]; null: none
    place      binary    RECORD: where it came from and its order among its siblings (msgpack); else null

Contract: a writer checks with ``check_row`` nothing per row; the reader checks the schema once per batch (``rows_of``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
import pyarrow as pa

from penstock.record import Headers, Origin

RECORD, SINK, CHANGELOG, NOTE = range(4)

SCHEMA = pa.schema(
    [
        pa.field("kind", pa.int8(), nullable=False),
        pa.field("lane", pa.int32(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("headers", pa.binary()),
        pa.field("place", pa.binary()),
    ]
)
#: rows of one Arrow batch
BATCH = 10_000

_encode = msgspec.msgpack.Encoder().encode
_decode_headers = msgspec.msgpack.Decoder(tuple[tuple[str, bytes | None], ...]).decode


class EnvelopeRow(NamedTuple):
    """One row; the fields are the columns in their order."""

    kind: int
    lane: int
    name: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: bytes | None = None
    place: bytes | None = None


class Place(NamedTuple):
    """The origin of a re-keyed record, and its position among what its source record gave rise to."""

    origin: Origin
    sub: tuple[int, ...]


class _Packed(msgspec.Struct, array_like=True):
    topic: str | None
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition_index: int
    floor: int
    reached: int
    sub: tuple[int, ...]


_decode_place = msgspec.msgpack.Decoder(_Packed).decode


def pack_headers(headers: Headers) -> bytes | None:
    """Return headers as bytes; none is null.

    >>> unpack_headers(pack_headers((("a", b"1"), ("a", None))))
    (('a', b'1'), ('a', None))
    >>> pack_headers(()) is None
    True
    """
    return _encode(headers) if headers else None


def unpack_headers(data: bytes | None) -> Headers:
    """Return the headers that ``pack_headers`` made."""
    return () if data is None else _decode_headers(data)


def pack_place(origin: Origin, sub: tuple[int, ...]) -> bytes:
    """Return an origin and a position as bytes.

    >>> from penstock.record import Origin
    >>> origin = Origin("t", 1, 7, 5, b"k", None, (), 1, 4, 5)
    >>> unpack_place(pack_place(origin, (0, 2))) == Place(origin, (0, 2))
    True
    """
    return _encode((*origin, sub))


def unpack_place(data: bytes) -> Place:
    """Return what ``pack_place`` packed."""
    p = _decode_place(data)
    origin = Origin(
        p.topic, p.partition, p.offset, p.timestamp, p.key, p.value, p.headers, p.partition_index, p.floor, p.reached
    )
    return Place(origin, p.sub)


def batches_of(rows: Iterable[EnvelopeRow]) -> Iterator[pa.RecordBatch]:
    """Return rows as Arrow batches of the schema; no rows, no batch."""
    waiting: list[EnvelopeRow] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == BATCH:
            yield _batch(waiting)
            waiting = []
    if waiting:
        yield _batch(waiting)


def _batch(rows: list[EnvelopeRow]) -> pa.RecordBatch:
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def rows_of(batch: pa.RecordBatch) -> Iterator[EnvelopeRow]:
    """Return the rows of a batch; a batch of another shape is refused."""
    if batch.schema.names != SCHEMA.names:
        raise TypeError(f"not an envelope: its columns are {batch.schema.names}, expected {SCHEMA.names}")
    columns = [column.to_pylist() for column in batch.columns]
    return map(EnvelopeRow._make, zip(*columns, strict=True))
