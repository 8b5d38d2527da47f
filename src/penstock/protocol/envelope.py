"""The envelope: rows that travel between the steps of an epoch and back to the driver, as Arrow.

One schema for all of them, so that rows already final ride through the later steps untouched::

    kind       int8      RECORD, COUNTED, PENDING, CHANGES for a later step; SINK, CHANGELOG, NOTE, FAILURE for the driver
    route      int64     for a later step: the shard, by which the exchange sends it; else the order of the row in the epoch
    name       string    RECORD, COUNTED: source node; SINK: topic; CHANGELOG, PENDING, CHANGES: store; NOTE, FAILURE: empty
    partition  int32     SINK: partition, −1 for the producer's choice; RECORD, COUNTED, CHANGELOG, PENDING, CHANGES: shard
    key, value binary    as Kafka has them; null is null. COUNTED: the value is how many records of the key the row stands for
    timestamp  int64
    headers    binary    msgpack of [[name, value], ...], names as bytes where one of them is not UTF-8; null: none
    place      binary    RECORD, COUNTED: where it (the last of them) came from and its order in a lane; else null

    place      reached (8)  topic number (4)  partition (4)  offset (8)  { 0x01 sub (4) }  0x00
               timestamp (8)  partition index (4)  [ msgpack of raw key, raw value, headers as above ]

All numbers of a place are big-endian with the sign bit turned over, so that places sort as bytes the way records are ordered. The
number of a topic is its position among the names of all source topics, sorted. The raw bytes go along only where a dead letter may
need them.

Contract: a writer makes whole batches of the schema; the reader checks its names and its ``format`` (metadata) once per batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from struct import Struct
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.record import Headers, Origin, raw_name

RECORD, COUNTED, PENDING, CHANGES, SINK, CHANGELOG, NOTE, FAILURE = range(8)

#: names are written once for the rows of a batch, most of which have the same
NAME = pa.dictionary(pa.int32(), pa.string())

#: in the metadata of the schema; ``docs/formats.md`` has the rule for changing it
FORMAT = {b"penstock.envelope": b"1"}

SCHEMA = pa.schema(
    [
        pa.field("kind", pa.int8()),
        pa.field("route", pa.int64()),
        pa.field("name", NAME),
        pa.field("partition", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("timestamp", pa.int64()),
        pa.field("headers", pa.binary()),
        pa.field("place", pa.binary()),
    ],
    metadata=FORMAT,
)
#: rows of one Arrow batch
BATCH = 10_000

_encode = msgspec.msgpack.Encoder().encode
_decode_headers = msgspec.msgpack.Decoder(tuple[tuple[str, bytes | None], ...]).decode
_decode_raw_headers = msgspec.msgpack.Decoder(tuple[tuple[bytes, bytes | None], ...]).decode
_decode_raw = msgspec.msgpack.Decoder(tuple[bytes | None, bytes | None, bytes | None]).decode

_HEAD = Struct(">QIIQ")
_TAIL = Struct(">BQI")
_SUB = Struct(">BI")
_LONG, _INT = 1 << 63, 1 << 31


class EnvelopeRow(NamedTuple):
    """One row; the fields are the columns in their order."""

    kind: int
    route: int
    name: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: bytes | None = None
    place: bytes | None = None


def pack_headers(headers: Headers) -> bytes | None:
    r"""Return headers as bytes; none is null.

    >>> unpack_headers(pack_headers((("a", b"1"), ("a", None))))
    (('a', b'1'), ('a', None))
    >>> pack_headers(()) is None
    True
    >>> unpack_headers(pack_headers((("\udcff", b"1"),)))
    (('\udcff', b'1'),)
    """
    if not headers:
        return None
    try:
        return _encode(headers)
    except UnicodeEncodeError:
        return _encode([(raw_name(name), value) for name, value in headers])


def unpack_headers(data: bytes | None) -> Headers:
    """Return the headers that ``pack_headers`` made."""
    if data is None:
        return ()
    try:
        return _decode_headers(data)
    except msgspec.ValidationError:
        return tuple((name.decode("utf-8", "surrogateescape"), value) for name, value in _decode_raw_headers(data))


def pack_place(origin: Origin, sub: tuple[int, ...], topic: int, raw: bool) -> bytes:
    """Return an origin with a position as bytes; ``topic``: its number; ``raw``: with the bytes of the source record.

    >>> origin = Origin("t", 1, 7, 5, b"k", None, (), 1, 5, (0, 2))
    >>> unpack_place(pack_place(origin, (0, 2), 3, True), ["", "", "", "t"]) == origin
    True
    """
    _, partition, offset, timestamp, key, value, headers, index, reached, _ = origin
    head = _HEAD.pack(reached + _LONG, topic, partition + _INT, offset + _LONG)
    tail = _TAIL.pack(0, timestamp + _LONG, index + _INT)
    if len(sub) == 1:
        head += _SUB.pack(1, sub[0])
    else:
        for number in sub:
            head += _SUB.pack(1, number)
    return head + tail + _encode((key, value, pack_headers(headers))) if raw else head + tail


def unpack_place(data: bytes, topics: Sequence[str]) -> Origin:
    """Return the origin that ``pack_place`` packed, its position included."""
    reached, topic, partition, offset = _HEAD.unpack_from(data)
    at = _HEAD.size
    sub: tuple[int, ...] = ()
    while data[at]:
        sub += _SUB.unpack_from(data, at)[1:]
        at += _SUB.size
    _, timestamp, index = _TAIL.unpack_from(data, at)
    at += _TAIL.size
    key, value, headers = _decode_raw(data[at:]) if len(data) > at else (None, None, None)
    return Origin(
        topics[topic] if partition >= _INT else None,  # what a punctuator or a schedule gave rise to has no topic
        partition - _INT,
        offset - _LONG,
        timestamp - _LONG,
        key,
        value,
        unpack_headers(headers),
        index - _INT,
        reached - _LONG,
        sub,
    )


@cache
def _places_of(depth: int) -> np.dtype[Any]:
    """Return what places with so many subs and without raw bytes are made of."""
    head = (("reached", ">u8"), ("topic", ">u4"), ("partition", ">u4"), ("offset", ">u8"))
    subs = (field for at in range(depth) for field in ((f"one{at}", "u1"), (f"sub{at}", ">u4")))
    return np.dtype([*head, *subs, ("end", "u1"), ("timestamp", ">u8"), ("index", ">u4")])


#: bytes of a place without subs, and of each sub
_BARE, _EACH = _places_of(0).itemsize, _SUB.size


def pack_places(numbers: Mapping[str, Any], subs: Any = None) -> pa.Array:
    """Return what ``pack_place`` returns, for many at a time: ``numbers`` by the names of an origin's.

    ``sub``, if it is there, has the subs of an origin in a row, with −1 behind them; ``subs`` are one more for each.

    >>> numbers = dict(topic=[3], partition=[1], offset=[7], timestamp=[5], index=[1], reached=[9])
    >>> origin = {name: np.array(column) for name, column in numbers.items()}
    >>> packed = pack_places(origin, np.array([2]))
    >>> packed[0].as_py() == pack_place(Origin("t", 1, 7, 5, None, None, (), 1, 9), (2,), 3, False)
    True
    >>> found = unpack_places(packed)
    >>> found["offset"].tolist(), found["sub"].tolist()
    ([7], [[2]])
    >>> unpack_places(pa.concat_arrays([pack_places(origin), pack_places(found, np.array([4]))]))["sub"].tolist()
    [[-1, -1], [2, 4]]
    """
    before = numbers.get("sub")
    columns = [] if before is None else list(before.T)
    count = len(numbers["topic"])
    depths = np.zeros(count, dtype=np.int64) if before is None else (before >= 0).sum(axis=1)
    known = np.unique(depths).tolist()
    if len(known) <= 1:
        depth = known[0] if known else 0
        return _packed(numbers, [*columns[:depth], *([] if subs is None else [subs])])
    packed, order = [], []
    for depth in known:
        mine = np.flatnonzero(depths == depth)
        some = {name: column[mine] for name, column in numbers.items()}
        own = [column[mine] for column in columns[:depth]]
        packed.append(_packed(some, [*own, *([] if subs is None else [subs[mine]])]))
        order.append(mine)
    back = np.empty(count, dtype=np.int64)
    back[np.concatenate(order)] = np.arange(count)
    return pa.concat_arrays(packed).take(pa.array(back))


def _packed(numbers: Mapping[str, Any], subs: Sequence[Any]) -> pa.Array:
    """Return places that all have as many subs."""
    layout = _places_of(len(subs))
    places = np.zeros(len(numbers["topic"]), dtype=layout)
    places["topic"] = numbers["topic"]
    for at, column in enumerate(subs):
        places[f"one{at}"], places[f"sub{at}"] = 1, column
    for name in ("reached", "offset", "timestamp"):
        places[name] = numbers[name].astype(np.uint64) + np.uint64(_LONG)
    for name in ("partition", "index"):
        places[name] = (numbers[name] + _INT).astype(np.uint32)
    size = pa.binary(layout.itemsize)
    return pa.Array.from_buffers(size, len(places), [None, pa.py_buffer(places.tobytes())]).cast(pa.binary())


def unpack_places(data: pa.Array) -> dict[str, Any] | None:
    """Return the numbers of places without raw bytes, of records that have a topic, as ``pack_places`` takes them; else None."""
    if len(data) == 0 or data.null_count:
        return None
    lengths = pc.binary_length(data).to_numpy()
    known = np.unique(lengths).tolist()
    if any(length < _BARE or (length - _BARE) % _EACH for length in known):
        return None
    if len(known) == 1:
        return _unpacked(data, (known[0] - _BARE) // _EACH)
    deepest = (known[-1] - _BARE) // _EACH
    numbers: dict[str, Any] = {"sub": np.full((len(data), deepest), -1, dtype=np.int64)}
    for length in known:
        mine, depth = np.flatnonzero(lengths == length), (length - _BARE) // _EACH
        found = _unpacked(data.take(pa.array(mine)), depth)
        if found is None:
            return None
        if depth:
            numbers["sub"][mine, :depth] = found.pop("sub")
        for name, column in found.items():
            numbers.setdefault(name, np.empty(len(data), dtype=np.int64))[mine] = column
    return numbers


def _unpacked(data: pa.Array, depth: int) -> dict[str, Any] | None:
    """Return the numbers of places that have so many subs; None if they are others of this length."""
    layout = _places_of(depth)
    whole = data.cast(pa.binary(layout.itemsize))
    buffer = np.frombuffer(whole.buffers()[1], dtype=layout)[whole.offset : whole.offset + len(whole)]
    flags = (buffer[f"one{at}"] == 1 for at in range(depth))
    if not all(flag.all() for flag in flags) or buffer["end"].any() or (buffer["partition"] < _INT).any():
        return None
    numbers: dict[str, Any] = {"topic": buffer["topic"].astype(np.int64)}
    for name in ("reached", "offset", "timestamp"):
        numbers[name] = (buffer[name].astype(np.uint64) - np.uint64(_LONG)).astype(np.int64)
    for name in ("partition", "index"):
        numbers[name] = buffer[name].astype(np.int64) - _INT
    if depth:
        numbers["sub"] = np.stack([buffer[f"sub{at}"].astype(np.int64) for at in range(depth)], axis=1)
    return numbers


#: of the columns after the route
_TYPES = [field.type for field in SCHEMA][2:]


def order_of(level: int, task: int, count: int, before: int = 0) -> pa.Array:
    """Return the routes of ``count`` rows that a task of a level emits after others: by level, then task, then position.

    >>> order_of(0, 1, 2).to_pylist() < order_of(1, 0, 1).to_pylist()
    True
    """
    first = (level << 56) + (task << 32) + before
    return pa.array(np.arange(first, first + count, dtype=np.int64))


def named(name: str | None, count: int) -> pa.Array:
    """Return the column of names of rows that have the same.

    >>> named("words", 2).to_pylist()
    ['words', 'words']
    """
    return pa.DictionaryArray.from_arrays(np.zeros(count, dtype=np.int32), pa.array([name], pa.string()))


def batch_of(kind: int, routes: pa.Array, columns: Sequence[Sequence[object] | pa.Array]) -> pa.RecordBatch:
    """Return rows of one kind as a batch. ``columns``: those of the schema from ``name`` on, the last ones may be left out."""
    count = len(routes)
    arrays = [pa.array(np.full(count, kind, dtype=np.int8)), routes]
    for type_, column in zip(_TYPES, columns, strict=False):
        arrays.append(column if isinstance(column, pa.Array) else pa.array(column, type_))
    arrays += [pa.nulls(count, type_) for type_ in _TYPES[len(columns) :]]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


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
    check(batch)
    columns = [column.to_pylist() for column in batch.columns]
    return map(EnvelopeRow._make, zip(*columns, strict=True))


def check(batch: pa.RecordBatch | pa.Table) -> None:
    """Refuse a batch of another shape, or of another version of the program."""
    if batch.schema.names != SCHEMA.names:
        raise TypeError(f"not an envelope: its columns are {batch.schema.names}, expected {SCHEMA.names}")
    if batch.schema.metadata != FORMAT:
        raise TypeError(
            f"not this version's envelope: {batch.schema.metadata}, expected {FORMAT}. Driver and workers must run one version"
        )
