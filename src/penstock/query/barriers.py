"""Barriers as the driver's process hears of them: the last one, waiting for the next, listeners.

Any thread may wait or listen; the loop publishes. A listener runs in the thread of the loop, between two epochs: it
must be short, and must not raise (what it raises is logged, and the epoch goes on)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from penstock.clock import stopwatch_us
from penstock.errors import NotUpToBound

logger = logging.getLogger("penstock.query")

#: (topic, partition) → offset of the last record that is part of a barrier, as in Kafka's ``Position``
Position: TypeAlias = Mapping[tuple[str, int], int]


class Barrier(NamedTuple):
    """A published barrier: its epoch, and the last offset of each source partition that is part of it."""

    epoch: int
    position: Position

    def has(self, position: Position) -> bool:
        """Whether all records up to these offsets are part of the barrier.

        >>> barrier = Barrier(7, {("orders", 0): 41})
        >>> barrier.has({("orders", 0): 41}), barrier.has({("orders", 1): 0})
        (True, False)
        """
        return all(self.position.get(place, -1) >= offset for place, offset in position.items())


def position_of(next_offsets: Mapping[tuple[str, int], int]) -> Position:
    """Return the position of a barrier whose epochs go on at these offsets; partitions without a record are left out.

    >>> position_of({("orders", 0): 42, ("orders", 1): 0})
    {('orders', 0): 41}
    """
    return {place: offset - 1 for place, offset in next_offsets.items() if offset > 0}


#: told of each barrier, in the thread of the loop
BarrierListener: TypeAlias = Callable[[Barrier], None]


class Subscription:
    """Until it is closed a listener is called.

    Closing is done from any thread, and may be done twice. A context manager.
    """

    def __init__(self, end: Callable[[], None]) -> None:
        self._end: Callable[[], None] | None = end

    def close(self) -> None:
        """Hear of no later barrier."""
        end, self._end = self._end, None
        if end is not None:
            end()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Barriers:
    """The barriers of an application.

    >>> barriers = Barriers()
    >>> heard = []
    >>> with barriers.subscribe(heard.append):
    ...     barriers.publish(Barrier(1, {("orders", 0): 9}))
    >>> barriers.publish(Barrier(2, {("orders", 0): 19}))
    >>> [barrier.epoch for barrier in heard], barriers.last.epoch
    ([1], 2)
    >>> barriers.wait({("orders", 0): 19}).epoch
    2
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._last: Barrier | None = None
        self._ended = False
        self._listeners: dict[object, BarrierListener] = {}

    @property
    def last(self) -> Barrier | None:
        """The last barrier; None before the application has restored its state."""
        return self._last

    def publish(self, barrier: Barrier) -> None:
        """Tell of a barrier: by the loop, once its stores can be read."""
        with self._changed:
            self._last, self._ended = barrier, False
            self._changed.notify_all()
            listeners = list(self._listeners.values())
        for listener in listeners:
            try:
                listener(barrier)
            except Exception:
                logger.exception("a listener of barriers has failed at epoch %d", barrier.epoch)

    def end(self) -> None:
        """Release all waiters: no barrier will follow."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def subscribe(self, listener: BarrierListener) -> Subscription:
        """Call ``listener(barrier)`` for every barrier from now on, in the thread of the loop, until it is closed."""
        token = object()
        with self._changed:
            self._listeners[token] = listener
        return Subscription(lambda: self._forget(token))

    def _forget(self, token: object) -> None:
        with self._changed:
            self._listeners.pop(token, None)

    def wait(self, position: Position | None = None, *, epoch: int = 0, wait_ms: int = 0) -> Barrier:
        """Return the last barrier, once it has the position and is of this epoch at least.

        Raises `NotUpToBound` after ``wait_ms``.
        """
        wanted = position or {}
        until = stopwatch_us() + wait_ms * 1000
        with self._changed:
            while True:
                last = self._last
                if last is not None and last.epoch >= epoch and last.has(wanted):
                    return last
                left = (until - stopwatch_us()) / 1e6
                if left <= 0 or self._ended:
                    raise NotUpToBound(_behind(last, wanted, epoch, wait_ms), barrier=last)
                self._changed.wait(left)


def _behind(last: Barrier | None, position: Position, epoch: int, wait_ms: int) -> str:
    """Explain what is missing, and what can be done."""
    at = "there is no barrier yet" if last is None else f"the last barrier is epoch {last.epoch}"
    known: Position = {} if last is None else last.position
    missing = [
        f"{topic}-{partition} is at {known.get((topic, partition), 'no record')}, asked for {offset}"
        for (topic, partition), offset in position.items()
        if known.get((topic, partition), -1) < offset
    ]
    if last is not None and last.epoch < epoch:
        missing.append(f"asked for epoch {epoch}")
    return (
        f"{at} after {wait_ms} ms: {'; '.join(missing) or 'nothing to read'}. Wait longer (wait_ms=), or ask without "
        "at_least= for what there is"
    )
