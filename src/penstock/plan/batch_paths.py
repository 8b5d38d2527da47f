"""Batch paths: which nodes take batches, and why the others take records one by one. Decided once for a plan.

This is the seam to `kernels/`: no other module outside of that package imports it. Where the package is missing, or
``PENSTOCK_KERNELS=0`` is set, all records go one by one, with the same results.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from penstock.plan.feeds import forwarded_at_once
from penstock.topology.node import ProcessorNode, SourceNode
from penstock.topology.topology import Topology

if TYPE_CHECKING:
    from penstock.kernels.batch_path import BatchPath
    from penstock.kernels.chain import KernelChains


def has_kernels() -> bool:
    """Whether batches may be run at all: the one place where that is decided."""
    return os.environ.get("PENSTOCK_KERNELS", "1") != "0" and find_spec("penstock.kernels") is not None


@dataclass(frozen=True, slots=True)
class BatchPaths:
    """``reasons``: of the nodes that take records one by one, why; all others take batches."""

    reasons: Mapping[str, str] = field(default_factory=dict)
    chains: KernelChains | None = None

    def open(self, task: Any) -> BatchPath | None:
        """Return the batch path of a task, if there is one."""
        if self.chains is None:
            return None
        from penstock.kernels.batch_path import BatchPath

        return BatchPath(task, self.chains)

    def notes(self) -> dict[str, str]:
        """Return what a picture says of the nodes that take records one by one."""
        return {node: f"record by record: {reason}" for node, reason in self.reasons.items()}


def find_batch_paths(topology: Topology, followed: frozenset[str] = frozenset()) -> BatchPaths:
    """Decide for each node of a topology how it takes its records. ``followed``: stores whose changes are told one by one."""
    if topology.wrapper is not None:
        return _none(topology, "a wrapper sees every record by itself")
    if not has_kernels():
        return _none(topology, "kernels are switched off")
    from penstock.kernels.chain import find_chains

    chains = find_chains(topology, forwarded_at_once(topology), followed)
    return BatchPaths(_reasons(topology, chains), chains)


def stopped_by_time(topology: Topology, nodes: Iterable[str]) -> str | None:
    """Return a node of a step that lets rows leave between two records, or whose store does, so that none of its records go as a batch."""
    for name in nodes:
        node = topology.nodes[name]
        expires = any(topology.stores[store].ttl is not None for store in topology.stores_of(name))
        if expires or (isinstance(node, ProcessorNode) and node.operator.releases):
            return name
    return None


def _none(topology: Topology, reason: str) -> BatchPaths:
    return BatchPaths(dict.fromkeys(topology.nodes, reason))


def _reasons(topology: Topology, chains: KernelChains) -> dict[str, str]:
    """Return why nodes take records: they cannot take batches, or nobody hands them any."""
    reasons: dict[str, str] = {}
    for name, node in topology.nodes.items():  # parents come before their children
        found = chains.below[name] if isinstance(node, SourceNode) else chains.nodes[name]
        if isinstance(found, str):
            reasons[name] = found
        elif not isinstance(node, SourceNode) and not any(_hands_on(chains, reasons, above) for above in node.parents):
            reasons[name] = f"{node.parents[0]} hands on records one by one"
    return reasons


def _hands_on(chains: KernelChains, reasons: Mapping[str, str], parent: str) -> bool:
    """Whether a parent hands on batches."""
    return parent not in reasons and not isinstance(chains.below[parent], str)
