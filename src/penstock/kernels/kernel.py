"""The contract of kernels: what an operator does with a batch, and what the plan must know of it to put kernels in a chain.

A kernel states its effects: the stores that it only *reads*, those that it *writes*, whether it *publishes* its updates before they are
written, with the positions of their records, so that readers in the same batch see each as of its own position; and whether it *joins*,
that is, takes the batches of several parents together. What it cannot take raises `Fallback(reason, row)` before anything has
happened; `FallbackScope` says how much then goes to the record path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from penstock.batch.batch import Batch
from penstock.kernels.transaction import BatchTransaction, OnBatch
from penstock.operators.base import Operator, OperatorContext
from penstock.operators.session import SessionWindowAggregate
from penstock.operators.sliding import SlidingWindowAggregate
from penstock.operators.windowed import WindowAggregate
from penstock.processor.node_meter import NodeMeter
from penstock.serde import Serde, Serdes
from penstock.state.spec import StoreKind, StoreSpec
from penstock.topology.node import ProcessorNode, SinkNode, SourceNode
from penstock.topology.topology import Topology
from penstock.watermark import LatePolicy

#: gives the time of the node at many records, each included
TimesOf: TypeAlias = Callable[[Batch], Any]


class KernelContext(OperatorContext, Protocol):
    """What a kernel may ask of its task, besides what an operator may."""

    def times_of(self, batch: Batch, shared: str | None = None, *, included: bool = True) -> Any:
        """Return the time of this node's clock at many records: with each of them, or without it."""
        ...

    def times_at_most(self, batch: Batch, shared: str | None = None) -> Any:
        """Return a time for each record that a clock has not passed there, for less than ``times_of``; None: nothing is known."""
        ...

    def time_reaching(self, due: int, shared: str | None = None) -> int:
        """Return the time of this node's clock once it is at least ``due``; that at the end of the epoch if it is not."""
        ...

    def one_by_one(self, batch: Batch) -> None:
        """Run a batch through this node record by record."""
        ...

    def count_out(self, count: int) -> None:
        """Count records that this node has forwarded."""
        ...

    @property
    def forgives(self) -> bool:
        """Whether the processing policy may let the application go on after a failure."""
        ...


class KernelHost(Protocol):
    """What a kernel chain may ask of its task."""

    @property
    def topology(self) -> Topology:
        """The topology."""
        ...

    @property
    def meter(self) -> NodeMeter:
        """The counter of the records of nodes."""
        ...

    def kernel_context(self, node: str) -> KernelContext:
        """Return the context of a node."""
        ...

    def process_at(self, node: str, batch: Batch) -> None:
        """Run a batch, which has come to a node, record by record through it and all below."""
        ...

    def fell_back(self, node: str, reason: str) -> None:
        """Count a batch, or a part of one, that goes to the record path."""
        ...

    def is_counted(self, topic: str) -> bool:
        """Whether the records of a topic of ours are only counted, so that nobody needs their values."""
        ...

    def partitions_of(self, topic: str) -> int:
        """Return how many partitions a topic has."""
        ...

    def emit_batch(
        self, sink: SinkNode, partitions: list[int] | None, keys: pa.Array, values: pa.Array | None, batch: Batch
    ) -> None:
        """Emit a batch of records to a sink."""
        ...

    def refuse_at(self, sink: SinkNode, batch: Batch, errors: Mapping[int, Exception]) -> None:
        """Ask the production policy about records that the serdes of a sink have refused, by their places."""
        ...


class FallbackScope(Enum):
    """How much goes to the record path where a kernel cannot take a batch."""

    #: the whole batch, from its source on: the node publishes, or reads what others publish
    source = auto()
    #: what has come to the node, if it shows before a function of the user was called; what a function raises, the kernel sorts out
    node_before_calls = auto()
    #: what has come to the node, whatever is raised: it calls no function of the user
    node = auto()
    #: as ``node_before_calls``, but also after calls, and never in parts
    node_as_a_whole = auto()


class Effects(NamedTuple):
    """The stores that a kernel writes, and those that it only reads. ``publishes``: readers may go along with its writes."""

    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    publishes: bool = False


