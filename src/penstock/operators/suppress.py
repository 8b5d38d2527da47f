"""Suppress: hold back updates of a table until a time limit passes or the window closes.

One row per key waits in a buffer. A later update replaces the row's value but not its place: it leaves when its
**first** update is ``wait`` old (final mode: when the window's end is), or earlier when the buffer is full. It leaves
as the record it was: with the timestamp, headers and origin of its last update.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from penstock.errors import BufferFullError
from penstock.operators.base import Forward, Lookup, Operator, OperatorContext, TableView
from penstock.record import Change, Headers, Origin

#: stands for no limit in the comparisons
NO_LIMIT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Suppress(Operator):
    """Hold back updates.

    ``wait``: milliseconds a row waits; in final mode the grace of the window (sessions: grace + gap).
    ``window_end_time``: a row's time is the end of its window instead of its timestamp. ``windowed``: the node whose windows
    these are; with several source partitions their clock decides, which sees every record. ``final``: tombstones are not
    emitted, as nothing was emitted before them. Old values are always forwarded as they came, whether or not a node
    downstream asked (as in Kafka Streams).
    """

    timed: ClassVar[bool] = True

    store: str
    wait: int
    max_records: int | None = None
    max_bytes: int | None = None
    when_full: Literal["emit", "shut_down"] = "emit"
    final: bool = False
    window_end_time: bool = False
    send_old: bool = False
    parent: TableView | None = None
    windowed: str | None = None

    @property
    def releases(self) -> bool:
        """Rows wait for their time."""
        return True

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        buffer, clock = context.store(self.store), context.event_time()
        put, evict_until, evict_oldest = buffer.put, buffer.evict_until, buffer.evict_oldest
        wait, window_end_time, keep_tombstones = self.wait, self.window_end_time, not self.final
        limited = self.max_records is not None or self.max_bytes is not None
        max_records = NO_LIMIT if self.max_records is None else self.max_records
        max_bytes = NO_LIMIT if self.max_bytes is None else self.max_bytes
        shut_down, final, drop_late = self.when_full == "shut_down", self.final, context.drop_late
        windows = context.clock_of(self.windowed) if self.windowed is not None else clock

        def emit(
            raw_key: bytes, time: int, key: Any, new: Any, old: Any, timestamp: int, headers: Headers, origin: Origin
        ) -> None:
            if new is None and not keep_tombstones:
                return
            context.release(time + wait, raw_key)
            context.origin = origin
            try:
                forward(key, Change(new, old), timestamp, headers)
            finally:
                context.released()

        def pass_on(
            raw_key: bytes, time: int, key: Any, new: Any, old: Any, timestamp: int, headers: Headers, _: Origin
        ) -> None:
            if new is not None or keep_tombstones:
                forward(key, Change(new, old), timestamp, headers)

        def on_record(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
            now = clock.now
            if windows.now < now:  # a window is not closed before the node that fills it says so
                now = windows.now
            # its result was given out; windows whose end belongs to them may still change at that very time, as in Kafka
            if final and key.end < buffer.evicted and change.new is not None and not buffer.holds(key):
                drop_late("late_window", key.start, key.end, buffer.evicted + wait)
                return
            time = key.end if window_end_time else timestamp
            if time <= now - wait and not buffer.holds(key):  # it goes on at once, behind what is due
                evict_until(now - wait, emit)
                put(time, key, change.new, change.old, timestamp, headers)
                evict_until(now - wait, pass_on)
            else:
                put(time, key, change.new, change.old, timestamp, headers)
                evict_until(now - wait, emit)
            if limited and (buffer.records > max_records or buffer.size_bytes > max_bytes):
                if shut_down:
                    raise self._full(buffer, context)
                while buffer.records > max_records or buffer.size_bytes > max_bytes:
                    evict_oldest(emit)

        def on_time(now: int) -> None:
            evict_until(min(now, windows.now) - wait, emit)

        def due() -> int | None:
            first: int | None = buffer.min_timestamp
            return None if first is None else first + wait

        context.on_time(on_time, due)
        return on_record

    def delay(self, span: int) -> int:
        """An update leaves when it has waited; where the end of its window counts, it may be older by the window."""
        return self.wait + (span if self.window_end_time else 0)

    def _full(self, buffer: Any, context: OperatorContext) -> BufferFullError:
        return BufferFullError(
            f"the suppress buffer {self.store!r} shuts down when full, and is: {buffer.records} records of "
            f"{_limit(self.max_records)}, {buffer.size_bytes} bytes of {_limit(self.max_bytes)}; "
            "give it more room, or let it emit early when full",
            node=context.node,
            origin=context.origin,
        )


def _limit(limit: int | None) -> str:
    return "any number" if limit is None else str(limit)


@dataclass(frozen=True, slots=True)
class SuppressView(TableView):
    """Read a suppressed table: while an update of a key is held back, what was there before it; else the parent's row.

    A row read from the buffer has the timestamp −1: the time of the value before is not known there.
    """

    store: str
    parent: TableView

    @property
    def stores(self) -> tuple[str, ...]:
        """The buffer, and whatever the parent reads."""
        return (self.store, *self.parent.stores)

    def open(self, context: OperatorContext) -> Lookup:
        """Bind to one shard; return ``lookup(key)``."""
        buffer, parent = context.store(self.store), self.parent.open(context)

        def lookup(key: Any) -> tuple[Any, int] | None:
            if not buffer.holds(key):
                return parent(key)
            prior = buffer.prior(key)
            return None if prior is None else (prior, -1)

        return lookup
