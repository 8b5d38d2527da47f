"""The writer: rows and offsets of an epoch, in one transaction or, at least once, without.

Used where ``kafka_wire`` is not: it is the fallback that knows every setting. One call of the client for each row, about a microsecond:
`produce_batch` would take neither timestamps nor headers. To have no headers costs a quarter less than to have an empty list of them. Only
failed deliveries are reported, so a row that arrives costs no call back into Python.

A timestamp of 0 is written as 1: to the client 0 means "now", which would be a wrong time by half a century.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import Producer as Client
from confluent_kafka import TopicPartition as Position

from penstock.errors import BrokerError, ProductionError
from penstock.log import partition_queue
from penstock.log.base import OnRefused, Row, RowColumns, TopicPartition
from penstock.log.bounded import bounded, keep_for_ever
from penstock.log.client import Connection
from penstock.log.deadline import Deadline
from penstock.log.failures import FENCED, broker_error, kafka_error, made
from penstock.record import raw_name, undecodable_name

T = TypeVar("T")

#: calls that wait are cut into slices, so that Ctrl-C is heard
SLICE_SECONDS = 1.0
#: a call that is late by more than this is stuck
GRACE_SECONDS = 10.0
_QUEUE_FULL_SECONDS = 0.005
#: the code of a client that does not return from a call
STUCK = "STUCK"


class _RowWriter:
    """What both producers share: the loop over rows, and deliveries that failed."""

    def __init__(self, connection: Connection, deadline: Deadline, batch_bytes: int | None, **required: Any) -> None:
        self._connection = connection
        self._deadline = deadline
        self._failed: list[tuple[KafkaError, str]] = []
        settings = connection.settings("producer", **required)
        settings |= {"delivery.report.only.error": True, "on_delivery": self._on_failed_delivery}
        if batch_bytes is not None:
            settings["batch.size"] = min(batch_bytes, int(settings.get("batch.size", batch_bytes)))
        self._settings = partition_queue.plugged(settings)
        self._client = made(Client, self._settings)
        self._used = False

    def produce(self, rows: Iterable[Row], on_refused: OnRefused | None = None) -> None:
        """Hand over rows. One that is refused at once goes to ``on_refused``, else raises ``ProductionError``."""
        with _no_collections():
            self._hand_over(rows, on_refused)
        self._serving(self._client.poll, 0)

    def produce_columns(self, columns: RowColumns, on_refused: OnRefused | None = None) -> None:
        """Hand over the same rows by column."""
        self.produce(columns.rows(), on_refused)

    def _hand_over(self, rows: Iterable[Row], on_refused: OnRefused | None) -> None:
        produce = self._client.produce
        for row in rows:
            topic, partition, key, value, timestamp, headers = row
            try:
                if headers:
                    self._produce_with_headers(row)
                else:
                    produce(topic, value, key, -1 if partition is None else partition, None, None, timestamp or 1)
            except BufferError:
                self._produce_when_there_is_room(row)
            except KafkaException as exception:
                self._raise_fatal(exception)
                refused = self._refusal(row, kafka_error(exception))
                if on_refused is None:
                    raise refused from exception
                on_refused(row, refused)

    def init(self) -> None:
        """Begin; once more: begin anew with another client, whatever has become of this one."""
        if self._used:
            self.close()
            self._failed.clear()  # a client counts its own
            self._client = made(Client, self._settings)
        self._used = True

    def flush(self) -> None:
        """Wait until every row is in the log; raise if one could not be delivered, or if none was for too long."""
        waiting, idle = len(self._client), 0.0
        while left := self._serving(self._client.flush, SLICE_SECONDS):
            self._raise_failed()
            waiting, idle = left, 0.0 if left < waiting else idle + SLICE_SECONDS
            if self._deadline.is_over(idle):
                error = KafkaError(KafkaError._TIMED_OUT, f"{left} rows wait still")
                late = broker_error(error, "deliver all rows in time")
                late.abortable = True  # nothing was committed: it may be aborted
                raise late
        self._raise_failed()

    def close(self) -> None:
        """Forget rows not yet sent and let go of the connections."""
        self._client.purge()
        # a fenced client says so again, from inside the reports of its rows, too; they are gone either way
        with contextlib.suppress(KafkaException, SystemError):
            self._client.flush(SLICE_SECONDS)

    def _produce_with_headers(self, row: Row) -> None:
        """Hand over a row with headers. INVARIANT: the client never sees a name that is not UTF-8: it would crash."""
        topic, partition, key, value, timestamp, headers = row
        place = -1 if partition is None else partition
        if undecodable_name(headers) is None:
            self._client.produce(topic, value, key, place, None, None, timestamp or 1, [*headers])
        elif partition_queue.loops is None:  # there is no way to write it: the name is escaped
            shown: list[Any] = [(raw_name(name).decode(errors="backslashreplace"), data) for name, data in headers]
            self._client.produce(topic, value, key, place, None, None, timestamp or 1, shown)
        else:
            raw = tuple((raw_name(name), data) for name, data in headers)
            code = partition_queue.loops.produce_row(self._client, topic, place, key, value, timestamp, raw)
            if code == KafkaError._QUEUE_FULL:
                raise BufferError("the queue is full")
            if code:
                raise KafkaException(KafkaError(code))

    def _produce_when_there_is_room(self, row: Row) -> None:
        for _ in self._deadline.waits(_QUEUE_FULL_SECONDS):
            self._serving(self._client.poll, _QUEUE_FULL_SECONDS)
            try:
                return self._produce_with_headers(row)
            except BufferError as error:
                full = error
        raise BrokerError("could not send rows: the queue stays full", retriable=True, abortable=True) from full

    def _serving(self, call: Callable[[float], T], seconds: float) -> T:
        """Make a call that serves reports of deliveries, from inside which the client raises a fatal error.

        It goes on to serve reports with that exception set, and the interpreter then complains of it: what it complains of counts.
        """
        try:
            return call(seconds)
        except (KafkaException, SystemError) as raised:
            exception = _meant(raised)
            if exception is None:
                raise
            self._raise_fatal(exception)
            raise broker_error(kafka_error(exception), "send rows") from exception

    def _raise_fatal(self, exception: KafkaException) -> None:
        """Raise why the client is lost, if it is. It is no fault of the row at hand, whose error says only that it is."""
        error = kafka_error(exception)
        if error.code() == KafkaError._FATAL:
            try:
                self._client.begin_transaction()  # a lost client does nothing but say why
            except KafkaException as other:
                error = kafka_error(other)
        if error.fatal() or error.code() in FENCED:
            raise broker_error(error, "send rows") from exception

    @staticmethod
    def _refusal(row: Row, error: KafkaError) -> ProductionError:
        topic, partition, key, value, *_ = row
        size = len(key or b"") + len(value or b"")
        where = topic if partition is None else f"{topic}-{partition}"
        return ProductionError(f"a row of {size} bytes for {where} was refused: {broker_error(error, 'send it')}")

    def _on_failed_delivery(self, error: KafkaError, message: Message) -> None:
        self._failed.append((error, f"{message.topic()}-{message.partition()}"))

    def _raise_failed(self) -> None:
        """Raise if rows could not be delivered. The loops count all that fail, the client only those that it was given itself."""
        count, code, topic, partition = (
            (0, 0, "", 0) if partition_queue.loops is None else partition_queue.loops.failed(self._client)
        )
        failed, self._failed = self._failed, []
        if not count and not failed:
            return
        error, where = failed[0] if failed else (KafkaError(code), f"{topic}-{partition}")
        said = broker_error(error, f"deliver {count or len(failed)} rows, the first to {where}")
        said.abortable = not said.fatal
        raise said

    def _in_slices(self, doing: str, call: Callable[[float], Any]) -> None:
        """Run a call with a slice of time, again and again while it says that it may go on."""
        client = self._client
        for _ in self._deadline.waits(SLICE_SECONDS):
            if client is not self._client:  # in a thread that was left behind: another client has taken over
                return
            try:
                call(SLICE_SECONDS)
                return
            except SystemError as raised:
                exception = _meant(raised)
                if exception is None:
                    raise
                self._raise_fatal(exception)
                raise broker_error(kafka_error(exception), doing) from raised
            except KafkaException as refused:
                last = broker_error(kafka_error(refused), doing)
                if not last.retriable or last.abortable or last.fatal:
                    raise last from refused
                self._serving(client.poll, 0.05)
        raise last


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Pause the garbage collector: rows have no cycles, and a million of them would make it look a thousand times."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _meant(raised: KafkaException | SystemError) -> KafkaException | None:
    """Return what the client meant to raise. A report that raises may lose the exception, too: then the client is asked (``_FATAL``)."""
    if isinstance(raised, KafkaException):
        return raised
    if raised.__cause__ is None and "without setting an exception" in str(raised):
        return KafkaException(KafkaError(KafkaError._FATAL))
    return raised.__cause__ if isinstance(raised.__cause__, KafkaException) else None


class TransactionalProducer(_RowWriter):
    """Exactly once: rows and offsets become visible together, at ``commit``, or never.

    ``deadline`` is how long ``init``, ``flush``, ``commit`` and ``abort`` wait for a cluster that does not answer.
    """

    def __init__(
        self, connection: Connection, deadline: Deadline, transactional_id: str, *, batch_bytes: int | None = None
    ) -> None:
        super().__init__(connection, deadline, batch_bytes, transactional_id=transactional_id)
        self._id = transactional_id
        self._groups: dict[str, Any] = {}
        self._stuck = False

    def init(self) -> None:
        """Take over from any earlier producer of the same id, be it this one: it is fenced, its open transaction is aborted."""
        super().init()
        self._stuck = False
        self._in_slices(f"begin as producer {self._id!r}", self._client.init_transactions)

    def close(self) -> None:
        """Forget rows not yet sent and let go of the connections. A client that somebody is inside of is never touched again."""
        if self._stuck:
            keep_for_ever(self._client)
        else:
            super().close()

    def begin(self) -> None:
        """Open a transaction."""
        self._once("begin a transaction", self._client.begin_transaction)

    def send_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the offsets of a group with the transaction."""
        positions = [Position(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        doing = f"commit offsets of group {group!r}"
        member = self._member(group, positions, doing)

        client = self._client

        def send() -> None:
            self._in_slices(doing, lambda seconds: client.send_offsets_to_transaction(positions, member, seconds))

        try:
            bounded(send, self._deadline.seconds + GRACE_SECONDS)
        except TimeoutError as error:
            self._stuck = True
            raise BrokerError(
                f"could not {doing}: the client does not return from it. Nothing was committed; another client may take over",
                code=STUCK,
                fatal=True,
            ) from error

    def commit(self) -> None:
        """Make everything since ``begin`` visible."""
        self.flush()
        self._in_slices("commit the transaction", self._client.commit_transaction)
        self._raise_failed()

    def abort(self) -> None:
        """Forget everything since ``begin``."""
        self._in_slices("abort the transaction", self._client.abort_transaction)
        self._serving(self._client.poll, 0)
        self._failed.clear()
        if partition_queue.loops is not None:
            partition_queue.loops.failed(self._client)

    def _once(self, doing: str, call: Callable[[], Any]) -> None:
        try:
            call()
        except KafkaException as exception:
            raise broker_error(kafka_error(exception), doing) from exception

    def _member(self, group: str, positions: list[Position], doing: str) -> Any:
        """The group as the transaction knows it: without members, since the epochs choose what is read.

        Its coordinator is asked something first. A cluster makes it when it is first needed, and the transaction's own call
        may block for ever while that is under way.
        """
        if group not in self._groups:
            settings = self._connection.settings("consumer", group_id=group, enable_auto_commit=False)
            consumer = made(Consumer, settings)
            try:
                self._in_slices(doing, lambda seconds: consumer.committed(positions, timeout=seconds))
                self._groups[group] = consumer.consumer_group_metadata()
            finally:
                consumer.close()
        return self._groups[group]


class PlainProducer(_RowWriter):
    """At least once: rows are written as they come, offsets after them, at ``commit``. The same calls, no transaction."""

    def __init__(self, connection: Connection, deadline: Deadline, *, batch_bytes: int | None = None) -> None:
        super().__init__(connection, deadline, batch_bytes, enable_idempotence=True)
        self._offsets: dict[str, dict[TopicPartition, int]] = {}
        self._committers: dict[str, Consumer] = {}

    def begin(self) -> None:
        """Begin to collect offsets."""
        self._offsets.clear()

    def send_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Keep the offsets of a group for the commit."""
        self._offsets.setdefault(group, {}).update(offsets)

    def commit(self) -> None:
        """Wait until all rows are in the log, then commit the offsets."""
        self.flush()
        for group, offsets in self._offsets.items():
            positions = [Position(topic, partition, offset) for (topic, partition), offset in offsets.items()]
            committer = self._committer(group)
            self._in_slices(
                f"commit offsets of group {group!r}",
                lambda _, committer=committer, positions=positions: committer.commit(  # type: ignore[misc]
                    offsets=positions, asynchronous=False
                ),
            )
        self._offsets.clear()

    def abort(self) -> None:
        """Forget the offsets, and the rows that were not sent yet: with the client, which would go on to purge what comes next."""
        self._offsets.clear()
        self.init()

    def close(self) -> None:
        """Forget rows not yet sent and let go of the connections."""
        super().close()
        for committer in self._committers.values():
            committer.close()
        self._committers.clear()

    def _committer(self, group: str) -> Consumer:
        if group not in self._committers:
            settings = self._connection.settings("consumer", group_id=group, enable_auto_commit=False)
            self._committers[group] = made(Consumer, settings)
        return self._committers[group]
