"""What an operator sees of its task: one per node, thin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from penstock.errors import StoreError, nearest
from penstock.operators.base import Forward, ObservedTime
from penstock.processor.timers import Stoppable
from penstock.record import Origin

if TYPE_CHECKING:
    from penstock.lane.task import Task


class NodeContext:
    """The context of one node in one task; see ``operators.base.OperatorContext``."""

    def __init__(self, task: Task, node: str, children: Mapping[str, Forward], stores: tuple[str, ...]) -> None:
        self._task = task
        self.stores = stores
        self.node = node
        self.children = children
        self.application_id = task.application_id
        self.shard = task.shard
        self.config = task.config

    @property
    def origin(self) -> Origin:
        """Coordinates of the record at hand."""
        return self._task.origin

    @origin.setter
    def origin(self, origin: Origin) -> None:
        self._task.origin = origin

    @property
    def stream_time(self) -> int:
        """The task's stream time."""
        return self._task.stream_time

    def now_ms(self) -> int:
        """Wall-clock time in milliseconds."""
        return self._task.clock.now_ms()

    def store(self, name: str) -> Any:
        """Return a connected store, or a global one."""
        if name in self._task.global_stores:
            return self._task.global_stores[name]
        if name not in self.stores:
            reachable = [*self.stores, *self._task.global_stores]
            raise StoreError(
                f"node {self.node} has no access to the store {name!r}{nearest(name, reachable)}: connected are {reachable}. "
                "Connect it with stores=[...] in process(), or with topology.connect(processor, store)"
            )
        return self._task.stores[name]

    def view(self, name: str) -> Any:
        """Return a read-only view of any store, any key, at the last barrier."""
        return self._task.views(name)

    def observed_time(self, shared: str | None = None) -> ObservedTime:
        """Make this operator's clock, or share one by name."""
        name = self.node if shared is None else shared
        return self._task.clocks.setdefault(name, ObservedTime(self._task))

    def drop(self, reason: str) -> None:
        """Count the record at hand as dropped by this node."""
        self._task.drop_at(self.node, reason)

    def on_init(self, f: Callable[[], None]) -> None:
        """Call ``f`` once all nodes are open."""
        self._task.init_calls.setdefault(self.node, []).append(f)

    def on_close(self, f: Callable[[], None]) -> None:
        """Call ``f`` when the task closes."""
        self._task.close_calls.append(f)

    def schedule(self, every: int, punctuation: Any, f: Callable[[int], None], start: int | None = None) -> Stoppable:
        """Call ``f(timestamp)`` regularly."""
        return self._task.schedule(self.node, every, punctuation, f, start)

    def request_commit(self) -> None:
        """Ask for a barrier soon."""
        self._task.commit_requested = True
