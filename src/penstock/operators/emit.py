"""When a windowed aggregation forwards its results: at every update, or once, when the window closes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, TypeAlias

from penstock.operators.base import Forward
from penstock.record import Change, Headers, Windowed

#: emits what closed: (last position that is closed now, headers of the record that moved time)
Close: TypeAlias = Callable[[int, Headers], None]
#: reads the windows at the positions from .. to, both inclusive, in the order of emission: (window, result, timestamp)
Scan: TypeAlias = Callable[[int, int], Iterable[tuple[Windowed, Any, int]]]


class EmitStrategy(Enum):
    """When results of a window leave it.

    >>> EmitStrategy.on_window_close.name
    'on_window_close'
    """

    on_window_update = "on_window_update"
    on_window_close = "on_window_close"


def closing(store: Any, scan: Scan, forward: Forward, *, step: int = 1) -> Close:
    """Return ``close``, which forwards every window that has closed since its last call, each once, with no old value.

    A window's position is its start (its end for sessions). Positions are multiples of ``step``: moving on by less
    than one step cannot close anything, and the store is not asked. The last position is the store's ``emitted``, so
    that it lives as long as the windows do and a restart emits none twice.

    Call it before the record's own update: the update can move the store's time, and windows that are past the store's
    retention by then could no longer be read. (A window that takes the record is not closed, so the order is not seen.)
    """

    def close(last: int, headers: Headers) -> None:
        emitted: int = store.emitted
        if last // step <= emitted // step:
            return
        for window, result, timestamp in scan(emitted + 1, last):
            forward(window, Change(result, None), timestamp, headers)
        store.emitted = last

    return close
