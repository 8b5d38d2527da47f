"""Stream-stream joins: two streams, each kept for a while in a window store, meet within a time difference.

The nodes of one join, as Kafka Streams lays them out::

    left  ──▶ JoinWindow(left store)  ──▶ StreamStreamJoin(right store, left side)  ──┐
                                                                                       ├──▶ PassThrough
    right ──▶ JoinWindow(right store) ──▶ StreamStreamJoin(left store, right side)  ──┘

Both sides of a left or outer join share the store of unmatched rows and one clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from penstock.operators.base import Forward, Operator, OperatorContext
from penstock.record import Headers
from penstock.windows import JoinWindows

JoinKind = Literal["inner", "left", "outer"]


@dataclass(frozen=True, slots=True)
class JoinWindow(Operator):
    """Remember a record for the other side (KSTREAM-WINDOWED): forward first, then keep it, so that it never meets itself."""

    store: str

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        add = context.store(self.store).add

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(key, value, timestamp, headers)
            if key is not None:
                add(key, value, timestamp)

        return on_record


@dataclass(frozen=True, slots=True)
class StreamStreamJoin(Operator):
    """One side of a stream-stream join (KSTREAM-JOINTHIS, JOINOTHER, OUTERTHIS, OUTEROTHER).

    ``joiner(left, right)``, or ``(key, left, right)`` with ``with_key``, whichever side this is. ``outer``: this side gives a
    result for a record without a match. ``shared_store``: where unmatched rows of both sides wait until their window is closed;
    None for an inner join. ``clock``: name of the time that both sides share.
    """

    store_other: str
    windows: JoinWindows
    joiner: Callable[..., Any]
    left_side: bool
    outer: bool
    kind: JoinKind
    clock: str
    with_key: bool = False
    shared_store: str | None = None

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The joiner."""
        return (self.joiner,)


@dataclass(frozen=True, slots=True)
class StreamStreamSelfJoin(Operator):
    """A stream joined with itself, from one window store (the ``self_join`` optimisation)."""

    store: str
    windows: JoinWindows
    joiner: Callable[..., Any]
    with_key: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The joiner."""
        return (self.joiner,)
