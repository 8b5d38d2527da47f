"""The writer that speaks Kafka's protocol itself: rows and offsets of an epoch, in one transaction or, at least once, without.

Rows are encoded as they are handed over, a batch is sent when it is full, and ``flush`` sends the rest and waits for all of them. So there
is at most one batch for each partition that is not on its way.

A timestamp of 0 is written as 1, as by librdkafka, to which it means "now".
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.errors import BrokerError, FencedError, ProductionError
from penstock.log.base import WINDOW, OnRefused, Row, RowColumns, TopicPartition
from penstock.log.failures import (
    LATE,
    LOST,
    NO_PARTITION,
    OUT_OF_TURN,
    TLS_REFUSED,
    TOO_LARGE,
    protocol_error,
)
from penstock.log.patience import Patience
from penstock.log.wire import requests
from penstock.log.wire.batches import Batches, Stream, rows_of
from penstock.log.wire.cluster import Cluster
from penstock.log.wire.delivery import Delivery, Sent
from penstock.log.wire.faults import Late, NoTrust, Refused, check
from penstock.log.wire.requests import NOBODY, Identity
from penstock.log.wire.settings import Settings
from penstock.log.wire.transactions import Transactions, give_offsets
from penstock.log.wire.waiting import Waiting

if TYPE_CHECKING:
    from penstock.log._batches import Rows

#: open batches of all partitions take up no more than this
MOST_OPEN_BYTES = 64 << 20
INVALID_TXN_STATE = 48
#: errors after which this identity is of no use any more: another one may be had by ``init``
LOST_IDENTITY = {INVALID_TXN_STATE, 49, 31, 53}


class _RowWriter:
    """What both bodies share: rows to batches, batches to leaders, and what went wrong."""

    def __init__(self, settings: Settings, patience: Patience, transactional_id: str | None) -> None:
        self._settings = settings
        self._patience = patience
        self._transactional = transactional_id is not None
        self._cluster = Cluster(settings)
        self._batches = Batches(settings)
        self._delivery = Delivery(self._cluster, settings, self._batches, transactional_id)
        self._identity = NOBODY
        self._streams: dict[TopicPartition, Stream] = {}
        #: partitions with rows that were not sent yet
        self._open: dict[TopicPartition, Stream] = {}
        self._turn = 0
        #: what went wrong, until it is aborted
        self._failed: BrokerError | None = None
        #: whether rows may come to the log that were forgotten, so that the next sequence numbers are not known
        self._is_dirty = False

    def produce(self, rows: Iterable[Row], on_refused: OnRefused | None = None) -> None:
        """Hand over rows. One that is refused at once goes to ``on_refused``, else raises ``ProductionError``."""
        remaining = iter(rows)
        while some := list(islice(remaining, WINDOW)):
            for columns in _by_topic(some):
                self.produce_columns(columns, on_refused)

    def produce_columns(self, columns: RowColumns, on_refused: OnRefused | None = None) -> None:
        """Hand over the same rows by column."""
        self._check_turn("send rows")
        if self._failed is not None or not columns.size:  # it is said again at the end of the transaction
            return
        rows: Rows | None = None
        with self._saying("send rows", delivering=True):
            rows = self._rows(columns)
        for partition, first, last in [] if rows is None else rows.runs():
            while first < last and self._failed is None:
                code = NO_PARTITION
                if partition >= 0:
                    with self._saying("send rows", delivering=True):
                        first = self._add(self._streams[columns.topic, partition], rows, first, last)
                    code = TOO_LARGE
                if first < last and self._failed is None:
                    self._refuse(columns, rows.row(first), code, on_refused)
                    first += 1
        if sum(len(stream.open or b"") for stream in self._open.values()) > MOST_OPEN_BYTES:
            with self._saying("send rows", delivering=True):
                self._push()

    def _rows(self, columns: RowColumns) -> Rows:
        """Return rows by the partition that they go to."""
        self._turn = (self._turn + 1) % 0x7FFFFFFF
        rows = rows_of(columns, self._partitions(columns.topic), self._turn)
        for partition, _, _ in rows.runs():
            if partition >= 0:  # known together, so that they are added to the transaction together
                place = (columns.topic, partition)
                self._open[place] = self._streams.setdefault(place, Stream(place))
        return rows

    def _add(self, stream: Stream, rows: Rows, first: int, last: int) -> int:
        """Add rows to batches of a partition and send those that are full; return the first that is too large, or the last."""
        while True:
            self._open[stream.place] = stream
            first = self._batches.add(stream, rows, first, last)
            assert stream.open is not None
            if first == last or stream.open.count == 0:
                return first
            self._send([stream])

    def _send(self, streams: list[Stream]) -> None:
        """Send the open batches of partitions."""
        waiting = self._waiting()
        self._prepare(waiting)
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

    def _prepare(self, waiting: Waiting) -> None:
        """Do what must be done before batches are sent."""
        raise NotImplementedError

    def flush(self) -> None:
        """Wait until every row is in the log; raise if one could not be delivered, or if none was for too long."""
        self._check_fenced()
        if self._failed is None:
            with self._saying("deliver all rows in time", delivering=True):
                self._push()
                self._delivery.settle(self._waiting())
        if self._failed is not None:
            raise self._failed

    def close(self) -> None:
        """Forget rows not yet sent and let go of the connections."""
        self._forget_rows()
        self._cluster.close()

    def _forget_rows(self) -> None:
        """Forget rows that are not in the log."""
        self._is_dirty |= not self._delivery.is_idle or self._failed is not None
        if self._failed is not None:
            self._cluster.forget_topics()
        self._delivery.forget()
        for stream in self._streams.values():
            self._batches.take_back(stream.open)
            stream.open = None
        self._open.clear()
        self._failed = None

    def _begin_as(self, identity: Identity) -> None:
        """Be somebody new: sequence numbers begin again."""
        self._identity = identity
        self._streams.clear()
        self._is_dirty = False

    def _waiting(self) -> Waiting:
        return Waiting(self._patience, self._settings)

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

    def _refuse(self, columns: RowColumns, row: int, code: int, on_refused: OnRefused | None) -> None:
        (given,) = islice(columns.rows(row), 1)
        topic, partition, key, value, *_ = given
        size = len(key or b"") + len(value or b"")
        where = topic if partition is None else f"{topic}-{partition}"
        error = ProductionError(f"a row of {size} bytes for {where} was refused: {protocol_error(code, 'send it')}")
        if on_refused is None:
            raise error
        on_refused(given, error)

    def _check_turn(self, doing: str) -> None:
        """Raise if this may not be done now."""
        self._check_fenced()

    def _check_fenced(self) -> None:
        if isinstance(self._failed, FencedError):
            raise self._failed

    @contextlib.contextmanager
    def _saying(self, doing: str, *, delivering: bool = False, abortable: bool = True) -> Iterator[None]:
        """Say what went wrong in the words of the log, and keep it until the abort that it calls for.

        ``delivering``: it is said at the end, as it would be where it is noticed later. ``abortable``: not so if nobody knows whether the
        transaction was committed, and the same call may be made again.
        """
        try:
            yield
        except (Refused, OSError) as fault:
            error = _said(fault, doing, abortable=abortable)
            error.__cause__ = fault
            if error.abortable or error.fatal:
                self._failed = error
            if not delivering or isinstance(error, FencedError):
                raise error from fault
        except BaseException:  # Ctrl-C: what was handed over is not complete
            if delivering:
                self._failed = BrokerError(f"could not {doing}: interrupted", abortable=True)
            raise


def _said(fault: Refused | OSError, doing: str, *, abortable: bool) -> BrokerError:
    if isinstance(fault, Refused):
        if fault.place is not None:
            topic, partition = fault.place
            doing = f"deliver {fault.rows or 'the'} rows, the first to {topic}-{partition}"
        fatal = fault.code in LOST_IDENTITY
        return protocol_error(fault.code, doing, fault.said, abortable=abortable and not fatal, fatal=fatal)
    code = TLS_REFUSED if isinstance(fault, NoTrust) else LATE if isinstance(fault, Late) else LOST
    return protocol_error(code, doing, str(fault) or None, abortable=abortable)


def _by_topic(rows: list[Row]) -> Iterator[RowColumns]:
    """Yield rows by column, those of one topic together; nobody sees the order of two topics."""
    topics: dict[str, list[Row]] = {}
    for row in rows:
        topics.setdefault(row[0], []).append(row)
    for topic, its in topics.items():
        _, places, keys, values, times, headers = zip(*its, strict=True)
        partitions = np.array([-1 if place is None else place for place in places], np.int32)
        key_column, value_column = pa.array(keys, pa.binary()), pa.array(values, pa.binary())
        yield RowColumns(
            topic, partitions, key_column, value_column, np.array(times, np.int64), headers if any(headers) else None
        )


class TransactionalWire(_RowWriter):
    """Exactly once: rows and offsets become visible together, at ``commit``, or never."""

    def __init__(self, settings: Settings, patience: Patience, transactional_id: str) -> None:
        super().__init__(settings, patience, transactional_id)
        self._id = transactional_id
        self._transactions = Transactions(self._cluster, transactional_id, settings.transaction_ms)
        self._is_open = False
        #: whether a commit was asked for, and perhaps done
        self._is_committing = False
        #: what takes part in the transaction
        self._added: set[TopicPartition] = set()
        self._groups: set[str] = set()

    def init(self) -> None:
        """Take over from any earlier producer of the same id, be it this one: it is fenced, its open transaction is aborted."""
        self._forget_rows()
        self._end()
        with self._saying(f"begin as producer {self._id!r}", abortable=False):
            self._begin_as(NOBODY)
            self._begin_as(self._transactions.identify(self._waiting()))

    def begin(self) -> None:
        """Open a transaction."""
        self._check_fenced()
        if self._is_open or self._identity == NOBODY:
            said = "a transaction is open" if self._is_open else "init() comes first"
            raise protocol_error(OUT_OF_TURN, "begin a transaction", said, fatal=True)
        self._cluster.forget_topics(old=True)
        self._is_open = True

    def send_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the offsets of a group with the transaction."""
        self._check_turn("send offsets")
        if self._failed is None:
            with self._saying("send rows", delivering=True):
                self._push()  # they are written while the offsets are sent
        if self._failed is not None:
            raise self._failed
        with self._saying(f"commit offsets of group {group!r}"):
            if group not in self._groups:
                self._groups.add(group)
                self._transactions.add_offsets(self._identity, group, self._waiting())
            self._transactions.send_offsets(self._identity, group, offsets, self._waiting())

    def commit(self) -> None:
        """Make everything since ``begin`` visible."""
        self._check_turn("commit the transaction")
        self.flush()
        if self._added or self._groups:
            self._is_committing = True
            with self._saying("commit the transaction", abortable=False):
                self._transactions.end(self._identity, self._waiting(), committed=True)
        self._end()

    def abort(self) -> None:
        """Forget everything since ``begin``. If rows may be under way still they are locked out by a new epoch of our identity."""
        self._check_fenced()
        self._forget_rows()
        with self._saying("abort the transaction", abortable=False):
            if self._added or self._groups:
                self._abort()
            if self._is_dirty:
                self._begin_as(self._transactions.identify(self._waiting(), self._identity))
        self._end()

    def _abort(self) -> None:
        try:
            self._transactions.end(self._identity, self._waiting(), committed=False)
        except Refused as refused:  # nothing is open if nothing that was to take part has been heard of
            if refused.code != INVALID_TXN_STATE or self._is_committing:
                raise
            self._is_dirty = True

    def _check_turn(self, doing: str) -> None:
        super()._check_turn(doing)
        if not self._is_open:
            raise protocol_error(OUT_OF_TURN, doing, "no transaction is open: begin one", fatal=True)

    def _prepare(self, waiting: Waiting) -> None:
        new = self._open.keys() - self._added
        if new:
            self._added |= new  # before: if the answer is lost they may take part
            self._transactions.add_partitions(self._identity, new, waiting)

    def _end(self) -> None:
        self._is_open = self._is_committing = False
        self._added.clear()
        self._groups.clear()


