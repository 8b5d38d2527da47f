"""Stores as queries and the test driver see them: read verbs, plain values, no side effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.errors import StoreError
from penstock.record import ValueAndTimestamp
from penstock.state.base import Store
from penstock.state.spec import StoreKind
from penstock.state.verbs import Rows, no_verb

_KEYED = frozenset({"get", "get_with_timestamp", "prefix_scan", "approximate_num_entries"}) | {
    f"{way}{verb}" for way in ("", "reverse_") for verb in ("range", "all")
}
BOTH_WAYS = ("", "backward_")
#: the verbs that read, by the kind of store
VERBS: dict[StoreKind, frozenset[str]] = {
    **dict.fromkeys((StoreKind.KEY_VALUE, StoreKind.LRU, StoreKind.SHARED), _KEYED),
    StoreKind.VERSIONED: frozenset({"get", "history"}),
    StoreKind.WINDOW: frozenset(
        f"{way}{verb}" for way in BOTH_WAYS for verb in ("fetch", "fetch_range", "fetch_all", "all")
    ),
    StoreKind.SESSION: frozenset({"fetch_session", "find_sessions_ended"})
    | {
        f"{way}{verb}" for way in BOTH_WAYS for verb in ("find_sessions", "find_sessions_range", "fetch", "fetch_range")
    },
}


class ReadOnlyView:
    """A store for queries: plain values, whether the store keeps timestamps or not, and no writing.

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

    def __init__(self, store: Store) -> None:
        self._store: Any = store
        self.name = store.name

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        if verb.startswith("_"):  # copy, pickle and the like ask for what is not there
            raise AttributeError(verb)
        spec = self._store.spec
        if verb not in VERBS[spec.kind]:
            raise no_verb(spec, verb, VERBS[spec.kind])
        call = self._call(verb)
        setattr(self, verb, call)  # found at once the next time
        return call

    def _call(self, verb: str) -> Callable[..., Any]:
        store = self._store
        if VERBS[store.spec.kind] is not _KEYED or verb not in ("get", "get_with_timestamp"):
            found: Callable[..., Any] = getattr(store, verb)
            return _plain(found) if store.spec.timestamped else found
        peek, shape = store.peek, ValueAndTimestamp if verb == "get_with_timestamp" else _value

        def get(key: Any) -> Any:  # as ``get`` of the store, but nothing happens
            row = peek(key)
            return None if row is None else shape(*row)

        return get


def read_only(store: Store) -> ReadOnlyView:
    """Return the view of a store, if its kind can be queried."""
    if store.spec.kind not in VERBS:
        raise StoreError(f"store {store.name!r} is a {store.spec.kind.value} store, which cannot be queried")
    return ReadOnlyView(store)


def _value(value: Any, timestamp: int) -> Any:
    return value


def _plain(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Make a verb give plain values where the store has timestamped ones."""

    def value_of(found: Any) -> Any:
        return found[0] if isinstance(found, ValueAndTimestamp) else found

    def call(*args: Any, **options: Any) -> Any:
        found = verb(*args, **options)
        return Rows((key, value_of(value)) for key, value in found) if isinstance(found, Rows) else value_of(found)

    return call
