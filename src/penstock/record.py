"""The values that travel: Record, Change, Windowed, Headers, Origin. Slotted, immutable where users see them, no behaviour.

Along an operator chain a record is four positional arguments, ``(key, value, timestamp, headers)``; a ``Record`` object is made
only where user code asks for one (the Processor API, the test driver's output).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from penstock.errors import TopologyError

K = TypeVar("K")
V = TypeVar("V")

#: Kafka headers: an ordered, immutable sequence of (name, bytes or None); names may repeat. A name that is not UTF-8 has a lone surrogate
#: for each byte that cannot be read (PEP 383), so that its bytes are not lost: see ``raw_name``.
Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


def raw_name(name: str) -> bytes:
    r"""Return the bytes of a header's name as the log has them.

    >>> raw_name(b"caf\xe9".decode("utf-8", "surrogateescape"))
    b'caf\xe9'
    """
    return name.encode("utf-8", "surrogateescape")


def undecodable_name(headers: Headers) -> str | None:
    r"""Return the first name that is not UTF-8, None if all are.

    >>> undecodable_name((("a", b"1"), ("\u00e9", None))), undecodable_name((("\udce9", b"1"),)) is None
    (None, False)
    """
    return next((name for name, _ in headers if not name.isascii() and not _is_utf8(name)), None)


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_headers(given: Any) -> Headers:
    """Return headers as a tuple of (name, bytes or None), checked; a mapping will do.

    >>> as_headers({"trace": b"7"}), as_headers([("a", None)])
    ((('trace', b'7'),), (('a', None),))
    """
    headers: Headers = tuple(given.items() if isinstance(given, Mapping) else given)
    for header in headers:
        if not (isinstance(header, tuple) and len(header) == 2 and isinstance(header[0], str)):
            raise TopologyError(
                f"headers are pairs of a name and bytes, such as ('trace', b'7'), but one is {header!r}"
            )
        if header[1] is not None and not isinstance(header[1], bytes):
            raise TopologyError(
                f"the value of a header is bytes or None, but {header[0]!r} has {header[1]!r}: encode it"
            )
    return headers


class _Fields:
    """What a record holds."""

    __slots__ = ("headers", "key", "timestamp", "value")


class _Open(_Fields):
    """A record that is being made: its fields can be set."""

    __slots__ = ()


class Record(_Fields, Generic[K, V]):
    """One record as the Processor API and the test driver see it.

    >>> r = Record("a", 1, 10)
    >>> r.with_value(2)
    Record(key='a', value=2, timestamp=10, headers=())
    >>> r
    Record(key='a', value=1, timestamp=10, headers=())
    """

    __slots__ = ()
    __match_args__ = ("key", "value", "timestamp", "headers")

    key: K
    value: V
    timestamp: int
    headers: Headers

    def __init__(self, key: K, value: V, timestamp: int, headers: Iterable[tuple[str, bytes | None]] = ()) -> None:
        if timestamp < 0:
            raise TopologyError(f"a record's timestamp must not be negative, but is {timestamp}")
        set_ = object.__setattr__
        set_(self, "key", key)
        set_(self, "value", value)
        set_(self, "timestamp", timestamp)
        set_(self, "headers", headers if type(headers) is tuple else as_headers(headers))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Record is immutable; use record.with_{name}(...) to make a changed copy")

    def with_key(self, key: Any) -> Record[Any, V]:
        """Return a copy with another key."""
        return record_of(key, self.value, self.timestamp, self.headers)  # type: ignore[no-any-return]

    def with_value(self, value: Any) -> Record[K, Any]:
        """Return a copy with another value."""
        return record_of(self.key, value, self.timestamp, self.headers)  # type: ignore[no-any-return]

    def with_timestamp(self, timestamp: int) -> Record[K, V]:
        """Return a copy with another timestamp (milliseconds)."""
        return Record(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: Iterable[tuple[str, bytes | None]]) -> Record[K, V]:
        """Return a copy with other headers."""
        return Record(self.key, self.value, self.timestamp, headers)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return (self.key, self.value, self.timestamp, self.headers) == (
            other.key,
            other.value,
            other.timestamp,
            other.headers,
        )

    def __hash__(self) -> int:
        return hash((self.key, self.timestamp))

    def __repr__(self) -> str:
        return f"Record(key={self.key!r}, value={self.value!r}, timestamp={self.timestamp}, headers={self.headers!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (self.key, self.value, self.timestamp, self.headers)


def record_of(key: Any, value: Any, timestamp: int, headers: Headers, kind: type[Record[Any, Any]] = Record) -> Any:
    """Return a record of what needs no check, as it was a record before: in a third of the time that its class takes.

    >>> record_of("a", 1, 10, ())
    Record(key='a', value=1, timestamp=10, headers=())
    """
    made: Any = _Open()
    made.key = key
    made.value = value
    made.timestamp = timestamp
    made.headers = headers
    made.__class__ = kind  # from here on it is immutable
    return made


class Change(Generic[V]):
    """An update of a table row: what flows, as the value, between table nodes.

    ``old`` is filled only where a node downstream asked for old values. ``is_latest`` is False only for an out-of-order write
    to a versioned store.
    """

    __slots__ = ("is_latest", "new", "old")

    def __init__(self, new: V | None, old: V | None = None, is_latest: bool = True) -> None:
        self.new = new
        self.old = old
        self.is_latest = is_latest

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Change):
            return NotImplemented
        return (self.new, self.old, self.is_latest) == (other.new, other.old, other.is_latest)

    def __hash__(self) -> int:
        return hash((self.new, self.old, self.is_latest))

    def __repr__(self) -> str:
        return f"Change(new={self.new!r}, old={self.old!r}, is_latest={self.is_latest})"


class Windowed(NamedTuple):
    """A key inside a window: the key type of every windowed table. Ends are exclusive or inclusive as the window kind says.

    >>> str(Windowed("a", 0, 10))
    '[a@0/10]'
    """

    key: Any
    start: int
    end: int

    def __str__(self) -> str:
        return f"[{self.key}@{self.start}/{self.end}]"


class ValueAndTimestamp(NamedTuple):
    """What a timestamped store holds for a key."""

    value: Any
    timestamp: int


class VersionedRecord(NamedTuple):
    """One version of a key in a versioned store; ``valid_to`` is None for the latest version."""

    value: Any
    timestamp: int
    valid_to: int | None = None


class Origin(NamedTuple):
    """Where the record being processed came from: the coordinates and raw bytes that errors and dead letters need.

    Invariant: one Origin per source record, shared by everything derived from it, across lanes and levels.
    ``partition_index`` is the source partition index that time is kept by (section 6 of the design), −1 where no record is at
    hand. ``reached`` is the partition time, this record included: the first sort key of a lane. ``sub`` is the position of a
    re-keyed record among all that its source record gave rise to.
    """

    topic: str | None
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    partition_index: int = 0
    reached: int = -1
    sub: tuple[int, ...] = ()


#: The origin during punctuation: no record is being processed.
NO_ORIGIN = Origin(None, -1, -1, -1, None, None, (), partition_index=-1)


class RecordMetadata(NamedTuple):
    """Topic, partition and offset of the record being processed (``context.record_metadata``)."""

    topic: str
    partition: int
    offset: int