class PlainWire(_RowWriter):
    """At least once: rows are written as they come, offsets after them, at ``commit``. The same calls, no transaction."""

    def __init__(self, settings: Settings, patience: Patience) -> None:
        super().__init__(settings, patience, None)
        self._offsets: dict[str, dict[TopicPartition, int]] = {}

    def init(self) -> None:
        """Begin; once more: begin anew, whatever was under way."""
        self._forget_rows()
        self._begin_as(NOBODY)

    def begin(self) -> None:
        """Begin to collect offsets."""
        self._cluster.forget_topics(old=True)
        self._offsets.clear()

    def send_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Keep the offsets of a group for the commit."""
        self._offsets.setdefault(group, {}).update(offsets)

    def commit(self) -> None:
        """Wait until all rows are in the log, then commit the offsets."""
        self.flush()
        for group, offsets in self._offsets.items():
            with self._saying(f"commit offsets of group {group!r}", abortable=False):
                body = requests.commit_offsets(group, offsets)
                give_offsets(self._cluster, group, requests.COMMIT_OFFSETS, body, self._waiting())
        self._offsets.clear()

    def abort(self) -> None:
        """Forget the offsets, and the rows that were not sent yet."""
        self._offsets.clear()
        self.init()

    def _prepare(self, waiting: Waiting) -> None:
        if self._identity == NOBODY:
            self._begin_anew(waiting)

    def _begin_anew(self, waiting: Waiting) -> None:
        def attempt() -> Identity:
            code, given = self._cluster.ask(requests.INIT_PRODUCER, requests.init_producer(None, 0), waiting)
            check(code)
            return given

        self._identity = self._cluster.persist(waiting, attempt)
