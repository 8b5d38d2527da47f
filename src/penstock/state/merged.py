"""One read-only view over the shards of a store."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from penstock.errors import StoreError
from penstock.record import Windowed
from penstock.state.spec import StoreKind, StoreSpec
from penstock.state.view import read_only

_BACKWARDS = ("reverse_", "backward_")


def merged_view(spec: StoreSpec, stores: list[Any]) -> Any:
    """Return a view of a store, its shards put together; one shard is shown as it is."""
    views = [read_only(store) for store in stores]
    return views[0] if len(views) == 1 else MergedView(spec, views)


class MergedView:
    """Asks every shard: a single value is the first one found, rows are merged in the order of their keys' bytes."""

    def __init__(self, spec: StoreSpec, views: list[Any]) -> None:
        self._spec = spec
        self._views = views

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        if verb.startswith("_"):
            raise AttributeError(verb)
        verbs = [getattr(view, verb) for view in self._views]

        def ask(*args: Any, **options: Any) -> Any:
            answers = [f(*args, **options) for f in verbs]
            if verb == "approximate_num_entries":
                return sum(answers)
            if verb == "history":  # the versions of a key are all in one shard
                return chain.from_iterable(answers)
            if any(isinstance(answer, Iterator) for answer in answers):
                return self._merge(answers, reverse=verb.startswith(_BACKWARDS))
            return next((answer for answer in answers if answer is not None), None)

        return ask

    def _merge(self, rows: list[Iterator[Any]], *, reverse: bool) -> Iterator[Any]:
        if self._spec.key is None:
            raise StoreError(f"the store {self._spec.name} has no key serde to order its rows by")
        serialize = self._spec.key.serialize

        def place(row: tuple[Any, Any]) -> tuple[Any, ...]:
            key = row[0]
            if isinstance(key, Windowed) and self._spec.kind in (StoreKind.WINDOW, StoreKind.SESSION):
                return (serialize(key.key), key.start, key.end)
            return (key,) if isinstance(key, int) and self._spec.window_size is not None else (serialize(key),)

        return heapq.merge(*rows, key=place, reverse=reverse)
