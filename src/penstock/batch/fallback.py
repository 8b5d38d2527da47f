"""Fallback: a batch, or the rest of it, goes to the record path.

Whoever works on a batch raises one of these before anything has happened; the record path then gives the result.
"""

from __future__ import annotations


class Fallback(Exception):
    """A batch is not for kernels (a key is missing, a row would be deleted …). ``reason`` is a word for the counters.

    ``row``: the place of a record that is the reason, where one is known.

    >>> Fallback("null_key", 7).reason
    'null_key'
    """

    def __init__(self, reason: str, row: int | None = None) -> None:
        super().__init__(reason if row is None else f"{reason} at row {row}")
        self.reason = reason
        self.row = row


class Undecodable(Fallback):
    """A key or a value of the source cannot be deserialized: the policy is asked about that record, the others may still go as a batch."""

    def __init__(self) -> None:
        super().__init__("undecodable")


class FallbackAfterCall(Fallback):
    """As ``Fallback``, but functions of the user have been called: the record path gets the values as they were before."""


class InputChanged(Fallback):
    """Functions may have changed values, and nothing says what they were: the records are decoded again from the source."""

    def __init__(self) -> None:
        super().__init__("input_changed")
