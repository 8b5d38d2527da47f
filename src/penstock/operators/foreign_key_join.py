"""Foreign-key joins: rows of a left table join the row of a right table that a field of theirs names.

Left rows live with their own key, right rows with theirs, so the two sides write to each other through internal topics::

    left table ──▶ SubscriptionSend ──▶ sink  <name>-subscription-registration-topic     key: foreign key
                                                                                         value: SubscriptionWrapperSerde(left key)
    source ──▶ SubscriptionReceive(store) ──▶ SubscriptionJoin(right view) ──┐
    right table ──▶ ForeignTableUpdate(store) ───────────────────────────────┴──▶ sink  <name>-subscription-response-topic
                                                                                         key: left key
                                                                                         value: SubscriptionResponseWrapperSerde(right value)
    source ──▶ ResponseJoin(left view) ──▶ TableSource(result store or None)

The subscription store is ``Stores.key_value(name, key=CombinedKeySerde(foreign, left key), value=SubscriptionWrapperSerde(left key),
timestamped=True, cached=False)``, connected to SubscriptionReceive and ForeignTableUpdate. SubscriptionJoin is connected to the
right view's stores, ResponseJoin to the left view's. The left table must send old values. As in Kafka Streams the left table is
always materialized, and the right one too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.operators.base import Forward, Operator, OperatorContext, TableView
from penstock.serde import Serde


@dataclass(frozen=True, slots=True)
class SubscriptionSend(Operator):
    """Tell the right side which foreign key a left row now names (KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION).

    ``extract(value)``, or ``(key, value)`` with ``with_key``, gives the foreign key. ``foreign_key`` and ``value`` are the serdes
    of the right table's key and of the left table's value: whether a key changed, and whether a response is stale, is decided on
    bytes. ``versioned``: the left table is versioned, its out-of-order updates are dropped.
    """

    extract: Callable[..., Any]
    foreign_key: Serde[Any]
    value: Serde[Any]
    left: bool
    with_key: bool = False
    versioned: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The extractor."""
        return (self.extract,)


@dataclass(frozen=True, slots=True)
class SubscriptionReceive(Operator):
    """Keep or delete a subscription beside the right rows, and hand it on (KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR, first)."""

    store: str

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SubscriptionJoin(Operator):
    """Answer a subscription with the right row (KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR, second)."""

    right: TableView

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ForeignTableUpdate(Operator):
    """Send an updated right row to every subscriber (KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR, third).

    ``versioned``: the right table is versioned, its out-of-order updates are dropped.
    """

    store: str
    versioned: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ResponseJoin(Operator):
    """Join a response with the left row it was asked for, unless that row has changed since (…-SUBSCRIPTION-RESPONSE-RESOLVER).

    ``table``: the left table; ``value``: the serde of its value; ``left``: a left join. Forwards plain values, None is a tombstone.
    """

    table: TableView
    joiner: Callable[[Any, Any], Any]
    value: Serde[Any]
    left: bool

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The joiner."""
        return (self.joiner,)
