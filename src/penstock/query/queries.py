"""The queries, with the names that they have in Kafka Streams.

Plain data; ``answers`` says which store answers which.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.serde import Serde


@dataclass(frozen=True, slots=True)
class Query:
    """Base of all queries."""


@dataclass(frozen=True, slots=True)
class KeyQuery(Query):
    """The value of a key."""

    key: Any


@dataclass(frozen=True, slots=True)
class RangeQuery(Query):
    """Rows (key, value) from ``lower`` to ``upper``, both included, in the order of the keys' bytes.

    None is an open end.
    """

    lower: Any = None
    upper: Any = None
    reverse: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class PrefixQuery(Query):
    """Rows (key, value) whose serialised key begins with the serialised prefix.

    ``serde``: the prefix's, else the key's.
    """

    prefix: Any
    serde: Serde[Any] | None = None


@dataclass(frozen=True, slots=True)
class TimestampedKeyQuery(Query):
    """The value of a key with its timestamp, of a timestamped store."""

    key: Any


@dataclass(frozen=True, slots=True)
class TimestampedRangeQuery(Query):
    """Rows as of `RangeQuery`, their values with timestamps, of a timestamped store."""

    lower: Any = None
    upper: Any = None
    reverse: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class WindowKeyQuery(Query):
    """Rows (start, value) of a key's windows that start from ``since`` to ``until``, both included."""

    key: Any
    since: int
    until: int


@dataclass(frozen=True, slots=True)
class WindowRangeQuery(Query):
    """Rows (Windowed, value) of all windows that start from ``since`` to ``until``, both included."""

    since: int
    until: int


@dataclass(frozen=True, slots=True)
class SessionQuery(Query):
    """Rows (Windowed, value) of all sessions of a key."""

    key: Any


@dataclass(frozen=True, slots=True)
class VersionedKeyQuery(Query):
    """The last version of a key, or the one that was valid at ``as_of``."""

    key: Any
    as_of: int | None = None


@dataclass(frozen=True, slots=True)
class MultiVersionedKeyQuery(Query):
    """The versions of a key that were valid at some time from ``since`` to ``until``.

    The oldest comes first, or, with ``reverse``, the newest.
    """

    key: Any
    since: int | None = None
    until: int | None = None
    reverse: bool = field(default=False, kw_only=True)