class JoinResult(NamedTuple):
    """What the batches of several parents have given together, if anything; and what refuses it once all that follows has run."""

    batch: Batch | None
    check: Callable[[], None]


class JoinSide(Protocol):
    """One of the parents whose batches are joined, once all of them are there."""

    def join_batches(self, parts: Sequence[tuple[Any, Batch]], transaction: BatchTransaction) -> JoinResult:
        """Join the batches of some or all parents: (side, its batch)."""
        ...


class NodeFacts(NamedTuple):
    """What is known of a node while a topology is planned."""

    topology: Topology
    node: str

    def spec(self, store: str) -> StoreSpec:
        """Return the spec of a store."""
        return self.topology.stores[store]

    def is_cached(self, store: str) -> bool:
        """Whether a store forwards its updates at the barrier."""
        spec = self.spec(store)
        return bool(spec.cached) and not spec.retain_duplicates

    def serdes(self, store: str) -> tuple[Serde[Any], Serde[Any]]:
        """Return the serdes of a store."""
        spec = self.spec(store)
        return spec.key or Serdes.string, spec.value or Serdes.json

    def not_plain(self, store: str) -> str | None:
        """Return why the rows of a store cannot be read and written by batch; None if they can."""
        spec = self.spec(store)
        if spec.kind not in (StoreKind.KEY_VALUE, StoreKind.SHARED):
            return f"store {store} is a {spec.kind.value} store, whose rows are not read by batch"
        return f"rows of store {store} expire (ttl)" if spec.ttl is not None else None

    def writers(self, store: str) -> int:
        """Return how many nodes aggregate windows into a store."""
        kinds = WindowAggregate | SessionWindowAggregate | SlidingWindowAggregate
        operators = [node.operator for node in self.topology.nodes.values() if isinstance(node, ProcessorNode)]
        return sum(isinstance(operator, kinds) and operator.store == store for operator in operators)

    @property
    def late_policies(self) -> frozenset[LatePolicy]:
        """The late policies of sources, besides the default."""
        sources = [node for node in self.topology.nodes.values() if isinstance(node, SourceNode)]
        return frozenset(node.late for node in sources if node.late is not None) - {LatePolicy.accept}

    @property
    def leads_on(self) -> bool:
        """Whether records that the node forwards may go on to a later step, or to a node that acts on time."""
        return any(_leads_on(self.topology, child) for child in self.topology.children(self.node))


def _leads_on(topology: Topology, name: str) -> bool:
    node = topology.nodes[name]
    if isinstance(node, SinkNode):
        return node.internal
    if isinstance(node, ProcessorNode) and node.operator.timed:
        return True
    return any(_leads_on(topology, child) for child in topology.children(name))


def _never(operator: Any, facts: NodeFacts) -> str | None:
    return None


def _none(operator: Any) -> Effects:
    return Effects()


def _source(operator: Any) -> FallbackScope:
    return FallbackScope.source


@dataclass(frozen=True, slots=True)
class Kernel:
    """The batch implementation of an operator.

    ``open(operator, context, forward)``: bind to one shard; ``forward`` None: what is below takes records one by one, and hears of
    updates at the barrier. ``refuses``: why this one operator cannot go by batch, a sentence, or None.
    """

    open: Callable[[Any, KernelContext, Any], OnBatch]
    refuses: Callable[[Any, NodeFacts], str | None] = _never
    effects: Callable[[Any], Effects] = _none
    scope: Callable[[Any], FallbackScope] = _source
    #: True where a cached store may be the end of the chain, so that nodes below need no kernel
    ends: bool = False


@dataclass(frozen=True, slots=True)
class JoinKernel:
    """The batch implementation of one side of a join; its chain ends there, and what is below is a chain of its own."""

    open: Callable[[Any, KernelContext], JoinSide]
    refuses: Callable[[Any, NodeFacts], str | None] = _never
    effects: Callable[[Any], Effects] = _none


def before_calls(operator: Operator) -> FallbackScope:
    """Fall back at the node, as long as no function was called."""
    return FallbackScope.node_before_calls


def own_store(operator: Any) -> Effects:
    """Write to the operator's store, if it has one."""
    return Effects(writes=() if operator.store is None else (operator.store,))
