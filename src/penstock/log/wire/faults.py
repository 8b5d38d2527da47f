"""What goes wrong on the wire: a broker refuses, a connection is lost, nothing comes. ``log.failures`` has the words for it."""

from __future__ import annotations

from penstock.log.base import TopicPartition
from penstock.log.failures import RETRIABLE_CODES


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
