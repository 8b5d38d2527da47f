"""deduplicate(): ours, not Kafka's. It depends on the key, so it repartitions as an aggregation would."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.dsl.graph import GraphNode, one, processor
from penstock.dsl.repartition import repartition_node
from penstock.dsl.stores import given_spec
from penstock.durations import millis
from penstock.operators.deduplicate import Deduplicate, deduplicate_store
from penstock.serde.defaults import DEFAULT_KEY
from penstock.state.spec import StoreKind, StoreSpec
from penstock.topology.functions import check_function

if TYPE_CHECKING:
    from penstock.dsl.kstream import KStream

PREFIX = "KSTREAM-DEDUPLICATE-"


def deduplicate(
    stream: KStream[Any, Any],
    by: Callable[[Any, Any], Any],
    within: timedelta | int,
    store: str | StoreSpec | None,
    name: str | None,
) -> KStream[Any, Any]:
    """Return the stream without the records that repeat an id within a time."""
    check_function(by, "deduplicate", "key", "value")
    within_ms = millis(within, "within", least=1)
    graph = stream._graph
    given = given_spec(store, (StoreKind.WINDOW,), "Stores.window")
    kept = graph.claim(given.name if given else graph.new_store(PREFIX))
    named = graph.name(name, PREFIX)
    spec = deduplicate_store(kept, stream._key or DEFAULT_KEY, within_ms)
    if given:
        spec = spec.with_(
            persistent=given.persistent,
            kept_by_default=given.kept_by_default,
            logged=given.logged,
            topic_config=given.topic_config,
        )
    if stream._rekeyed:
        node = repartition_node(graph, kept if name is None else name, stream._key, stream._value)
        parent, sources = graph.add(node, stream._node), frozenset([node.name])
    else:
        parent, sources = stream._node, stream._sources
    write = processor(one(Deduplicate(store=kept, by=by, within=within_ms)), stores=lambda: (spec,))
    node = graph.add(GraphNode(named, write), parent)
    return stream._handle(node, key=stream._key, value=stream._value, rekeyed=False, sources=sources)
