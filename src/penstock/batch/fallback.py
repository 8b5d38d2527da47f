"""Fallback: a batch, or the rest of it, goes to the record path.

Whoever works on a batch raises one of these before anything has happened; the record path then gives the result.
"""

from __future__ import annotations


class Fallback(Exception):
    """These records are not for columns (a key or a value is missing, a row is deleted): they are to go one by one."""


class Undecodable(Fallback):
    """What came from outside cannot be read: some record of these is to be judged, others are not."""


class FallbackAfterCall(Fallback):
    """These records are not for columns, which shows when functions have been called for them: they are to go as they were."""


class InputChanged(Fallback):
    """A function may have changed the values of these records, and nothing says what they were: they are to be read again."""
