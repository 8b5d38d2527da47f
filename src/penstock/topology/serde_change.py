"""A topology with other serdes: the same nodes, stores and global tables, each serde replaced."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from penstock.serde import Serde
from penstock.state.spec import StoreSpec
from penstock.topology.node import GlobalStore, Node, ProcessorNode, SinkNode, SourceNode
from penstock.topology.topology import Topology


class SerdeChange:
    """Goes through all that has serdes; ``serde`` says what takes the place of each."""

    def __init__(self, application_id: str = "") -> None:
        self._prefix = application_id

    def serde(self, serde: Any, topic: str | None, part: str) -> Any:
        """Return what takes the place of a serde for the keys or values (``part``) of a topic; None: by a record."""
        return serde

    def topology(self, topology: Topology) -> Topology:
        """Return a topology with the serdes replaced; names, edges and order are the same."""
        other = Topology(wrapper=topology.wrapper)
        for part in ("_order", "_internal_topics", "_copartitions"):
            setattr(other, part, getattr(topology, part).copy())
        for part in ("_children", "_node_stores"):
            setattr(other, part, {name: list(names) for name, names in getattr(topology, part).items()})
        other._nodes = {name: self.node(node) for name, node in topology.nodes.items()}
        other._stores = {name: self.store(spec) for name, spec in topology.stores.items()}
        other._globals = {name: self.table(table) for name, table in topology.global_stores.items()}
        other._global_nodes = {
            node.name: node for table in other._globals.values() for node in (table.source, table.processor)
        }
        return other

    def node(self, node: Node) -> Node:
        """Return a node with its serdes replaced."""
        if isinstance(node, ProcessorNode):
            return replace(node, operator=self._operator(node.operator, f"{self._prefix}-{node.name}"))
        return self.source(node) if isinstance(node, SourceNode) else self._sink(node)

    def source(self, node: SourceNode) -> SourceNode:
        """Return a source with its serdes replaced."""
        topic = self._topic(node, node.topics[0] if node.topics else None)
        return replace(node, key=self.serde(node.key, topic, "key"), value=self.serde(node.value, topic, "value"))

    def store(self, spec: StoreSpec) -> StoreSpec:
        """Return a store with its serdes replaced; their topic is its changelog, or the one that stands for it."""
        topic = spec.source_topic or f"{self._prefix}-{spec.name}-changelog"
        return spec.with_(key=self.serde(spec.key, topic, "key"), value=self.serde(spec.value, topic, "value"))

    def table(self, table: GlobalStore) -> GlobalStore:
        """Return a global table with its serdes replaced."""
        processor = self.node(table.processor)
        assert isinstance(processor, ProcessorNode)
        return replace(table, source=self.source(table.source), processor=processor)

    def _sink(self, node: SinkNode) -> SinkNode:
        topic = self._topic(node, node.topic)
        key, value = self.serde(node.key, topic, "key"), self.serde(node.value, topic, "value")
        if node.partitioner is None:
            return replace(node, key=key, value=value)
        return replace(node, key=key, value=value, partitioner=self._operator(node.partitioner, topic))

    def _topic(self, node: SourceNode | SinkNode, topic: str | None) -> str | None:
        return f"{self._prefix}-{topic}" if node.internal else topic

    def _operator(self, operator: Any, topic: str | None) -> Any:
        """Return an operator, or what else is data of a node, with the serdes in it replaced.

        What these write is only compared, so the topic may be any that is theirs alone.
        """
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
                self.serde(one, topic, "key" if "key" in name else "value")
                for name, one in zip(names, value, strict=True)
            ]
            if all(one is other for one, other in zip(made, value, strict=True)):
                return value
            return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
        return self.serde(value, topic, part) if isinstance(value, Serde) else value
