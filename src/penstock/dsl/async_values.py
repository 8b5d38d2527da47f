"""map_values_async(): ours, not Kafka's. It ends a step: answers come back when the records behind them have long been read.

The node hands its answers to the next step through a sink and a source of their own, as a re-key does, except that they stay in
their shard: whatever follows by key finds them where it would without the calls. No topic is made for them in Kafka.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.dsl.checks import check_mapper
from penstock.dsl.graph import GraphNode
from penstock.durations import millis
from penstock.errors import TopologyError, describe_function
from penstock.operators.async_map import AsyncMapValues, CallSpec, written
from penstock.serde import Serde, Serdes
from penstock.topology.node import ProcessorNode, SinkNode, SourceNode

if TYPE_CHECKING:
    from penstock.dsl.kstream import KStream
    from penstock.dsl.stateless import StatelessVerbs
    from penstock.topology.topology import Topology

VERB = "map_values_async"


def call_spec(
    f: Callable[..., Any],
    concurrency: int,
    timeout: timedelta | int | None,
    retries: int,
    backoff: timedelta | int,
    with_key: bool,
) -> CallSpec:
    """Return how a function is to be called, checked."""
    check_mapper(f, VERB, with_key)
    if inspect.isgeneratorfunction(written(f)) or inspect.isasyncgenfunction(written(f)):
        raise TopologyError(
            f"{VERB}() needs a function that returns one value, but {describe_function(written(f))} yields: return a list, "
            "and take it apart with flat_map_values()"
        )
    for option, number, least in (("concurrency", concurrency, 1), ("retries", retries, 0)):
        if not isinstance(number, int) or isinstance(number, bool) or number < least:
            raise TopologyError(f"{VERB}() needs {option} to be a whole number, at least {least}, but it is {number!r}")
    limit = None if timeout is None else millis(timeout, "timeout", least=1)
    return CallSpec(f, concurrency, limit, retries, millis(backoff, "backoff", least=0))


def map_values_async(
    stream: StatelessVerbs[Any, Any], operator: AsyncMapValues, value: Serde[Any] | None, name: str | None
) -> KStream[Any, Any]:
    """Return the stream of the answers."""
    named = stream._graph.name(name, "KSTREAM-MAPVALUES-ASYNC-")
    topic = f"{named}-answers"
    # a key of unknown form needs none: rows stay in their shard, so nothing depends on its bytes
    key = stream._key if stream._key is not None and not stream._rekeyed else Serdes.pickle

    def write(topology: Topology, node: GraphNode) -> None:
        edge = value or Serdes.pickle
        topology.add_internal_topic(topic)
        topology.add(ProcessorNode(named, operator, node.parent_names))
        topology.add(SinkNode(f"{topic}-sink", topic, (named,), key, edge, internal=True, stays=True))
        topology.add(SourceNode(node.name, (topic,), key, edge, internal=True))

    node = stream._graph.add(GraphNode(f"{topic}-source", write, value_changing=True), stream._node)
    sources = frozenset([node.name])
    return stream._handle(node, key=stream._key, value=value, rekeyed=stream._rekeyed, sources=sources)
