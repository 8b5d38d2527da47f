"""What goes wrong on the wire: a broker refuses, a connection is lost, nothing comes. ``log.failures`` has the words for it."""

from __future__ import annotations

from penstock.errors import BrokerError
from penstock.log.base import TopicPartition
from penstock.log.failures import LATE, LOST, LOST_IDENTITY, RETRIABLE_CODES, TLS_REFUSED, protocol_error

#: what is said here of a partition of which an answer says nothing, and of a batch that is out of order because the one before it has to be
#: sent again: a fault that passes (NETWORK_EXCEPTION)
UNKNOWN = 13


class Refused(Exception):
    """A broker's error code. ``place``: the partition that it is about; ``rows``: how many did not arrive there."""

    def __init__(self, code: int, said: str | None = None, place: TopicPartition | None = None, rows: int = 0) -> None:
        super().__init__(f"error {code}" + (f": {said}" if said else ""))
        self.code = code
        self.said = said
        self.place = place
        self.rows = rows

    @property
    def passing(self) -> bool:
        """Whether the same may work a little later."""
        return self.code in RETRIABLE_CODES


class NoTrust(OSError):
    """TLS was refused, by us or by the broker: that does not pass."""


class Late(OSError):
    """Nothing came for as long as anybody waits."""


def check(code: int, said: str | None = None) -> None:
    """Raise unless the code says that all is well."""
    if code:
        raise Refused(code, said)


def said(fault: Refused | OSError, doing: str, *, delivering: bool, abortable: bool) -> BrokerError:
    """Say it in the words of the log. ``delivering``: batches; the partition is named then."""
    if isinstance(fault, Refused):
        if delivering and fault.place is not None:
            topic, partition = fault.place
            where = topic if partition < 0 else f"{topic}-{partition}"
            doing = f"deliver {fault.rows} rows, the first to {where}" if fault.rows else f"deliver rows to {where}"
        fatal = fault.code in LOST_IDENTITY
        return protocol_error(fault.code, doing, fault.said, abortable=abortable and not fatal, fatal=fatal)
    code = TLS_REFUSED if isinstance(fault, NoTrust) else LATE if isinstance(fault, Late) else LOST
    return protocol_error(code, doing, str(fault) or None, abortable=abortable)
