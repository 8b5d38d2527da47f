"""What a store holds, read from Kafka: for an application that does not run, or is not to be asked."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from penstock.cli.bars import counting
from penstock.cli.kafka import BadOption, SerdeName, decoded, encoded
from penstock.state.keys import MAX_TIME

if TYPE_CHECKING:
    from penstock.log.kafka import KafkaLog
    from penstock.record import VersionedRecord
    from penstock.sql.committed_store import CommittedStore
    from penstock.sql.store_rows import OnRead, StoreRows

#: a read of so many offsets takes long enough for a bar
LONG = 100_000


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a store. Bounds are inclusive, times in milliseconds; None: not asked for."""

    key: str | None = None
    lower: str | None = None
    upper: str | None = None
    prefix: str | None = None
    since: int | None = None
    until: int | None = None
    as_of: int | None = None
    history: bool = False
    reverse: bool = False
    limit: int | None = None


def stores(log: KafkaLog, application_id: str) -> dict[str, Any]:
    """Return the stores of an application."""
    from penstock.sql.committed_store import descriptions, find_record

    record = find_record(log, application_id)
    found = [
        {"name": s.name, "kind": s.kind, "key": s.key or None, "value": s.value or None, "logged": _is_logged(s)}
        for s in descriptions(record).values()
    ]
    return {"application_id": application_id, "epoch": record.epoch, "stores": found}


def _is_logged(store: Any) -> bool:
    spec = store.spec()
    return bool(spec.logged or spec.source_topic is not None)


def answer(
    log: KafkaLog, application_id: str, store: str, asked: Asked, key: SerdeName | None, value: SerdeName | None
) -> dict[str, Any]:
    """Return the rows that are asked for, at the last barrier."""
    from penstock.engine.record import nested
    from penstock.sql.committed_store import find_store

    found = find_store(log, application_id, store)
    forms = Forms(found, key, value)
    check(store, found.store.kind, asked)
    if asked.history or asked.as_of is not None:
        rows = _versions(log, found, asked, forms)
    else:
        rows = _rows(log, found, asked, forms)
    return {
        "application_id": application_id,
        "store": store,
        "kind": found.store.kind,
        "epoch": found.epoch,
        "position": nested(found.position),
        "rows": rows,
    }


class Forms:
    """How keys and values are read and written: as is asked for, else by the serdes that the application has."""

    def __init__(self, found: CommittedStore, key: SerdeName | None, value: SerdeName | None) -> None:
        from penstock.sql.column_forms import default_form

        self._store = found.store.name
        self._key = key or SerdeName(default_form(found.store.key).name)
        self._value = value or SerdeName(default_form(found.store.value).name)

    def bytes_of(self, text: str, option: str) -> bytes:
        """Return the bytes of a key that was given on the command line."""
        given: Any = text
        if self._key is SerdeName.json:
            try:
                given = orjson.loads(text)
            except orjson.JSONDecodeError as error:
                raise BadOption(f"{option} {text}: the keys of store {self._store!r} are JSON: {error}") from error
        data = encoded(given, self._key, option)
        assert data is not None
        return data

    def key(self, data: bytes) -> Any:
        """Return a key as plain data."""
        return decoded(data, self._key, f"a key of store {self._store!r} ({base64.b64encode(data).decode()})")

    def value(self, data: bytes) -> Any:
        """Return a value as plain data."""
        return decoded(data, self._value, f"a value of store {self._store!r}")


def check(name: str, kind: str, asked: Asked) -> None:
    """Refuse what the kind of the store does not have."""
    if (asked.history or asked.as_of is not None) and kind != "versioned":
        raise BadOption(f"--as-of and --history are for versioned stores, but {name!r} is a {kind} store")
    if (asked.history or asked.as_of is not None) and asked.key is None:
        raise BadOption("--as-of and --history are of one key: add --key")
    timed = kind in ("window", "session") or asked.history
    if (asked.since is not None or asked.until is not None) and not timed:
        raise BadOption(f"--since and --until are for windows, sessions and --history, but {name!r} is a {kind} store")
    if asked.key is not None and (asked.lower, asked.upper, asked.prefix) != (None, None, None):
        raise BadOption("--key is one key: leave --from, --to and --prefix out")
    if asked.prefix is not None and (asked.lower, asked.upper) != (None, None):
        raise BadOption("--prefix is a range of its own: leave --from and --to out")


