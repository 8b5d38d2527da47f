"""From Arrow columns to records in order: what a step takes in.

Two shapes come in. *Raw* rows are what was read (``protocol.raw_rows``), with two more columns::

    reached    int64     where the reading tasks have found the times: the partition time; −2: the row has none, the lane asks the policy
    mark       int64     where watermark strategies are functions: the watermark

*Envelope* rows are records that an earlier step re-keyed. Both become batches, of one shard and one source each, in the order of a lane,
(reached, topic, partition, offset, sub): ``lane.batches``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.batch.provenance import Provenance, provenance_of
from penstock.lane.source import Raw
from penstock.protocol.envelope import unpack_headers
from penstock.protocol.raw_rows import PARTITIONS, RAW_SCHEMA
from penstock.record import Headers, Origin

TIMED_SCHEMA = RAW_SCHEMA.append(pa.field("reached", pa.int64()))
MARKED_SCHEMA = TIMED_SCHEMA.append(pa.field("mark", pa.int64()))
UNKNOWN, UNTIMED = -1, -2

#: greatest time of each (topic, partition)
Times: TypeAlias = dict[tuple[str, int], int]
_new_origin = partial(tuple.__new__, Origin)
_SHIFT = 1 << 44  # milliseconds until the year 2527
#: rows that are made objects at a time
WINDOW = 2048


class SourceBatch:
    """Rows of one shard and one source, in order, not decoded: Arrow and NumPy columns, of which objects are made when asked for."""

    __slots__ = ("_headers", "_origins", "_some", "counted", "key", "shard", "source", "times", "value")

    def __init__(
        self,
        shard: int,
        source: str,
        columns: tuple[pa.Array, pa.Array, Any],
        headers: Callable[[], list[Headers]] | None,
        origins: Origins,
        some: slice = slice(None),
        counted: bool = False,
    ) -> None:
        self.shard = shard
        self.source = source
        self.key, self.value, self.times = columns
        self._headers = headers
        self._origins = origins
        #: which of the rows that headers and origins are of
        self._some = some
        #: each row stands for so many records as its value says
        self.counted = counted

    def __len__(self) -> int:
        return len(self.times)

    @property
    def keys(self) -> list[bytes | None]:
        """The keys."""
        return self.key.to_pylist()  # type: ignore[no-any-return]

    @property
    def values(self) -> list[bytes | None]:
        """The values."""
        return self.value.to_pylist()  # type: ignore[no-any-return]

    @property
    def timestamps(self) -> list[int]:
        """The timestamps."""
        return self.times.tolist()  # type: ignore[no-any-return]

    @property
    def some_headers(self) -> list[Headers] | None:
        """The headers; None if no row has any."""
        return None if self._headers is None else self._headers()[self._some]

    @property
    def headers(self) -> list[Headers]:
        """The headers."""
        return self.some_headers or [()] * len(self)

    @property
    def origins(self) -> list[Origin]:
        """Where the rows are from."""
        return self._origins.between(self._some.start or 0, (self._some.start or 0) + len(self))

    @property
    def provenance(self) -> Provenance:
        """Where the rows are from, to be asked for one by one."""
        return self._origins.provenance(self._some.start or 0, (self._some.start or 0) + len(self))

    def windows(self, size: int = WINDOW) -> Iterator[SourceBatch]:
        """Yield the rows a window at a time: their objects are used while they are near, and their memory is used again."""
        if len(self) <= size:
            yield self
            return
        for at in range(0, len(self), size):
            yield self.part(slice(at, min(at + size, len(self))), self.shard, self.source)

    def part(self, rows: slice, shard: int, source: str, counted: bool = False) -> SourceBatch:
        """Return some of the rows, of which another shard and source may be known."""
        begin = self._some.start or 0
        columns = self.key[rows], self.value[rows], self.times[rows]
        some = slice(begin + rows.start, begin + rows.stop)
        return SourceBatch(shard, source, columns, self._headers, self._origins, some, counted)


class ShortRun(NamedTuple):
    """Few rows of one shard and one source, in order, not decoded: part of a batch whose objects were made together."""

    shard: int
    source: str
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: list[int]
    headers: list[Headers]
    origins: list[Origin]


class Origins(Protocol):
    """Makes the origins of the rows of a batch."""

    def between(self, begin: int, end: int) -> list[Origin]:
        """Return the origins of rows."""
        ...

    def provenance(self, begin: int, end: int) -> Provenance:
        """Return the provenance of rows."""
        ...


def _subs(rows: Any) -> Iterable[tuple[int, ...]]:
    """Return the subs of origins; what is −1 is not there."""
    if not (rows < 0).any():
        return map(tuple, rows.tolist())
    return [tuple(sub for sub in row if sub >= 0) for row in rows.tolist()]


class NumberedOrigins:
    """Makes origins of their numbers, by name: topic, partition, offset, timestamp, index, reached, and sub, if there are such.

    ``raw``: the columns of raw keys and values, and what makes the headers; None where they have not come along.
    """

    __slots__ = ("_names", "_numbers", "_raw")

    def __init__(
        self,
        names: Sequence[str],
        numbers: dict[str, Any],
        raw: tuple[pa.Array, pa.Array, Callable[[], list[Headers]] | None] | None = None,
    ) -> None:
        self._names = names
        self._numbers = numbers
        self._raw = raw

    def between(self, begin: int, end: int) -> list[Origin]:
        """Return the origins of rows, all their numbers at a time."""
        part, names = slice(begin, end), self._names
        numbers = {name: column[part].tolist() for name, column in self._numbers.items()}
        topics = [names[number] for number in numbers["topic"]]
        keys: Iterable[Any] = repeat(None)
        values: Iterable[Any] = repeat(None)
        headers: Iterable[Headers] = repeat(())
        if self._raw is not None:
            keys, values = self._raw[0][part].to_pylist(), self._raw[1][part].to_pylist()
            headers = repeat(()) if self._raw[2] is None else self._raw[2]()[part]
        subs: Iterable[Any] = _subs(self._numbers["sub"][part]) if "sub" in numbers else repeat(())
        places = (topics, numbers["partition"], numbers["offset"], numbers["timestamp"], keys, values, headers)
        times = (numbers["index"], numbers["reached"])
        return list(map(_new_origin, zip(*places, *times, subs, strict=False)))

    def provenance(self, begin: int, end: int) -> Provenance:
        """Return the provenance of rows."""
        numbers = {name: column[begin:end] for name, column in self._numbers.items()}
        return Provenance(
            lambda at: self.between(begin + at, begin + at + 1)[0],
            lambda: numbers["index"],
            lambda: numbers["timestamp"],
            end - begin,
            numbers,
        )


class MadeOrigins:
    """Origins that are there."""

    __slots__ = ("_origins",)

    def __init__(self, origins: list[Origin]) -> None:
        self._origins = origins

    def between(self, begin: int, end: int) -> list[Origin]:
        """Return the origins of rows."""
        return self._origins[begin:end]

    def provenance(self, begin: int, end: int) -> Provenance:
        """Return the provenance of rows."""
        return provenance_of(self._origins[begin:end])


def running_max(groups: Any, times: Any) -> Any:
    """Return the running maximum of the times within each group; rows of a group follow each other, groups ascend.

    >>> running_max(np.array([0, 0, 0, 1]), np.array([5, 3, 7, 1])).tolist()
    [5, 5, 7, 1]
    """
    lifted = groups * _SHIFT + (times + 2)
    return np.maximum.accumulate(lifted) - groups * _SHIFT - 2


def numbers(column: Any) -> Any:
    """Return a column of numbers as a NumPy array."""
    return column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)


def order_by(columns: Sequence[Any]) -> Any:
    """Return the order of rows by columns of numbers, the last one first, as ``np.lexsort`` does.

    For less: numbers come in runs that ascend, which a stable sort only merges, and small ones are sorted by their digits.

    >>> order_by([np.array([3, 1, 2]), np.array([0, 1, 0])]).tolist()
    [2, 0, 1]
    """
    order = np.arange(len(columns[0]))
    for column in columns if len(order) else ():
        least, most = int(column.min()), int(column.max())
        if least < most:
            keys = column[order]
            small = most - least < 1 << 16
            order = order[np.argsort((keys - least).astype(np.uint16) if small else keys, kind="stable")]
    return order


def source_order(rows: SourceRows) -> Any:
    """Return the order of rows by topic, partition and offset: mostly the one in which a task has read them."""
    place, offset = rows.topic * PARTITIONS + rows.partition, rows.offset
    same, further = place[1:] == place[:-1], offset[1:] > offset[:-1]
    if ((place[1:] > place[:-1]) | (same & further)).all():
        return np.arange(len(place))
    return order_by((offset, rows.partition, rows.topic))


def starts_of(*columns: Any) -> list[int]:
    """Return where, in sorted columns, a new combination of values begins, and the end.

    >>> starts_of(np.array([0, 0, 1, 1]), np.array([5, 6, 6, 6]))
    [0, 1, 2, 4]
    """
    count = len(columns[0])
    if not count:
        return [0]
    changed = np.zeros(count, dtype=bool)
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return [0, *np.flatnonzero(changed).tolist(), count]


class SourceRows(NamedTuple):
    """Raw rows with what orders them, as numbers: shard, topic number, partition, offset, time; and the time that was reached."""

    table: pa.Table
    shard: Any
    topic: Any
    partition: Any
    offset: Any
    timestamp: Any
    reached: Any
    #: the watermark that was reached, where strategies are functions
    mark: Any = None

    def where(self, mask: Any) -> SourceRows:
        """Return the rows of a mask."""
        columns = (None if column is None else column[mask] for column in self[1:])
        return SourceRows(self.table.filter(pa.array(mask)), *columns)

    def raws(self, topics: Sequence[str]) -> Iterator[Raw]:
        """Return the rows one by one."""
        keys, values = self.table["key"].to_pylist(), self.table["value"].to_pylist()
        names = [topics[number] for number in self.topic.tolist()]
        headers, times = raw_headers(self.table["headers"]), self.timestamp.tolist()
        places = (names, self.partition.tolist(), self.offset.tolist())
        return map(Raw._make, zip(*places, keys, values, times, headers, repeat(None), strict=False))


def numbered(table: pa.Table) -> SourceRows:
    """Return raw rows with their numbers; the time reached is unknown unless it was told."""
    shard, place, offset, timestamp = (
        numbers(table[name]).astype(np.int64) for name in ("shard", "place", "offset", "timestamp")
    )
    told = "reached" in table.column_names
    reached = numbers(table["reached"]).copy() if told else np.full(len(shard), UNKNOWN, dtype=np.int64)
    mark = numbers(table["mark"]).copy() if "mark" in table.column_names else None
    return SourceRows(table, shard, place // PARTITIONS, place % PARTITIONS, offset, timestamp, reached, mark)


def reach(rows: SourceRows, topics: Sequence[str], before: Times) -> tuple[SourceRows, Times]:
    """Find the partition time of each row, of rows that one reader has, and how far the partitions got; rows keep their places."""
    reached, after = _greatest_so_far(rows, rows.timestamp, topics, before)
    return rows._replace(reached=reached), after


def reach_marks(rows: SourceRows, topics: Sequence[str], before: Times) -> tuple[SourceRows, Times]:
    """Find the watermark that each row reached, of rows that one reader has, and how far the topics got."""
    if rows.mark is None:
        return rows, {}
    reached, after = _greatest_so_far(rows, rows.mark, topics, before)
    return rows._replace(mark=reached), after


def _greatest_so_far(rows: SourceRows, times: Any, topics: Sequence[str], before: Times) -> tuple[Any, Times]:
    if not len(rows.table):
        return times, {}
    order = source_order(rows)
    topic, partition = rows.topic[order], rows.partition[order]
    edges = starts_of(topic, partition)
    groups = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    places = [(topics[topic[at]], int(partition[at])) for at in edges[:-1]]
    least = np.array([before.get(place, -1) for place in places], dtype=np.int64)
    sorted_reached = running_max(groups, np.maximum(times[order], least[groups]))
    after: Times = {}
    for place, end in zip(places, edges[1:], strict=True):
        after[place] = max(after.get(place, -1), int(sorted_reached[end - 1]))
    reached = np.empty_like(sorted_reached)
    reached[order] = sorted_reached
    return reached, after


def raw_headers(column: Any) -> list[Headers]:
    """Return the headers of raw rows as tuples.

    >>> from penstock.protocol.envelope import pack_headers
    >>> raw_headers(pa.array([pack_headers((("a", b"1"), ("b", None))), None]))
    [(('a', b'1'), ('b', None)), ()]
    """
    if column.null_count == len(column):
        return [()] * len(column)
    return [unpack_headers(row) for row in column.to_pylist()]
