"""Aggregation over time windows: tumbling, hopping, unlimited, the user's own. (Sliding and session windows: ``sliding``, ``session``.)

A record falls into every window that holds its timestamp. A window takes it as long as ``end > time − grace``, where
time is the operator's own clock, this record included; it closes, and is final, at ``end <= time − grace``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.operators.base import Emit, Forward, Operator, OperatorContext, table_emitter
from penstock.operators.emit import Closed, Closing, EmitStrategy
from penstock.operators.folds import count_one, zero
from penstock.operators.session import SessionWindowAggregate
from penstock.operators.sliding import SlidingWindowAggregate
from penstock.record import Headers, Windowed
from penstock.watermark import LatePolicy
from penstock.windows import FOREVER, TimeWindows, UnlimitedWindows, Windows

__all__ = ["SessionWindowAggregate", "SlidingWindowAggregate", "WindowAggregate"]


@dataclass(frozen=True, slots=True)
class WindowAggregate(Operator):
    """One aggregate per key and time window. A null value reaches the aggregator; a null key is dropped."""

    timed: ClassVar[bool] = True

    store: str
    windows: Windows
    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]
    emit: EmitStrategy = EmitStrategy.on_window_update
    send_old: bool = False

    @property
    def counts(self) -> bool:
        """Whether it counts, so that no function of the user is called."""
        return self.initializer is zero and self.aggregator is count_one

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The initializer, the aggregator, and what says the windows of a timestamp."""
        return (self.initializer, self.aggregator, self.windows.starts_for)

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        windows = self.windows
        plain = self.emits_updates and LatePolicy.drop not in context.late_policies
        if plain and type(windows) is TimeWindows and windows.advance == windows.size:
            return self._open_tumbling(context, forward, windows)
        return self._open_hopping(context, forward)

    def _open_tumbling(self, context: OperatorContext, forward: Forward, windows: TimeWindows) -> Forward:
        """The hot path: one window a record, no function called for a count."""
        store = context.store(self.store)
        read, write, drop, drop_late = store.read, store.write, context.drop, context.drop_late
        clock, size, grace = context.event_time(), windows.size, windows.grace
        store.follow(lambda now: now - now % size)
        initializer, aggregator = self.initializer, self.aggregator
        counting = initializer is zero and aggregator is count_one
        emit: Emit | None = table_emitter(store, forward, self.send_old)
        if store.cached and not store.forwards_each:  # it forwards by itself: make no key for nothing
            emit = None

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                drop("null_key")
                return
            closed = clock.now - grace
            start = timestamp - timestamp % size
            if start + size <= closed:
                drop_late("late_window", start, start + size, closed + grace)
                return
            found = read(key, start)
            latest = timestamp
            if found is None:
                old = 0 if counting else initializer()
            else:
                old, stored = found
                if stored > latest:
                    latest = stored
            new = old + 1 if counting else aggregator(key, value, old)
            write(key, start, new, timestamp if new is None else latest, headers)
            if emit is not None:
                emit(Windowed(key, start, start + size), new, old, latest, headers)

        return on_record

    def _open_hopping(self, context: OperatorContext, forward: Forward) -> Forward:
        """Several windows a record, or one without an end; results on close; sources that grant no grace."""
        store = context.store(self.store)
        read, write, drop, drop_late = store.read, store.write, context.drop, context.drop_late
        clock, starts_for = context.event_time(), checked_starts(self.windows)
        store.follow(last_start(self.windows))
        size, grace = self.windows.size, self.windows.grace
        initializer, aggregator = self.initializer, self.aggregator
        counting = initializer is zero and aggregator is count_one
        refuses_late = context.refuses_late if LatePolicy.drop in context.late_policies else None
        close = None if self.emits_updates else self._closing(context, store, forward).close
        emit = table_emitter(store, forward, self.send_old) if close is None else None

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                drop("null_key")
                return
            now = clock.now
            closed = now if refuses_late is not None and refuses_late() else now - grace
            if close is not None:  # a window that was given out takes nothing more, even if time has gone back since
                closed = max(closed, close(now) + size)
            for start in starts_for(timestamp):
                end = min(start + size, FOREVER)
                if end <= closed:
                    drop_late("late_window", start, end, now)
                    continue
                found = read(key, start)
                if found is None:
                    old, latest = 0 if counting else initializer(), timestamp
                else:
                    old, stored = found
                    latest = max(stored, timestamp)
                new = old + 1 if counting else aggregator(key, value, old)
                write(key, start, new, timestamp if new is None else latest, headers)
                if emit is not None:
                    emit(Windowed(key, start, end), new, old, latest, headers)

        return on_record

    @property
    def emits_updates(self) -> bool:
        """Whether each update leaves, not only the result of a window that closes."""
        return self.emit is EmitStrategy.on_window_update or not isinstance(self.windows, TimeWindows)

    @property
    def span(self) -> int:
        """The size of a window."""
        return self.windows.size

    @property
    def releases(self) -> bool:
        """On close: windows leave when they close."""
        return not self.emits_updates

    def delay(self, span: int) -> int:
        """On close: a window is given out when its end and the grace have passed."""
        return 0 if self.emits_updates else self.windows.size + self.windows.grace

    def _closing(self, context: OperatorContext, store: Any, forward: Forward) -> Closing:
        windows = self.windows
        assert isinstance(windows, TimeWindows)
        size = windows.size

        def scan(first: int, last: int) -> Iterable[Closed]:
            return [
                Closed(start, raw_key, Windowed(key, start, start + size), value, at)
                for raw_key, key, start, value, at in list(store.read_all(first, last))
            ]

        return Closing(context, store, scan, forward, wait=size + windows.grace, step=windows.advance)


def last_start(windows: Windows) -> Callable[[int], int]:
    """Return what says where the last window starts that holds a time: so far a store has come."""
    if isinstance(windows, TimeWindows):
        advance = windows.advance
        return lambda now: now - now % advance
    if isinstance(windows, UnlimitedWindows):
        start = windows.start
        return lambda now: start if now >= start else -1
    starts_for = windows.starts_for
    return lambda now: max(starts_for(now), default=-1)


def checked_starts(windows: Windows) -> Callable[[int], Iterable[int]]:
    """Return what says the starts of windows; for windows of the user's own, checked as Kafka Streams checks a window."""
    starts_for = windows.starts_for
    if type(windows) in (TimeWindows, UnlimitedWindows):
        return starts_for

    def checked(timestamp: int) -> Iterable[int]:
        starts = tuple(starts_for(timestamp))
        for start in starts:
            if start < 0:
                raise ValueError(
                    f"starts_for({timestamp}) of {type(windows).__name__} gave {start}: no window starts before 0"
                )
        return starts

    return checked
