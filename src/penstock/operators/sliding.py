"""Aggregation over sliding windows: for each record, the windows that end at it and that begin just after it.

Seen from a record at ``t`` with difference ``d`` (both ends of a window inclusive)::

    left window     [t − d, t]           always there, once t was seen
    right window    [t + 1, t + 1 + d]   only if it holds a later record

A new record goes into every stored window that holds ``t``. Its own left window, its own right window and the right
window of the record before it are made if they are missing: their contents are found in the neighbours, never by
reading records again. A row's timestamp is the newest record in the window; it decides which records a neighbour
holds. A start is never negative: records at ``t < d`` share the window [0, d].

A window takes records as long as ``end >= time − grace``, and closes at ``end < time − grace``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from penstock.operators.base import Forward, Operator, OperatorContext, table_emitter
from penstock.operators.emit import Closed, Closing, EmitStrategy
from penstock.operators.folds import count_one, zero
from penstock.record import Headers, Windowed
from penstock.watermark import LatePolicy
from penstock.windows import SlidingWindows

#: takes the record into a window: (key, value, timestamp, headers, start, aggregate so far, its timestamp, closed)
Update: TypeAlias = Callable[[Any, Any, int, Headers, int, Any, int, int], None]
#: stores and forwards a window as it is: (key, start, aggregate, its timestamp, headers)
Copy: TypeAlias = Callable[[Any, int, Any, int, Headers], None]
#: a stored window: its aggregate and the timestamp of its newest record
Held: TypeAlias = "tuple[Any, int] | None"


@dataclass(frozen=True, slots=True)
class SlidingWindowAggregate(Operator):
    """One aggregate per key and sliding window. A null key and a null value are dropped."""

    timed: ClassVar[bool] = True

    calls: ClassVar[tuple[str, ...]] = ("initializer", "aggregator")

    store: str
    windows: SlidingWindows
    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]
    emit: EmitStrategy = EmitStrategy.on_window_update
    send_old: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        store, drop = context.store(self.store), context.drop
        clock, difference, grace = context.event_time(), self.windows.difference, self.windows.grace
        store.follow(lambda now: max(now - difference, 0))
        on_close = self.emit is EmitStrategy.on_window_close
        close = self._closing(context, store, forward).close if on_close else None
        drop_late = context.drop_late
        refuses_late = context.refuses_late if LatePolicy.drop in context.late_policies else None
        update, copy = self._writers(context, store, forward)
        usual = _usual(store, self.initializer, update, copy, difference)
        early = _early(store, self.initializer, update, copy)

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                drop("null_key" if key is None else "null_value")
                return
            now = clock.now
            closed = now if refuses_late is not None and refuses_late() else now - grace
            if close is not None:  # a window that was given out takes nothing more, even if time has gone back since
                closed = max(closed, close(now) + difference + 1)
            if timestamp + difference < closed:
                drop_late("late_window", timestamp, timestamp + difference, now)
            elif timestamp < difference:
                early(key, value, timestamp, headers, closed)
            else:
                usual(key, value, timestamp, headers, closed)

        return on_record

    @property
    def span(self) -> int:
        """The length of a window."""
        return self.windows.difference

    @property
    def releases(self) -> bool:
        """On close: windows leave when they close."""
        return self.emit is EmitStrategy.on_window_close

    def delay(self, span: int) -> int:
        """On close: a window is given out when its end and the grace have passed."""
        on_close = self.emit is EmitStrategy.on_window_close
        return self.windows.difference + self.windows.grace if on_close else 0

    def _closing(self, context: OperatorContext, store: Any, forward: Forward) -> Closing:
        difference = self.windows.difference

        def scan(first: int, last: int) -> Iterable[Closed]:
            return [
                Closed(start, raw_key, Windowed(key, start, start + difference), value, at)
                for raw_key, key, start, value, at in list(store.read_all(first, last))
            ]

        wait = difference + self.windows.grace + 1
        return Closing(context, store, scan, forward, wait=wait)

    def _writers(self, context: OperatorContext, store: Any, forward: Forward) -> tuple[Update, Copy]:
        """Return how a window takes the record, and how it is made from a neighbour."""
        write, aggregator, difference = store.write, self.aggregator, self.windows.difference
        drop_late, grace = context.drop_late, self.windows.grace
        counting = self.initializer is zero and aggregator is count_one
        on_update = self.emit is EmitStrategy.on_window_update
        emit = table_emitter(store, forward, self.send_old) if on_update else None

        def update(
            key: Any, value: Any, timestamp: int, headers: Headers, start: int, old: Any, stored: int, closed: int
        ) -> None:
            if start + difference < closed:
                drop_late("late_window", start, start + difference, closed + grace)
                return
            new = old + 1 if counting else aggregator(key, value, old)
            latest = timestamp if old is None or stored < timestamp else stored
            write(key, start, new, timestamp if new is None else latest, headers)
            if emit is not None:
                emit(Windowed(key, start, start + difference), new, old, latest, headers)

        def copy(key: Any, start: int, aggregate: Any, latest: int, headers: Headers) -> None:
            write(key, start, aggregate, latest, headers)
            if emit is not None:
                emit(Windowed(key, start, start + difference), aggregate, None, latest, headers)

        return update, copy


def _usual(
    store: Any, initializer: Callable[[], Any], update: Update, copy: Copy, difference: int
) -> Callable[[Any, Any, int, Headers, int], None]:
    """Return what happens to a record at ``t >= d``: its windows are read newest first."""
    read_range = store.read_range

    def on_usual(key: Any, value: Any, timestamp: int, headers: Headers, closed: int) -> None:
        left_start = timestamp - difference
        starts = set()
        left: Held = None
        right: Held = None
        left_exists = right_exists = False
        previous: int | None = None
        for start, aggregate, newest in read_range(key, max(0, left_start - difference), timestamp + 1, True):
            starts.add(start)
            if start == timestamp + 1:
                right_exists = True
            elif start > left_start:
                right = right or (aggregate, newest)
                update(key, value, timestamp, headers, start, aggregate, newest, closed)
            elif start == left_start:
                left_exists = True
                update(key, value, timestamp, headers, start, aggregate, newest, closed)
                if newest >= timestamp:  # a record at this time was here before: all its windows are made
                    return
                previous = newest
            else:  # the nearest window that ends before t: its newest record is the one before
                left, previous = (aggregate, newest), newest
                break
        if previous is not None and previous + 1 not in starts and previous + 1 + difference >= timestamp:
            update(key, value, timestamp, headers, previous + 1, initializer(), timestamp, closed)
        if not left_exists:
            seed = left[0] if left is not None and left[1] >= left_start else initializer()
            update(key, value, timestamp, headers, left_start, seed, timestamp, closed)
        if not right_exists and right is not None and right[1] > timestamp:
            copy(key, timestamp + 1, *right, headers)

    return on_usual


def _early(
    store: Any, initializer: Callable[[], Any], update: Update, copy: Copy
) -> Callable[[Any, Any, int, Headers, int], None]:
    """Return what happens to a record at ``t < d``: [0, d] stands for its left window, whatever else it holds."""
    read_range = store.read_range

    def on_early(key: Any, value: Any, timestamp: int, headers: Headers, closed: int) -> None:
        starts = set()
        combined: Held = None
        right: Held = None
        right_exists = False
        previous: int | None = None
        for start, aggregate, newest in read_range(key, 0, timestamp + 1, False):
            starts.add(start)
            if start == 0:
                combined = (aggregate, newest)
                if newest < timestamp:  # else the later record has made the right window of the one before
                    previous = newest
            elif start <= timestamp:
                right = (aggregate, newest)
                update(key, value, timestamp, headers, start, aggregate, newest, closed)
            else:
                right_exists = True
        # With no window between, all that [0, d] holds is later than t (or nothing is, and no right window is needed).
        right = right or combined
        if not right_exists and right is not None and right[1] > timestamp:
            copy(key, timestamp + 1, *right, headers)
        if previous is not None and previous + 1 not in starts:
            update(key, value, timestamp, headers, previous + 1, initializer(), timestamp, closed)
        aggregate, newest = combined or (initializer(), timestamp)
        update(key, value, timestamp, headers, 0, aggregate, newest, closed)

    return on_early
