"""Serdes with a schema registry learn where they write: each is bound to the topic of its node, or to the changelog of its store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from penstock.serde import Serde
from penstock.serde.registry.serde import RegistrySerde, bound, registry_serdes
from penstock.serde.registry.settings import SchemaRegistry, registry_of
from penstock.state.spec import StoreSpec
from penstock.topology.node import GlobalStore, Node, ProcessorNode, SinkNode, SourceNode
from penstock.topology.topology import Topology, with_nodes


def bind_schemas(topology: Topology, application_id: str, default: Any) -> Topology:
    """Return a topology whose serdes know their topics; itself, if none has a registry. ``default``: the application's registry."""
    if not any(registry_serdes(serde) for serde in _serdes(topology)):
        return topology
    bind = _Binding(application_id, registry_of(default))
    bound_topology = with_nodes(topology, map(bind.node, topology.nodes.values()))
    bound_topology._stores = {name: bind.store(spec) for name, spec in topology.stores.items()}
    bound_topology._globals = {name: bind.table(table) for name, table in topology.global_stores.items()}
    bound_topology._global_nodes = {
        node.name: node for table in bound_topology._globals.values() for node in (table.source, table.processor)
    }
    for each in (inner for serde in _serdes(bound_topology) for inner in registry_serdes(serde)):
        each.catalog()  # raises if there is no registry
    return bound_topology


def written_schemas(topology: Topology) -> list[RegistrySerde]:
    """Return the serdes of a bound topology whose ids are needed before anything is written: of sinks and of stores.

    A sink whose topics a function names asks when a record names one.
    """
    found: list[Any] = []
    for node in topology.nodes.values():
        if isinstance(node, SinkNode) and node.topic is not None:
            found += [node.key, node.value]
        elif isinstance(node, ProcessorNode):
            found += _serdes_in(node.operator)
    for spec in topology.stores.values():
        if spec.source_topic is None:
            found += [spec.key, spec.value]
    return list(dict.fromkeys(inner for serde in found for inner in registry_serdes(serde)))


def used_registries(topology: Topology) -> list[SchemaRegistry]:
    """Return the registries that the serdes of a topology use."""
    return list(dict.fromkeys(inner.registry for serde in _serdes(topology) for inner in registry_serdes(serde)))


class _Binding:
    """Gives serdes their topics, in one application."""

    def __init__(self, application_id: str, default: SchemaRegistry | None) -> None:
        self._prefix = application_id
        self._default = default

    def node(self, node: Node) -> Node:
        """Return a node with its serdes bound."""
        if isinstance(node, SourceNode):
            topic = node.topics[0] if node.topics else None
        elif isinstance(node, SinkNode):
            topic = node.topic
        else:
            return replace(node, operator=self._operator(node.operator, f"{self._prefix}-{node.name}"))
        if node.internal:
            topic = f"{self._prefix}-{topic}"
        changed = {"key": self._bound(node.key, topic, "key"), "value": self._bound(node.value, topic, "value")}
        if isinstance(node, SinkNode) and node.partitioner is not None:
            return replace(node, **changed, partitioner=self._operator(node.partitioner, topic))
        return replace(node, **changed)

    def store(self, spec: StoreSpec) -> StoreSpec:
        """Return a store with its serdes bound: to its changelog, or to the topic that stands for it."""
        topic = spec.source_topic or f"{self._prefix}-{spec.name}-changelog"
        return spec.with_(key=self._bound(spec.key, topic, "key"), value=self._bound(spec.value, topic, "value"))

    def table(self, table: GlobalStore) -> GlobalStore:
        """Return a global table with its serdes bound."""
        source, processor = self.node(table.source), self.node(table.processor)
        assert isinstance(source, SourceNode)
        assert isinstance(processor, ProcessorNode)
        return replace(table, source=source, processor=processor)

    def _operator(self, operator: Any, topic: str | None) -> Any:
        """Return an operator, or what else is data of a node, with the serdes in it bound; what they write is only compared."""
        if not is_dataclass(operator) or isinstance(operator, type):
            return operator
        changed = {}
        for each in fields(operator):
            value = getattr(operator, each.name)
            made = self._inner(value, topic, "key" if "key" in each.name else "value")
            if made is not value:
                changed[each.name] = made
        return replace(operator, **changed) if changed else operator

    def _inner(self, value: Any, topic: str | None, part: str) -> Any:
        if isinstance(value, tuple) and any(isinstance(one, Serde) for one in value):
            names = getattr(value, "_fields", ("value",) * len(value))
            made = [
                self._bound(one, topic, "key" if "key" in name else "value")
                for name, one in zip(names, value, strict=True)
            ]
            if all(one is other for one, other in zip(made, value, strict=True)):
                return value
            return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
        return self._bound(value, topic, part)

    def _bound(self, serde: Any, topic: str | None, part: str) -> Any:
        return bound(serde, topic, part, self._default)


def _serdes(topology: Topology) -> Iterator[Any]:
    nodes = [*topology.nodes.values(), *(table.source for table in topology.global_stores.values())]
    for node in nodes:
        if isinstance(node, ProcessorNode):
            yield from _serdes_in(node.operator)
        else:
            yield from (node.key, node.value)
    for spec in topology.stores.values():
        yield from (spec.key, spec.value)


def _serdes_in(operator: Any) -> Iterator[Any]:
    if not is_dataclass(operator) or isinstance(operator, type):
        return
    for each in fields(operator):
        value = getattr(operator, each.name)
        yield from (one for one in (value if isinstance(value, tuple) else (value,)) if isinstance(one, Serde))
