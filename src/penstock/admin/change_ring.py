"""The last changes of a store, as they came with each barrier: what a client that comes back goes on from.

Bounded in epochs and bytes. There is a ring for a store from its first subscriber until some time after its last one; without one the
engine hands out nothing. Everything here happens in the event loop of the server; the engine's thread only hands changes over.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from penstock.admin.notifier import Notifier
from penstock.query.barriers import Barrier, Subscription
from penstock.query.changes import StoreChanges

#: what is kept of a store, whichever is less
MOST_EPOCHS, MOST_BYTES = 1_000, 16 << 20
#: seconds after its last subscriber that a ring is kept
KEEP_SECONDS = 300.0
#: a barrier that is committed is published at once
PUBLISH_MS = 10_000


@dataclass(slots=True)
class EpochChanges:
    """What one epoch has changed."""

    barrier: Barrier
    parts: list[StoreChanges] = field(default_factory=list)
    size: int = 0


class ChangeRing:
    """Changes of a store. INVARIANT: all of epochs after ``start`` up to ``reached`` are here."""

    def __init__(self, store: str) -> None:
        self.store = store
        self.start = 0
        self.reached = 0
        self.users = 0
        self._epochs: deque[EpochChanges] = deque()
        self._size = 0

    def begin(self, epoch: int) -> None:
        """Keep what comes after an epoch."""
        self.start = self.reached = epoch

    def add(self, changes: StoreChanges) -> None:
        """Add changes of the next barrier; those of epochs before ``begin`` may come, too."""
        if changes.barrier.epoch <= self.start:
            return
        if not self._epochs or self._epochs[-1].barrier.epoch != changes.barrier.epoch:
            self._epochs.append(EpochChanges(changes.barrier))
        self._epochs[-1].parts.append(changes)
        self._epochs[-1].size += changes.size
        self._size += changes.size
        while self._size > MOST_BYTES or len(self._epochs) > MOST_EPOCHS:
            oldest = self._epochs.popleft()
            self._size -= oldest.size
            self.start = oldest.barrier.epoch

    def reach(self, barrier: Barrier) -> None:
        """Note a barrier: its changes are all here."""
        self.reached = max(self.reached, barrier.epoch)

    def after(self, epoch: int) -> EpochChanges | None:
        """Return the changes of the first epoch after this one that has some, and is complete."""
        for each in self._epochs:
            if epoch < each.barrier.epoch <= self.reached:
                return each
        return None

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        return self._size


class ChangeRings:
    """The rings of all stores that somebody follows."""

    def __init__(self, app: Any, notifier: Notifier) -> None:
        self._app = app
        self._notifier = notifier
        self._rings: dict[str, ChangeRing] = {}
        self._subscriptions: dict[str, Subscription] = {}

    async def use(self, store: str, committed: Any) -> ChangeRing:
        """Return the ring of a store, which is kept for a while. ``committed``: tells the last committed epoch.

        The first epoch of a new ring is the one after the last that was committed once it listened: an earlier one may have been
        handed out before. It is waited for until that is published.
        """
        ring = self._rings.get(store)
        if ring is None:
            ring = self._rings[store] = ChangeRing(store)
            self._notifier.listen_for(ring)
            self._subscriptions[store] = self._app.changes.subscribe(
                store, lambda changes, ring=ring: self._notifier.run(ring.add, changes)
            )
            ring.begin(committed())
        self.enter(ring)
        try:
            await self._notifier.wait(None, ring.start, PUBLISH_MS)
        finally:
            self.leave(ring)
        return ring

    def enter(self, ring: ChangeRing) -> None:
        """Keep a ring until ``leave``."""
        ring.users += 1

    def leave(self, ring: ChangeRing) -> None:
        """Give a ring back; it is kept for a while."""
        ring.users -= 1
        if not ring.users:
            asyncio.get_running_loop().call_later(KEEP_SECONDS, self._forget, ring)

    def close(self) -> None:
        """Unsubscribe from changes; thread-safe."""
        for subscription in list(self._subscriptions.values()):
            subscription.close()

    def _forget(self, ring: ChangeRing) -> None:
        if not ring.users and self._rings.get(ring.store) is ring:
            del self._rings[ring.store]
            self._subscriptions.pop(ring.store).close()
            self._notifier.listen_no_more(ring)
