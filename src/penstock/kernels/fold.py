"""Folds by column: many records into the rows of a cached store, each key's row read and written once.

What is kept between two records of a key is the object itself where the serde would give it back as it was, else what the serde
makes of it: results are those of reading and writing the row for each record. Rows are read and written by column, too: with millions
of keys nearly every record is a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from operator import is_
from types import NoneType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.batch.fallback import Fallback, FallbackAfterCall, InputChanged
from penstock.batch.grouping import KeyGroups
from penstock.kernels.transaction import BatchTransaction, OnBatch, present
from penstock.serde import Serde, Serdes
from penstock.serde.traits import kept_classes
from penstock.state.batch_delta import BatchDelta, RowsBefore, int64_sums
from penstock.state.delta import StoreDelta
from penstock.state.write_back import WriteBack

#: folds the values of a key, in order, into what there was of it: (key, values, old, kept, settle). Between two of them a result
#: whose class is not ``kept`` has to be settled
FoldValues: TypeAlias = Callable[[Any, list[Any], Any, frozenset[type], Callable[[Any], Any]], Any]
#: classes whose objects nobody can change
_FIXED = frozenset({int, str, bytes, float, bool})
_CONSTANT = _FIXED | {NoneType}
#: values of a key that are folded between two marks to which a failure goes back
SLICE = 256


class Fold(NamedTuple):
    """A function of the user's that folds: one value (key, value, old), and many of a key."""

    one: Callable[[Any, Any, Any], Any]
    many: FoldValues
    #: folds records one by one; None: who folds by column takes all of them, or none
    single: Callable[[Batch], None] | None = None
    #: asks the policy about records at which the function has failed, by their places; None: the first failure is the end
    on_failures: Callable[[Batch, list[tuple[int, Exception]]], None] | None = None


#: of which groups records are left to be folded one by one, and from which on: an index of the order of the groups
Left: TypeAlias = dict[int, int]


def settler(serde: Serde[Any]) -> Callable[[Any], Any]:
    """Return what makes of a value what would be read after it was written."""

    def settle(value: Any) -> Any:
        if value is None:
            raise FallbackAfterCall("row_deleted")
        return serde.deserialize(serde.serialize(value))

    return settle


def kept_between(serde: Serde[Any], batch: Batch) -> frozenset[type]:
    """Return the classes of values that need not be settled; of records that others have, too, nothing that can be changed."""
    classes = kept_classes(serde)
    return classes & _FIXED if batch.shared else classes


class FailedRecords(NamedTuple):
    """Records at which a function has failed, by their index in the order of the groups; of groups with such, the last record folded."""

    at: dict[int, Exception]
    last: dict[int, int]


