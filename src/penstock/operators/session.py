"""Aggregation over session windows: records of one key at most ``gap`` apart are one session, both ends inclusive.

A record finds every session within ``gap`` of it and becomes one session with them: the sessions it swallowed are
removed, each with a tombstone, and the merged one is stored. Lateness is decided by the merged session: it is taken as
long as ``end >= time − grace − gap``, and closes at ``end < time − grace − gap``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.operators.base import Forward, Operator, OperatorContext, table_emitter
from penstock.operators.emit import Closed, Closing, EmitStrategy
from penstock.operators.folds import add_counts, count_one, zero
from penstock.record import Headers, Windowed
from penstock.watermark import LatePolicy
from penstock.windows import SessionWindows


@dataclass(frozen=True, slots=True)
class SessionWindowAggregate(Operator):
    """One aggregate per key and session. A null value reaches the aggregator; a null key is dropped.

    A result's timestamp is the session's end. Updates carry no headers, as in Kafka Streams.
    """

    timed: ClassVar[bool] = True

    calls: ClassVar[tuple[str, ...]] = ("initializer", "aggregator", "merger")

    store: str
    windows: SessionWindows
    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]
    merger: Callable[[Any, Any, Any], Any]
    emit: EmitStrategy = EmitStrategy.on_window_update
    send_old: bool = False

    @property
    def counts(self) -> bool:
        """Whether it counts, so that no function of the user is called."""
        return self.initializer is zero and self.aggregator is count_one and self.merger is add_counts

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        store, drop, clock = context.store(self.store), context.drop, context.event_time()
        store.follow()
        drop_late = context.drop_late
        refuses_late = context.refuses_late if LatePolicy.drop in context.late_policies else None
        find_sessions, put, remove = store.find_sessions, store.put, store.remove
        gap, grace = self.windows.gap, self.windows.grace
        initializer, aggregator, merger = self.initializer, self.aggregator, self.merger
        counting = initializer is zero and aggregator is count_one and merger is add_counts
        on_close = self.emit is EmitStrategy.on_window_close
        close = self._closing(context, store, forward).close if on_close else None
        emit = None if on_close else table_emitter(store, forward, self.send_old)

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                drop("null_key")
                return
            now = clock.now
            closed = now - gap if refuses_late is not None and refuses_late() else now - grace - gap
            if close is not None:  # a session that was given out takes nothing more, even if time has gone back since
                closed = max(closed, close(now) + 1)
            start = end = timestamp
            aggregate = 0 if counting else initializer()
            found = list(find_sessions(key, timestamp - gap, timestamp + gap))
            for (_, other_start, other_end), other in found:
                aggregate = aggregate + other if counting else merger(key, aggregate, other)
                start = min(start, other_start)
                end = max(end, other_end)
            if end < closed:
                drop_late("late_session", start, end, now)
                return
            if start != end or end != timestamp:  # else the only session found is this very instant, and is overwritten
                for session, other in found:
                    remove(session, headers)
                    if emit is not None:
                        emit(session, None, other, session.end, ())
            aggregate = aggregate + 1 if counting else aggregator(key, value, aggregate)
            merged = Windowed(key, start, end)
            put(merged, aggregate, headers)
            if emit is not None:
                emit(merged, aggregate, None, end, ())

        return on_record

    @property
    def releases(self) -> bool:
        """On close: windows leave when they close."""
        return self.emit is EmitStrategy.on_window_close

    def delay(self, span: int) -> int:
        """On close: a session is given out when no record can belong to it any more."""
        return self.windows.gap + self.windows.grace if self.emit is EmitStrategy.on_window_close else 0

    def _closing(self, context: OperatorContext, store: Any, forward: Forward) -> Closing:
        def scan(first: int, last: int) -> Iterable[Closed]:
            return [
                Closed(session.end, raw_key, session, value, session.end)
                for raw_key, session, value in list(store.ended(first, last))
            ]

        return Closing(context, store, scan, forward, wait=self.windows.gap + self.windows.grace + 1)
