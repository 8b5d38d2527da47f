"""Folds by column: many records into the rows of a cached store, each key's row read and written once.

What is kept between two records of a key is the object itself where the serde would give it back as it was, else what the serde
makes of it: results are those of reading and writing the row for each record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

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


class Folding(NamedTuple):
    """How the records of a group are folded into its row; ``fold`` None: they are counted."""

    key: Serde[Any]
    value: Serde[Any]
    initializer: Callable[[], Any]
    fold: FoldValues | None

    def folded(
        self, columns: Columns, groups: Groups, rows: Iterable[tuple[bytes, int] | None], at: Any = None
    ) -> list[tuple[int, int, bytes, int]]:
        """Return what is to be written, in the order of the last records: (place of it, group, value, timestamp).

        ``rows``: what there is of each group; ``at``: the places of the records that were grouped, None: all.
        """
        fold, initializer, kept = self.fold, self.initializer, kept_between(self.value, columns)
        decode_key, encode, decode = self.key.deserialize, self.value.serialize, self.value.deserialize
        settle, places = settler(self.value), groups.order if at is None else at[groups.order]
        values: list[Any] = []
        counts: Iterable[int] = repeat(0)
        if fold is not None:
            items = columns.values.items
            alone = at is None and len(groups.keys) == len(items)  # groups are in the order of their first records
            values = items if alone else [items[i] for i in places.tolist()]
        elif columns.counts is None:
            counts = (groups.ends - groups.starts).tolist()
        else:
            counts = np.add.reduceat(columns.counts[places], groups.starts).tolist()
        latest = np.maximum.reduceat(columns.timestamps[places], groups.starts).tolist()
        lasts = (groups.last if at is None else at[groups.last]).tolist()
        written = []
        for group, (raw_key, row, begin, end, later, last, count) in enumerate(
            zip(groups.keys, rows, groups.starts.tolist(), groups.ends.tolist(), latest, lasts, counts, strict=False)
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
            written.append((last, group, encode(new), later))
        written.sort()  # a flush forwards in the order of the last writes
        return written


def entries_of(columns: Columns, written: list[tuple[int, int, bytes, int]], number: Callable[[], int]) -> list[Entry]:
    """Return what a fold has written as rows of a store, each with its number."""
    headers = columns.headers
    if headers is None:
        return [(raw, later, (), (columns, last), number()) for last, _, raw, later in written]
    return [(raw, later, headers[last], (columns, last), number()) for last, _, raw, later in written]


def open_fold(rows: WriteBack, folding: Folding, number: Callable[[], int]) -> OnColumns:
    """Return what folds records by column into the rows of a store."""
    dirty, lookup_many = rows.dirty, rows.lookup_many

    def on_columns(columns: Columns, commits: Commits) -> None:
        if columns.counts is None and columns.values.has_nulls:
            raise Irregular
        groups = Groups(columns.keys.arrow_of(folding.key))
        written = folding.folded(columns, groups, lookup_many(groups.keys))
        keys = [groups.keys[group] for _, group, _, _ in written]
        commits.append(lambda: dirty.update(zip(keys, entries_of(columns, written, number), strict=True)))

    return on_columns


def forward_entries(forward: OnColumns, keys: Column, serde: Serde[Any], entries: Sequence[Entry]) -> bool:
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

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, at: Any) -> Any:
        return writer_of(self._entries[at][3])
