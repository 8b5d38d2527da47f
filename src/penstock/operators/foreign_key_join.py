"""Foreign-key joins: rows of a left table join the row of a right table that a field of theirs names.

Left rows live with their own key, right rows with theirs, so the two sides write to each other through internal
topics::

    left table ──▶ SubscriptionSend ──▶ sink <name>-subscription-registration-topic
    source ──▶ SubscriptionReceive(store) ──▶ SubscriptionJoin(right view) ──┐
    right table ──▶ ForeignTableUpdate(store) ───────────────────────────────┴▶ sink <name>-subscription-response-topic
    source ──▶ ResponseJoin(left view) ──▶ TableSource(result store or None)

    topic             key          value
    registration      foreign key  SubscriptionWrapperSerde(left key)
    response          left key     SubscriptionResponseWrapperSerde(right value)

The subscription store is ``Stores.key_value(name, key=CombinedKeySerde(foreign key, left key),
value=SubscriptionWrapperSerde(left key), timestamped=True, cached=False)``, connected to SubscriptionReceive and
ForeignTableUpdate. SubscriptionJoin is connected to the right view's stores, ResponseJoin to the left view's. Both
tables send old values; the left one must be readable by key.

A difference from Kafka Streams: rows are routed by key to a shard, so the partition that a subscription carries is
always 0, as it is in Kafka with one partition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from penstock.operators.base import Forward, Operator, OperatorContext, TableView
from penstock.record import Headers
from penstock.serde import Serde
from penstock.serde.foreign_key import (
    CombinedKey,
    CombinedKeySerde,
    Instruction,
    SubscriptionResponseWrapper,
    SubscriptionResponseWrapperSerde,
    SubscriptionWrapper,
    SubscriptionWrapperSerde,
)
from penstock.serde.murmur3 import murmur3_128
from penstock.serde.traits import is_stable
from penstock.state.rows import RowStore

_LEAVE = Instruction.DELETE_KEY_NO_PROPAGATE
_LEAVE_AND_RESPOND = Instruction.DELETE_KEY_AND_PROPAGATE
_ALWAYS_RESPOND = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
_RESPOND_IF_FOUND = Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE


class ForeignKeySerdes(NamedTuple):
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
        """Whether keys and values may be forwarded as the bytes that were written."""
        return all(map(is_stable, self))


@dataclass(frozen=True, slots=True)
class SubscriptionSend(Operator):
    """Send the right side the foreign key that a left row now has (KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION).

    ``extract(value)``, or ``(key, value)`` with ``with_key``, gives the foreign key. ``foreign_key`` and ``value`` are
    the serdes of the right table's key and of the left table's value: whether a key changed, and whether a response is
    stale, is decided on bytes. ``versioned``: the left table is versioned, its out-of-order updates are dropped. Sent,
    in order::

        update of a left row              inner join                              left join
        first foreign key, or the same    tell if found (new)                     always tell (new)
        another foreign key               leave (old), always tell (new)          leave (old), always tell (new)
        none any more                     dropped; leave and tell (old)           leave (old), always tell (none)
        deleted                           leave and tell (old)                    leave (old), always tell (none)
    """

    calls: ClassVar[tuple[str, ...]] = ("extract",)

    extract: Callable[..., Any]
    foreign_key: Serde[Any]
    value: Serde[Any]
    left: bool
    with_key: bool = False
    versioned: bool = False
    #: the serdes of both sides, where records may go by column
    sides: ForeignKeySerdes | None = None

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        drop, versioned, serialize = context.drop, self.versioned, self.value.serialize
        instructions = self._left_instructions() if self.left else self._inner_instructions(context)

        def on_record(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
            if versioned and not change.is_latest:
                drop("out_of_order")
                return
            sent = instructions(key, change.new, change.old)
            if not sent:
                return
            fingerprint = None if change.new is None else murmur3_128(serialize(change.new))
            for foreign_key, instruction in sent:
                forward(foreign_key, SubscriptionWrapper(fingerprint, instruction, key, 1, 0), timestamp, headers)

        return on_record

    def _inner_instructions(self, context: OperatorContext) -> Callable[[Any, Any, Any], list[tuple[Any, Instruction]]]:
        foreign_key_of, changed, drop = self._foreign_key_of(), self._changed(), context.drop

        def instructions(key: Any, new: Any, old: Any) -> list[tuple[Any, Instruction]]:
            old_key = None if old is None else foreign_key_of(key, old)
            new_key = None if new is None else foreign_key_of(key, new)
            if new_key is None:
                if new is not None:
                    drop("null_foreign_key")
                return [] if old_key is None else [(old_key, _LEAVE_AND_RESPOND)]
            if old_key is None or not changed(new_key, old_key):
                return [(new_key, _RESPOND_IF_FOUND)]
            return [(old_key, _LEAVE), (new_key, _ALWAYS_RESPOND)]

        return instructions

    def _left_instructions(self) -> Callable[[Any, Any, Any], list[tuple[Any, Instruction]]]:
        foreign_key_of, changed = self._foreign_key_of(), self._changed()

        def instructions(key: Any, new: Any, old: Any) -> list[tuple[Any, Instruction]]:
            if new is None and old is None:
                return []
            old_key = None if old is None else foreign_key_of(key, old)
            new_key = None if new is None else foreign_key_of(key, new)
            # a subscription without a foreign key is not kept, but brings the response that makes the result
            subscribe = (new_key, _ALWAYS_RESPOND)
            if old_key is not None and changed(new_key, old_key):
                return [(old_key, _LEAVE), subscribe]
            return [subscribe]

        return instructions

    def _foreign_key_of(self) -> Callable[[Any, Any], Any]:
        extract = self.extract
        return extract if self.with_key else lambda key, value: extract(value)

    def _changed(self) -> Callable[[Any, Any], bool]:
        serialize = self.foreign_key.serialize
        return lambda new, old: new is None or serialize(new) != serialize(old)


@dataclass(frozen=True, slots=True)
class SubscriptionReceive(Operator):
    """Keep or delete a subscription beside the right rows, and hand it on (KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR,
    first)."""

    store: str

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        write, drop = context.store(self.store).write, context.drop

        def on_record(key: Any, subscription: Any, timestamp: int, headers: Headers) -> None:
            instruction = subscription.instruction
            combined = CombinedKey(key, subscription.primary_key)
            if key is not None:
                kept = None if instruction is _LEAVE or instruction is _LEAVE_AND_RESPOND else subscription
                write(combined, kept, timestamp, headers)
            elif instruction is not _ALWAYS_RESPOND:
                drop("null_foreign_key")
                return
            forward(combined, subscription, timestamp, headers)

        return on_record


@dataclass(frozen=True, slots=True)
class SubscriptionJoin(Operator):
    """Answer a subscription with the right row (KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR, second).

    The answer's timestamp is the later one of the left update and the right row.
    """

    right: TableView
    sides: ForeignKeySerdes | None = None

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        lookup = self.right.open(context)
        for name in self.right.stores:
            store = context.store(name)
            if isinstance(store, RowStore):
                store.announce_vanished()

        def on_record(key: Any, subscription: Any, timestamp: int, headers: Headers) -> None:
            fingerprint, instruction, primary_key, _, partition = subscription
            row = None if key.foreign_key is None else lookup(key.foreign_key)
            if instruction is _LEAVE or (instruction is _RESPOND_IF_FOUND and row is None):
                return
            value = None
            if row is not None:
                if instruction is not _LEAVE_AND_RESPOND:
                    value = row[0]
                if row[1] > timestamp:
                    timestamp = row[1]
            response = SubscriptionResponseWrapper(fingerprint, value, 0, partition)
            forward(primary_key, response, timestamp, headers)

        return on_record


@dataclass(frozen=True, slots=True)
class ForeignTableUpdate(Operator):
    """Send an updated right row to every subscriber (KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR, third).

    ``versioned``: the right table is versioned, its out-of-order updates are dropped. The timestamp is the right row's.
    """

    store: str
    versioned: bool = False
    sides: ForeignKeySerdes | None = None

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        store, drop, versioned = context.store(self.store), context.drop, self.versioned
        subscribers, prefix = store.prefix_scan, Serde(_prefix_of(store.spec.key), _unread)

        def on_record(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                drop("null_key")
                return
            if versioned and not change.is_latest:
                drop("out_of_order")
                return
            value = change.new
            for combined, (subscription, _) in subscribers(key, prefix):
                response = SubscriptionResponseWrapper(subscription.hash, value, 0, subscription.primary_partition)
                forward(combined.primary_key, response, timestamp, headers)

        return on_record


def _prefix_of(key: Any) -> Callable[[Any], bytes]:
    assert isinstance(key, CombinedKeySerde), "a subscription store is keyed by foreign key and left key"
    return key.prefix


def _unread(data: bytes) -> Any:
    raise TypeError("a prefix is never read")


@dataclass(frozen=True, slots=True)
class ResponseJoin(Operator):
    """Join a response with the left row it was asked for, unless that row has changed since (…-RESPONSE-RESOLVER).

    ``table``: the left table; ``value``: the serde of its value; ``left``: a left join. Forwards plain values; None is
    a tombstone.
    """

    calls: ClassVar[tuple[str, ...]] = ("joiner",)

    table: TableView
    joiner: Callable[[Any, Any], Any]
    value: Serde[Any]
    left: bool
    sides: ForeignKeySerdes | None = None

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        lookup, serialize, drop = self.table.open(context), self.value.serialize, context.drop
        joiner, left = self.joiner, self.left

        def on_record(key: Any, response: Any, timestamp: int, headers: Headers) -> None:
            row = lookup(key)
            current = None if row is None else row[0]
            if response.original_value_hash != (None if row is None else murmur3_128(serialize(current))):
                drop("stale_response")
                return
            value = response.foreign_value
            gone = value is None and (not left or row is None)
            forward(key, None if gone else joiner(current, value), timestamp, headers)

        return on_record
