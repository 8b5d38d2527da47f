"""Folds by column: many records into the rows of a cached store, each key's row read and written once.

What is kept between two records of a key is the object itself where the serde would give it back as it was, else what the serde
makes of it: results are those of reading and writing the row for each record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np

from penstock.record import Origin
from penstock.serde import Serde
from penstock.serde.columns import Column, Columns, Commits, Groups, Irregular, OnColumns, spots_of
from penstock.serde.traits import kept_classes
from penstock.state.write_back import Entry, WriteBack, writer_of

#: folds the values of a key, in order, into what there was of it: (key, values, old, kept, settle). Between two of them a result
#: whose class is not ``kept`` has to be settled
FoldValues: TypeAlias = Callable[[Any, list[Any], Any, frozenset[type], Callable[[Any], Any]], Any]
#: classes whose objects nobody can change
_FIXED = frozenset({int, str, bytes, float, bool})


def settler(serde: Serde[Any]) -> Callable[[Any], Any]:
    """Return what makes of a value what would be read after it was written."""

    def settle(value: Any) -> Any:
        if value is None:
            raise Irregular
        return serde.deserialize(serde.serialize(value))

    return settle


def kept_between(serde: Serde[Any], columns: Columns) -> frozenset[type]:
    """Return the classes of values that need not be settled; of records that others have, too, nothing that can be changed."""
    classes = kept_classes(serde)
    return classes & _FIXED if columns.shared else classes


def open_fold(
    rows: WriteBack,
    serdes: tuple[Serde[Any], Serde[Any]],
    number: Callable[[], int],
    initializer: Callable[[], Any],
    fold: FoldValues | None,
) -> OnColumns:
    """Return what folds records by column into the rows of a store; ``fold`` None: what counts them."""
    key_serde, value_serde = serdes
    decode_key, encode, decode = key_serde.deserialize, value_serde.serialize, value_serde.deserialize
    dirty, lookup_many, settle = rows.dirty, rows.lookup_many, settler(value_serde)

    def on_columns(columns: Columns, commits: Commits) -> None:
        if columns.counts is None and columns.values.has_nulls:
            raise Irregular
        groups = Groups(columns.keys.arrow_of(key_serde))
        values: list[Any] = []
        if fold is not None:
            items = columns.values.items
            values = items if len(groups.keys) == len(items) else [items[i] for i in groups.order.tolist()]
        times = np.maximum.reduceat(columns.timestamps[groups.order], groups.starts).tolist()
        kept = kept_between(value_serde, columns)
        written: list[tuple[int, bytes, bytes, int]] = []
        edges = groups.starts.tolist(), groups.ends.tolist()
        counts = groups.counts(columns.counts) if fold is None else repeat(0)
        for raw_key, row, begin, end, later, last, count in zip(
            groups.keys, lookup_many(groups.keys), *edges, times, groups.last.tolist(), counts, strict=False
        ):
            if row is None:
                old = initializer()
            else:
                old = decode(row[0])
                if row[1] > later:
                    later = row[1]
            new = old + count if fold is None else fold(decode_key(raw_key), values[begin:end], old, kept, settle)
            if new is None:
                raise Irregular
            written.append((last, raw_key, encode(new), later))
        written.sort()  # a flush forwards in the order of the last writes
        headers = columns.headers

        def commit() -> None:
            for at, raw_key, raw, later in written:
                dirty[raw_key] = (raw, later, () if headers is None else headers[at], (columns, at), number())

        commits.append(commit)

    return on_columns


def forward_entries(forward: OnColumns, keys: Column, serde: Serde[Any], entries: list[Entry]) -> bool:
    """Forward the new values of changed rows at a time; False, and nothing has happened, if they must go one by one."""
    values = [entry[0] for entry in entries]
    if any(value is None for value in values):
        return False
    headers = [entry[2] for entry in entries]
    columns = Columns(
        keys,
        Column(data=values, serde=serde, made=True),
        np.array([entry[1] for entry in entries], dtype=np.int64),
        headers if any(headers) else None,
        spots_of(_Writers(entries)),
    )
    commits: Commits = []
    try:
        forward(columns, commits)
    except Exception:  # whatever it is: one by one it is told of with its node and record
        return False
    for commit in commits:
        commit()
    return True


class _Writers(Sequence[Origin]):
    """The writers of rows; an origin is made when it is asked for."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, at: Any) -> Any:
        return writer_of(self._entries[at][3])
