"""``kafka_wire``'s producer as the engine sees it: the same calls, its errors in the words of the log."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping

from penstock.errors import BrokerError, ProductionError
from penstock.kafka_wire.errors import ProducerError, UnsupportedSetting
from penstock.kafka_wire.producer import PlainWire, TransactionalWire
from penstock.kafka_wire.settings import parse_settings
from penstock.log.base import OnRefused, Producer, Row, RowColumns, TopicPartition
from penstock.log.client import Connection, logger
from penstock.log.deadline import Deadline
from penstock.log.failures import protocol_error


def wire_producer(
    connection: Connection, deadline: Deadline, transactional_id: str | None, batch_bytes: int | None
) -> Producer | None:
    """Make a producer of ``kafka_wire``; None if there is a setting that it does not understand."""
    try:
        settings = parse_settings(connection.settings("producer"), batch_bytes)
        if transactional_id is None:
            return WireProducer(PlainWire(settings, deadline.is_over))
        return WireProducer(TransactionalWire(settings, deadline.is_over, transactional_id))
    except (
        UnsupportedSetting,
        OSError,
    ) as unknown:  # certificates that cannot be read, too: it says so in its own words
        logger.debug("rows are written by librdkafka, which knows all settings: %s", unknown)
        return None


class WireProducer:
    """Hands calls over and translates errors."""

    def __init__(self, wire: PlainWire | TransactionalWire) -> None:
        self.wire = wire

    def init(self) -> None:
        """Take over from any earlier producer of the same id."""
        with _translated():
            self.wire.init()

    def begin(self) -> None:
        """Open a transaction."""
        with _translated():
            self.wire.begin()

    def produce(self, rows: Iterable[Row], on_refused: OnRefused | None = None) -> None:
        """Hand over rows. One that is refused at once goes to ``on_refused``, else raises ``ProductionError``."""
        with _translated():
            self.wire.produce(rows, _on_refused(on_refused))

    def produce_columns(self, columns: RowColumns, on_refused: OnRefused | None = None) -> None:
        """Hand over the same rows by column."""
        with _translated():
            self.wire.produce_columns(columns, _on_refused(on_refused))

    def send_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the offsets of a group with the transaction."""
        with _translated():
            self.wire.send_offsets(group, offsets)

    def flush(self) -> None:
        """Wait until every row is in the log."""
        with _translated():
            self.wire.flush()

    def commit(self) -> None:
        """Make everything since ``begin`` visible."""
        with _translated():
            self.wire.commit()

    def abort(self) -> None:
        """Forget everything since ``begin``."""
        with _translated():
            self.wire.abort()

    def close(self) -> None:
        """Forget rows not yet sent and let go of the connections."""
        self.wire.close()


def _on_refused(on_refused: OnRefused | None) -> Callable[[Row, int], None]:
    """Return the callback for a row that was refused, and the code."""

    def refused(row: Row, code: int) -> None:
        topic, partition, key, value, *_ = row
        size = len(key or b"") + len(value or b"")
        where = topic if partition is None else f"{topic}-{partition}"
        error = ProductionError(f"a row of {size} bytes for {where} was refused: {protocol_error(code, 'send it')}")
        if on_refused is None:
            raise error
        on_refused(row, error)

    return refused


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except ProducerError as failure:
        raise _said(failure) from failure.__cause__


def _said(failure: ProducerError) -> BrokerError:
    if failure.code is None:
        return BrokerError(str(failure), abortable=failure.abortable)
    return protocol_error(failure.code, failure.doing, failure.said, abortable=failure.abortable, fatal=failure.fatal)