class Folding(NamedTuple):
    """How the records of a group are folded into its row; ``fold`` None: they are counted."""

    key: Serde[Any]
    value: Serde[Any]
    initializer: Callable[[], Any]
    fold: Fold | None

    def items(self, batch: Batch, groups: KeyGroups, at: Any = None) -> list[Any]:
        """Return the values, group by group; none where they are counted. ``at``: places of the grouped records, None: all."""
        if self.fold is None:
            return []
        return batch.values.items_at(groups.order if at is None else at[groups.order], kept=batch.shared)

    def folded(
        self,
        batch: Batch,
        groups: KeyGroups,
        items: list[Any],
        before: RowsBefore,
        at: Any = None,
        left: Left | None = None,
        failed: FailedRecords | None = None,
    ) -> StoreDelta:
        """Return the new row of each group, of their ``items`` and of what there was before.

        ``left``: takes in what is left; None: nothing may be. The row of a group of which all is left is null. ``failed``: takes in at
        which records a function has failed, which are not part of the rows. The row of a group without any other is null.
        """
        places, last = (groups.order, groups.last) if at is None else (at[groups.order], at[groups.last])
        times = batch.timestamps[places]
        if self.fold is None:
            values = self._counted(batch, groups, places, before.values)
        elif failed is not None:
            values = self._folded_but_failed(self.fold, batch, groups, items, before.values, places, failed)
            if failed.at:
                last = last.copy()
                for group, index in failed.last.items():
                    last[group] = places[index]
                times[list(failed.at)] = -1
        else:
            new = self._new(self.fold, batch, groups, items, self._old(before.values), left)
            values = self._written(new, groups, left)
        if left:
            last = last.copy()
            for group, since in left.items():
                last[group] = places[max(since - 1, 0)]
                times[since : groups.ends[group]] = -1
        if len(places) > len(groups):
            times = np.maximum.reduceat(times, groups.starts)
        return StoreDelta(groups.names, values, np.maximum(times, before.times), writers=last)

    def _old(self, rows: pa.Array) -> Iterable[Any]:
        """Return what there is of each group, decoded, or what it begins with."""
        if not rows.null_count:
            return Column(data=rows, serde=self.value).items
        begin, there = self.initializer, rows.is_valid().to_numpy(zero_copy_only=False)
        known = Column(data=rows.drop_null(), serde=self.value).items
        if are_distinct([begin(), begin()]):
            old = np.empty(len(rows), dtype=object)
            old[there] = np.fromiter(known, dtype=object, count=len(known))
            old[~there] = np.fromiter((begin() for _ in range(rows.null_count)), dtype=object, count=rows.null_count)
            return old.tolist()
        # what all groups begin with is asked for when the turn of each comes: a function may change it
        found = iter(known).__next__
        return (found() if is_there else begin() for is_there in there.tolist())

    def _counted(self, batch: Batch, groups: KeyGroups, places: Any, rows: pa.Array) -> pa.Array:
        """Count the records of each group."""
        if batch.counts is None:
            counts = groups.ends - groups.starts
        else:
            counts = np.add.reduceat(batch.counts[places], groups.starts)
        if self.value == Serdes.int64:
            return int64_sums(rows, counts)
        new = [old + count for old, count in zip(self._old(rows), counts.tolist(), strict=True)]
        return self._written(new, groups, None)

    def _new(
        self, fold: Fold, batch: Batch, groups: KeyGroups, items: list[Any], old: Iterable[Any], left: Left | None
    ) -> list[Any]:
        """Fold the values of each group. All are written after all were made, so two of them must not be one object."""
        keys = Column(data=groups.names, serde=self.key).items
        first = items if len(items) == len(keys) else [items[place] for place in groups.starts.tolist()]
        new = _first(map(fold.one, keys, first, old), groups, left)
        replaced = []
        kept, settle = kept_between(self.value, batch), settler(self.value)
        several = np.flatnonzero(groups.ends - groups.starts > 1)
        begins, ends = groups.starts[several] + 1, groups.ends[several]
        for group, begin, end in zip(several.tolist(), begins.tolist(), ends.tolist(), strict=True):
            if left and group in left:
                continue
            begun = new[group]
            try:
                if end - begin <= SLICE:
                    made = begun if begun.__class__ in kept else settle(begun)
                    made = fold.many(keys[group], items[begin:end], made, kept, settle)
                else:
                    made = self._in_slices(fold, keys[group], items, (begin, end), begun, (kept, settle))
            except Exception as error:
                if left is None:
                    raise
                made, left[group] = (error.made, error.since) if isinstance(error, _Failed) else (None, begin - 1)
            if made is not begun:
                new[group] = made
                replaced.append(begun)
        if not are_distinct([*new, *replaced]):
            raise FallbackAfterCall("shared_aggregate")
        return new

    def _folded_but_failed(
        self,
        fold: Fold,
        batch: Batch,
        groups: KeyGroups,
        items: list[Any],
        before: pa.Array,
        places: Any,
        failed: FailedRecords,
    ) -> pa.Array:
        """Return the new rows, without the records at which a function has failed: these, and few around them, are folded one by one."""
        left: Left = {}
        new = self._new(fold, batch, groups, items, self._old(before), left)
        if not left:
            return self._written_or_called(new, groups)
        unchanged = None if batch.shared and not batch.values.is_fixed else batch.values.unchanged()
        if unchanged is None:
            raise InputChanged
        for group, since in left.items():
            begin, end = int(groups.starts[group]), int(groups.ends[group])
            old = before[group].as_py() if since == begin else self.value.serialize(new[group])
            key = self.key.deserialize(groups.keys[group])
            row = self._one_by_one(fold, key, unchanged, places, (since, end), old, failed)
            done = [index for index in range(begin, end) if index not in failed.at]
            failed.last[group] = done[-1] if done else begin
            new[group] = self.value.deserialize(row) if done and row is not None else None
        return Column(new).arrow_of(self.value)

    def _written_or_called(self, new: list[Any], groups: KeyGroups) -> pa.Array:
        try:
            return self._written(new, groups, None)
        except Exception as error:  # one by one the policy is asked
            raise FallbackAfterCall("value_refused") from error

    def _one_by_one(
        self,
        fold: Fold,
        key: Any,
        values: Column,
        places: Any,
        part: tuple[int, int],
        old: bytes | None,
        failed: FailedRecords,
    ) -> bytes | None:
        """Fold values of a key, as they were, into a row."""
        begin, end = part
        for index, value in enumerate(values.pick(places[begin:end].tolist()).items, begin):
            try:
                made = fold.one(key, value, self.initializer() if old is None else self.value.deserialize(old))
            except Exception as error:
                failed.at[index] = error
                continue
            old = _row(self.value, made)
            if old is None:  # it is deleted, and may begin again, or cannot be written
                raise FallbackAfterCall("row_deleted")
        return old

    def _in_slices(
        self, fold: Fold, key: Any, items: list[Any], part: tuple[int, int], made: Any, between: tuple[Any, Any]
    ) -> Any:
        """Fold many values of a key, some at a time: what was made of those before a failure stays."""
        kept, settle = between
        begin, end = part
        written: bytes | None = None
        for at in range(begin, end, SLICE):
            try:
                made = made if made.__class__ in kept else settle(made)
                if at > begin:
                    written = self.value.serialize(made)
                made = fold.many(key, items[at : min(at + SLICE, end)], made, kept, settle)
            except Exception as error:
                if written is None:
                    raise
                raise _Failed(self.value.deserialize(written), at) from error
        return made

    def _written(self, new: list[Any], groups: KeyGroups, left: Left | None) -> pa.Array:
        """Return new rows as bytes."""
        if left is None:
            if any(map(is_, new, repeat(None))):
                raise FallbackAfterCall("row_deleted")
            return Column(new).arrow_of(self.value)
        try:
            rows = Column(new).arrow_of(self.value)
        except Exception:  # whatever the serde raises: each is asked for by itself
            rows = pa.array([_row(self.value, value) for value in new], pa.binary())
        if rows.null_count:
            for group in np.flatnonzero(rows.is_null().to_numpy(zero_copy_only=False)).tolist():
                left[group] = int(groups.starts[group])
        return rows


