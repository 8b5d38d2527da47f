"""When a windowed aggregation forwards its results: at every update, or once, when the window closes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from penstock.operators.base import Forward, OperatorContext
from penstock.record import Change, Windowed


class Closed(NamedTuple):
    """A window that has closed: its position, the bytes of its key, and what leaves."""

    position: int
    raw_key: bytes
    window: Windowed
    result: Any
    timestamp: int


#: reads the windows at the positions from .. to, both inclusive, in the order of emission
Scan: TypeAlias = Callable[[int, int], Iterable[Closed]]


class EmitStrategy(Enum):
    """When results of a window leave it.

    >>> EmitStrategy.on_window_close.name
    'on_window_close'
    """

    on_window_update = "on_window_update"
    on_window_close = "on_window_close"


class Closing:
    """Gives out the windows of a node as they close, each once, with no old value.

    A window's position is its start (its end for sessions); it closes when time is ``wait`` past its position. Positions are
    multiples of ``step``: moving on by less than one step cannot close anything, and the store is not asked. How far it got is the
    store's ``emitted``, so that it lives as long as the windows do and a restart emits none twice.
    """

    __slots__ = ("_context", "_forward", "_scan", "_step", "_store", "_wait")

    def __init__(
        self, context: OperatorContext, store: Any, scan: Scan, forward: Forward, *, wait: int, step: int = 1
    ) -> None:
        self._context = context
        self._store = store
        self._scan = scan
        self._forward = forward
        self._wait = wait
        self._step = step
        store.watch()
        context.on_time(self._on_time, self.due)

    def close(self, now: int) -> int:
        """Forward what has closed since the last call; return the last position that is closed, and final.

        Call it before the record's own update: the update can move the store's time, and windows that are past the store's
        retention by then could no longer be read. (A window that takes the record is not closed, so the order is not seen.)
        """
        last = now - self._wait
        emitted: int = self._store.emitted
        if last // self._step <= emitted // self._step:
            return emitted
        context, forward = self._context, self._forward
        for closed in self._scan(emitted + 1, last):
            context.release(closed.position + self._wait, closed.raw_key)
            try:
                forward(closed.window, Change(closed.result, None), closed.timestamp, ())
            finally:
                context.released()
        self._store.emitted = last
        return last

    def due(self) -> int | None:
        """Return when the next window closes."""
        earliest = self._store.earliest()
        return None if earliest is None else earliest + self._wait

    def _on_time(self, now: int) -> None:
        self.close(now)
