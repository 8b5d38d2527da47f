"""One read-only view over the shards of a store."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from penstock.serde import Serdes
from penstock.state.positions import SESSION, WINDOW
from penstock.state.segments import segment_interval
from penstock.state.spec import StoreKind, StoreSpec
from penstock.state.view import read_only

_BACKWARDS = ("reverse_", "backward_")


def merged_view(spec: StoreSpec, stores: list[Any]) -> Any:
    """Return a view of a store, its shards put together; one shard is shown as it is."""
    views = [read_only(store) for store in stores]
    return views[0] if len(views) == 1 else MergedView(spec, views)


class MergedView:
    """Asks every shard: a single value is the first one found, rows are merged in the order that one shard would have."""

    def __init__(self, spec: StoreSpec, views: list[Any]) -> None:
        self._spec = spec
        self._views = views

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        if verb.startswith("_"):
            raise AttributeError(verb)
        verbs = [getattr(view, verb) for view in self._views]

        def ask(*args: Any, **options: Any) -> Any:
            return put_together(self._spec, verb, [f(*args, **options) for f in verbs])

        return ask


def put_together(spec: StoreSpec, verb: str, answers: list[Any]) -> Any:
    """Return the answers of shards to a verb as those of one store."""
    if len(answers) == 1:
        return answers[0]
    if verb == "approximate_num_entries":
        return sum(answers)
    if verb == "history":  # the versions of a key are all in one shard
        return chain.from_iterable(answers)
    if isinstance(answers[0], Iterator):
        return merged_rows(spec, answers, verb)
    return next((answer for answer in answers if answer is not None), None)


def merged_rows(spec: StoreSpec, rows: list[Iterator[Any]], verb: str) -> Iterator[Any]:
    """Return the rows that a verb gives of each shard, in the order that one shard would give them."""
    place = row_order(spec, by_time=True if verb == "find_sessions_ended" else None)
    return heapq.merge(*rows, key=place, reverse=verb.startswith(_BACKWARDS))


def row_order(spec: StoreSpec, *, by_time: bool | None = None) -> Callable[[tuple[Any, Any]], Any]:
    """Return what the rows of a store are ordered by: the bytes of the key; of windows and sessions as ``segmented`` says.

    >>> from penstock.record import Windowed
    >>> from penstock.state.spec import Stores
    >>> order = row_order(Stores.window("visits", retention=120_000, size=10))
    >>> order((Windowed("b", 5, 15), 1)) < order((Windowed("a", 60_000, 60_010), 1))
    True
    """
    serialize = (spec.key or Serdes.string).serialize
    if spec.kind not in (StoreKind.WINDOW, StoreKind.SESSION):
        return lambda row: serialize(row[0])
    positions, interval = (WINDOW if spec.kind is StoreKind.WINDOW else SESSION), segment_interval(spec)
    if by_time is None:
        by_time = not spec.persistent or (spec.time_ordered and spec.kind is StoreKind.WINDOW)

    def place(row: tuple[Any, Any]) -> Any:
        key = row[0]
        if isinstance(key, int):  # the windows of one key, by their starts
            return 0, key.to_bytes(8, "big")
        raw = serialize(key.key)
        position = key.start if positions is WINDOW else (key.end, key.start)
        if by_time:
            return 0, positions.by_time(raw, position)
        return positions.time(position) // interval, raw + positions.suffix(position)

    return place
