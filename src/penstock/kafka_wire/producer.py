"""The writer that speaks Kafka's protocol itself: rows and offsets of an epoch, in one transaction or, at least once, without.

Rows are encoded as they are handed over, a batch is sent when it is full, and ``flush`` sends the rest and waits for all of them. So there
is at most one batch for each partition that is not on its way.

A timestamp of 0 is written as 1, as by librdkafka, to which it means "now".
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from penstock.kafka_wire.errors import INVALID_TXN_STATE, UNKNOWN_TOPIC, WRONG_STATE, ProducerError, Refused, check
from penstock.kafka_wire.net.waiting import Backoff, IsOver
from penstock.kafka_wire.protocol import requests
from penstock.kafka_wire.protocol.batches import Row
from penstock.kafka_wire.protocol.primitives import TopicPartition
from penstock.kafka_wire.protocol.requests import NOBODY, Identity
from penstock.kafka_wire.settings import ProducerSettings
from penstock.kafka_wire.transactions import Transactions, give_offsets
from penstock.kafka_wire.writer import OnRefused, RowWriter

logger = logging.getLogger("penstock.kafka")
#: how long an abort waits for the answers to what was sent
ANSWER_SECONDS = 10.0
#: the first version of AddPartitionsToTxn by which brokers ask coordinators whether a partition takes part in a transaction (KIP-890)
VERIFYING = 4


class TransactionalWire(RowWriter):
    """Exactly once: rows and offsets become visible together, at ``commit``, or never."""

    def __init__(self, settings: ProducerSettings, is_over: IsOver, transactional_id: str) -> None:
        super().__init__(settings, is_over, transactional_id)
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
        with self._failing(f"begin as producer {self._id!r}", abortable=False):
            self._begin_as(NOBODY)
            self._begin_as(self._transactions.identify(self._waiting()))
            self._lock_out()
        self._warn_of_old_brokers()

    def begin(self) -> None:
        """Open a transaction."""
        self._check_fenced()
        if self._is_open or self._identity == NOBODY:
            said = "a transaction is open" if self._is_open else "init() comes first"
            raise ProducerError(WRONG_STATE, "begin a transaction", said, fatal=True)
        self._cluster.forget_topics(old=True)
        self._is_open = True

    def send_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the offsets of a group with the transaction."""
        self._check_state("send offsets")
        if self._failed is None:
            with self._failing("send rows", delivering=True):
                self._push()  # they are written while the offsets are sent
        if self._failed is not None:
            raise self._failed
        with self._failing(f"commit offsets of group {group!r}"):
            if group not in self._groups:
                self._groups.add(group)
                self._transactions.add_offsets(self._identity, group, self._waiting())
            self._transactions.send_offsets(self._identity, group, offsets, self._waiting())

    def commit(self) -> None:
        """Make everything since ``begin`` visible."""
        self._check_state("commit the transaction")
        self.flush()
        if self._added or self._groups:
            self._is_committing = True
            with self._failing("commit the transaction", abortable=False):
                self._transactions.end(self._identity, self._waiting(), committed=True)
        self._end()

    def abort(self) -> None:
        """Forget everything since ``begin``.

        A batch that a broker gets after the end of its transaction would begin another one there, which the next commit makes visible: so
        answers under way are waited for. Rows whose answers do not come are locked out by a new epoch of our identity.
        """
        self._check_fenced()
        self._delivery.await_answers(Backoff(self._is_over, self._settings, ANSWER_SECONDS))
        self._forget_rows()
        with self._failing("abort the transaction", abortable=False):
            if self._added or self._groups:
                self._abort()
            if self._is_dirty:
                self._begin_as(self._transactions.identify(self._waiting(), self._identity))
            self._lock_out()
        self._end()

    def _abort(self) -> None:
        try:
            self._transactions.end(self._identity, self._waiting(), committed=False)
        except Refused as refused:  # nothing is open if nothing that was to take part has been heard of
            if refused.code != INVALID_TXN_STATE or self._is_committing:
                raise
            self._is_dirty = True

    def _lock_out(self) -> None:
        """Abort a transaction of our new epoch, without rows, in the partitions that rows of an earlier one may still come to.

        Its marker ends what has come there by then, and tells the leader of the new epoch: what comes later is refused. Brokers that verify
        which partitions take part in a transaction (Kafka 3.6) refuse it by themselves, if they are not told otherwise.
        """
        added = False
        for partition in sorted(self._late):
            try:
                self._transactions.add_partitions(self._identity, [partition], self._waiting())
                added = True
            except Refused as refused:  # a topic that is gone has no rows
                if refused.code != UNKNOWN_TOPIC:
                    raise
        if added:
            self._transactions.end(self._identity, self._waiting(), committed=False)
        self._late.clear()

    def _warn_of_old_brokers(self) -> None:
        if self._cluster.newest(requests.ADD_PARTITIONS) < VERIFYING:
            logger.warning(
                "a broker does not verify which partitions take part in a transaction (AddPartitionsToTxn %d, Kafka 3.6 has %d): if this "
                "process is killed while it aborts, and a request of it reaches the broker only later, rows that were aborted may become "
                "visible. Remedy: Kafka 3.6 or newer",
                self._cluster.newest(requests.ADD_PARTITIONS),
                VERIFYING,
            )

    def _interrupted(self, doing: str) -> None:
        super()._interrupted(doing)
        self._failed = ProducerError(None, doing, "interrupted", abortable=True)

    def _check_state(self, doing: str) -> None:
        super()._check_state(doing)
        if not self._is_open:
            raise ProducerError(WRONG_STATE, doing, "no transaction is open: begin one", fatal=True)

    def _prepare(self, waiting: Backoff) -> None:
        new = self._open.keys() - self._added
        if new:
            self._added |= new  # before: if the answer is lost they may take part
            self._transactions.add_partitions(self._identity, new, waiting)

    def _end(self) -> None:
        self._is_open = self._is_committing = False
        self._added.clear()
        self._groups.clear()


class PlainWire(RowWriter):
    """At least once: rows are written as they come, offsets after them, at ``commit``. The same calls, no transaction."""

    def __init__(self, settings: ProducerSettings, is_over: IsOver) -> None:
        super().__init__(settings, is_over, None)
        self._offsets: dict[str, dict[TopicPartition, int]] = {}

    def init(self) -> None:
        """Begin; once more: begin anew, whatever was under way."""
        self._forget_rows()
        self._begin_as(NOBODY)

    def produce(self, rows: Iterable[Row], on_refused: OnRefused) -> None:
        """Hand over rows, and send them: who has only a few may not have any more for a long time."""
        super().produce(rows, on_refused)
        with self._failing("send rows", delivering=True):
            self._push()

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
            with self._failing(f"commit offsets of group {group!r}", abortable=False):
                body = requests.commit_offsets(group, offsets)
                give_offsets(self._cluster, group, requests.COMMIT_OFFSETS, body, offsets, self._waiting())
        self._offsets.clear()

    def abort(self) -> None:
        """Forget the offsets, and the rows that were not sent yet."""
        self._offsets.clear()
        self.init()

    def _prepare(self, waiting: Backoff) -> None:
        if self._identity == NOBODY:
            self._begin_anew(waiting)

    def _begin_anew(self, waiting: Backoff) -> None:
        def attempt() -> Identity:
            code, given = self._cluster.ask(requests.INIT_PRODUCER, requests.init_producer(None, 0), waiting)
            check(code)
            return given

        self._identity = self._cluster.persist(waiting, attempt)
