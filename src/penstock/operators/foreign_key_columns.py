"""Foreign-key joins by column: what `operators.foreign_key_join` does with single records, thousands at a time.

Subscriptions and responses stay bytes from one end to the other: the row of the right table is put into a response as it is stored, and
first read where it is joined.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from operator import is_
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.operators.base import OperatorContext
from penstock.serde import Serde
from penstock.serde.columns import Column, Columns, Commits, Irregular, OnColumns, spread_out
from penstock.serde.foreign_key import (
    CombinedKeySerde,
    Instruction,
    SubscriptionResponseWrapperSerde,
    SubscriptionWrapperSerde,
)
from penstock.serde.foreign_key_columns import (
    Responses,
    Subscriptions,
    read_responses,
    read_subscriptions,
    write_combined,
    write_responses,
    write_subscriptions,
)
from penstock.serde.murmur3_columns import murmur3_128_of
from penstock.serde.traits import is_stable
from penstock.state.as_of import ReadColumns, ReadRaw
from penstock.state.rows import RowStore

_LEAVE = int(Instruction.DELETE_KEY_NO_PROPAGATE)
_LEAVE_AND_TELL = int(Instruction.DELETE_KEY_AND_PROPAGATE)
_ALWAYS_TELL = int(Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE)
_TELL_IF_FOUND = int(Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE)


class Sides(NamedTuple):
    """The serdes of a join: of the left table's key, the right table's key, and the right table's value."""

    primary_key: Serde[Any]
    foreign_key: Serde[Any]
    foreign_value: Serde[Any]

    @property
    def subscription(self) -> Serde[Any]:
        """The serde of subscriptions."""
        return SubscriptionWrapperSerde(self.primary_key)

    @property
    def response(self) -> Serde[Any]:
        """The serde of responses."""
        return SubscriptionResponseWrapperSerde(self.foreign_value)

    @property
    def stay_bytes(self) -> bool:
        """Whether keys and values that were written may go on as they are."""
        return all(map(is_stable, self))


class _Sent(NamedTuple):
    """What is sent for updates: of which update each is, whether it is about the new key or the old one, and the instruction."""

    at: Any
    new: Any
    instruction: Any


def open_send(
    context: OperatorContext,
    forward: OnColumns,
    sides: Sides,
    value: Serde[Any],
    extract: Callable[..., Any],
    left: bool,
    with_key: bool,
) -> OnColumns:
    """Return what sends subscriptions for updates of the left table, which have old values."""
    drop, instructions = context.drop, _left_instructions if left else _inner_instructions

    def on_columns(columns: Columns, commits: Commits) -> None:
        if columns.old is None:
            raise Irregular
        new, old = columns.values, columns.old
        new_keys, old_keys = (
            Column(_extracted(extract, columns.keys if with_key else None, rows)) for rows in (new, old)
        )
        foreign = [keys.arrow_of(sides.foreign_key) for keys in (new_keys, old_keys)]
        there = [_is_valid(keys) for keys in foreign]
        same = there[0] & there[1] & pc.fill_null(pc.equal(*foreign), False).to_numpy(zero_copy_only=False)
        deleted = _is_none(new.items)
        if not left:
            _drop_all(commits, drop, "null_foreign_key", int((~there[0] & ~deleted).sum()))
        sent = instructions(there[0], there[1], same, deleted & _is_none(old.items))
        if not len(sent.at):
            return
        primary = columns.keys.arrow_of(sides.primary_key)
        hashes = murmur3_128_of(new.arrow_of(value))
        taken = pa.array(sent.at)
        data = write_subscriptions(Subscriptions(hashes.take(taken), sent.instruction, primary.take(taken)))
        which = pa.array(np.where(sent.new, sent.at, sent.at + len(new)))
        keys = Column(
            None if is_stable(sides.foreign_key) else _chosen(new_keys.items, old_keys.items, sent),
            data=pa.concat_arrays(foreign).take(which),
            serde=sides.foreign_key,
            made=True,
        )
        values = Column(data=data, serde=sides.subscription, made=True)
        forward(columns.spread(sent.at.tolist(), keys, values), commits)

    return on_columns


def _extracted(extract: Callable[..., Any], keys: Column | None, values: Column) -> list[Any]:
    """Return what the user's function gives for each value, None where there is no value."""
    items = values.items
    arguments = (items,) if keys is None else (keys.items, items)
    if not any(map(is_, items, repeat(None))):
        return list(map(extract, *arguments))
    return [None if given[-1] is None else extract(*given) for given in zip(*arguments, strict=True)]


