"""The log as the engine sees it: four seams with two bodies, Kafka and memory, under one contract suite.

    Admin      topics, their partitions, where they begin and end; what groups have committed
    Producer   rows in, all of them or none: begin, produce, send_offsets, commit | abort
    Reader     the records of a range of one partition
    Log        makes the three

Bytes only: what the bytes mean is the business of serdes. ``tests/log/test_log_contract.py`` holds both bodies to this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import ProductionError
from penstock.record import Headers

#: (topic, partition)
TopicPartition: TypeAlias = tuple[str, int]
#: the next offset of each partition
Offsets: TypeAlias = dict[TopicPartition, int]
#: a row to write: topic, partition (None: by the key), key, value, timestamp in milliseconds, headers
Row: TypeAlias = tuple[str, int | None, bytes | None, bytes | None, int, Headers]
#: told of a row that was refused when it was handed over (too large, no such partition)
OnRefused: TypeAlias = Callable[[Row, ProductionError], None]


#: records that follow each other, as (key, value, timestamp), and the offset after the last of them
Batch: TypeAlias = tuple[int, list[tuple[bytes | None, bytes | None, int]]]
#: the same by column: the offset after the last record, keys, values, timestamps
Columns: TypeAlias = tuple[int, list[bytes | None], list[bytes | None], list[int]]


#: rows of columns that are objects at a time: their memory is used again, and is still near
WINDOW = 2048


class RowColumns(NamedTuple):
    """Rows for one topic, by column.

    >>> keys, values = pa.array([b"a", None], pa.binary()), pa.array([b"1", b"2"], pa.binary())
    >>> list(RowColumns("t", None, keys, values, np.array([5, 6]), None).rows())
    [('t', None, b'a', b'1', 5, ()), ('t', None, None, b'2', 6, ())]
    """

    topic: str
    #: int32, −1 where the key decides; None: it decides always
    partitions: npt.NDArray[np.int32] | None
    #: arrays of bytes
    keys: pa.Array
    values: pa.Array
    timestamps: npt.NDArray[np.int64]
    #: None: no row has any
    headers: Sequence[Headers] | None

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.timestamps)

    def rows(self, first: int = 0) -> Iterator[Row]:
        """Yield the rows from one on."""
        for begin in range(first, self.size, WINDOW):
            some = slice(begin, min(begin + WINDOW, self.size))
            places: Iterable[int | None] = repeat(None)
            if self.partitions is not None:
                places = (None if number < 0 else number for number in self.partitions[some].tolist())
            headers: Iterable[Headers] = repeat(()) if self.headers is None else self.headers[some]
            keys, values = self.keys[some].to_pylist(), self.values[some].to_pylist()
            yield from zip(
                repeat(self.topic), places, keys, values, self.timestamps[some].tolist(), headers, strict=False
            )


class LogRecord(NamedTuple):
    """A record as it was read."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as it must be. ``partitions`` and ``replication`` -1: the cluster's default."""

    name: str
    partitions: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    replication: int = -1


class TopicDescription(NamedTuple):
    """A topic as the cluster has it. ``topic_id``: of this topic and no other, "" if the cluster does not tell."""

    partitions: int
    topic_id: str
    #: the number of replicas; of partitions that differ the least
    replication: int


