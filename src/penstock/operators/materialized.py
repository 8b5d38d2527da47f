"""How a table node keeps its rows: one way to read and one to update, whatever its store: plain, cached, versioned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from penstock.operators.base import Forward, Lookup, table_emitter
from penstock.record import Change, Headers
from penstock.state.spec import StoreKind
from penstock.state.versioned import PUT_LATEST, PUT_REJECTED

#: writes a row and forwards the update: (key, new, old, timestamp, headers, timestamp of the record at hand)
Update: TypeAlias = Callable[[Any, Any, Any, int, Headers, int], None]


def open_rows(store: Any, forward: Forward, send_old: bool) -> tuple[Lookup, Update]:
    """Return ``read(key)`` and ``update(key, new, old, timestamp, headers, record_timestamp)`` of a table's store.

    The timestamp of a deletion in the changelog is that of the record at hand, not that of the row; both are given
    because they differ when a record is older than the aggregate it deletes.
    """
    if store.spec.kind is StoreKind.VERSIONED:
        return store.read, _versioned_update(store, forward, send_old)
    write = store.write
    emit = table_emitter(store, forward, send_old)

    def update(key: Any, new: Any, old: Any, timestamp: int, headers: Headers, record_timestamp: int) -> None:
        write(key, new, record_timestamp if new is None else timestamp, headers)
        emit(key, new, old, timestamp, headers)

    def update_cached(key: Any, new: Any, old: Any, timestamp: int, headers: Headers, record_timestamp: int) -> None:
        write(key, new, record_timestamp if new is None else timestamp, headers)

    return store.read, update_cached if store.cached and not store.forwards_each else update


def _versioned_update(store: Any, forward: Forward, send_old: bool) -> Update:
    """Forward what a versioned store accepted, and say whether it is the latest version of its key."""
    put = store.put

    def update(key: Any, new: Any, old: Any, timestamp: int, headers: Headers, record_timestamp: int) -> None:
        valid_to = put(key, new, timestamp)
        if valid_to != PUT_REJECTED:
            forward(key, Change(new, old if send_old else None, valid_to == PUT_LATEST), timestamp, headers)

    return update
