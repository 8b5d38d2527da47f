"""Kernel chains: the kernels below a source, or below a cached table, that take batches.

A chain is another way to the same result: it is taken where all its nodes have a kernel, and given up, before anything has happened, for
records that are not for it; these go to the record path. Where a stream forks, its branches must not share a store or a topic: one
branch runs after the other.

Batches of several sources may go together, each through the chain of its source, one chain after the other, where these share nothing but
tables: what publishes its updates runs first, and what reads them, each as of the position of its record, after it.

Chains whose nodes are joined end there. What is below the join is a chain of its own, *downstream* of them, and runs after them.

Whether there is a chain is decided once, when a topology is planned (`find_chains`); a task only opens it (`OpenChains`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import permutations
from typing import Any, NamedTuple

from penstock.batch.batch import Batch
from penstock.kernels.catalog import KERNELS
from penstock.kernels.fallback import with_fallback
from penstock.kernels.join_inputs import JoinInputs
from penstock.kernels.kernel import FallbackScope, JoinKernel, Kernel, KernelHost, NodeFacts
from penstock.kernels.metered import counted_out, metered
from penstock.kernels.sink import open_sink, refuses_sink
from penstock.kernels.transaction import BatchTransaction, OnBatch
from penstock.topology.node import ProcessorNode, SinkNode, SourceNode
from penstock.topology.topology import Topology

_NONE: frozenset[str] = frozenset()
_NOTHING: Mapping[str, Any] = {}


class ChainEffects(NamedTuple):
    """The stores and topics that a chain writes, the stores that it only reads, and those whose updates it publishes.

    ``downstream``: the chains below the joins in which it ends, by the names of the nodes below these.
    """

    writes: frozenset[str] = _NONE
    reads: frozenset[str] = _NONE
    publishes: frozenset[str] = _NONE
    downstream: Mapping[str, ChainEffects] = _NOTHING
    #: whether each of its nodes sorts out by itself what it cannot take
    contained: bool = False

    @property
    def all_writes(self) -> frozenset[str]:
        """What it writes, and all downstream of it."""
        return self.writes.union(*(chain.all_writes for chain in self.downstream.values()))

    @property
    def all_reads(self) -> frozenset[str]:
        """What it only reads, and all downstream of it."""
        return self.reads.union(*(chain.all_reads for chain in self.downstream.values()))


class NodePath(NamedTuple):
    """How a node takes batches: how much falls back, whether nodes below get batches, and the effects from it on."""

    scope: FallbackScope
    forwards: bool
    effects: ChainEffects


@dataclass(slots=True)
class KernelChains:
    """The kernel chains of a topology, or the reasons why there are none.

    ``nodes``: of each node how it takes batches, or why it takes records. ``below``: of each node the effects of all below it, or why
    these take records.
    """

    nodes: dict[str, NodePath | str] = field(default_factory=dict)
    below: dict[str, ChainEffects | str] = field(default_factory=dict)
    _order_of: dict[frozenset[str], tuple[str, ...] | None] = field(default_factory=dict)

    def order(self, sources: frozenset[str]) -> tuple[str, ...] | None:
        """Return in which order the chains of several sources run, if their batches may go together, else None."""
        if sources not in self._order_of:
            chains = {name: chain for name in sorted(sources) if isinstance(chain := self.below[name], ChainEffects)}
            self._order_of[sources] = None if len(chains) < len(sources) else chain_order(chains)
        return self._order_of[sources]


def find_chains(topology: Topology, at_once: frozenset[str], followed: frozenset[str] = _NONE) -> KernelChains:
    """Return the chains of a topology. ``at_once``: stores whose updates must not wait for the end of a batch.

    ``followed``: stores whose changes go one by one to a later step.
    """
    finder = _Finder(topology, at_once, followed)
    for name, node in topology.nodes.items():
        if not isinstance(node, SourceNode):
            finder.path(name)
        if not isinstance(node, SinkNode):
            finder.below(name)
    return finder.found


class _Finder:
    """Finds chains from the sinks upwards."""

    def __init__(self, topology: Topology, at_once: frozenset[str], followed: frozenset[str]) -> None:
        self._topology = topology
        self._at_once = at_once
        self._followed = followed
        self.found = KernelChains()

    def below(self, name: str) -> ChainEffects | str:
        """Return the effects of what takes the batches that a node forwards, or why some node below takes records."""
        if name not in self.found.below:
            self.found.below[name] = self._below(name)
        return self.found.below[name]

    def _below(self, name: str) -> ChainEffects | str:
        chains: list[ChainEffects] = []
        for child in self._topology.children(name):
            path = self.path(child)
            if isinstance(path, str):
                return f"{child} takes records one by one"
            chains.append(path.effects)
        for one, other in permutations(chains, 2):
            if (shared := min(one.all_writes & (other.all_writes | other.all_reads), default=None)) is not None:
                return f"two branches below it use {shared}, and one writes to it"
        return _together(chains)

    def path(self, name: str) -> NodePath | str:
        """Return how a node takes batches, or why it takes records."""
        if name not in self.found.nodes:
            self.found.nodes[name] = self._find(name)
        return self.found.nodes[name]

    def _find(self, name: str) -> NodePath | str:
        node = self._topology.node(name)
        if isinstance(node, SinkNode):
            effects = ChainEffects(frozenset({f"topic {node.topic}"}), contained=True)
            return refuses_sink(node) or NodePath(FallbackScope.node, False, effects)
        assert isinstance(node, ProcessorNode)
        if (met := next((s for s in self._topology.stores_of(name) if s in self._followed), None)) is not None:
            return f"records come back to store {met} in a later step, and meet each of its changes"
        kernel = KERNELS.get(type(node.operator), f"{type(node.operator).__name__} has no kernel")
        if isinstance(kernel, str):
            return kernel
        refused = kernel.refuses(node.operator, NodeFacts(self._topology, name))
        if refused is not None:
            return refused
        find = self._find_kernel if isinstance(kernel, Kernel) else self._find_join
        return find(name, kernel, node.operator)  # type: ignore[arg-type]

    def _find_kernel(self, name: str, kernel: Kernel, operator: Any) -> NodePath | str:
        below, effects, facts = self.below(name), kernel.effects(operator), NodeFacts(self._topology, name)
        if (
            waiting := next((s for s in effects.writes if s in self._at_once and facts.is_cached(s)), None)
        ) is not None:
            return f"updates of store {waiting} reach a node that acts on time: each must leave at its own time"
        cached = bool(effects.writes) and all(map(facts.is_cached, effects.writes))
        if isinstance(below, str) and not (kernel.ends and cached):
            return below
        last = isinstance(below, str) or cached
        scope = kernel.scope(operator)
        if not last and not (isinstance(below, ChainEffects) and below.contained):
            scope = FallbackScope.source
        writes = _named(effects.writes)
        own = ChainEffects(
            writes,
            _named(effects.reads),
            writes if effects.publishes else _NONE,
            contained=scope is not FallbackScope.source,
        )
        forwards = not isinstance(below, str)
        if isinstance(below, str) or last:
            return NodePath(scope, forwards, own)  # what is below hears of it at the barrier
        if (shared := _own_conflict(own, below)) is not None:
            return f"it and a node below it use {shared}, and one writes to it"
        return NodePath(scope, forwards, _together((own, below)))

    def _find_join(self, name: str, kernel: JoinKernel, operator: Any) -> NodePath | str:
        """Return a chain that ends in a join."""
        (below,) = self._topology.children(name)
        path = self.path(below)
        if isinstance(path, str):
            return f"{below} takes records one by one"
        effects = kernel.effects(operator)
        own = ChainEffects(_named(effects.writes), _named(effects.reads))
        if (shared := _own_conflict(own, path.effects)) is not None:
            return f"it and a node below it use {shared}, and one writes to it"
        downstream = {below: _together((own, path.effects))}
        return NodePath(FallbackScope.source, True, ChainEffects(downstream=downstream))


def _own_conflict(own: ChainEffects, below: ChainEffects) -> str | None:
    shared = own.writes & (below.all_writes | below.all_reads) or own.reads & below.all_writes
    return min(shared, default=None)


def chain_order(chains: Mapping[str, ChainEffects]) -> tuple[str, ...] | None:
    """Return in which order chains of several sources run, if their batches may go together, else None.

    >>> table = ChainEffects(writes=frozenset({"store t"}), publishes=frozenset({"store t"}))
    >>> join = ChainEffects(writes=frozenset({"topic out"}), reads=frozenset({"store t"}))
    >>> chain_order({"stream": join, "table": table}), chain_order({"one": join, "other": join})
    (('table', 'stream'), None)
    >>> below = ChainEffects(writes=frozenset({"topic out"}), reads=frozenset({"store t"}))
    >>> chain_order({"stream": ChainEffects(downstream={"join": below}), "other": table._replace(downstream={"join": below})})
    ('stream', 'other', 'join')
    """
    after: dict[str, set[str]] = {source: set() for source in chains}
    chains = {**chains, **_downstream(chains, after)}
    for one, other in permutations(chains, 2):
        writer, reader = chains[one], chains[other]
        if writer.writes & reader.writes or (writer.writes & reader.reads) - writer.publishes:
            return None
        if writer.publishes & reader.reads:
            after[other].add(one)
    try:
        return tuple(TopologicalSorter(after).static_order())
    except CycleError:
        return None


def _downstream(chains: Mapping[str, ChainEffects], after: dict[str, set[str]]) -> dict[str, ChainEffects]:
    """Return all chains downstream; note which chains each comes after."""
    found: dict[str, ChainEffects] = {}
    waiting = list(chains.items())
    while waiting:
        name, chain = waiting.pop()
        for node, below in chain.downstream.items():
            found[node] = _together((found.get(node, below), below))
            after.setdefault(node, set()).add(name)
            waiting.append((node, below))
    return found


def _named(stores: Iterable[str]) -> frozenset[str]:
    return frozenset(f"store {store}" for store in stores)


def _together(chains: Sequence[ChainEffects]) -> ChainEffects:
    """Return the effects of all chains."""
    writes = _NONE.union(*(chain.writes for chain in chains))
    reads = _NONE.union(*(chain.reads for chain in chains))
    publishes = _NONE.union(*(chain.publishes for chain in chains))
    downstream = {node: below for chain in chains for node, below in chain.downstream.items()}
    return ChainEffects(writes, reads, publishes, downstream, all(chain.contained for chain in chains))


class OpenChains:
    """Opens the chains of one task."""

    def __init__(self, host: KernelHost, chains: KernelChains) -> None:
        self._host = host
        self._chains = chains
        #: where chains are joined, by the names of the nodes below the joins
        self.inputs: dict[str, JoinInputs] = {}

    def below(self, name: str) -> OnBatch:
        """Return what takes the batches that a node forwards."""
        children = self._host.topology.children(name)
        chains = _fan_out(tuple(map(self._open, children)))
        return counted_out(self._host.meter, name, chains) if children else chains

    def _open(self, name: str) -> OnBatch:
        node, path = self._host.topology.node(name), self._chains.nodes[name]
        assert isinstance(path, NodePath), path
        if isinstance(node, SinkNode):
            return with_fallback(self._host, name, self._metered(name, open_sink(node, self._host)), path.scope)
        assert isinstance(node, ProcessorNode)
        kernel, context = KERNELS[type(node.operator)], self._host.kernel_context(name)
        if isinstance(kernel, JoinKernel):
            (below,) = self._host.topology.children(name)
            if below not in self.inputs:
                self.inputs[below] = JoinInputs(self._open(below))
            return self._metered(name, self.inputs[below].accepts(kernel.open(node.operator, context)))
        assert isinstance(kernel, Kernel), kernel
        forward = self.below(name) if path.forwards else None
        on_batch = self._metered(name, kernel.open(node.operator, context, forward))
        return with_fallback(self._host, name, on_batch, path.scope)

    def _metered(self, name: str, on_batch: OnBatch) -> OnBatch:
        return metered(self._host.meter, name, on_batch)


def _fan_out(chains: tuple[OnBatch, ...]) -> OnBatch:
    if len(chains) == 1:
        return chains[0]

    def forward(batch: Batch, transaction: BatchTransaction) -> None:
        shared = batch.as_shared()
        for chain in chains:
            chain(shared, transaction)

    return forward
