"""The application as the handlers of requests see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from anyio import CapacityLimiter

from penstock.admin.answers import HttpError, not_ready
from penstock.engine.states import State

if TYPE_CHECKING:
    from penstock.app import App
    from penstock.engine.engine import Engine
    from penstock.engine.loop import Loop
    from penstock.query.service import Queries

#: requests that read stores or ask the broker at a time; others wait for their turn
MOST_THREADS = 8


class ServedApp:
    """An application and what it has made so far. ``engine``: returns its engine, None before there is one."""

    def __init__(self, app: App, engine: Callable[[], Engine | None]) -> None:
        self.app = app
        self._engine = engine
        self._threads: CapacityLimiter | None = None

    @property
    def engine(self) -> Engine | None:
        """The engine; None while Spark starts."""
        return self._engine()

    @property
    def loop(self) -> Loop | None:
        """The epoch loop; None until the state is restored."""
        engine = self._engine()
        return None if engine is None else engine.loop

    def need_loop(self) -> Loop:
        """Return the loop; raise what says how long to wait if there is none yet."""
        loop = self.loop
        if loop is None or self.app.state is State.REBALANCING:
            raise not_ready(f"{self.app.application_id} is {self.app.phase}", restore=self.restore())
        return loop

    def need_queries(self) -> Queries:
        """Return who answers queries; raise what says when to ask again if nobody does."""
        engine = self._engine()
        if engine is None or engine.queries is None:
            raise not_ready(f"{self.app.application_id} is {self.app.phase}")
        return engine.queries

    def need_state(self) -> None:
        """Raise what says when to ask again if stores cannot be read now."""
        self.need_loop()
        if self.app.state is not State.RUNNING:
            raise HttpError(503, f"{self.app.application_id} is {self.app.state}", "start the application again")

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return about how many rows and bytes each store has on this machine; nothing as long as that cannot be told."""
        engine = self._engine()
        return {} if engine is None or engine.queries is None else engine.queries.sizes()

    def restore(self) -> dict[str, Any] | None:
        """Return how far the restore is; None if there was nothing to tell yet."""
        progress = self.app.restore_progress
        if progress is None:
            return None
        return {
            "restored_rows": progress.restored,
            "remaining_offsets": progress.left,
            "remaining_by_store": dict(progress.stores),
            "done": progress.done,
        }

    async def in_thread(self, f: Callable[..., Any], *args: Any) -> Any:
        """Call what may take a while in a thread: the event loop goes on with other requests."""
        if self._threads is None:
            self._threads = CapacityLimiter(MOST_THREADS)
        return await anyio.to_thread.run_sync(f, *args, limiter=self._threads, abandon_on_cancel=True)
