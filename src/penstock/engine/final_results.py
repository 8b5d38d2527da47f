"""Which nodes give out results that are final: all that such a node forwards is one."""

from __future__ import annotations

from penstock.operators.emit import EmitStrategy
from penstock.operators.suppress import Suppress
from penstock.topology.node import ProcessorNode
from penstock.topology.topology import Topology


def final_metric(topology: Topology, name: str) -> str | None:
    """Return the metric that counts what a node gives out for good; None if it gives out what may still change."""
    node = topology.nodes.get(name)
    if not isinstance(node, ProcessorNode):
        return None
    if isinstance(node.operator, Suppress):
        return "suppress_emitted_total"
    emit = getattr(node.operator, "emit", None)
    return "final_results_total" if emit is EmitStrategy.on_window_close else None
