"""Aggregation over time windows: tumbling, hopping, unlimited, the user's own. (Sliding and session windows: ``sliding``, ``session``.)

A record falls into every window that holds its timestamp. A window takes it as long as ``end > time − grace``, where
time is the operator's own clock, this record included; it closes, and is final, at ``end <= time − grace``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.operators.base import Forward, Operator, OperatorContext, table_emitter
from penstock.operators.emit import Close, EmitStrategy, closing
from penstock.operators.folds import count_one, zero
from penstock.operators.session import SessionWindowAggregate
from penstock.operators.sliding import SlidingWindowAggregate
from penstock.record import Headers, Windowed
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
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The initializer, the aggregator, and what says the windows of a timestamp."""
        return (self.initializer, self.aggregator, self.windows.starts_for)

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        windows = self.windows
        if type(windows) is TimeWindows and windows.advance == windows.size:
            return self._open_tumbling(context, forward, windows)
        return self._open_hopping(context, forward)

    def _open_tumbling(self, context: OperatorContext, forward: Forward, windows: TimeWindows) -> Forward:
        """The hot path: one window a record, no function called for a count."""
        store = context.store(self.store)
        read, write, drop = store.read, store.write, context.drop
        advance, size, grace = context.observed_time().advance, windows.size, windows.grace
        initializer, aggregator = self.initializer, self.aggregator
        counting = initializer is zero and aggregator is count_one
        close = self._closing(store, forward)
        emit = None if close else table_emitter(store, forward, self.send_old)
        if store.cached:  # it forwards by itself: make no key for nothing
            emit = None

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                drop("null_key")
                return
            closed = advance(timestamp) - grace
            if close is not None:
                close(closed - size, headers)
            start = timestamp - timestamp % size
            if start + size <= closed:
                drop("late_window")
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
        """Several windows a record, or one without an end."""
        store = context.store(self.store)
        read, write, drop = store.read, store.write, context.drop
        advance, starts_for = context.observed_time().advance, checked_starts(self.windows)
        size, grace = self.windows.size, self.windows.grace
        initializer, aggregator = self.initializer, self.aggregator
        counting = initializer is zero and aggregator is count_one
        close = self._closing(store, forward)
        emit = None if close else table_emitter(store, forward, self.send_old)

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                drop("null_key")
                return
            closed = advance(timestamp) - grace
            if close is not None:
                close(closed - size, headers)
            for start in starts_for(timestamp):
                end = min(start + size, FOREVER)
                if end <= closed:
                    drop("late_window")
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

    def _closing(self, store: Any, forward: Forward) -> Close | None:
        windows = self.windows
        if self.emit is EmitStrategy.on_window_update or not isinstance(windows, TimeWindows):
            return None
        size, read_all = windows.size, store.read_all

        def scan(first: int, last: int) -> Iterable[tuple[Windowed, Any, int]]:
            rows = list(read_all(first, last))
            return [(Windowed(key, start, start + size), value, timestamp) for key, start, value, timestamp in rows]

        return closing(store, scan, forward, step=windows.advance)


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