def _rows(log: KafkaLog, found: CommittedStore, asked: Asked, forms: Forms) -> list[dict[str, Any]]:
    from penstock.sql.store_rows import read_split

    kept: list[tuple[bytes, int, int, dict[str, Any]]] = []
    with _reading(found) as told:
        for split in found.splits:
            rows = read_split(log, found, split, told)
            seen = _seen_keys(rows.keys, asked, forms) & _seen_times(rows, asked, found.store.kind)
            kept += _plain(rows.take(np.flatnonzero(seen)), forms)
    kept.sort(key=lambda row: row[:3], reverse=asked.reverse)
    return [row for *_, row in kept[: asked.limit]]


def _seen_keys(keys: pa.Array, asked: Asked, forms: Forms) -> Any:
    """Return which keys are asked for."""
    seen = np.ones(len(keys), dtype=bool)
    bounds = (
        (asked.key, "--key", pc.equal),
        (asked.lower, "--from", pc.greater_equal),
        (asked.upper, "--to", pc.less_equal),
    )
    for text, option, compare in bounds:
        if text is not None:
            bound = pa.scalar(forms.bytes_of(text, option), pa.binary())
            seen &= compare(keys, bound).to_numpy(zero_copy_only=False)
    if asked.prefix is not None:
        begin = forms.bytes_of(asked.prefix, "--prefix")
        seen &= pc.starts_with(keys, begin).to_numpy(zero_copy_only=False)
    return seen


def _seen_times(rows: StoreRows, asked: Asked, kind: str) -> Any:
    """Return which rows are of the time that is asked for: windows that start then, sessions of some of it."""
    since, until = _or(asked.since, 0), _or(asked.until, MAX_TIME)
    if kind == "window":
        return (rows.starts >= since) & (rows.starts <= until)
    if kind == "session":
        return (rows.ends >= since) & (rows.starts <= until)
    return np.ones(rows.size, dtype=bool)


def _or(given: int | None, otherwise: int) -> int:
    return otherwise if given is None else given


def _plain(rows: StoreRows, forms: Forms) -> Iterator[tuple[bytes, int, int, dict[str, Any]]]:
    keys, values = rows.keys.to_pylist(), rows.values.to_pylist()
    nowhere = [None] * rows.size
    numbers = [nowhere if each is None else each.tolist() for each in rows[2:]]
    for key, value, time, start, end, shard in zip(keys, values, *numbers, strict=True):
        row = {"key": forms.key(key), "value": forms.value(value), "timestamp": time, "shard": shard}
        if start is not None:
            row["window"] = {"start": start, "end": end}
        yield key, start or 0, end or 0, row


def _versions(log: KafkaLog, found: CommittedStore, asked: Asked, forms: Forms) -> list[dict[str, Any]]:
    from penstock.sql.store_rows import open_versioned

    assert asked.key is not None
    key = forms.bytes_of(asked.key, "--key")
    kept: list[VersionedRecord] = []
    with _reading(found) as told:
        for split in found.splits:
            store = open_versioned(log, found, split, key, told)
            if asked.as_of is not None:
                one = store.get(key, asked.as_of)
                kept += [] if one is None else [one]
            else:
                kept += store.history(key, asked.since, asked.until, asked.reverse)
    return [
        {
            "key": forms.key(key),
            "value": forms.value(version.value),
            "timestamp": version.timestamp,
            "valid_to": version.valid_to,
        }
        for version in kept[: asked.limit]
    ]


@contextmanager
def _reading(found: CommittedStore) -> Iterator[OnRead]:
    """Show a bar while much is read. Gives the function that is told how many offsets were read."""
    read = 0
    with counting(f"Reading {found.store.name}", sum(split.offsets for split in found.splits), most_quiet=LONG) as told:

        def add(offsets: int) -> None:
            nonlocal read
            read += offsets
            told(read)

        yield add