class Admin(Protocol):
    """What can be asked and changed without reading or writing records. Offsets that do not exist raise ``TopicError``."""

    def topics(self) -> dict[str, int]:
        """Return every topic with the number of its partitions; those of the cluster itself (``__...``) left out."""
        ...

    def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each topic; raise ``TopicError`` if one is missing."""
        ...

    def describe(self, topics: Iterable[str]) -> dict[str, TopicDescription]:
        """Return what the cluster tells of each topic; raise ``TopicError`` if one is missing."""
        ...

    def brokers(self) -> int:
        """Return how many brokers the cluster has now."""
        ...

    def ensure_topics(self, specs: Iterable[TopicSpec]) -> list[str]:
        """Create the topics that are missing, check those that exist; return the names of the new ones."""
        ...

    def configs(self, topic: str, *, own: bool = False) -> dict[str, str]:
        """Return the settings of a topic, defaults too; ``own``: only those that were set for this topic."""
        ...

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """Change settings of a topic; the others stay."""
        ...

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Delete the records below these offsets; those that are gone already are no error."""
        ...

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics; one that does not exist is no error."""
        ...

    def earliest_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return where each partition begins."""
        ...

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return where each partition ends, open transactions counted."""
        ...

    def stable_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the last stable offset of each partition: no transaction is open below it."""
        ...

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the first offset whose timestamp is at least the given one, None where there is none.

        Aborted records count, and so do the markers of transactions, whose timestamp is the wall-clock time of their end:
        the answer may lie before the first record of that time, and asking again from there gives it again.
        """
        ...

    def committed(self, group: str, partitions: Iterable[TopicPartition] | None = None) -> Offsets:
        """Return the offsets that a group has committed, of these partitions or of all.

        A transaction that is about to end is waited for, if partitions are named; asked for all, a cluster does not tell of
        offsets that are committed for the first time by a transaction still open.
        """
        ...

    def delete_group(self, group: str) -> None:
        """Forget a group and its offsets; one that does not exist is no error."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class Producer(Protocol):
    """One writer. Between ``begin`` and ``commit`` rows and offsets are collected; ``abort`` forgets them.

    The transactional body makes them visible together; the other one (at least once) writes rows at once and offsets after
    them, at ``commit``. Errors are ``BrokerError``; a ``FencedError`` ends the producer.
    """

    def init(self) -> None:
        """Take over from any earlier producer of the same id: it is fenced, its open transaction is aborted or, if its commit
        was under way, committed.

        Once more: take over from oneself, whatever state a fault has left this producer in. That it was fenced is forgotten.
        """
        ...

    def begin(self) -> None:
        """Open a transaction."""
        ...

    def produce(self, rows: Iterable[Row], on_refused: OnRefused | None = None) -> None:
        """Hand over rows. One that is refused at once goes to ``on_refused``, else raises ``ProductionError``."""
        ...

    def produce_columns(self, columns: RowColumns, on_refused: OnRefused | None = None) -> None:
        """Hand over the same rows by column: for a lot of them."""
        ...

    def send_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the offsets of a group with the transaction."""
        ...

    def flush(self) -> None:
        """Wait until every row is in the log (not yet committed)."""
        ...

    def commit(self) -> None:
        """Make everything since ``begin`` visible."""
        ...

    def abort(self) -> None:
        """Forget everything since ``begin``."""
        ...

    def close(self) -> None:
        """Close the connections; an open transaction is left to the next ``init`` or its timeout."""
        ...


class Reader(Protocol):
    """Reads committed records (or all, if made so)."""

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[LogRecord]:
        """Yield the records with start <= offset < end, in order.

        Where a transaction below ``end`` is about to end, it is waited for: a commit returns before its marker is in
        every partition. A range that does not become stable in time raises ``BrokerError``.
        """
        ...

    def batches(self, topic: str, partition: int, start: int, end: int, most: int = 10_000) -> Iterator[Batch]:
        """Yield the same records in lists of at most so many, without coordinates and headers: for reading a lot of them."""
        ...

    def columns(self, topic: str, partition: int, start: int, end: int, most: int = 10_000) -> Iterator[Columns]:
        """Yield the same lists by column: for reading millions of records."""
        ...

    def last_record(self, topic: str, partition: int = 0) -> LogRecord | None:
        """Return the last committed record of a partition, None if there is none."""
        ...

    def follow(self, starts: Mapping[TopicPartition, int]) -> Iterator[LogRecord | None]:
        """Yield the records of several partitions as they come, for ever; None about every 100 ms without one."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class Log(Protocol):
    """A cluster, and the clients to use it with."""

    @property
    def admin(self) -> Admin:
        """The one admin client."""
        ...

    def producer(self, transactional_id: str | None, *, batch_bytes: int | None = None) -> Producer:
        """Make a producer: transactional, or without an id one that writes at least once.

        ``batch_bytes``: rows are sent in batches not larger than this, which is what the topics take.
        """
        ...

    def reader(self, *, committed: bool = True, timeout: float | None = None) -> Reader:
        """Make a reader of committed records, or of all. ``timeout``: seconds to wait for what must come."""
        ...

    def expedite(self) -> None:
        """Wait no longer than a few seconds for a cluster that does not answer, from now on: the program wants to end."""
        ...

    def close(self) -> None:
        """Close everything that was made here."""
        ...
