"""Kernels of foreign-key joins, the way there: subscriptions go from the left table to the store of the right one.

The way back is in `foreign_key_responses`. Both stay bytes from one end to the other.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from operator import is_
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.batch.fallback import Fallback
from penstock.batch.foreign_key import Subscriptions, read_subscriptions, write_combined, write_subscriptions
from penstock.batch.murmur3 import murmur3_128_of
from penstock.kernels.kernel import Kernel, KernelContext, NodeFacts, own_store
from penstock.kernels.table_rows import open_put_to
from penstock.kernels.transaction import BatchTransaction, OnBatch
from penstock.operators.foreign_key_join import ForeignKeySerdes, SubscriptionReceive, SubscriptionSend
from penstock.serde.foreign_key import (
    CombinedKeySerde,
    Instruction,
)
from penstock.serde.traits import is_stable
from penstock.state.rows import RowStore

LEAVE = int(Instruction.DELETE_KEY_NO_PROPAGATE)
LEAVE_AND_RESPOND = int(Instruction.DELETE_KEY_AND_PROPAGATE)
ALWAYS_RESPOND = int(Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE)
RESPOND_IF_FOUND = int(Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE)


class _Sent(NamedTuple):
    """What is sent for updates: of which update each is, whether it is about the new key or the old one, and the instruction."""

    at: Any
    new: Any
    instruction: Any


def open_send(operator: SubscriptionSend, context: KernelContext, forward: OnBatch) -> OnBatch:
    """Return what sends subscriptions for updates of the left table, which have old values."""
    sides, value, extract, left, with_key = (
        operator.sides,
        operator.value,
        operator.extract,
        operator.left,
        operator.with_key,
    )
    assert sides is not None
    drop, instructions = context.drop, _left_instructions if left else _inner_instructions

    def on_batch(batch: Batch, transaction: BatchTransaction) -> None:
        if batch.old is None:
            raise Fallback("no_old_values")
        new, old = batch.values, batch.old
        new_keys, old_keys = (
            Column(_extracted(extract, batch.keys if with_key else None, rows)) for rows in (new, old)
        )
        foreign = [keys.arrow_of(sides.foreign_key) for keys in (new_keys, old_keys)]
        there = [is_valid(keys) for keys in foreign]
        same = there[0] & there[1] & pc.fill_null(pc.equal(*foreign), False).to_numpy(zero_copy_only=False)
        deleted = _is_none(new.items)
        if not left:
            transaction.drop(drop, "null_foreign_key", int((~there[0] & ~deleted).sum()))
        sent = instructions(there[0], there[1], same, deleted & _is_none(old.items))
        if not len(sent.at):
            return
        primary = batch.keys.arrow_of(sides.primary_key)
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
        forward(batch.spread(sent.at.tolist(), keys, values), transaction)

    return on_batch


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
    instruction = np.where(moved, ALWAYS_RESPOND, np.where(gone, LEAVE_AND_RESPOND, RESPOND_IF_FOUND))
    return _with_leaving(sent, moved, ~gone, instruction)


def _left_instructions(has_new: Any, has_old: Any, same: Any, nothing: Any) -> _Sent:
    instruction = np.full(len(has_new), ALWAYS_RESPOND)
    return _with_leaving(np.flatnonzero(~nothing), has_old & ~same, np.full(len(has_new), True), instruction)


def _with_leaving(sent: Any, moved: Any, new: Any, instruction: Any) -> _Sent:
    """Put a notice to the old key in front of what goes to the new one."""
    at = np.repeat(sent, 1 + moved[sent])
    second = np.zeros(len(at), dtype=bool)
    second[1:] = at[1:] == at[:-1]
    leaving = moved[at] & ~second
    return _Sent(at, new[at] & ~leaving, np.where(leaving, LEAVE, instruction[at]))


def open_receive(operator: SubscriptionReceive, context: KernelContext, forward: OnBatch) -> OnBatch:
    """Return what keeps subscriptions, and hands them on, keyed by their foreign keys."""
    store: RowStore = context.store(operator.store)
    (combined, subscription), put, drop = store.serdes, open_put_to(store), context.drop
    assert isinstance(combined, CombinedKeySerde)
    foreign_key, _ = combined.parts

    def on_batch(batch: Batch, transaction: BatchTransaction) -> None:
        keys = batch.keys.arrow_of(foreign_key)
        data = batch.values.arrow_of(subscription, read=True)
        subscriptions = read_subscriptions(data)
        kept, handed = batch, batch
        if keys.null_count:
            known = is_valid(keys)
            refused = ~known & (subscriptions.instructions != ALWAYS_RESPOND)
            transaction.drop(drop, "null_foreign_key", int(refused.sum()))
            kept, handed = batch.pick(np.flatnonzero(known).tolist()), batch.pick(np.flatnonzero(~refused).tolist())
            mask = pa.array(known)
            keys, data = keys.filter(mask), data.filter(mask)
            subscriptions = Subscriptions(
                subscriptions.hashes.filter(mask),
                subscriptions.instructions[known],
                subscriptions.primary_keys.filter(mask),
            )
        if len(kept):
            stay = pa.array(subscriptions.instructions > LEAVE_AND_RESPOND)
            rows = pc.if_else(stay, data, pa.scalar(None, pa.binary()))
            named = Column(data=write_combined(keys, subscriptions.primary_keys), serde=combined, made=True)
            put(kept.having(named, Column(data=rows, serde=subscription, made=True)), transaction)
        if len(handed):
            forward(handed, transaction)

    return on_batch


def is_valid(data: pa.Array) -> Any:
    """Return which items are not null."""
    return data.is_valid().to_numpy(zero_copy_only=False)


def _is_none(items: list[Any]) -> Any:
    return np.fromiter(map(is_, items, repeat(None)), dtype=bool, count=len(items))


def _refuses_send(operator: SubscriptionSend, facts: NodeFacts) -> str | None:
    return refuses_serdes(operator.sides) or ("the left table is versioned" if operator.versioned else None)


def _refuses_receive(operator: SubscriptionReceive, facts: NodeFacts) -> str | None:
    combined, _ = facts.serdes(operator.store)
    if not isinstance(combined, CombinedKeySerde) or not all(map(is_stable, combined.parts)):
        return "keys may be written in several ways, so that their bytes do not tell which are equal"
    return facts.not_plain(operator.store)


def refuses_serdes(sides: ForeignKeySerdes | None) -> str | None:
    """Return why subscriptions cannot stay bytes; None if they can."""
    return "its serdes are not known" if sides is None else None


SEND = Kernel(open_send, _refuses_send)
RECEIVE = Kernel(open_receive, _refuses_receive, own_store)
