"""Stream-stream joins: two streams, each kept for a while in a window store, meet within a time difference.

The nodes of one join, as Kafka Streams lays them out::

    left  ──▶ JoinWindow(left store)  ──▶ StreamStreamJoin(right store, left side)  ──┐
                                                                                      ├──▶ PassThrough
    right ──▶ JoinWindow(right store) ──▶ StreamStreamJoin(left store, right side)  ──┘

Both sides of a left or outer join share the store of unmatched rows and one clock.

Differences from Kafka Streams: it looks for closed rows at most once per second of wall-clock time (its test driver,
always); we always look, so that results do not depend on how fast records are processed. It also lets closed rows wait,
depending on the other keys of the partition; ours leave at once, so that the results of a key come in the same order for any number
of shards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from penstock.operators.base import Forward, Operator, OperatorContext
from penstock.record import Headers
from penstock.watermark import LatePolicy
from penstock.windows import JoinWindows

JoinKind: TypeAlias = Literal["inner", "left", "outer"]
#: (key, value of this side, value of the other side) -> result
Join: TypeAlias = Callable[[Any, Any, Any], Any]


def keyed_joiner(joiner: Callable[..., Any], with_key: bool, reverse: bool = False) -> Join:
    """Return the joiner as ``(key, this, other) -> result``; ``reverse``: this side is the right one."""
    if not reverse:
        return joiner if with_key else lambda key, this, other: joiner(this, other)
    if with_key:
        return lambda key, this, other: joiner(key, other, this)
    return lambda key, this, other: joiner(other, this)


@dataclass(frozen=True, slots=True)
class JoinWindow(Operator):
    """Remember a record for the other side (KSTREAM-WINDOWED): forward first, then keep it; it never meets itself.

    ``windows``, ``left_side`` and ``clock`` are those of the join: what is late, late policies of sources decide here.
    """

    timed: ClassVar[bool] = True

    store: str
    windows: JoinWindows | None = None
    left_side: bool = True
    clock: str | None = None

    @property
    def shared_clock(self) -> str | None:
        """That of the join."""
        return self.clock

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        keep = self._open_window(context, forward)
        if not context.late_policies or self.windows is None or self.clock is None:
            return keep
        return self._open_judging(context, keep, self.windows, self.clock)

    def _open_judging(self, context: OperatorContext, keep: Forward, windows: JoinWindows, clock: str) -> Forward:
        """Where sources have late policies: a late record of such a source neither joins nor waits for a match."""
        before, after = (windows.before, windows.after) if self.left_side else (windows.after, windows.before)
        time, grace = context.event_time(shared=clock), windows.grace
        policy_at_hand, drop_late = context.late_policy, context.drop_late

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            now, end = time.now, timestamp + after
            if end < now:
                policy = policy_at_hand()
                if policy is LatePolicy.drop or (policy is LatePolicy.dead_letter and end + grace < now):
                    drop_late("late_join", max(timestamp - before, 0), end, now)
                    return
            keep(key, value, timestamp, headers)

        return on_record

    def _open_window(self, context: OperatorContext, forward: Forward) -> Forward:
        add = context.store(self.store).add

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(key, value, timestamp, headers)
            if key is not None:
                add(key, value, timestamp, headers)

        return on_record


@dataclass(frozen=True, slots=True)
class StreamStreamJoin(Operator):
    """One side of a stream-stream join (KSTREAM-JOINTHIS, JOINOTHER, OUTERTHIS, OUTEROTHER).

    ``joiner(left, right)``, or ``(key, left, right)`` with ``with_key``, whichever side this is. ``outer``: this side
    gives a result for a record without a match. ``shared_store``: where unmatched rows of both sides wait until their
    window is closed; None for an inner join. ``clock``: name of the time that both sides share.

    A late record still meets everything that the other side's store still holds: only rows without a match are looked at
    by time. An unmatched record is emitted at once if its window ended before the present, whatever the grace; else it
    waits. ``store_own``: where this side's records are kept; they are not read from there.
    """

    timed: ClassVar[bool] = True

    calls: ClassVar[tuple[str, ...]] = ("joiner",)

    store_other: str
    windows: JoinWindows
    joiner: Callable[..., Any]
    left_side: bool
    outer: bool
    kind: JoinKind
    clock: str
    with_key: bool = False
    shared_store: str | None = None
    store_own: str = ""

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        if self.shared_store is None and not self.outer:
            return self._open_inner(context, forward)
        return self._open_outer(context, forward)

    def reach(self) -> tuple[int, int]:
        """How far back and ahead of a record of this side the other side's records may lie."""
        windows = self.windows
        return (windows.before, windows.after) if self.left_side else (windows.after, windows.before)

    def _open_inner(self, context: OperatorContext, forward: Forward) -> Forward:
        fetch, drop = context.store(self.store_other).fetch_list, context.drop
        join = keyed_joiner(self.joiner, self.with_key, reverse=not self.left_side)
        before, after = self.reach()

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                drop("null_key" if key is None else "null_value")
                return
            since, until = timestamp - before, timestamp + after
            for other_time, other in fetch(key, since if since > 0 else 0, until if until > 0 else 0):
                result_time = other_time if other_time > timestamp else timestamp
                forward(key, join(key, value, other), result_time, headers)

        return on_record

    def _open_outer(self, context: OperatorContext, forward: Forward) -> Forward:
        fetch, drop = context.store(self.store_other).fetch_list, context.drop
        clock = context.event_time(shared=self.clock)
        join = keyed_joiner(self.joiner, self.with_key, reverse=not self.left_side)
        before, after = self.reach()
        left_side, outer = self.left_side, self.outer
        parked = None if self.shared_store is None else context.store(self.shared_store)
        emit_closed = self._closer(context, parked, forward)

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            now = clock.now
            if key is None or value is None:
                if outer and value is not None:
                    forward(None, join(None, value, None), timestamp, headers)
                else:
                    drop("null_key" if key is None else "null_value")
                return
            emit_closed(now)
            since, until = timestamp - before, timestamp + after
            if until < 0:
                until = 0
            matches = fetch(key, since if since > 0 else 0, until)
            for other_time, other in matches:
                if parked is not None:
                    parked.forget(key, other_time, not left_side, timestamp)
                result_time = other_time if other_time > timestamp else timestamp
                forward(key, join(key, value, other), result_time, headers)
            if outer and not matches:
                if parked is None or until < now:
                    forward(key, join(key, value, None), timestamp, headers)
                else:
                    parked.park(key, timestamp, left_side, value)

        return on_record

    @property
    def shared_clock(self) -> str | None:
        """Both sides share one."""
        return self.clock

    def delay(self, span: int) -> int:
        """A row without a match waits until its window and the grace are over."""
        windows = self.windows
        return max(windows.before, windows.after, 0) + windows.grace if self.shared_store is not None else 0

    def _closer(self, context: OperatorContext, parked: Any, forward: Forward) -> Callable[[int], None]:
        """Return ``emit_closed(now)``: forward the waiting rows whose window is closed."""
        windows = self.windows
        left_wait, right_wait = windows.after + windows.grace, windows.before + windows.grace
        join = keyed_joiner(self.joiner, self.with_key)

        def emit_closed(now: int) -> None:
            if parked is None:
                return
            closed, taken = parked.take_closed(now, left_wait, right_wait), 0
            try:
                for raw_key, key, time, left, value in closed:
                    taken += 1
                    context.release(time + (left_wait if left else right_wait) + 1, raw_key)
                    try:
                        forward(key, join(key, value, None) if left else join(key, None, value), time, ())
                    finally:
                        context.released()
            except Exception:
                for row in closed[taken:]:  # the row at hand is for the policy to decide, the others still wait
                    parked.park(row.key, row.timestamp, row.left, row.value)
                raise

        if parked is not None:
            context.on_time(emit_closed, lambda: parked.earliest(left_wait, right_wait), self.clock, in_batches=True)
        return emit_closed


