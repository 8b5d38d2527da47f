"""Serdes with a schema registry learn where they write: each is bound to the topic of its node, or to the changelog of its store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from penstock.serde import Serde
from penstock.serde.registry.serde import RegistrySerde, bound, registry_serdes
from penstock.serde.registry.settings import SchemaRegistry, registry_of
from penstock.topology.node import ProcessorNode, SinkNode
from penstock.topology.serde_change import SerdeChange
from penstock.topology.topology import Topology


def bind_schemas(topology: Topology, application_id: str, default: Any) -> Topology:
    """Return a topology whose serdes know their topics; itself, if none has a registry. ``default``: the application's registry."""
    if not any(registry_serdes(serde) for serde in _serdes(topology)):
        return topology
    bound_topology = _Binding(application_id, registry_of(default)).topology(topology)
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


class _Binding(SerdeChange):
    """Gives serdes with a registry their topics, in one application."""

    def __init__(self, application_id: str, default: SchemaRegistry | None) -> None:
        super().__init__(application_id)
        self._default = default

    def serde(self, serde: Any, topic: str | None, part: str) -> Any:
        """Bind a serde, and those inside it."""
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
