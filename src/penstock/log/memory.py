"""The log whose body is memory: the same contract as Kafka's, for tests of the engine without a broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from random import Random

from penstock.clock import Clock, SystemClock
from penstock.errors import BrokerError, FencedError, ProductionError, TopicError
from penstock.log.base import Batch, Columns, LogRecord, OnRefused, Row, RowColumns, TopicPartition
from penstock.log.memory_admin import MemoryAdmin
from penstock.log.memory_cluster import Entry, MemoryCluster, Outcome, Transaction
from penstock.log.partitioner import partition_for

MAX_MESSAGE_BYTES = 1_000_000


class MemoryLog:
    """A cluster in memory, and the clients to use it with. Its clients may be used from several threads."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._cluster = MemoryCluster(clock or SystemClock())
        self._admin = MemoryAdmin(self._cluster)

    @property
    def admin(self) -> MemoryAdmin:
        """The one admin client."""
        return self._admin

    def producer(self, transactional_id: str | None, *, batch_bytes: int | None = None) -> MemoryProducer:
        """Make a producer: transactional, or without an id one that writes at least once."""
        return MemoryProducer(self._cluster, transactional_id)

    def reader(self, *, committed: bool = True, timeout: float | None = None) -> MemoryReader:
        """Make a reader of committed records, or of all; there is nothing to wait for."""
        return MemoryReader(self._cluster, committed)

    def expedite(self) -> None:
        """Do nothing: nobody waits."""

    def close(self) -> None:
        """Do nothing: there are no connections."""


