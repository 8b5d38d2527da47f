"""Stores as queries and the test driver see them: read verbs, plain values, no side effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from penstock.errors import StoreError
from penstock.record import ValueAndTimestamp, VersionedRecord
from penstock.serde import Serde
from penstock.state.base import Store
from penstock.state.spec import StoreKind
from penstock.state.verbs import KeyValueVerbs, Rows, no_verb
from penstock.state.versioned import VersionedStore


class ReadOnlyView:
    """A key-value store for queries: plain values, whether the store keeps timestamps or not, and no writing.

    >>> from penstock.state.open import standalone
    >>> from penstock.state.spec import Stores
    >>> store = standalone(Stores.key_value("counts", timestamped=True))
    >>> store.put("pear", ValueAndTimestamp(3, 100))
    >>> view = ReadOnlyView(store)
    >>> view.get("pear"), view.get_with_timestamp("pear"), list(view.all())
    (3, ValueAndTimestamp(value=3, timestamp=100), [('pear', 3)])
    >>> view.put("pear", 4)
    Traceback (most recent call last):
    penstock.errors.VerbError: store 'counts' is read-only here: it has no 'put'
    """

    def __init__(self, store: Any) -> None:
        self._store = store

    @property
    def name(self) -> str:
        """The store's name."""
        name: str = self._store.name
        return name

    def get(self, key: Any) -> Any:
        """Return the value or None."""
        row = self._store.peek(key)
        return None if row is None else row[0]

    def get_with_timestamp(self, key: Any) -> ValueAndTimestamp | None:
        """Return value and timestamp, or None; −1 where the store keeps no timestamps."""
        row = self._store.peek(key)
        return None if row is None else ValueAndTimestamp(*row)

    def range(self, lower: Any = None, upper: Any = None) -> Rows:
        """Iterate (key, value) from ``lower`` to ``upper``, both included; None is an open end."""
        return _plain(self._store.range(lower, upper))

    def reverse_range(self, lower: Any = None, upper: Any = None) -> Rows:
        """Iterate as ``range`` does, from the upper end down."""
        return _plain(self._store.reverse_range(lower, upper))

    def all(self) -> Rows:
        """Iterate every (key, value)."""
        return _plain(self._store.all())

    def reverse_all(self) -> Rows:
        """Iterate every (key, value), from the last key to the first."""
        return _plain(self._store.reverse_all())

    def prefix_scan(self, prefix: Any, serde: Serde[Any] | None = None) -> Rows:
        """Iterate the rows whose serialised key begins with the serialised prefix."""
        return _plain(self._store.prefix_scan(prefix, serde))

    def approximate_num_entries(self) -> int:
        """Return the number of rows, or nearly."""
        entries: int = self._store.approximate_num_entries()
        return entries

    def __getattr__(self, verb: str) -> NoReturn:
        if verb.startswith("_"):  # copy, pickle and the like ask for what is not there
            raise AttributeError(verb)
        raise no_verb(self._store.spec, verb, (name for name in vars(type(self)) if not name.startswith("_")))


class ReadOnlyVersionedView:
    """A versioned store for queries: as-of lookups and the history of a key, no writing."""

    def __init__(self, store: VersionedStore) -> None:
        self._store = store
        self.name = store.name

    def get(self, key: Any, as_of: int | None = None) -> VersionedRecord | None:
        """Return the last version, or the one that was valid at ``as_of``."""
        return self._store.get(key, as_of)

    def history(
        self, key: Any, since: int | None = None, until: int | None = None, reverse: bool = False
    ) -> Iterator[VersionedRecord]:
        """Iterate the versions valid at some time from ``since`` to ``until``."""
        return self._store.history(key, since, until, reverse)

    def __getattr__(self, verb: str) -> NoReturn:
        if verb.startswith("_"):  # copy, pickle and the like ask for what is not there
            raise AttributeError(verb)
        raise no_verb(self._store.spec, verb, (name for name in vars(type(self)) if not name.startswith("_")))


def read_only(store: Store) -> Any:
    """Return the view that fits the kind of the store."""
    if isinstance(store, KeyValueVerbs):
        return ReadOnlyView(store)
    if isinstance(store, VersionedStore):
        return ReadOnlyVersionedView(store)
    if store.spec.kind is StoreKind.WINDOW:
        from penstock.state.window import ReadOnlyWindowView, WindowStore

        assert isinstance(store, WindowStore)
        return ReadOnlyWindowView(store)
    if store.spec.kind is StoreKind.SESSION:
        from penstock.state.session import ReadOnlySessionView, SessionStore

        assert isinstance(store, SessionStore)
        return ReadOnlySessionView(store)
    raise StoreError(f"store {store.name!r} is a {store.spec.kind.value} store, which cannot be queried")


def _plain(rows: Rows) -> Rows:
    return Rows((key, value[0] if isinstance(value, ValueAndTimestamp) else value) for key, value in rows)
