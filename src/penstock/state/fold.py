"""Folds by column: many records into the rows of a cached store, each key's row read and written once.

What is kept between two records of a key is the object itself where the serde would give it back as it was, else what the serde
makes of it: results are those of reading and writing the row for each record. Rows are read and written by column, too: with millions
of keys nearly every record is a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from operator import is_
from types import NoneType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.serde import Serde, Serdes
from penstock.serde.columns import Column, Columns, Commits, Irregular, OnColumns
from penstock.serde.groups import Groups
from penstock.serde.traits import kept_classes
from penstock.state.native import objects
from penstock.state.sheet import Before, Folded, Sheet, int64_sums
from penstock.state.write_back import WriteBack

#: folds the values of a key, in order, into what there was of it: (key, values, old, kept, settle). Between two of them a result
#: whose class is not ``kept`` has to be settled
FoldValues: TypeAlias = Callable[[Any, list[Any], Any, frozenset[type], Callable[[Any], Any]], Any]
#: classes whose objects nobody can change
_FIXED = frozenset({int, str, bytes, float, bool})
_CONSTANT = _FIXED | {NoneType}


class Fold(NamedTuple):
    """A function of the user's that folds: one value (key, value, old), and many of a key."""

    one: Callable[[Any, Any, Any], Any]
    many: FoldValues


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
    fold: Fold | None

    def items(self, columns: Columns, groups: Groups, at: Any = None) -> list[Any]:
        """Return the values, group by group; none where they are counted. ``at``: places of the grouped records, None: all."""
        if self.fold is None:
            return []
        return columns.values.items_at(groups.order if at is None else at[groups.order], kept=columns.shared)

    def folded(self, columns: Columns, groups: Groups, items: list[Any], before: Before, at: Any = None) -> Folded:
        """Return the new row of each group, of their ``items`` and of what there was before."""
        places, last = (groups.order, groups.last) if at is None else (at[groups.order], at[groups.last])
        times = columns.timestamps[places]
        if len(places) > len(groups):
            times = np.maximum.reduceat(times, groups.starts)
        if self.fold is None:
            values = self._counted(columns, groups, places, before.values)
        else:
            values = self._written(self._new(self.fold, columns, groups, items, self._old(before.values)))
        return Folded(values, np.maximum(times, before.times), last)

    def _old(self, rows: pa.Array) -> Iterable[Any]:
        """Return what there is of each group, decoded, or what it begins with."""
        if not rows.null_count:
            return Column(data=rows, serde=self.value).items
        begin, there = self.initializer, rows.is_valid().to_numpy(zero_copy_only=False)
        known = Column(data=rows.drop_null(), serde=self.value).items
        if are_apart([begin(), begin()]):
            old = np.empty(len(rows), dtype=object)
            old[there] = np.fromiter(known, dtype=object, count=len(known))
            old[~there] = np.fromiter((begin() for _ in range(rows.null_count)), dtype=object, count=rows.null_count)
            return old.tolist()
        # what all groups begin with is asked for when the turn of each comes: a function may change it
        found = iter(known).__next__
        return (found() if is_there else begin() for is_there in there.tolist())

    def _counted(self, columns: Columns, groups: Groups, places: Any, rows: pa.Array) -> pa.Array:
        """Count the records of each group."""
        if columns.counts is None:
            counts = groups.ends - groups.starts
        else:
            counts = np.add.reduceat(columns.counts[places], groups.starts)
        if self.value == Serdes.int64:
            return int64_sums(rows, counts)
        return self._written([old + count for old, count in zip(self._old(rows), counts.tolist(), strict=True)])

    def _new(self, fold: Fold, columns: Columns, groups: Groups, items: list[Any], old: Iterable[Any]) -> list[Any]:
        """Fold the values of each group. All are written after all were made, so two of them must not be one object."""
        one, many = fold
        keys = Column(data=groups.names, serde=self.key).items
        first = items if len(items) == len(keys) else [items[place] for place in groups.starts.tolist()]
        new = list(map(one, keys, first, old))
        replaced = []
        kept, settle = kept_between(self.value, columns), settler(self.value)
        several = np.flatnonzero(groups.ends - groups.starts > 1)
        begins, ends = groups.starts[several] + 1, groups.ends[several]
        for group, begin, end in zip(several.tolist(), begins.tolist(), ends.tolist(), strict=True):
            begun = new[group]
            made = begun if begun.__class__ in kept else settle(begun)
            made = many(keys[group], items[begin:end], made, kept, settle)
            if made is not begun:
                new[group] = made
                replaced.append(begun)
        if not are_apart([*new, *replaced]):
            raise Irregular
        return new

    def _written(self, new: list[Any]) -> pa.Array:
        """Return new rows as bytes."""
        if any(map(is_, new, repeat(None))):
            raise Irregular
        return Column(new).arrow_of(self.value)


def are_apart(items: list[Any]) -> bool:
    """Whether no two items are one object that can be changed, so that one would change with the other.

    >>> same = [1]
    >>> are_apart([[1], [1]]), are_apart([same, same]), are_apart([7, 7])
    (True, False, True)
    """
    if objects is not None:
        return bool(objects.are_apart(items, _CONSTANT))
    places = [id(item) for item in items if item.__class__ not in _CONSTANT]
    return len(set(places)) == len(places)


def open_fold(rows: WriteBack, folding: Folding, number: Callable[[], int]) -> OnColumns:
    """Return what folds records by column into the rows of a store."""

    def on_columns(columns: Columns, commits: Commits) -> None:
        groups = Groups(columns.keys.arrow_of(folding.key))
        items = folding.items(columns, groups)
        if columns.counts is None and columns.values.has_nulls:
            raise Irregular
        folded = folding.folded(columns, groups, items, rows.before_fold(groups.names))
        commits.append(lambda: rows.lay(Sheet(groups.names, folded, columns, number)))

    return on_columns