class _Failed(Exception):
    """A function has failed at one of many values: what was made before, and from which value on it is to be made again."""

    def __init__(self, made: Any, since: int) -> None:
        super().__init__()
        self.made = made
        self.since = since


def _row(serde: Serde[Any], value: Any) -> bytes | None:
    try:
        return None if value is None else serde.serialize(value)
    except Exception:  # one by one the policy is asked
        return None


def _first(calls: Iterator[Any], groups: KeyGroups, left: Left | None) -> list[Any]:
    """Return what was made of the first value of each group; None, and all its values are left, where a function failed."""
    new: list[Any] = []
    while len(new) < len(groups):
        try:
            new.extend(calls)  # what was made before a failure stays there, and the calls go on behind it
            failed = len(groups) - len(new)  # StopIteration ends the calls; so does what begins a row, if it fails
        except Exception:
            if left is None:
                raise
            failed = 1
        if failed and left is None:
            raise FallbackAfterCall("function_raised")
        for group in range(len(new), len(new) + failed):
            assert left is not None
            left[group] = int(groups.starts[group])
        new += [None] * failed
    return new


def are_distinct(items: list[Any]) -> bool:
    """Whether no two items are one object that can be changed, so that one would change with the other.

    >>> same = [1]
    >>> are_distinct([[1], [1]]), are_distinct([same, same]), are_distinct([7, 7])
    (True, False, True)
    """
    places = [id(item) for item in items if item.__class__ not in _CONSTANT]
    return len(set(places)) == len(places)


