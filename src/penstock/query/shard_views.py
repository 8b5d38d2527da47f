"""Open shards, shared by all readers of a version: a thousand snapshots of a barrier are one transaction a shard.

A `ShardView` that nobody reads stays open as long as its version is that of the last barrier: the next point read
finds it. At a barrier those of older versions are closed, so that no page is kept that nobody reads."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Protocol, TypeAlias

from penstock.protocol.request import EpochRequest
from penstock.state.base import ShardState
from penstock.state.open import open_at
from penstock.state.segmented_store import SegmentedStore
from penstock.state.spec import StoreSpec

#: of the global tables, which are no shard
GLOBAL = -1
#: what tells a shard's versions apart
Version: TypeAlias = tuple[Any, ...]


class ShardSource(Protocol):
    """Where shards are opened: those of this machine, of a cluster, or of the test driver."""

    def open(self, shard: int, request: EpochRequest) -> ShardState:
        """Return a shard at the barrier of the request, to be closed by the caller."""
        ...

    def open_global(self, request: EpochRequest) -> ShardState:
        """Return the global tables at the barrier of the request, to be closed by the caller."""
        ...

    def opens_at_once(self, shard: int, request: EpochRequest) -> bool:
        """Whether `open` would take less than a millisecond or two, and wait for nobody."""
        ...

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return about how many entries and bytes each store has in what is on this machine."""
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...


class ShardView:
    """A shard at one version, and the stores that were opened on it."""

    def __init__(self, shard: int, version: Version, state: ShardState) -> None:
        self.shard = shard
        self.version = version
        self.state = state
        self.readers = 0
        self._stores: dict[tuple[str, bool | None, int], Any] = {}

    def store(self, spec: StoreSpec, request: EpochRequest) -> Any:
        """Return a store, to be read, with the time of a barrier: a shard may be at one version for several."""
        known = spec.name, spec.cached, request.epoch
        found = self._stores.get(known)
        if found is None:
            shots = request.snapshots.values() if self.shard != GLOBAL else ()
            found = open_at(spec, self.state, max(self.shard, 0), shots)
            if isinstance(found, SegmentedStore):
                found.rows.keeps_read = False
            if len(self._stores) >= MOST_STORES:
                self._stores.clear()
            self._stores[known] = found
        return found


#: opened stores that a view keeps; a shard that is not written to may see many barriers
MOST_STORES = 64


class Slot:
    """The views of one shard."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.views: dict[Version, ShardView] = {}


class ShardViews:
    """The open shards of an application. Any thread may acquire and release."""

    def __init__(self, source: ShardSource, shards: int) -> None:
        self._source = source
        self._slots = {shard: Slot() for shard in (GLOBAL, *range(shards))}
        self._last: EpochRequest | None = None
        #: views whose reader has vanished without a word
        self._abandoned: deque[ShardView] = deque()
        self._closed = False

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return about how many entries and bytes each store has in what is on this machine."""
        return self._source.sizes()

    def acquire(self, shard: int, request: EpochRequest) -> ShardView:
        """Return a shard at the barrier of the request. Raises ``ShardIsNewer`` or ``ShardNotReady``."""
        self._release_abandoned()
        slot, version = self._slots[shard], version_of(shard, request)
        with slot.lock:
            view = slot.views.get(version)
            if view is None or not is_open(view.state):
                state = self._source.open_global(request) if shard == GLOBAL else self._source.open(shard, request)
                view = slot.views[version] = ShardView(shard, version, state)
            view.readers += 1
            return view

    def acquire_open(self, shard: int, request: EpochRequest) -> ShardView | None:
        """Return a shard at the barrier of the request if it is open, or opened at once; else None. Waits for nobody."""
        slot, version = self._slots[shard], version_of(shard, request)
        if not slot.lock.acquire(blocking=False):
            return None
        try:
            view = slot.views.get(version)
            if view is None or not is_open(view.state):
                if shard == GLOBAL or not self._source.opens_at_once(shard, request):
                    return None
                view = slot.views[version] = ShardView(shard, version, self._source.open(shard, request))
            view.readers += 1
            return view
        finally:
            slot.lock.release()

    def release(self, view: ShardView) -> None:
        """Give a view back; it is closed if nobody needs it."""
        slot = self._slots[view.shard]
        with slot.lock:
            view.readers -= 1
            self._tidy(view.shard, slot)

    def abandon(self, view: ShardView) -> None:
        """Give a view back from a finalizer, which may run anywhere: it is released with the next step."""
        self._abandoned.append(view)

    def publish(self, request: EpochRequest, *, keep_global: bool) -> None:
        """Advance to a barrier: close what is older and not read. Waits for nobody: what is in use now is closed later.

        ``keep_global``: open the global tables, which are at this barrier now, and will be read further by the next
        epoch."""
        self._last = request
        if keep_global:
            self._keep_global(request)
        self._release_abandoned()
        for shard, slot in self._slots.items():
            if slot.views and slot.lock.acquire(blocking=False):
                try:
                    self._tidy(shard, slot)
                finally:
                    slot.lock.release()

    def close(self) -> None:
        """Close all views: whoever still reads is told so."""
        self._closed = True
        for slot in self._slots.values():
            with slot.lock:
                for view in slot.views.values():
                    view.state.close()
                slot.views.clear()
        self._source.close()

    def open_views(self) -> int:
        """Return how many views are open."""
        return sum(len(slot.views) for slot in self._slots.values())

    def _keep_global(self, request: EpochRequest) -> None:
        try:
            self.release(self.acquire(GLOBAL, request))
        except Exception:  # they are not there yet; a reader will say why
            return

    def _release_abandoned(self) -> None:
        """Release what finalizers gave back; waits for nobody: what cannot be released now is released later."""
        for _ in range(len(self._abandoned)):
            try:
                view = self._abandoned.popleft()
            except IndexError:  # another thread has taken it
                return
            slot = self._slots[view.shard]
            if not slot.lock.acquire(blocking=False):
                self._abandoned.append(view)
                continue
            try:
                view.readers -= 1
                self._tidy(view.shard, slot)
            finally:
                slot.lock.release()

    def _tidy(self, shard: int, slot: Slot) -> None:
        current = None if self._last is None else version_of(shard, self._last)
        for view in [v for v in slot.views.values() if v.readers <= 0 and (v.version != current or self._closed)]:
            del slot.views[view.version]
            view.state.close()


def is_open(state: ShardState) -> bool:
    """Whether a shard can be read.

    An environment that was made anew ends its snapshots. What is in memory can always be read.
    """
    return bool(getattr(state, "is_open", True))


def version_of(shard: int, request: EpochRequest) -> Version:
    """Return what a shard's rows at a barrier are known by."""
    if shard == GLOBAL:
        return (request.incarnation, tuple(map(tuple, request.global_ends)))
    return (request.incarnation, request.shards[shard].version)
