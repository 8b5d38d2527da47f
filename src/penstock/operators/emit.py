"""When a windowed aggregation forwards its results: at every update, or once, when the window closes."""

from __future__ import annotations

from enum import Enum


class EmitStrategy(Enum):
    """When results of a window leave it.

    >>> EmitStrategy.on_window_close.name
    'on_window_close'
    """

    on_window_update = "on_window_update"
    on_window_close = "on_window_close"
