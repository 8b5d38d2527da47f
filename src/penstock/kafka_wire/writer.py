"""What both bodies of the writer share: rows become batches, batches go to leaders, and what goes wrong is raised as ``ProducerError``."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from penstock.kafka_wire.delivery import Delivery, Sent
from penstock.kafka_wire.errors import NO_PARTITION, TOO_LARGE, ProducerError, Refused, failure_of
from penstock.kafka_wire.net.cluster import ClusterClient
from penstock.kafka_wire.net.waiting import Backoff, IsOver
from penstock.kafka_wire.protocol.batches import Batches, PartitionBatches, Row, RowColumns, columns_of, row_at, rows_of
from penstock.kafka_wire.protocol.primitives import TopicPartition
from penstock.kafka_wire.protocol.requests import NOBODY, Identity
from penstock.kafka_wire.settings import ProducerSettings
from penstock.native.record_batches import PartitionedRows, batch_size

#: told of a row that was refused when it was handed over, and the error code
OnRefused: TypeAlias = Callable[[Row, int], None]
#: rows, and their bytes, that are made into columns at a time
WINDOW = 2048
WINDOW_BYTES = 4 << 20
#: a batch of one row without headers is larger than its key and value by less than this
MOST_OVERHEAD = 100
#: open batches of all partitions take up no more than this
MOST_OPEN_BYTES = 64 << 20


class RowWriter:
    """What both bodies share: rows to batches, batches to leaders, and what went wrong."""

    def __init__(self, settings: ProducerSettings, is_over: IsOver, transactional_id: str | None) -> None:
        self._settings = settings
        self._is_over = is_over
        self._transactional = transactional_id is not None
        self._cluster = ClusterClient(settings)
        self._batches = Batches(settings)
        self._delivery = Delivery(self._cluster, settings, self._batches, transactional_id)
        self._identity = NOBODY
        self._streams: dict[TopicPartition, PartitionBatches] = {}
        #: partitions with rows that were not sent yet
        self._open: dict[TopicPartition, PartitionBatches] = {}
        #: what went wrong, until it is aborted
        self._failed: ProducerError | None = None
        #: whether rows may come to the log that were forgotten, so that the next sequence numbers are not known
        self._is_dirty = False
        #: partitions that forgotten rows may still come to
        self._late: set[TopicPartition] = set()

    def produce(self, rows: Iterable[Row], on_refused: OnRefused) -> None:
        """Hand over rows. One that is refused at once goes to ``on_refused``, which may raise."""
        some: list[Row] = []
        size = 0
        for row in rows:
            size += len(row[2] or b"") + len(row[3] or b"")
            code = self._refusal(row)
            if code is None:
                some.append(row)
            if code is not None or len(some) == WINDOW or size > WINDOW_BYTES:
                self._hand_over(some, on_refused)
                some, size = [], 0
            if code is not None:  # while it is at hand: who gives rows one by one knows then which one is meant
                on_refused(row, code)
        self._hand_over(some, on_refused)

    def _hand_over(self, rows: list[Row], on_refused: OnRefused) -> None:
        for columns in columns_of(rows):
            self.produce_columns(columns, on_refused)

    def _refusal(self, row: Row) -> int | None:
        """Return why a row cannot be sent, None if it can."""
        topic, partition, key, value, _, headers = row
        large = self._settings.largest
        if (headers or len(key or b"") + len(value or b"") > large - MOST_OVERHEAD) and batch_size(
            key, value, headers
        ) > large:
            return TOO_LARGE
        if partition is None or self._failed is not None:
            return None
        with self._failing("send rows", delivering=True):
            return None if partition < self._partitions(topic) else NO_PARTITION
        return None

    def produce_columns(self, columns: RowColumns, on_refused: OnRefused) -> None:
        """Hand over the same rows by column."""
        self._check_state("send rows")
        if self._failed is not None or not len(columns[4]):  # it is said again at the end of the transaction
            return
        rows: PartitionedRows | None = None
        with self._failing("send rows", delivering=True):
            rows = self._rows(columns)
        for partition, first, last in [] if rows is None else rows.runs():
            while first < last and self._failed is None:
                code = NO_PARTITION
                if partition >= 0:
                    with self._failing("send rows", delivering=True):
                        first = self._add(self._streams[columns[0], partition], rows, first, last)
                    code = TOO_LARGE
                if first < last and self._failed is None:
                    on_refused(row_at(columns, rows.row(first)), code)
                    first += 1
        if sum(len(stream.open or b"") for stream in self._open.values()) > MOST_OPEN_BYTES:
            with self._failing("send rows", delivering=True):
                self._push()

    def _rows(self, columns: RowColumns) -> PartitionedRows:
        """Return rows by the partition that they go to."""
        rows = rows_of(columns, self._partitions(columns[0]), first=random.getrandbits(16))
        for partition, _, _ in rows.runs():
            if partition >= 0:  # known together, so that they are added to the transaction together
                name = (columns[0], partition)
                self._open[name] = self._streams.setdefault(name, PartitionBatches(name))
        return rows

    def _add(self, stream: PartitionBatches, rows: PartitionedRows, first: int, last: int) -> int:
        """Add rows to batches of a partition and send those that are full; return the first that is too large, or the last."""
        while True:
            self._open[stream.partition] = stream
            first = self._batches.add(stream, rows, first, last)
            assert stream.open is not None
            if first == last or stream.open.count == 0:
                return first
            self._send([stream])

    def _send(self, streams: list[PartitionBatches]) -> None:
        """Send the open batches of partitions."""
        waiting = self._waiting()
        self._prepare(waiting)
        self._delivery.make_room(streams, waiting)
        sealed: Sent = []
        for stream in streams:
            batch = self._batches.seal(stream, self._identity, transactional=self._transactional)
            if batch is not None:
                sealed.append((stream, batch))
        self._delivery.send(sealed, waiting)

    def _push(self) -> None:
        """Send everything that is open."""
        streams = [stream for stream in self._open.values() if stream.open is not None and stream.open.count]
        if streams:
            self._send(streams)
        self._open.clear()

    def _prepare(self, waiting: Backoff) -> None:
        """Do what must be done before batches are sent."""
        raise NotImplementedError

    def flush(self) -> None:
        """Wait until every row is in the log; raise if one could not be delivered, or if none was for too long."""
        self._check_fenced()
        if self._failed is None:
            with self._failing("deliver all rows in time", delivering=True):
                self._push()
                self._delivery.settle(self._waiting())
        if self._failed is not None:
            raise self._failed

    def close(self) -> None:
        """Forget rows not yet sent and let go of the connections."""
        self._forget_rows()
        self._delivery.close()
        self._cluster.close()

    def _forget_rows(self) -> None:
        """Forget rows that are not in the log."""
        self._is_dirty |= not self._delivery.is_idle or self._failed is not None
        if self._failed is not None:
            self._cluster.forget_topics()
        self._late |= self._delivery.forget()
        for stream in self._streams.values():
            self._batches.take_back(stream.open)
            stream.open = None
        self._open.clear()
        self._failed = None

    def _begin_as(self, identity: Identity) -> None:
        """Take a new producer id: sequence numbers begin again."""
        self._identity = identity
        self._streams.clear()
        self._is_dirty = False

    def _waiting(self) -> Backoff:
        return Backoff(self._is_over, self._settings)

    def _partitions(self, topic: str) -> int:
        """Return how many partitions a topic has. One that is missing may be about to appear."""
        if (count := self._cluster.count(topic)) is not None:
            return count
        waiting = self._waiting()
        try:
            self._cluster.persist(waiting, lambda: self._cluster.learn([topic], waiting))
        except Refused as refused:
            raise Refused(refused.code, None, (topic, -1)) from refused
        return self._cluster.count(topic) or 0

    def _check_state(self, doing: str) -> None:
        """Raise if this may not be done now."""
        self._check_fenced()

    def _check_fenced(self) -> None:
        if self._failed is not None and self._failed.is_fenced:
            raise self._failed

    @contextlib.contextmanager
    def _failing(self, doing: str, *, delivering: bool = False, abortable: bool = True) -> Iterator[None]:
        """Explain what went wrong as a ``ProducerError``, and keep it until the abort that it calls for.

        ``delivering``: it is said at the end, as it would be where it is noticed later. ``abortable``: not so if nobody knows whether the
        transaction was committed, and the same call may be made again.
        """
        try:
            yield
        except (Refused, OSError) as fault:
            error = failure_of(fault, doing, delivering=delivering, abortable=abortable)
            error.__cause__ = fault
            if error.abortable or error.fatal:
                self._failed = error
            if not delivering or error.is_fenced:
                raise error from fault
        except BaseException:  # Ctrl-C: what was handed over is not complete
            if delivering:
                self._interrupted(doing)
            raise

    def _interrupted(self, doing: str) -> None:
        """Note that rows were not handed over completely."""
        self._delivery.interrupt()
