"""The rows of a store as plain tuples, so that two runs can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.record import ValueAndTimestamp
from penstock.state.spec import StoreKind, StoreSpec


def store_contents(
    spec: StoreSpec, stores: Iterable[Any], changelog: Iterable[tuple[bytes | None, int]] = ()
) -> list[tuple[Any, ...]] | None:
    """Return every row of a store over all shards, sorted by its text; None for a kind that cannot be listed.

    ``changelog`` gives (key, timestamp) of every write to a versioned store, which has no scan.
    """
    rows = [row for store in stores for row in _rows(spec, store, list(changelog)) or ()]
    return sorted(set(rows) if spec.kind is StoreKind.VERSIONED else rows, key=repr)


def _rows(spec: StoreSpec, store: Any, changelog: list[tuple[bytes | None, int]]) -> Iterable[tuple[Any, ...]] | None:
    match spec.kind:
        case StoreKind.KEY_VALUE | StoreKind.SHARED | StoreKind.LRU:
            return ((key, *_cells(value)) for key, value in store.all())
        case StoreKind.WINDOW:
            return ((key.key, key.start, *_cells(value)) for key, value in store.all())
        case StoreKind.SESSION:
            return ((key.key, key.start, key.end, value) for key, value in store.fetch_range(None, None))
        case StoreKind.VERSIONED:
            return _versions(spec, store, changelog)
        case _:
            return None


def _versions(spec: StoreSpec, store: Any, changelog: list[tuple[bytes | None, int]]) -> Iterable[tuple[Any, ...]]:
    assert spec.key is not None
    for raw in {raw for raw, _ in changelog if raw is not None}:
        key = spec.key.deserialize(raw)
        for version in store.history(key):
            yield (key, version.value, version.timestamp, version.valid_to)


def _cells(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, ValueAndTimestamp) else (value,)
