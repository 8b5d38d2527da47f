"""Aggregation over sliding windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.operators.base import Forward, Operator, OperatorContext
from penstock.operators.emit import EmitStrategy
from penstock.windows import SlidingWindows


@dataclass(frozen=True, slots=True)
class SlidingWindowAggregate(Operator):
    """One aggregate per key and sliding window."""

    store: str
    windows: SlidingWindows
    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]
    emit: EmitStrategy = EmitStrategy.on_window_update
    send_old: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard."""
        raise NotImplementedError