@dataclass(frozen=True, slots=True)
class StreamStreamSelfJoin(Operator):
    """A stream joined with itself, from one window store (the ``self_join`` optimisation).

    Results come in the order in which the two sides of a plain inner join would give them: the record as the left side
    with the earlier ones, then as the right side with them, and itself where its own time belongs.
    """

    timed: ClassVar[bool] = True

    calls: ClassVar[tuple[str, ...]] = ("joiner",)

    store: str
    windows: JoinWindows
    joiner: Callable[..., Any]
    with_key: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        fetch, drop = context.store(self.store).fetch_list, context.drop
        clock = context.event_time(shared=f"store/{self.store}")
        join = keyed_joiner(self.joiner, self.with_key)
        before, after, retention = self.windows.before, self.windows.after, self.windows.retention

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                drop("null_key" if key is None else "null_value")
                return
            itself = join(key, value, value)
            # a record that its own store refuses as expired does not meet itself
            meets_itself = timestamp > clock.now - retention + 1
            for time, other in fetch(key, max(0, timestamp - before), max(0, timestamp + after)):
                forward(key, join(key, value, other), max(timestamp, time), headers)
            for time, other in fetch(key, max(0, timestamp - after), max(0, timestamp + before)):
                if meets_itself and timestamp < time:
                    meets_itself = False
                    forward(key, itself, timestamp, headers)
                forward(key, join(key, other, value), max(timestamp, time), headers)
            if meets_itself:
                forward(key, itself, timestamp, headers)

        return on_record
