"""Kernel of aggregations over session windows: the sessions of a key are read once, merged record by record, and written once.

Between two records of a key nothing is read or written. A session that came and went meanwhile was never there; one that was there
before is deleted when its turn comes, as one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.batch.fallback import Fallback
from penstock.batch.grouping import KeyGroups
from penstock.kernels.kernel import Kernel, KernelContext, NodeFacts, TimesOf, own_store
from penstock.kernels.transaction import BatchTransaction, OnBatch, forwarding
from penstock.kernels.user_calls import failure_handler
from penstock.kernels.window import count_or_whole, refuses_windows
from penstock.operators.emit import EmitStrategy
from penstock.operators.session import SessionWindowAggregate
from penstock.serde import Serde
from penstock.serde.traits import kept_classes
from penstock.state.segmented import Segmented
from penstock.watermark import LatePolicy

#: classes whose objects nobody can change
_FIXED = frozenset({int, str, bytes, float, bool})
#: a row to write: place and turn of the write, key, (end, start), value: bytes, or an object that is kept, or None: deleted
Write: TypeAlias = tuple[int, int, bytes, tuple[int, int], Any]


#: a session of a key as it is at the moment: end, start, value, and whether that is bytes; ends and starts of a key are there once
Session: TypeAlias = tuple[int, int, Any, bool]


class SessionFold(NamedTuple):
    """What is done with the records of a session; ``aggregator`` None: they are counted."""

    key: Serde[Any]
    value: Serde[Any]
    gap: int
    grace: int
    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any] | None
    merger: Callable[[Any, Any, Any], Any]
    #: asks the policy about records at which a function has failed, by their places; None: the first failure is the end
    on_failures: Callable[[Batch, list[tuple[int, Exception]]], None] | None = None


def open_session_fold(
    rows: Segmented,
    fold: SessionFold,
    number: Callable[[], int],
    times_of: TimesOf,
    drops: tuple[Callable[[], None], Callable[[], None] | None],
) -> OnBatch:
    """Return what folds records by column into sessions.

    ``drops``: count a record without a key, and one that is late; None: each late one must be looked at.
    """
    drop_null, drop_late = drops

    def on_batch(batch: Batch, transaction: BatchTransaction) -> None:
        nulls = len(batch)
        if batch.keys.has_nulls:
            batch = batch.pick([at for at, key in enumerate(batch.keys.items) if key is not None])
        nulls -= len(batch)
        now = times_of(batch)
        folded = _SessionFold(rows, fold, batch, now)
        if folded.late and drop_late is None:
            raise Fallback("late_record")
        if (np.diff(now) < 0).any() or (len(now) and now[0] < rows.observed):  # what has expired would be there again
            raise Fallback("time_went_back")
        keys, positions, entries = folded.rows()

        def commit() -> None:
            for _ in range(nulls):
                drop_null()
            for _ in range(folded.late):
                if drop_late is not None:
                    drop_late()
            rows.put_many(keys, positions, [(*entry, number()) for entry in entries])
            if fold.on_failures is not None:
                fold.on_failures(batch, sorted(folded.failed, key=lambda failed: failed[0]))

        transaction.on_commit(commit)

    return on_batch


class _SessionFold:
    """Records folded into sessions. ``ends``: of the session that each record has become part of; −1: it is late."""

    def __init__(self, rows: Segmented, fold: SessionFold, batch: Batch, now: Any) -> None:
        self._rows = rows
        self._fold = fold
        self._batch = batch
        self._kept = kept_classes(fold.value) & _FIXED
        #: of each record, from when on no session has expired; the store's time is not past the clock's
        self._least = ((np.maximum(now, rows.observed) - rows.retention) // rows.interval * rows.interval).tolist()
        self._closed = (now - fold.grace - fold.gap).tolist()
        self.late = 0
        self.failed: list[tuple[int, Exception]] = []
        self._ends = [-1] * len(batch)
        self._writes: list[Write] = []
        self._run()
        self.ends = np.array(self._ends, dtype=np.int64)
        self._writes.sort(key=_sequence)

    def _run(self) -> None:
        batch, gap = self._batch, self._fold.gap
        groups = KeyGroups(batch.keys.arrow_of(self._fold.key))
        order, starts, ends = groups.order.tolist(), groups.starts.tolist(), groups.ends.tolist()
        times = batch.timestamps.tolist()
        if times and min(times) < 0:
            raise Fallback("negative_time")
        counting = self._fold.aggregator is None
        items: list[Any] = [] if counting else batch.values.items
        if not len(batch):
            return
        since = np.minimum.reduceat(batch.timestamps[groups.order], groups.starts) - gap
        found = self._rows.of_keys(groups.keys, since.tolist())
        for key, begin, end, rows in zip(groups.keys, starts, ends, found, strict=True):
            before: list[Session] = [(last, first, raw, True) for (last, first), raw, _ in rows]
            self._fold_key(key, order[begin:end], times, items, before)

    def _fold_key(
        self, key: bytes, places: list[int], times: list[int], items: list[Any], sessions: list[Session]
    ) -> None:
        fold, gap, closed, least = self._fold, self._fold.gap, self._closed, self._least
        there = {(session[0], session[1]) for session in sessions} if sessions else ()
        written: dict[tuple[int, int], Write] = {}
        counting, decode, kept, ends = fold.aggregator is None, fold.value.deserialize, self._kept, self._ends
        name = None if counting else fold.key.deserialize(key)
        for place in places:
            start = end = time = times[place]
            low, high, turn = time - gap, time + gap, 0
            found = [session for session in sessions if session[0] >= low and session[1] <= high] if sessions else ()
            try:
                value = 0 if counting else fold.initializer()
                for other_end, other_start, other, raw in found:
                    if raw:
                        other = decode(other)
                    value = value + other if counting else fold.merger(name, value, other)
                    if other_start < start:
                        start = other_start
                    if other_end > end:
                        end = other_end
            except Exception as error:
                self._fail(place, error)
                continue
            if end < closed[place]:
                self.late += 1
                continue
            if end < least[place] or (found and found[0][0] < least[place]):
                raise Fallback(
                    "expired_session"
                )  # whether it is still there depends on the moment; of a late record it does not matter
            ends[place] = end
            if found and (
                start != end or end != time
            ):  # else the only session found is this instant, and is overwritten
                for turn, session in enumerate(found):
                    position = session[0], session[1]
                    written.pop(position, None)
                    if position in there:
                        written[position] = (place, turn, key, position, None)
            try:
                value = value + 1 if counting else self._aggregated(name, items[place], value)
            except Fallback:
                raise
            except Exception as error:
                self._fail(place, error)
                if found and (start != end or end != time):  # they are gone all the same
                    sessions = [session for session in sessions if session[0] < low or session[1] > high]
                continue
            raw = value.__class__ not in kept
            if raw:
                value = self._written(value)
            if len(found) == len(sessions):
                sessions = [(end, start, value, raw)]
            else:
                sessions = [session for session in sessions if session[0] < low or session[1] > high]
                sessions.append((end, start, value, raw))
                sessions.sort()
            position = end, start
            written.pop(position, None)
            written[position] = (place, turn + 1, key, position, (value, raw))
        self._writes += written.values()

    def _fail(self, place: int, error: Exception) -> None:
        """Note a record at which a function has failed."""
        if self._fold.on_failures is None:
            raise error
        self._ends[place] = -1
        self.failed.append((place, error))

    def _written(self, value: Any) -> bytes:
        try:
            return self._fold.value.serialize(value)
        except Exception as error:  # one by one the policy is asked
            raise Fallback("value_refused") from error

    def _aggregated(self, name: Any, item: Any, value: Any) -> Any:
        assert self._fold.aggregator is not None
        result = self._fold.aggregator(name, item, value)
        if result is None:
            raise Fallback("row_deleted")
        return result

    def rows(self) -> tuple[list[bytes], list[tuple[int, int]], Iterator[tuple[Any, ...]]]:
        """Return what is written, in order: keys, (end, start), and values, times, headers and writers."""
        batch, writes = self._batch, self._writes
        places = [write[0] for write in writes]
        times = batch.of_source(batch.provenance.times())[places].tolist()
        headers: Any = repeat(()) if batch.headers is None else [batch.headers[place] for place in places]
        objects = Column([write[4][0] for write in writes if write[4] is not None and not write[4][1]])
        made = objects.bytes_of(self._fold.value)
        kept = iter(made.to_pylist() if isinstance(made, pa.Array) else made).__next__
        values = [None if v is None else v[0] if v[1] else kept() for *_, v in writes]
        entries = zip(values, times, headers, zip(repeat(batch), places, strict=False), strict=False)
        return [write[2] for write in writes], [write[3] for write in writes], entries


def _sequence(write: Write) -> tuple[int, int]:
    return write[:2]


def open_sessions(operator: SessionWindowAggregate, context: KernelContext, forward: OnBatch | None) -> OnBatch:
    """Return what folds records into sessions."""
    store, drop, windows = context.store(operator.store), context.drop, operator.windows
    if forward is not None and not operator.send_old:  # only a store of plain rows tells old values by batch
        store.on_flush_batch(forwarding(forward))
    aggregator = None if operator.counts else operator.aggregator
    functions = operator.initializer, aggregator, operator.merger, failure_handler(context)
    key, value = store.serdes
    fold = SessionFold(key, value, windows.gap, windows.grace, *functions)
    drop_late = None if LatePolicy.dead_letter in context.late_policies else partial(drop, "late_session")
    return open_session_fold(
        store.rows, fold, store.next_number, context.times_of, (partial(drop, "null_key"), drop_late)
    )


def _refuses(operator: SessionWindowAggregate, facts: NodeFacts) -> str | None:
    spec = facts.spec(operator.store)
    if operator.emit is EmitStrategy.on_window_close:
        return "it emits on window close"
    if not spec.persistent or spec.time_ordered:
        return f"store {operator.store} is in memory, or ordered by time"
    return refuses_windows(operator, facts)


SESSIONS = Kernel(open_sessions, _refuses, own_store, count_or_whole, ends=True)
