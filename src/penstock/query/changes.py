"""What each barrier has changed in a store, for whoever subscribes: the rows of its changelog, as they went to Kafka.

Costs nothing while nobody subscribes: the loop asks ``wanted`` once for each barrier. Rows are handed out in the
thread of the loop, after the commit and before the next epoch; they are Arrow columns, which a listener may keep
(they are not copied, and nobody writes to them). The barrier of these rows is published (``Barriers``) right after.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from penstock.query.barriers import Barrier, Subscription

logger = logging.getLogger("penstock.query")


class ChangedRow(NamedTuple):
    """A row of a changelog, in Kafka's formats; value None: deleted."""

    shard: int
    key: bytes
    value: bytes | None
    timestamp: int


@dataclass(frozen=True, slots=True)
class StoreChanges:
    """The changelog rows of a store at one barrier, in the order of each shard: columns, or one by one.

    ``rows`` has the columns ``partition`` (the shard), ``key``, ``value`` and ``timestamp``.
    """

    store: str
    barrier: Barrier
    rows: Any

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[ChangedRow]:
        columns = (self.rows[name].to_pylist() for name in ("partition", "key", "value", "timestamp"))
        return map(ChangedRow, *columns)

    @property
    def size(self) -> int:
        """Bytes of the columns, for whoever keeps some of them."""
        return int(self.rows.nbytes)


#: told of the changes of a store at each barrier, in the thread of the loop; not called where there were none
ChangeListener: TypeAlias = Callable[[StoreChanges], None]


class ChangeFeeds:
    """The subscriptions to changes of stores.

    >>> feeds = ChangeFeeds(["counts"])
    >>> heard = []
    >>> subscription = feeds.subscribe("counts", heard.append)
    >>> feeds.wanted
    frozenset({'counts'})
    >>> rows = pa.table({"partition": [3], "key": [b"k"], "value": [b"1"], "timestamp": [5]})
    >>> feeds.publish(Barrier(1, {}), [("counts", rows)])
    >>> list(heard[0])
    [ChangedRow(shard=3, key=b'k', value=b'1', timestamp=5)]
    >>> subscription.close()
    >>> feeds.wanted
    frozenset()
    """

    def __init__(self, stores: Iterable[str]) -> None:
        """``stores``: those that have a changelog of their own."""
        self._lock = threading.Lock()
        self._known = frozenset(stores)
        self._listeners: dict[object, tuple[str, ChangeListener]] = {}
        self.wanted: frozenset[str] = frozenset()

    def has(self, store: str) -> bool:
        """Whether the store has a changelog: else nothing can be told of it."""
        return store in self._known

    def subscribe(self, store: str, listener: ChangeListener) -> Subscription:
        """Call ``listener(changes)`` at every barrier that changes the store, until the subscription is closed.

        A listener must be short, and must not raise; what it raises is logged. What it is told first is of the
        barrier after the last published one, or of a later one."""
        if store not in self._known:
            raise KeyError(store)
        token = object()
        with self._lock:
            self._listeners[token] = (store, listener)
            self._count()
        return Subscription(lambda: self._forget(token))

    def _forget(self, token: object) -> None:
        with self._lock:
            self._listeners.pop(token, None)
            self._count()

    def _count(self) -> None:
        self.wanted = frozenset(store for store, _ in self._listeners.values())

    def publish(self, barrier: Barrier, rows: Iterable[tuple[str, pa.Table]]) -> None:
        """Hand out the rows of a barrier, (store, rows) each: by the loop, if something is ``wanted``."""
        with self._lock:
            listeners = list(self._listeners.values())
        for store, batch in rows:
            changes = StoreChanges(store, barrier, batch)
            for name, listener in listeners:
                if name == store:
                    _notify(listener, changes)


def _notify(listener: ChangeListener, changes: StoreChanges) -> None:
    try:
        listener(changes)
    except Exception:
        logger.exception("a listener of the changes of %s has failed at epoch %d", changes.store, changes.barrier.epoch)