class MemoryProducer:
    """One writer to a cluster in memory; with an id it is transactional, and fenced by the next one of that id."""

    def __init__(self, cluster: MemoryCluster, transactional_id: str | None) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._transaction: Transaction | None = None
        self._failure: BrokerError | None = None
        self._random = Random(transactional_id)

    def init(self) -> None:
        """Take over from any earlier producer of the same id: it is fenced, its open transaction is aborted."""
        self._transaction = self._failure = None
        if self._id is None:
            return
        with self._cluster.lock:
            self._cluster.owners[self._id] = self
            if left := self._cluster.open.pop(self._id, None):
                self._cluster.finish(left, Outcome.ABORTED)

    def begin(self) -> None:
        """Open a transaction."""
        if self._transaction is not None:
            raise BrokerError("could not begin a transaction: one is open", fatal=True)
        self._transaction = Transaction()
        self._failure = None
        if self._id is not None and not self._fenced():
            self._cluster.open[self._id] = self._transaction

    def produce(self, rows: Iterable[Row], on_refused: OnRefused | None = None) -> None:
        """Append rows. One that is too large goes to ``on_refused``, else raises ``ProductionError``."""
        for row in rows:
            if len(row[2] or b"") + len(row[3] or b"") < MAX_MESSAGE_BYTES:
                self._append(row)
                continue
            refused = ProductionError(f"a row for {row[0]} was refused: it is too large")
            if on_refused is None:
                raise refused
            on_refused(row, refused)

    def produce_columns(self, columns: RowColumns, on_refused: OnRefused | None = None) -> None:
        """Hand over the same rows by column."""
        self.produce(columns.rows(), on_refused)

    def send_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the offsets of a group with the transaction."""
        self._check_owner()
        self._open().offsets.setdefault(group, {}).update(offsets)

    def flush(self) -> None:
        """Raise what went wrong with a row, as the end of its delivery would."""
        self._check_owner()
        if self._failure is not None:
            raise self._failure

    def commit(self) -> None:
        """Make everything since ``begin`` visible."""
        self.flush()
        self._finish(Outcome.COMMITTED)

    def abort(self) -> None:
        """Forget everything since ``begin``."""
        self._check_owner()
        self._finish(Outcome.ABORTED)
        self._failure = None

    def close(self) -> None:
        """Leave an open transaction to the next ``init``."""

    def _finish(self, outcome: Outcome) -> None:
        with self._cluster.lock:
            self._cluster.finish(self._open(), outcome)
            self._transaction = None
            if self._id is not None:
                self._cluster.open.pop(self._id, None)

    def _append(self, row: Row) -> None:
        """Add a row to its partition. A fault shows at ``flush``, as it does where a network lies between."""
        topic, partition, key, value, timestamp, headers = row
        with self._cluster.lock:
            if self._fenced():
                return
            place = (topic, self._place(topic, key) if partition is None else partition)
            try:
                entries = self._cluster.entries(place)
            except TopicError as error:
                error.abortable = True
                self._failure = self._failure or error
                return
            record = LogRecord(*place, len(entries), key, value, timestamp or 1, tuple(headers))
            transaction = self._open() if self._id is not None else None
            if transaction is not None:
                transaction.places.add(place)
            entries.append((record.timestamp, record, transaction))

    def _place(self, topic: str, key: bytes | None) -> int:
        found = self._cluster.topics.get(topic)
        count = len(found.partitions) if found is not None else 1
        return self._random.randrange(count) if key is None else partition_for(key, count)

    def _open(self) -> Transaction:
        if self._transaction is None:
            raise BrokerError("there is no transaction: begin one", fatal=True)
        return self._transaction

    def _fenced(self) -> bool:
        return self._id is not None and self._cluster.owners.get(self._id) is not self

    def _check_owner(self) -> None:
        if self._fenced():
            raise FencedError(
                f"another instance with the id {self._id!r} has taken over. Only one instance runs at a time: this one stops "
                "and has committed nothing",
                fatal=True,
            )


class MemoryReader:
    """Reads the records of a cluster in memory."""

    def __init__(self, cluster: MemoryCluster, committed: bool) -> None:
        self._cluster = cluster
        self._committed = committed

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[LogRecord]:
        """Yield the records with start <= offset < end, in order."""
        if start >= end:
            return
        place = (topic, partition)
        with self._cluster.lock:
            entries = self._cluster.entries(place)[:]
            last = self._cluster.stable_end(place) if self._committed else len(entries)
        if start < self._cluster.begin(place) or start > last:
            raise BrokerError(f"could not read {topic}-{partition} from {start}: there is no such offset")
        yield from filter(None, map(self._visible, entries[start : min(end, last)]))
        if end > last:
            raise BrokerError(
                f"{topic}-{partition} was to be read up to {end}, but nothing comes after {last}: "
                "a transaction is open there, or the topic was made anew",
                retriable=True,
            )

    def batches(self, topic: str, partition: int, start: int, end: int, most: int = 10_000) -> Iterator[Batch]:
        """Yield the same records in lists of at most so many, without coordinates and headers."""
        records = self.read(topic, partition, start, end)
        while chunk := list(islice(records, most)):
            yield chunk[-1].offset + 1, [(record.key, record.value, record.timestamp) for record in chunk]

    def columns(self, topic: str, partition: int, start: int, end: int, most: int = 10_000) -> Iterator[Columns]:
        """Yield the same lists by column."""
        for reached, rows in self.batches(topic, partition, start, end, most):
            keys, values, times = (list(column) for column in zip(*rows, strict=True))
            yield reached, keys, values, times

    def last_record(self, topic: str, partition: int = 0) -> LogRecord | None:
        """Return the last committed record of a partition, None if there is none."""
        begin, end = self._cluster.begin((topic, partition)), self._cluster.stable_end((topic, partition))
        entries = self._cluster.entries((topic, partition))[begin:end]
        return next(filter(None, map(self._visible, reversed(entries))), None)

    def follow(self, starts: Mapping[TopicPartition, int]) -> Iterator[LogRecord | None]:
        """Yield the records of several partitions as they come, for ever; None when there is nothing new."""
        positions = dict(starts)
        while True:
            before = dict(positions)
            for place, start in before.items():
                end = self._cluster.stable_end(place) if self._committed else len(self._cluster.entries(place))
                positions[place] = max(start, end)
                yield from self.read(*place, start, end)
            if positions == before:
                yield None

    def close(self) -> None:
        """Do nothing: there are no connections."""

    def _visible(self, entry: Entry) -> LogRecord | None:
        _, record, transaction = entry
        if not self._committed or transaction is None or transaction.outcome is Outcome.COMMITTED:
            return record
        return None