def _chosen(new: list[Any], old: list[Any], sent: _Sent) -> list[Any]:
    return [new[at] if is_new else old[at] for at, is_new in zip(sent.at.tolist(), sent.new.tolist(), strict=True)]


def _inner_instructions(has_new: Any, has_old: Any, same: Any, nothing: Any) -> _Sent:
    moved = has_new & has_old & ~same
    gone = ~has_new & has_old
    sent = np.flatnonzero(has_new | has_old)
    instruction = np.where(moved, _ALWAYS_TELL, np.where(gone, _LEAVE_AND_TELL, _TELL_IF_FOUND))
    return _with_leaving(sent, moved, ~gone, instruction)


def _left_instructions(has_new: Any, has_old: Any, same: Any, nothing: Any) -> _Sent:
    instruction = np.full(len(has_new), _ALWAYS_TELL)
    return _with_leaving(np.flatnonzero(~nothing), has_old & ~same, np.full(len(has_new), True), instruction)


def _with_leaving(sent: Any, moved: Any, new: Any, instruction: Any) -> _Sent:
    """Put a notice to the old key in front of what goes to the new one."""
    at = np.repeat(sent, 1 + moved[sent])
    second = np.zeros(len(at), dtype=bool)
    second[1:] = at[1:] == at[:-1]
    leaving = moved[at] & ~second
    return _Sent(at, new[at] & ~leaving, np.where(leaving, _LEAVE, instruction[at]))


def open_receive(context: OperatorContext, forward: OnColumns, store: RowStore) -> OnColumns | None:
    """Return what keeps subscriptions, and hands them on, keyed by their foreign keys."""
    (combined, subscription), put, drop = store.serdes, store.make_column_put(), context.drop
    assert isinstance(combined, CombinedKeySerde)
    foreign_key, primary_key = combined.parts
    if put is None or not (is_stable(foreign_key) and is_stable(primary_key)):
        return None

    def on_columns(columns: Columns, commits: Commits) -> None:
        keys = columns.keys.arrow_of(foreign_key)
        data = columns.values.arrow_of(subscription, read=True)
        subscriptions = read_subscriptions(data)
        kept, handed = columns, columns
        if keys.null_count:
            known = _is_valid(keys)
            refused = ~known & (subscriptions.instructions != _ALWAYS_TELL)
            _drop_all(commits, drop, "null_foreign_key", int(refused.sum()))
            kept, handed = columns.pick(np.flatnonzero(known).tolist()), columns.pick(np.flatnonzero(~refused).tolist())
            mask = pa.array(known)
            keys, data = keys.filter(mask), data.filter(mask)
            subscriptions = Subscriptions(
                subscriptions.hashes.filter(mask),
                subscriptions.instructions[known],
                subscriptions.primary_keys.filter(mask),
            )
        if len(kept):
            stay = pa.array(subscriptions.instructions > _LEAVE_AND_TELL)
            rows = pc.if_else(stay, data, pa.scalar(None, pa.binary()))
            named = Column(data=write_combined(keys, subscriptions.primary_keys), serde=combined, made=True)
            put(kept.having(named, Column(data=rows, serde=subscription, made=True)), commits)
        if len(handed):
            forward(handed, commits)

    return on_columns


def open_answer(forward: OnColumns, sides: Sides, read: ReadRaw) -> OnColumns:
    """Return what answers subscriptions with the rows of the right table."""

    def on_columns(columns: Columns, commits: Commits) -> None:
        hashes, instructions, primary_keys = read_subscriptions(columns.values.arrow_of(sides.subscription, read=True))
        rows, row_times, at = _rows_of(read, columns.keys.arrow_of(sides.foreign_key), columns)
        found = _is_valid(rows)[at]
        told = np.flatnonzero((instructions != _LEAVE) & (found | (instructions != _TELL_IF_FOUND)))
        if not len(told):
            return
        at, places = at[told], pa.array(told)
        values = rows.take(pa.array(at, mask=instructions[told] == _LEAVE_AND_TELL))
        data = write_responses(Responses(hashes.take(places), values))
        keys = Column(data=primary_keys.take(places), serde=sides.primary_key, made=True)
        answers = columns.spread(told.tolist(), keys, Column(data=data, serde=sides.response, made=True))
        answers.timestamps = np.maximum(answers.timestamps, row_times[at])
        forward(answers, commits)

    return on_columns