def open_fold(
    rows: WriteBack, folding: Folding, number: Callable[[], int], drop: Callable[[str], None] | None = None
) -> OnBatch:
    """Return what folds records by column into the rows of a store.

    ``drop``: counts a record without a key or a value; None: there is none. Records at which a function fails are folded one by one once
    all others are, with few of the same key before and after them.
    """

    def fold_some(batch: Batch, transaction: BatchTransaction) -> _Rest | None:
        try:
            keys = batch.keys.arrow_of(folding.key)
        except Exception as error:
            raise Fallback("key_refused") from error
        if keys.null_count:
            return fold_present(batch, transaction)
        groups = KeyGroups(keys)
        items = folding.items(batch, groups)
        if batch.counts is None and batch.values.has_nulls:
            return fold_present(batch, transaction)
        left: Left | None = None if folding.fold is None or folding.fold.single is None else {}
        delta = folding.folded(batch, groups, items, rows.before_fold(groups.names), left=left)
        rest = None
        if left:
            rest = _Rest.of(batch, groups, left)
            delta = delta.where(delta.values.is_valid().to_numpy(zero_copy_only=False))
        if len(delta.keys):
            transaction.on_commit(lambda: rows.lay(BatchDelta(delta, batch, number)))
        return rest

    def fold_present(batch: Batch, transaction: BatchTransaction) -> _Rest | None:
        if drop is None:
            raise Fallback("null_key_or_value")
        at = present(transaction, drop, null_key=batch.keys, null_value=batch.values)
        return fold_some(batch.pick(at), transaction) if at else None

    def fold_rest(rest: _Rest | None) -> None:
        assert folding.fold is not None
        assert folding.fold.single is not None
        while rest is not None:
            folding.fold.single(rest.small)
            batch, rest = rest.others, None
            transaction = BatchTransaction()
            try:
                rest = fold_some(batch, transaction) if len(batch) else None
            except Exception:  # whatever it is: one by one a record is told of, or the policy is asked
                unchanged = batch.unchanged()
                assert unchanged is not None
                folding.fold.single(unchanged)
                return
            transaction.commit()

    def on_batch(batch: Batch, transaction: BatchTransaction) -> None:
        rest = fold_some(batch, transaction)
        if rest is not None:
            transaction.on_commit(lambda: fold_rest(rest))

    return on_batch


class _Rest(NamedTuple):
    """Records of a fold that are left, as they were: those that are folded one by one, and the others of the same keys, behind them."""

    small: Batch
    others: Batch

    @staticmethod
    def of(batch: Batch, groups: KeyGroups, left: Left) -> _Rest:
        """Return what is left of some groups."""
        unchanged = batch.unchanged()
        if unchanged is None:
            raise InputChanged
        parts = [(since, min(since + SLICE + 1, int(groups.ends[group])), group) for group, since in left.items()]
        small = np.concatenate([groups.order[begin:end] for begin, end, _ in parts])
        others = np.concatenate([groups.order[end : groups.ends[group]] for _, end, group in parts])
        return _Rest(unchanged.pick(np.sort(small).tolist()), unchanged.pick(np.sort(others).tolist()))
