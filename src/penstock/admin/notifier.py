"""What happens in the engine, brought into the event loop of the server: barriers, changes of the state.

The engine's thread only hands a thing over (``call_soon_threadsafe``), and only while somebody wants to know.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

from penstock.admin.answers import not_ready
from penstock.engine.states import State
from penstock.query.barriers import Barrier, Position, Subscription

#: streams of events and changes at a time
MOST_SUBSCRIBERS = 64
#: events that wait for a subscriber; one that is slower than that is disconnected
MOST_WAITING = 1_000


class Subscriber:
    """Events on their way to one client. ``lost``: it was too slow, or the application ends."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[tuple[str, Any] | None] = asyncio.Queue(MOST_WAITING + 1)
        self.lost = False

    def put(self, event: tuple[str, Any]) -> None:
        """Add an event; note if there are too many."""
        if self.queue.qsize() >= MOST_WAITING:
            self.end()
        if not self.lost:
            self.queue.put_nowait(event)

    def end(self) -> None:
        """Let the client go after what waits."""
        if not self.lost:
            self.lost = True
            self.queue.put_nowait(None)


class HearsBarriers(Protocol):
    """Who is told of each barrier before the subscribers are."""

    def reach(self, barrier: Barrier) -> None:
        """Note a barrier."""
        ...


class Notifier:
    """Subscribers of one event loop. All methods but ``state_changed`` are called in it."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None
        self._subscribers: set[Subscriber] = set()
        self._waiting: set[asyncio.Event] = set()
        self._followers: set[HearsBarriers] = set()
        self._barriers: Subscription | None = None
        self._closed = False
        app.on_state_change(self.state_changed)

    @property
    def subscribers(self) -> int:
        """How many streams there are."""
        return len(self._subscribers)

    def run(self, f: Callable[..., None], *args: Any) -> None:
        """Call a function in the event loop, from any thread; nothing if that has ended."""
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(f, *args)
            except RuntimeError:  # closed: nobody listens any more
                self._loop = None

    def state_changed(self, new: State, old: State) -> None:
        """Tell of a change of the state: by any thread."""
        self.run(self._notify, "state", {"state": str(new), "before": str(old)})

    def check_room(self) -> None:
        """Raise if there may be no more streams."""
        if self._closed or len(self._subscribers) >= MOST_SUBSCRIBERS:
            raise not_ready(f"there are {len(self._subscribers)} streams already, or the application ends")

    @asynccontextmanager
    async def subscribed(self) -> AsyncIterator[Subscriber]:
        """Hear of everything while this lasts."""
        subscriber = Subscriber()
        self._subscribers.add(subscriber)
        self._listen()
        try:
            yield subscriber
        finally:
            self._subscribers.discard(subscriber)
            self._rest()

    async def wait(self, position: Position | None, epoch: int, wait_ms: int) -> Barrier:
        """Return the last barrier once it has a position and an epoch; raise if it does not within the time."""
        changed = asyncio.Event()
        self._waiting.add(changed)
        self._listen()
        try:
            async with asyncio.timeout(wait_ms / 1000):
                while not self._has(position, epoch):
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(changed)
            self._rest()
        # raises what is missing, if the time was too short
        barrier: Barrier = self._app.barriers.wait(position, epoch=epoch)
        return barrier

    def listen_for(self, follower: HearsBarriers) -> None:
        """Tell a follower of each barrier."""
        self._followers.add(follower)
        self._listen()

    def listen_no_more(self, follower: HearsBarriers) -> None:
        """Tell a follower of no more barriers."""
        self._followers.discard(follower)
        self._rest()

    def close(self) -> None:
        """End all streams: by any thread."""
        self.run(self._close)

    # in the event loop

    def _has(self, position: Position | None, epoch: int) -> bool:
        last = self._app.barriers.last
        return self._closed or (last is not None and last.epoch >= epoch and last.has(position or {}))

    def _listen(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._barriers is None:
            self._barriers = self._app.barriers.subscribe(lambda barrier: self.run(self._on_barrier, barrier))

    def _rest(self) -> None:
        if self._barriers is not None and not (self._subscribers or self._waiting or self._followers):
            self._barriers.close()
            self._barriers = None

    def _on_barrier(self, barrier: Barrier) -> None:
        for follower in self._followers:
            follower.reach(barrier)
        for changed in self._waiting:
            changed.set()
        self._notify("epoch", barrier)

    def _notify(self, kind: str, data: Any) -> None:
        for subscriber in self._subscribers:
            subscriber.put((kind, data))

    def _close(self) -> None:
        self._closed = True
        for subscriber in self._subscribers:
            subscriber.end()
        for changed in self._waiting:
            changed.set()
