"""The queries of a running application: opens readings at the last barrier, answers, and ends what is held too long."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from penstock.clock import stopwatch_us
from penstock.durations import millis
from penstock.errors import NotAvailable, NotUpToBound
from penstock.lane.checkpoint import ShardIsNewer
from penstock.protocol.request import EpochRequest
from penstock.query.barriers import Barrier, Barriers, Position
from penstock.query.meter import QueryMeter
from penstock.query.queries import Query
from penstock.query.reading import Reading
from penstock.query.result import QueryResult
from penstock.query.routing import KeyMetadata, Routing
from penstock.query.shard_views import GLOBAL, ShardSource, ShardView, ShardViews
from penstock.query.shards import ShardNotReady
from penstock.query.snapshot import Snapshot, answered, view_of
from penstock.query.views import QueryView

#: a shard that is being made anew is waited for so long, looking again every so often
NOT_READY_MS, LOOK_SECONDS = 10_000, 0.005
#: a barrier that is committed is waited for until it is published
PUBLISH_MS = 60_000
NEVER = float("inf")


class Published(NamedTuple):
    """A barrier, and what a shard must be at there."""

    barrier: Barrier
    request: EpochRequest


class Queries:
    """Answers queries. Any thread may ask; the loop publishes barriers and waits for nobody here."""

    def __init__(
        self,
        routing: Routing,
        source: ShardSource,
        shards: int,
        *,
        barriers: Barriers,
        global_stores: bool,
        moves_ahead: bool,
        timeout_ms: int,
    ) -> None:
        """``moves_ahead``: others bring the global tables to the next epoch's offsets before it is committed."""
        self.routing = routing
        self.barriers = barriers
        self._views = ShardViews(source, shards)
        self._every = (*((GLOBAL,) if global_stores else ()), *range(shards))
        self._keep_global = global_stores and moves_ahead
        self._timeout_ms = timeout_ms
        #: how many queries there were, and how long they took
        self.meter = QueryMeter()
        self._last: Published | None = None
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._readings: dict[int, tuple[int, weakref.ref[Reading]]] = {}
        self._soonest_us: float = NEVER

    # ---- barriers

    def publish(self, barrier: Barrier, request: EpochRequest) -> None:
        """Advance to a barrier; then whoever waits for it is told."""
        self._last = Published(barrier, request)
        self._end_late_ones()
        self._views.publish(request, keep_global=self._keep_global)
        self.barriers.publish(barrier)

    def close(self) -> None:
        """End all readings: the application ends."""
        self._ended.set()
        self.barriers.end()
        self._end_late_ones(NEVER)
        self._views.close()

    # ---- asking

    def query(self, store: str, query: Query, *, at_least: Position | None = None, wait_ms: int = 0) -> QueryResult:
        """Answer a query at the last barrier, once that has a position."""
        at = LastBarrier(self, at_least, millis(wait_ms, "wait_ms", least=0))
        return self.meter.measured(store, query, lambda: answered(self.routing, store, query, at))

    def query_at_once(self, store: str, query: Query) -> QueryResult | None:
        """Answer a query if nothing has to be waited for; None: it takes `query`. For who must not wait.

        One that is refused is not counted: who asks goes on to `query`, which refuses it again."""
        began = stopwatch_us()
        try:
            result = answered(self.routing, store, query, OpenShards(self))
        except (NotOpen, ShardIsNewer, ShardNotReady):
            return None
        self.meter.answered(store, query, began)
        return result

    def snapshot(self, *, at_least: Position | None = None, wait_ms: int = 0, timeout: Any = None) -> Snapshot:
        """Return all stores at the last barrier, once that has a position."""
        timeout_ms = self._timeout_ms if timeout is None else millis(timeout, "timeout", least=1)
        wait_ms = millis(wait_ms, "wait_ms", least=0)
        return Snapshot(self.open(self._every, at_least, wait_ms, timeout_ms), self.routing)

    def store(self, name: str) -> QueryView:
        """Return the reading verbs of a store: each call is at the last barrier."""
        return view_of(self.routing, name, LastBarrier(self, None, 0))

    def metadata_for_key(self, store: str, key: Any) -> KeyMetadata:
        """Return the shard and the lane of a key."""
        return self.routing.metadata(self.routing.spec(store), key)

    # ---- readings

    def open(
        self, shards: Iterable[int], at_least: Position | None, wait_ms: int, timeout_ms: int | None = None
    ) -> Reading:
        """Open shards at the last barrier; all of them are of one, or it is tried again at the next."""
        if at_least:
            self.routing.check_position(at_least)
            self.barriers.wait(at_least, wait_ms=wait_ms)
        until = stopwatch_us() + 1000 * NOT_READY_MS
        at = self._published()
        while True:
            held: dict[int, ShardView] = {}
            try:
                for shard in shards:
                    held[shard] = self._views.acquire(shard, at.request)
                return self._made(at, held, self._timeout_ms if timeout_ms is None else timeout_ms)
            except ShardIsNewer:
                self._give_back(held)
                at = self._after(at)
            except ShardNotReady as error:
                self._give_back(held)
                if stopwatch_us() > until or self._ended.wait(LOOK_SECONDS):
                    raise NotAvailable(f"{error} is being restored: ask again later") from error
                at = self._published()
            except BaseException:
                self._give_back(held)
                raise

    def open_at_once(self, shards: Iterable[int]) -> Reading:
        """Return shards that are open at the last barrier, or opened at once; raise `NotOpen` if one is not."""
        at = self._published()
        held: dict[int, ShardView] = {}
        try:
            for shard in shards:
                view = self._views.acquire_open(shard, at.request)
                if view is None:
                    raise NotOpen
                held[shard] = view
        except BaseException:
            self._give_back(held)
            raise
        return self._made(at, held, self._timeout_ms)

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return about how many entries and bytes each store has in the copies on this machine."""
        return {} if self._last is None or self._ended.is_set() else self._views.sizes()

    def open_readings(self) -> int:
        """Return how many snapshots and scans are open."""
        return len(self._readings)

    def open_views(self) -> int:
        """Return how many shards are held open, of all versions."""
        return self._views.open_views()

    def _published(self) -> Published:
        if self._last is None or self._ended.is_set():
            raise NotAvailable("the application has no barrier to read yet, or has ended")
        return self._last

    def _after(self, at: Published) -> Published:
        """Return a later barrier: a shard is there already, so it is committed."""
        try:
            self.barriers.wait(epoch=at.barrier.epoch + 1, wait_ms=PUBLISH_MS)
        except NotUpToBound as error:
            raise NotAvailable(
                "a barrier was committed, but the application has ended before it was published"
            ) from error
        return self._published()

    def _give_back(self, held: dict[int, ShardView]) -> None:
        for view in held.values():
            self._views.release(view)

    # ---- deadlines

    def _made(self, at: Published, held: dict[int, ShardView], timeout_ms: int) -> Reading:
        reading = Reading(at.barrier, at.request, held, self._views, timeout_ms, self._forget)
        with self._lock:
            self._readings[id(reading)] = reading.expires_us, weakref.ref(reading)
            self._soonest_us = min(self._soonest_us, reading.expires_us)
        return reading

    def _forget(self, reading: Reading) -> None:
        with self._lock:
            self._readings.pop(id(reading), None)

    def _end_late_ones(self, now: float | None = None) -> None:
        """End the readings whose time is over. Those that are open are looked through only if there is one."""
        now = stopwatch_us() if now is None else now
        if now < self._soonest_us:
            return
        with self._lock:
            late = [key for key, (expires, ref) in self._readings.items() if expires <= now or ref() is None]
            ended = [self._readings.pop(key)[1]() for key in late]
            self._soonest_us = min((expires for expires, _ in self._readings.values()), default=NEVER)
        for reading in ended:
            if reading is not None:
                reading.end()


class LastBarrier:
    """Reads at the last barrier: a reading of its own for each call."""

    def __init__(self, queries: Queries, at_least: Position | None, wait_ms: int) -> None:
        self._queries = queries
        self._at_least = at_least
        self._wait_ms = wait_ms

    def reading(self, shards: Sequence[int]) -> tuple[Reading, bool]:
        """Open these shards."""
        return self._queries.open(shards, self._at_least, self._wait_ms), True


class NotOpen(Exception):
    """A shard is not open at the last barrier."""


class OpenShards:
    """Reads at the last barrier what is open there already."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def reading(self, shards: Sequence[int]) -> tuple[Reading, bool]:
        """Take these shards, or raise `NotOpen`."""
        return self._queries.open_at_once(shards), True
