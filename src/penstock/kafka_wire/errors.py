"""Errors of the producer: a broker refuses, a connection is lost, a request times out; and what is raised then.

Codes are those of Kafka's protocol. Those of the producer itself are negative, with the numbers that librdkafka has for the same.
"""

from __future__ import annotations

from penstock.kafka_wire.protocol.primitives import TopicPartition

#: a connection is lost, nothing came in time, TLS was refused, a call was made out of turn, there is no such partition
LOST, TIMED_OUT, TLS_REFUSED, WRONG_STATE, NO_PARTITION = -195, -185, -181, -172, -190
UNKNOWN_TOPIC, TOO_LARGE, INVALID_TXN_STATE = 3, 10, 48
#: what is said here of a partition of which an answer says nothing, and of a batch that is out of order because the one before it has to be
#: sent again: a fault that passes (NETWORK_EXCEPTION)
UNKNOWN = 13
#: the same may work a little later
RETRIABLE = frozenset({5, 6, 7, 8, 13, 14, 15, 16, 19, 20, 41, 51, 56, 74, 75, 78, 88, 89})
#: another producer has the id, or the coordinator gave up on this one
FENCED = frozenset({47, 90})
#: of producers whose identity is of no use any more: another one may be had by ``init``
LOST_IDENTITY = frozenset({31, INVALID_TXN_STATE, 49, 53})


class Refused(Exception):
    """A broker's error code. ``partition``: the partition it concerns; ``rows``: number of rows that were not written to it."""

    def __init__(
        self, code: int, said: str | None = None, partition: TopicPartition | None = None, rows: int = 0
    ) -> None:
        super().__init__(f"error {code}" + (f": {said}" if said else ""))
        self.code = code
        self.said = said
        self.partition = partition
        self.rows = rows

    @property
    def retriable(self) -> bool:
        """Whether the request may succeed if it is sent again."""
        return self.code in RETRIABLE


class TlsRefused(OSError):
    """TLS was refused, by us or by the broker: not retriable."""


class NoAnswer(OSError):
    """The request timed out."""


class UnsupportedSetting(Exception):
    """A setting that this producer does not support."""


class ProducerError(Exception):
    """A call of the producer has failed. ``abortable``: the transaction must be aborted; ``fatal``: ``init`` comes next, if anything."""

    def __init__(
        self, code: int | None, doing: str, said: str | None = None, *, abortable: bool = False, fatal: bool = False
    ) -> None:
        super().__init__(f"could not {doing}: {said or f'error {code}'}")
        self.code = code
        self.doing = doing
        self.said = said
        self.is_fenced = code in FENCED
        self.abortable = abortable and not self.is_fenced
        self.fatal = fatal or self.is_fenced


def check(code: int, said: str | None = None) -> None:
    """Raise unless the error code is 0."""
    if code:
        raise Refused(code, said)


def failure_of(fault: Refused | OSError, doing: str, *, delivering: bool, abortable: bool) -> ProducerError:
    """Return what a call raises because of a fault. ``delivering``: batches; the partition is named then."""
    if not isinstance(fault, Refused):
        code = TLS_REFUSED if isinstance(fault, TlsRefused) else TIMED_OUT if isinstance(fault, NoAnswer) else LOST
        return ProducerError(code, doing, str(fault) or None, abortable=abortable)
    if delivering and fault.partition is not None:
        topic, partition = fault.partition
        where = topic if partition < 0 else f"{topic}-{partition}"
        doing = f"deliver {fault.rows} rows, the first to {where}" if fault.rows else f"deliver rows to {where}"
    fatal = fault.code in LOST_IDENTITY
    return ProducerError(fault.code, doing, fault.said, abortable=abortable and not fatal, fatal=fatal)