def _rows_of(read: ReadRaw, keys: pa.Array, columns: Columns) -> tuple[pa.Array, Any, Any]:
    """Return rows, their times, and which of them each record has; without a foreign key it has none."""
    if not keys.null_count:
        return read(keys, columns)
    known = _is_valid(keys)
    nobody = pa.nulls(1, pa.binary())
    if not known.any():
        return nobody, np.array([-1]), np.zeros(len(keys), dtype=np.int64)
    rows, times, found = read(keys.drop_null(), columns.pick(np.flatnonzero(known).tolist()))
    at = np.full(len(keys), len(rows), dtype=np.int64)
    at[known] = found
    return pa.concat_arrays([rows, nobody]), np.append(times, -1), at


def open_update(
    forward: OnColumns, sides: Sides, subscribers: Callable[[list[bytes]], list[list[tuple[bytes, bytes]]]]
) -> OnColumns:
    """Return what sends updated rows of the right table to all who have subscribed to them."""

    def on_columns(columns: Columns, commits: Commits) -> None:
        foreign = columns.keys.arrow_of(sides.foreign_key)
        values = columns.values.arrow_of(sides.foreign_value)
        prefixes = write_combined(foreign, pa.repeat(pa.scalar(b"", pa.binary()), len(foreign))).to_pylist()
        found = subscribers(prefixes)
        counts = np.fromiter(map(len, found), dtype=np.int64, count=len(found))
        if not counts.any():
            return
        primary = [key[len(prefix) :] for prefix, rows in zip(prefixes, found, strict=True) for key, _ in rows]
        subscriptions = read_subscriptions(pa.array([value for rows in found for _, value in rows], pa.binary()))
        at = np.repeat(np.arange(len(found)), counts)
        data = write_responses(Responses(subscriptions.hashes, values.take(pa.array(at))))
        keys = Column(data=pa.array(primary, pa.binary()), serde=sides.primary_key, made=True)
        responses = Column(data=data, serde=sides.response, made=True)
        forward(columns.spread(at.tolist(), keys, responses), commits)

    return on_columns


class Resolving(NamedTuple):
    """How responses are joined with the rows that they were asked for: ``read`` finds these."""

    read: ReadColumns
    value: Serde[Any]
    joiner: Callable[[Any, Any], Any]
    left: bool

    def open(self, context: OperatorContext, forward: OnColumns, sides: Sides) -> OnColumns:
        """Return what joins responses, unless their rows have changed since."""
        drop = context.drop

        def on_columns(columns: Columns, commits: Commits) -> None:
            hashes, values = read_responses(columns.values.arrow_of(sides.response, read=True))
            rows, gaps = self.read(columns.keys, columns)
            now = murmur3_128_of(Column(rows).arrow_of(self.value))
            same = pc.fill_null(pc.equal(hashes, now), False).to_numpy(zero_copy_only=False)
            if gaps:
                same = same | ~(_is_valid(hashes) | _is_valid(now))
            if not same.all():
                _drop_all(commits, drop, "stale_response", int((~same).sum()))
                at = np.flatnonzero(same).tolist()
                columns, rows, values = columns.pick(at), [rows[place] for place in at], values.filter(pa.array(same))
            if rows:
                forward(columns.having(values=Column(self._joined(rows, values, sides, gaps))), commits)

        return on_columns

    def _joined(self, rows: list[Any], values: pa.Array, sides: Sides, gaps: bool) -> list[Any]:
        """Return what the joiner makes of rows, None where there is nothing to join."""
        if self.left or gaps:
            found = Column(data=values, serde=sides.foreign_value).items
            return [
                None if value is None and (not self.left or row is None) else self.joiner(row, value)
                for row, value in zip(rows, found, strict=True)
            ]
        if not values.null_count:
            return self._joined_all(rows, Column(data=values, serde=sides.foreign_value).items)
        there = _is_valid(values)
        known = [rows[place] for place in np.flatnonzero(there).tolist()]
        return spread_out(
            self._joined_all(known, Column(data=values.drop_null(), serde=sides.foreign_value).items), there
        )

    def _joined_all(self, rows: list[Any], found: list[Any]) -> list[Any]:
        if not any(map(is_, found, repeat(None))):
            return list(map(self.joiner, rows, found))
        return [None if value is None else self.joiner(row, value) for row, value in zip(rows, found, strict=True)]


def _drop_all(commits: Commits, drop: Callable[[str], None], reason: str, count: int) -> None:
    def commit() -> None:
        for _ in range(count):
            drop(reason)

    if count:
        commits.append(commit)


def _is_valid(data: pa.Array) -> Any:
    return data.is_valid().to_numpy(zero_copy_only=False)


def _is_none(items: list[Any]) -> Any:
    return np.fromiter(map(is_, items, repeat(None)), dtype=bool, count=len(items))
