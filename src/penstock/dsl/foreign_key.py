"""The nodes of a foreign-key join; see ``operators.foreign_key_join`` for who sends what to whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.dsl.checks import check_joiner
from penstock.dsl.graph import Graph, GraphNode, one, processor
from penstock.dsl.stores import Serdes2, table_store
from penstock.dsl.tables import SourceTable
from penstock.errors import TopologyError
from penstock.operators.foreign_key_join import (
    ForeignKeySerdes,
    ForeignTableUpdate,
    ResponseJoin,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
)
from penstock.operators.table import TableSource
from penstock.serde import Serde
from penstock.serde.defaults import DEFAULT_KEY, DEFAULT_VALUE
from penstock.serde.foreign_key import CombinedKeySerde, SubscriptionResponseWrapperSerde, SubscriptionWrapperSerde
from penstock.state.spec import StoreKind, StoreSpec
from penstock.topology.functions import check_function, takes
from penstock.topology.node import SinkNode, SourceNode

if TYPE_CHECKING:
    from penstock.dsl.ktable import KTable
    from penstock.topology.topology import Topology

PREFIX = "KTABLE-FK-JOIN-"
PROCESSOR = f"{PREFIX}SUBSCRIPTION-PROCESSOR-"


def join(
    this: KTable[Any, Any],
    other: KTable[Any, Any],
    joiner: Any,
    foreign_key: Callable[..., Any],
    left: bool,
    store: str | StoreSpec | None,
    name: str | None,
    given: Serdes2,
) -> KTable[Any, Any]:
    """Join every row of ``this`` with the row of ``other`` whose key ``foreign_key`` gives."""
    check_joiner(joiner, "join")
    with_key = callable(foreign_key) and not takes(foreign_key, 1)
    check_function(foreign_key, "foreign_key", *(("key", "value") if with_key else ("value",)))
    if name is not None and not name:
        raise TopologyError("name must be a non-empty string")
    graph = this._graph
    other._table.enable_old(force=True)
    this._table.enable_old(force=True)
    key, value = this._key or DEFAULT_KEY, this._value or DEFAULT_VALUE
    other_key, other_value = other._key or DEFAULT_KEY, other._value or DEFAULT_VALUE
    subscription, response = SubscriptionWrapperSerde(key), SubscriptionResponseWrapperSerde(other_value)
    sides = ForeignKeySerdes(key, other_key, other_value)

    # the order of the following lines is the order of the numbers in the names
    topic = graph.name(name, f"{PREFIX}SUBSCRIPTION-REGISTRATION-", "-subscription-registration") + "-topic"
    send = graph.add(
        GraphNode(
            graph.name(name, f"{PREFIX}SUBSCRIPTION-REGISTRATION-", "-subscription-registration-processor"),
            processor(lambda node: SubscriptionSend(
                extract=foreign_key, foreign_key=other_key, value=value, left=left, with_key=with_key,
                versioned=bool(node.versioned_parents), sides=sides,
            )),
            looks_at_versions=True,
        ),
        this._node,
    )  # fmt: skip
    there = _through(graph, name, "-subscription-registration", topic, other_key, subscription, send)
    graph.copartition(other._sources, frozenset([there.name]))
    kept = _subscriptions(graph, name, CombinedKeySerde(other_key, key), subscription)
    receive = graph.add(
        GraphNode(
            graph.name(name, PROCESSOR, "-subscription-receive"),
            processor(one(SubscriptionReceive(store=kept.name)), stores=lambda: (kept,)),
        ),
        there,
    )
    rows = other._table.view()
    answer = graph.add(
        GraphNode(
            graph.name(name, PROCESSOR, "-subscription-join-foreign"),
            processor(one(SubscriptionJoin(right=rows, sides=sides)), connect=rows.stores),
        ),
        receive,
    )
    update = graph.add(
        GraphNode(
            graph.name(name, PROCESSOR, "-foreign-join-subscription"),
            processor(
                lambda node: ForeignTableUpdate(store=kept.name, versioned=bool(node.versioned_parents), sides=sides),
                stores=lambda: (kept,),
            ),
            looks_at_versions=True,
        ),
        other._node,
    )
    topic = graph.name(name, f"{PREFIX}SUBSCRIPTION-RESPONSE-", "-subscription-response") + "-topic"
    back = _through(graph, name, "-subscription-response", topic, key, response, answer, update)
    sources = graph.copartition(this._sources, frozenset([back.name]))
    own = this._table.view()
    resolve = graph.add(
        GraphNode(
            graph.name(name, f"{PREFIX}SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-", "-subscription-response-resolver"),
            processor(
                one(ResponseJoin(table=own, joiner=joiner, value=value, left=left, sides=sides)), connect=own.stores
            ),
        ),
        back,
    )
    named = graph.name(name, f"{PREFIX}OUTPUT-", "-result")
    result = table_store(graph, store, f"{PREFIX}OUTPUT-", given, (this._key, None))
    table = SourceTable(result.spec, result.named)
    write = processor(lambda node: TableSource(store=table.store, send_old=table.send_old), stores=table.specs)
    node = graph.add(GraphNode(named, write, versioned=result.versioned), resolve)
    return type(this)(graph, node, result.spec.key, result.spec.value, sources, table, result.queryable)


def _subscriptions(graph: Graph, name: str | None, key: Serde[Any], value: Serde[Any]) -> StoreSpec:
    store = graph.name(name, f"{PREFIX}SUBSCRIPTION-STATE-STORE-", "-subscription-store")
    return StoreSpec(store, StoreKind.KEY_VALUE, key, value, cached=False, timestamped=True, log_headers=True)


def _through(
    graph: Graph, name: str | None, suffix: str, topic: str, key: Serde[Any], value: Serde[Any], *parents: GraphNode
) -> GraphNode:
    """Add the sink and the source of an internal topic; return the source."""

    def write_sink(topology: Topology, node: GraphNode) -> None:
        topology.add_internal_topic(topic)
        topology.add(SinkNode(node.name, topic, node.parent_names, key, value, internal=True))

    def write_source(topology: Topology, node: GraphNode) -> None:
        topology.add(SourceNode(node.name, (topic,), key, value, internal=True))

    sink = graph.add(GraphNode(graph.name(name, "KTABLE-SINK-", f"{suffix}-sink"), write_sink), *parents)
    return graph.add(GraphNode(graph.name(name, "KTABLE-SOURCE-", f"{suffix}-source"), write_source), sink)
