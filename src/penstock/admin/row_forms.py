"""Rows of stores as JSON has them: ``key``, ``value``, and what the kind of the store adds.

::

    key-value   {"key": ..., "value": ..., "timestamp": ...}     the timestamp where the store keeps it
    window      and "window": {"start": ..., "end": ...}
    session     and "window": {"start": ..., "end": ...}          the end is that of the last record
    versioned   and "timestamp": ..., "valid_to": ...             null: it is the last version
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.query.changes import ChangedRow
from penstock.record import ValueAndTimestamp, VersionedRecord, Windowed
from penstock.serde import Serdes
from penstock.state.keys import parse_session_key, parse_window_key
from penstock.state.spec import StoreKind, StoreSpec

Form = Callable[[Any], dict[str, Any]]


def value_form(value: Any) -> dict[str, Any]:
    """Return a value, with its times if it has them."""
    if isinstance(value, ValueAndTimestamp):
        return {"value": value.value, "timestamp": value.timestamp}
    if isinstance(value, VersionedRecord):
        return {"value": value.value, "timestamp": value.timestamp, "valid_to": value.valid_to}
    return {"value": value}


def pair_form(row: tuple[Any, Any]) -> dict[str, Any]:
    """Return a row of a key and a value; a windowed key is taken apart.

    >>> pair_form((Windowed("pear", 0, 10), 3))
    {'key': 'pear', 'window': {'start': 0, 'end': 10}, 'value': 3}
    """
    key, value = row
    if isinstance(key, Windowed):
        return {"key": key.key, "window": {"start": key.start, "end": key.end}, **value_form(value)}
    return {"key": key, **value_form(value)}


def window_form(spec: StoreSpec, key: Any) -> Form:
    """Return the form of the windows of a key: rows of a start and a value."""
    size = spec.window_size or 0
    return lambda row: pair_form((Windowed(key, row[0], row[0] + size), row[1]))


def version_form(key: Any) -> Form:
    """Return the form of the versions of a key."""
    return lambda row: {"key": key, **value_form(row)}


def change_form(spec: StoreSpec) -> Callable[[ChangedRow], dict[str, Any]]:
    """Return the form of a row of a changelog; ``"deleted": true`` if it is gone."""
    key_of, value_of = (spec.key or Serdes.string).deserialize, (spec.value or Serdes.json).deserialize
    size = spec.window_size or 0

    def form(row: ChangedRow) -> dict[str, Any]:
        found: dict[str, Any]
        if spec.kind is StoreKind.WINDOW:
            raw, start, _ = parse_window_key(row.key)
            found = {"key": key_of(raw), "window": {"start": start, "end": start + size}}
        elif spec.kind is StoreKind.SESSION:
            raw, start, end = parse_session_key(row.key)
            found = {"key": key_of(raw), "window": {"start": start, "end": end}}
        else:
            found = {"key": key_of(row.key)}
        if row.value is None:
            return found | {"value": None, "deleted": True, "timestamp": row.timestamp}
        return found | {"value": value_of(row.value), "timestamp": row.timestamp}

    return form
