"""FixedKeyRecord: a record whose key cannot be changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from penstock.errors import TopologyError
from penstock.record import K, Record, V, record_of


class FixedKeyRecord(Record[K, V]):
    """What a FixedKeyProcessor gets: a Record with everything but ``with_key``.

    >>> FixedKeyRecord("a", 1, 10).with_value(2)
    FixedKeyRecord(key='a', value=2, timestamp=10, headers=())
    """

    __slots__ = ()

    def with_key(self, key: Any) -> NoReturn:
        """Refuse: the key is fixed."""
        raise TopologyError(KEY_IS_FIXED)

    def with_value(self, value: Any) -> FixedKeyRecord[K, Any]:
        """Return a copy with another value."""
        return record_of(self.key, value, self.timestamp, self.headers, FixedKeyRecord)  # type: ignore[no-any-return]

    def with_timestamp(self, timestamp: int) -> FixedKeyRecord[K, V]:
        """Return a copy with another timestamp (milliseconds)."""
        return FixedKeyRecord(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: Iterable[tuple[str, bytes | None]]) -> FixedKeyRecord[K, V]:
        """Return a copy with other headers."""
        return FixedKeyRecord(self.key, self.value, self.timestamp, headers)

    def __repr__(self) -> str:
        return f"FixedKey{super().__repr__()}"

    def __reduce__(self) -> tuple[Any, ...]:
        return FixedKeyRecord, (self.key, self.value, self.timestamp, self.headers)


KEY_IS_FIXED = (
    "process_values() keeps the key: a record may not be forwarded under another one; use process() to change keys"
)
