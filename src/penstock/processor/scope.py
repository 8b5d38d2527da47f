"""The scope of a store: user code reads and writes the keys of its own shard, and is told what to do instead for others.

A record goes to the shard of its key, and a store of a processor is kept by shard. A key of another shard would be another row in each
of them: what is found would depend on the number of shards. So a store that a processor is handed checks the keys it is asked for.
Rows that are iterated (``all``, ``range``, ``prefix_scan``, ``fetch_all`` …) are those of the shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from penstock.errors import StoreError
from penstock.record import Windowed
from penstock.serde import Serde
from penstock.serde.foreign_key import CombinedKey
from penstock.serde.registry.serde import registry_serdes
from penstock.state.shards import shard_of
from penstock.state.spec import StoreKind
from penstock.state.verbs import WRITING

#: verbs whose first argument is a key
BY_KEY: dict[StoreKind, tuple[str, ...]] = {
    StoreKind.KEY_VALUE: ("get", "put", "put_if_absent", "delete", "compute", "merge"),
    StoreKind.LRU: ("get", "put", "put_if_absent", "delete", "compute", "merge"),
    StoreKind.WINDOW: ("put", "fetch", "backward_fetch"),
    StoreKind.SESSION: ("fetch_session", "find_sessions", "backward_find_sessions", "fetch", "backward_fetch"),
    StoreKind.VERSIONED: ("get", "put", "delete", "history"),
}
#: keys that are known to be of the shard, at most
MOST_KNOWN = 10_000


class KeyScope(NamedTuple):
    """Which keys a node may use: those of its shard, by the serdes that the records of its sources go to shards by."""

    node: str
    shard: int
    shards: int
    serdes: tuple[Serde[Any], ...]

    def checks(self, store: str, serde: Serde[Any]) -> Callable[[Any], None]:
        """Return what raises for a key of another shard; ``serde``: that of the store's keys.

        Keys with a schema registry are not checked: by which schema the records' keys were written is not known here.
        """
        if any(map(registry_serdes, (serde, *self.serdes))):
            return lambda key: None
        known: set[Any] = set()

        def check(key: Any) -> None:
            plain = key.__class__ is str or key.__class__ is bytes
            if key is None or (plain and key in known):
                return
            found = self._shard_of(key, self.serdes)
            if found is None and isinstance(key, Windowed):  # its windows are where a key is
                found = self._shard_of(key.key, self.serdes)
            if found is None and isinstance(key, CombinedKey):  # subscriptions are where the row is that they ask for
                found = self._shard_of(key.foreign_key, self.serdes)
            if found is None:
                found = self._shard_of(key, (serde,))
            if found is not None and found != self.shard:
                self._refuse(store, key, found)
            if plain and len(known) < MOST_KNOWN:
                known.add(key)

        return check

    def _shard_of(self, key: Any, serdes: Sequence[Serde[Any]]) -> int | None:
        """Return the shard that records with this key go to, by the first serde that takes it; None: none does."""
        for serde in serdes:
            try:
                return shard_of(serde.serialize(key), self.shards)
            except Exception:  # not a key of these records: the next serde is asked
                continue
        return None

    def _refuse(self, store: str, key: Any, found: int) -> NoReturn:
        raise StoreError(
            f"node {self.node} uses the key {key!r} of the store {store!r} in shard {self.shard}, but it belongs to shard {found}: "
            "a store of a processor belongs to the key of the record\n"
            "  remedy:   put repartition() before the processor, if the record was given this key on the way; keep the state of many "
            "keys in Stores.shared(name), which runs in one lane; read any key as of the last barrier with context.view(name), or "
            "what all shards need from a global_table()"
        )


class ScopedStore:
    """A store as a processor of many shards sees it: verbs that take a key check it first."""

    def __init__(self, store: Any, check: Callable[[Any], None]) -> None:
        self._store = store
        self._check = check
        for verb in BY_KEY.get(store.spec.kind, ()):
            if hasattr(store, verb):
                setattr(self, verb, _checked(getattr(store, verb), check))
        if store.spec.kind is StoreKind.SESSION:
            for verb in ("put", "remove"):
                setattr(self, verb, _checked_session(getattr(store, verb), check))

    def put_all(self, rows: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Put every (key, value)."""
        pairs = list(rows.items() if isinstance(rows, Mapping) else rows)
        for key, _ in pairs:
            self._check(key)
        self._store.put_all(pairs)

    def __getattr__(self, verb: str) -> Any:
        if verb.startswith("__"):  # copy, pickle and the like ask for what is not there
            raise AttributeError(verb)
        return getattr(self._store, verb)


class GlobalStoreView:
    """A global store as a processor sees it: it is read, and written by its own topic alone."""

    def __init__(self, store: Any, node: str) -> None:
        self._store = store
        self._node = node

    def __getattr__(self, verb: str) -> Any:
        if verb.startswith("__"):
            raise AttributeError(verb)
        if verb in WRITING:
            name = self._store.spec.name
            raise StoreError(
                f"node {self._node} calls {verb}() of the global store {name!r}, which is written from its topic alone: every lane has "
                "a copy of its own\n  remedy:   send a record to the topic of the global store, with to(), or keep what this node "
                "writes in a store of its own: Stores.key_value(name), or Stores.shared(name) for any key"
            )
        return getattr(self._store, verb)


def _checked(call: Callable[..., Any], check: Callable[[Any], None]) -> Callable[..., Any]:
    def checked(key: Any, *args: Any, **options: Any) -> Any:
        check(key)
        return call(key, *args, **options)

    return checked


def _checked_session(call: Callable[..., Any], check: Callable[[Any], None]) -> Callable[..., Any]:
    def checked(session: Any, *args: Any, **options: Any) -> Any:
        check(session.key)
        return call(session, *args, **options)

    return checked
