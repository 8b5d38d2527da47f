"""The verbs of key-value stores, above the few that a store brings: get, put, a scan of its rows, their count."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any

from penstock.errors import StoreError, VerbError, nearest
from penstock.serde import Serde
from penstock.state.base import prefix_end
from penstock.state.spec import StoreSpec
from penstock.state.typed import TypedStore
from penstock.state.write_back import successor


class Rows(Iterator[tuple[Any, Any]]):
    """What a range gives: an iterator of (key, value) as of the call, which may also be used in a ``with`` block."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Iterator[tuple[Any, Any]]) -> None:
        self._rows = rows

    def __next__(self) -> tuple[Any, Any]:
        return next(self._rows)

    def close(self) -> None:
        """End the iteration."""
        self._rows = iter(())

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


#: verbs that change a store: those of its users, then those of its task
WRITING = frozenset(
    {"put", "put_all", "put_if_absent", "delete", "remove", "compute", "merge"}
    | {"write", "add", "flush", "seal", "apply", "replay"}
)


def no_verb(spec: StoreSpec, verb: str, verbs: Iterable[str]) -> VerbError:
    """Report that a view of a store does not have a verb, and what it has."""
    if verb in WRITING:
        return VerbError(f"store {spec.name!r} is read-only here: it has no {verb!r}")
    known = sorted(verbs)
    hint = nearest(verb, known)
    return VerbError(
        f"store {spec.name!r} is a {spec.kind.value} store: it has no {verb!r}{hint}; it has {', '.join(known)}"
    )


class UpdatingVerbs:
    """The verbs that change rows by ``get`` and ``put``: Kafka's, plus ``compute`` and ``merge``."""

    #: returns what is stored for a key, or None
    get: Callable[..., Any]
    #: stores a value; None deletes
    put: Callable[..., Any]

    def put_all(self, rows: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Put every (key, value)."""
        for key, value in rows.items() if isinstance(rows, Mapping) else rows:
            self.put(key, value)

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Put unless there is a value; return the value that was there, or None."""
        old = self.get(key)
        if old is None:
            self.put(key, value)
        return old

    def delete(self, key: Any) -> Any:
        """Delete the row and return the value it had."""
        old = self.get(key)
        self.put(key, None)
        return old

    def compute(self, key: Any, f: Callable[[Any, Any], Any]) -> Any:
        """Put what ``f(key, old value or None)`` returns (None deletes), and return it."""
        new = f(key, self.get(key))
        self.put(key, new)
        return new

    def merge(self, key: Any, value: Any, f: Callable[[Any, Any], Any]) -> Any:
        """Put ``value`` if there is none, else what ``f(old, value)`` returns (None deletes); return what was put."""
        old = self.get(key)
        new = value if old is None else f(old, value)
        self.put(key, new)
        return new


class KeyValueVerbs(TypedStore, UpdatingVerbs):
    """The verbs of Kafka's ``KeyValueStore`` in snake_case, plus ``compute`` and ``merge``."""

    # ---- what a store brings

    @abstractmethod
    def get(self, key: Any) -> Any:
        """Return what is stored for the key, or None."""

    @abstractmethod
    def put(self, key: Any, value: Any) -> None:
        """Store the value; None deletes."""

    @abstractmethod
    def _shape(self, value: Any, timestamp: int) -> Any:
        """Make what ``get`` and the ranges give of a row."""

    @abstractmethod
    def approximate_num_entries(self) -> int:
        """Return the number of rows, or nearly."""

    @abstractmethod
    def _scan(self, lower: bytes | None, upper: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes, int]]:
        """Iterate (key, value, timestamp) of lower <= key < upper as of now."""

    # ---- the verbs

    def range(self, lower: Any = None, upper: Any = None) -> Rows:
        """Iterate (key, value) from ``lower`` to ``upper``, both included; None is an open end."""
        return self._between(lower, upper, reverse=False)

    def reverse_range(self, lower: Any = None, upper: Any = None) -> Rows:
        """Iterate as ``range`` does, from the upper end down."""
        return self._between(lower, upper, reverse=True)

    def all(self) -> Rows:
        """Iterate every (key, value)."""
        return self._between(None, None, reverse=False)

    def reverse_all(self) -> Rows:
        """Iterate every (key, value), from the last key to the first."""
        return self._between(None, None, reverse=True)

    def prefix_scan(self, prefix: Any, serde: Serde[Any] | None = None) -> Rows:
        """Iterate the rows whose serialised key begins with the serialised prefix (``serde``: the prefix's, else the
        key's)."""
        if prefix is None:
            raise StoreError(f"store {self.name!r}: the prefix must not be None")
        raw = (serde or self._key).serialize(prefix)
        return self._shown(self._scan(raw, prefix_end(raw), False))

    # ---- inside

    def _between(self, lower: Any, upper: Any, *, reverse: bool) -> Rows:
        first = None if lower is None else self._raw_key(lower)
        last = None if upper is None else self._raw_key(upper)
        if first is not None and last is not None and first > last:
            return Rows(iter(()))
        return self._shown(self._scan(first, None if last is None else successor(last), reverse))

    def _shown(self, rows: Iterator[tuple[bytes, bytes, int]]) -> Rows:
        decode_key, decode, shape = self._key.deserialize, self._value.deserialize, self._shape
        return Rows((decode_key(key), shape(decode(value), timestamp)) for key, value, timestamp in rows)
