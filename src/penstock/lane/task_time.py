"""Time in a task: brought, before each record, to where it is at the record's place; what that makes due leaves first.

::

    place in the order     ──●────────●─────────●──────────▶
    records of the shard     r1                  r2
    moves of time            10       20         30          (●: also those of records that other shards have)

Before ``r2`` the task comes to the move at 20, if something is due by then, and what is due leaves there, as it does in every other
shard; then the stores come to 20. ``r2`` itself has its effect at 30.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from penstock.batch.batch import Batch
from penstock.batch.provenance import Provenance
from penstock.lane.siblings import are_first, is_first
from penstock.lane.timeline import Cursor, Timelines
from penstock.plan.feeds import Feed
from penstock.processor.punctuation import PunctuationQueue, PunctuationType
from penstock.record import NO_ORIGIN, Origin
from penstock.state.event_time import EventTime

if TYPE_CHECKING:
    from penstock.lane.task import Task

#: a place and an offset that come after all records
_END = (1 << 63) - 1, (1 << 63) - 1
#: first number of the position of rows that time gives out, and of those of a punctuator: before and behind the rows of the record itself
RELEASED, WOKEN, PUNCTUATED = 0, 1, (1 << 32) - 1
_HALF = (1 << 32) - 1


class TimeCall(NamedTuple):
    """What a node does when time has come, and the least time of its clock at which it has something to do."""

    node: str
    feed: str
    clock: EventTime
    run: Callable[[int], None]
    due: Callable[[], int | None]
    #: what is due while records go by batch leaves with them
    in_batches: bool = False

    def due_at(self) -> int | None:
        """Return the time of the sources at which it has something to do."""
        due = self.due()
        return None if due is None else due + self.clock.hold


class TaskTime:
    """The cursors of a task, one for each feed, with the clocks of its nodes and stores."""

    def __init__(self, task: Task, timelines: Timelines, feeds: Mapping[str, Feed]) -> None:
        self._task = task
        self._timelines = timelines
        self._feeds = feeds
        self._cursors: dict[str, Cursor] = {}
        self._clocks: dict[str, EventTime] = {}
        self._calls: list[TimeCall] = []
        self._stores: list[tuple[str, Any]] = []
        #: those of the nodes that run
        self._running = self._stores
        self._subtopologies: dict[str, tuple[Container[str], Container[str]]] = {}
        self._at = (-1, -1)
        #: whether clocks show an earlier time than it is
        self._capped = False
        #: whether time has moved since the stores were told
        self._moved = False
        #: where the task is: the last record, or the last move at which something was due
        self._last: Origin = NO_ORIGIN
        #: punctuators and timers by stream time, by node
        self.queues: dict[str, PunctuationQueue] = {}
        #: the nodes that run; None: all
        self._nodes: Container[str] | None = None

    # ---- what takes part

    def clock(self, name: str) -> EventTime:
        """Return the clock of a node, of several that share one, or of a store (``store/`` and its name)."""
        if name not in self._clocks:
            feed = self._feeds.get(name, Feed())
            clock = self._clocks[name] = EventTime(feed.hold)
            self._cursor(feed.group).attach(clock)
        return self._clocks[name]

    def _cursor(self, group: str) -> Cursor:
        if group not in self._cursors:
            cursor = self._cursors[group] = Cursor(self._timelines.timeline(group))
            origin = self._task.origin
            if origin.topic is not None:  # a node asks for the time for the first time
                place = self._timelines.place(origin)
                cursor.come_to(place, origin.offset)
                cursor.include(place, origin.offset)
        return self._cursors[group]

    def add_store(self, name: str, store: Any) -> None:
        """Let a store whose rows expire go along."""
        store.keep_time(self.clock(f"store/{name}"))
        self._stores.append((name, store))

    def add_call(
        self,
        node: str,
        clock: str,
        run: Callable[[int], None],
        due: Callable[[], int | None],
        in_batches: bool = False,
    ) -> None:
        """Call ``run(now)`` when time has come."""
        group = self._feeds.get(clock, Feed()).group
        self._calls.append(TimeCall(node, group, self.clock(clock), run, due, in_batches))

    def queue_of(self, node: str) -> PunctuationQueue:
        """Return the punctuations by stream time of a node."""
        self.clock(f"stream/{node}")
        return self.queues.setdefault(node, PunctuationQueue(PunctuationType.STREAM_TIME))

    def start(self, timelines: Timelines, nodes: Container[str] | None = None) -> None:
        """Begin anew with the times of another epoch, or for other nodes of the same one."""
        self._timelines, self._nodes, self._last, self._at = timelines, nodes, NO_ORIGIN, (-1, -1)
        self._running = self._stores_of(nodes) if nodes else self._stores
        for group, cursor in self._cursors.items():
            cursor.start(timelines.timeline(group))

    def _stores_of(self, nodes: Container[str]) -> list[tuple[str, Any]]:
        """Return the stores that nodes use: those of other steps have a time of their own."""
        topology = self._task.topology
        used = {store for node in topology.nodes if node in nodes for store in topology.stores_of(node)}
        return [(name, store) for name, store in self._stores if name in used]

    def in_order(self, nodes: Iterable[str]) -> None:
        """Let nodes have their turn in this order, upstream first."""
        order = {node: number for number, node in enumerate(nodes)}
        self._calls.sort(key=lambda call: order[call.node])

    @property
    def cursors(self) -> dict[str, Cursor]:
        """The cursors by feed, always the same dict; empty where nothing in the task depends on time."""
        return self._cursors

    def of_records(self, name: str, columns: Batch, *, included: bool) -> Any:
        """Return the time of a clock at many records: with each of them, or without it."""
        feed = self._feeds.get(name, Feed())
        timeline = self._timelines.timeline(feed.group)
        places, offsets, released, first = self._located(columns.provenance)
        time = (timeline.including if included else timeline.before)(places, offsets)
        if not included and first is not None:  # rows behind the first one of a record come after its time
            time = np.where(first, time, timeline.including(places, offsets))
        if released is not None:  # rows that time has given out come before the record that moved it
            time = np.where(released, timeline.before(places, offsets), time)
        return columns.of_source(held(time, feed.hold))

    def at_most(self, name: str, batch: Batch) -> Any:
        """Return a time for each record that a clock has not passed there, with it or without it: for less than the time itself.

        None: nothing is known.
        """
        feed = self._feeds.get(name, Feed())
        timeline, arrays = self._timelines.timeline(feed.group), batch.provenance.arrays
        if arrays is None or not timeline.follows_places:
            return None
        return batch.of_source(held(np.maximum(arrays["reached"], timeline.base), feed.hold))

    def _located(self, provenance: Provenance) -> tuple[Any, Any, Any, Any]:
        """Return places and offsets of the source records of a batch, which of them time has given out (None: none), and which are the
        first of their record (None: all)."""
        if provenance.located is None:
            arrays, timelines, released, first = provenance.arrays, self._timelines, None, None
            if arrays is not None:
                places = timelines.places(arrays["topic"], arrays["partition"], arrays["reached"])
                offsets = arrays["offset"]
                if "sub" in arrays:
                    first, released = are_first(arrays["sub"]), arrays["sub"][:, 0] == RELEASED
            else:
                origins = [provenance.origin(at) for at in range(provenance.count)]
                places = np.array([timelines.place(origin) for origin in origins], dtype=np.int64)
                offsets = np.array([origin.offset for origin in origins], dtype=np.int64)
                released = np.array([origin.sub[:1] == (RELEASED,) for origin in origins], dtype=bool)
                first = np.array([is_first(origin.sub) for origin in origins], dtype=bool)
            provenance.located = places, offsets, released, first
        located: tuple[Any, Any, Any, Any] = provenance.located
        return located

    @property
    def waits(self) -> bool:
        """Whether something may have to leave between two records."""
        return bool(self._calls) or any(queue.waiting for queue in self.queues.values())

    def stops_batches(self, nodes: Container[str]) -> bool:
        """Whether something may have to leave between two records that no kernel of these nodes lets leave."""
        if any(queue.waiting for queue in self.queues.values()):
            return True
        let = {call.clock for call in self._calls if call.in_batches and call.node in nodes}
        return any(call.clock not in let for call in self._calls)

    def reaching(self, name: str, due: int) -> int:
        """Return the time of a clock once it is at least ``due``; that at the end of the epoch if it is not."""
        feed = self._feeds.get(name, Feed())
        timeline = self._timelines.timeline(feed.group)
        at = timeline.first(due + feed.hold, 0)
        time = timeline.end if at is None else int(timeline.times[at])
        return time if time < 0 else max(time - feed.hold, 0)

    # ---- going along

    def come_to(self, origin: Origin, source: str) -> None:
        """Come to a record of a source: first what is due before it, then the stores, then the record's own time."""
        place, offset = self._timelines.place(origin), origin.offset
        self.uncap()
        if (place, offset) != self._at:
            self._come_to(place, offset)
        self._last, self._at = origin, (place, offset)
        if origin.sub and origin.sub[0] == RELEASED:  # it comes before the record that moved time
            return
        for cursor in self._cursors.values():
            self._moved |= cursor.include(place, offset)
        if not is_first(origin.sub):
            self._follow(origin, source)

    def _follow(self, origin: Origin, source: str) -> None:
        """Let what the time of a record makes due leave its sub-topology before a row that comes behind the first of that record.

        The first one may be in another shard: that must make no difference.
        """
        nodes, stores = self._subtopology(source)
        for name, store in self._running:
            if name in stores:
                store.reach()
        if self.waits:
            self._run_due(origin, nodes)

    def _subtopology(self, source: str) -> tuple[Container[str], Container[str]]:
        """Return the nodes and the stores of the sub-topology of a source."""
        if source not in self._subtopologies:
            self._subtopologies |= {
                name: (frozenset(sub.nodes), frozenset(sub.stores))
                for sub in self._task.topology.subtopologies()
                for name in sub.nodes
            }
        return self._subtopologies[source]

    def cap(self) -> None:
        """Let clocks show the time before the record that moved it: a row that time gives out comes before that record.

        So it meets the same time in every shard, however late the record came that moved time.
        """
        self._capped = True
        for cursor in self._cursors.values():
            for clock in cursor.clocks:
                clock.reach(cursor.before)

    def uncap(self) -> None:
        """Let clocks show the time that it is."""
        if self._capped:
            self._capped = False
            for cursor in self._cursors.values():
                for clock in cursor.clocks:
                    clock.reach(cursor.now)

    def _come_to(self, place: int, offset: int) -> None:
        if self.waits:
            self._release(place, offset)
        for cursor in self._cursors.values():
            self._moved |= cursor.come_to(place, offset)
        if self._moved:
            self.reach_stores()

    def reach_stores(self) -> None:
        """Let the stores come to the time of their clocks."""
        self._moved = False
        for _, store in self._running:
            store.reach()

    def begin(self) -> None:
        """Do what the time at the beginning of the epoch makes due, which no record has brought."""
        self.reach_stores()
        self._run_due(NO_ORIGIN)

    def finish(self) -> None:
        """Come to the end of the epoch."""
        self._come_to(*_END)
        self.reach_stores()

    def skip_to(self, origin: Origin) -> None:
        """Come to just behind records that went by batch; nothing is due meanwhile."""
        place, offset, self._last = self._timelines.place(origin), origin.offset, origin
        for cursor in self._cursors.values():
            cursor.come_to(place, offset)
            cursor.include(place, offset)
        self._moved = True

    def visit(self, origin: Origin) -> None:
        """Come to a record of a batch, at a node that takes it by itself: also back, other nodes may have seen later ones."""
        place, offset = self._timelines.place(origin), origin.offset
        for cursor in self._cursors.values():
            cursor.seek(place, offset)
        if is_first(origin.sub):
            self.reach_stores()
        for cursor in self._cursors.values():
            cursor.include(place, offset)
        if not is_first(origin.sub):
            self.reach_stores()
        self._moved = True

    def is_due(self, timelines: Timelines, nodes: Container[str]) -> bool:
        """Whether something of these nodes is due in an epoch of these times."""
        return any(due <= timelines.timeline(group).end and (node in nodes) for node, group, due in self._waiting())

    def _waiting(self) -> Iterable[tuple[str, str, int]]:
        """Yield node, feed, and the time of the sources at which it has something to do."""
        for call in self._calls:
            due = call.due_at()
            if due is not None:
                yield call.node, call.feed, due
        for node, queue in self.queues.items():
            due = queue.due
            if due is not None:
                yield node, self._feeds.get(f"stream/{node}", Feed()).group, due

    def _due(self) -> Iterable[tuple[Cursor, int]]:
        nodes = self._nodes
        for node, group, due in self._waiting():
            if nodes is None or node in nodes:
                yield self._cursors[group], due

    def _release(self, place: int, offset: int) -> None:
        """Stop at every move before a record at which something is due."""
        if any(due <= cursor.now for cursor, due in self._due()):  # the last record has not reached the node that waits
            self._run_due(self._last)
        while True:
            stops = [stop for cursor, due in self._due() if (stop := cursor.next_with(due)) is not None]
            first = min(stops, default=None)
            if first is None or first >= (place, offset):
                return
            for cursor in self._cursors.values():
                self._moved |= cursor.come_to(*first)
            if self._moved:  # what leaves comes before the record that moves time
                self.reach_stores()
            for cursor in self._cursors.values():
                self._moved |= cursor.include(*first)
            self._last = self._timelines.origin(*first)
            self._run_due(self._last)

    def _run_due(self, origin: Origin, among: Container[str] | None = None) -> None:
        nodes = self._nodes
        for call in self._calls:
            if (nodes is not None and call.node not in nodes) or (among is not None and call.node not in among):
                continue
            due = call.due()
            if due is not None and due <= call.clock.now:
                self._task.run_timed(call.node, call.run, call.clock.now, origin)
        self._punctuate(origin, among)

    def punctuate(self, origin: Origin, source: str) -> None:
        """Call the punctuators and timers of the sub-topology of a source that are due by stream time."""
        self._punctuate(origin, self._subtopology(source)[0])

    def _punctuate(self, origin: Origin, among: Container[str] | None) -> None:
        nodes = self._nodes
        for owner, queue in self.queues.items():
            if not queue.waiting or (nodes is not None and owner not in nodes):
                continue
            if among is not None and owner not in among:
                continue
            now = self.now_of(owner)
            if now >= 0:
                queue.punctuate(now, lambda node, f, time: self._task.run_punctuator(node, f, time, origin))

    def now_of(self, node: str) -> int:
        """Return the stream time of a node: how far all that its sub-topology reads has come."""
        return self._cursor(self._feeds.get(f"stream/{node}", Feed()).group).now

    # ---- the barrier

    def due(self) -> dict[str, tuple[int, int]]:
        """Return, by feed, the time at the end, and the least time of the sources at which something is to be done without a record."""
        found: dict[str, tuple[int, int]] = {}
        for _, group, due in self._waiting():
            known = found.get(group)
            found[group] = (self._cursors[group].now, due if known is None else min(due, known[1]))
        return found


def held(times: Any, hold: int) -> Any:
    """Return the times of sources as a clock has them that stays behind."""
    return np.where(times < 0, times, np.maximum(times - hold, 0)) if hold else times


def released_at(origin: Origin, number: int, time: int, key: bytes) -> Origin:
    """Return the place of a row that time gives out at a move: before the rows of the record that moved it, by node, due time and key.

    >>> released_at(NO_ORIGIN, 3, 7, b"abcde").sub
    (0, 3, 0, 7, 1633837924, 1694498816, 5)
    """
    pieces = [int.from_bytes(key[at : at + 4].ljust(4, b"\0")) for at in range(0, len(key), 4)]
    sub = (RELEASED, number, max(time, 0) >> 32, max(time, 0) & _HALF, *pieces, len(key))
    return Origin(
        origin.topic,
        origin.partition,
        origin.offset,
        origin.timestamp,
        None,
        None,
        (),
        origin.partition_index,
        origin.reached,
        sub,
    )
