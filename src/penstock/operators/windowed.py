"""Aggregation over time windows: tumbling, hopping, unlimited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.operators.base import Forward, Operator, OperatorContext
from penstock.operators.emit import EmitStrategy
from penstock.windows import TimeWindows, UnlimitedWindows


@dataclass(frozen=True, slots=True)
class WindowAggregate(Operator):
    """One aggregate per key and time window."""

    store: str
    windows: TimeWindows | UnlimitedWindows
    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]
    emit: EmitStrategy = EmitStrategy.on_window_update
    send_old: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard."""
        raise NotImplementedError


from penstock.operators.session import SessionWindowAggregate  # noqa: E402
from penstock.operators.sliding import SlidingWindowAggregate  # noqa: E402

__all__ = ["SessionWindowAggregate", "SlidingWindowAggregate", "WindowAggregate"]
