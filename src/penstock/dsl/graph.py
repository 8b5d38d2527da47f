"""The logical graph that a builder grows: nodes in the order they were said, rewritten and written out at build.

A node holds what the rewrites need to know, and ``write``, which adds its sources, processors, sinks and stores to the
Topology. Names carry a number from one counter; the counter, and the numbers that are used up without a node, are Kafka
Streams', so that names (and with them topics and state) are equal.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.errors import TopologyError
from penstock.topology.names import check_name
from penstock.topology.node import ProcessorNode, SourceNode

if TYPE_CHECKING:
    from penstock.operators.base import Operator
    from penstock.serde import Serde
    from penstock.state.spec import StoreSpec
    from penstock.topology.node import Partitioner
    from penstock.topology.topology import Topology

Write: TypeAlias = "Callable[[Topology, GraphNode], None]"


@dataclass(frozen=True)
class Repartition:
    """A topic through which records go to the lane of their new key. ``changes``: of a grouped table, no null-key filter."""

    topic: str
    sink: str
    source: str
    filter: str | None
    key: Serde[Any] | None
    value: Serde[Any] | None
    partitions: int | None = None
    partitioner: Partitioner | None = None
    optimizable: bool = False
    changes: bool = False


@dataclass(frozen=True)
class SelfJoin:
    """The two window nodes of a stream-stream join, of which a stream joined with itself needs only the first."""

    this_window: str
    other_window: str


@dataclass(eq=False)
class GraphNode:
    """One step of the user's program; may become several nodes of the topology."""

    name: str
    write: Write
    #: position in time: nodes are written lowest first, once their parents are
    priority: int = -1
    key_changing: bool = False
    value_changing: bool = False
    merges: bool = False
    #: a left or outer join, which wants records without a key
    keeps_null_keys: bool = False
    #: whether the output is a versioned table; None: if the parents' is
    versioned: bool | None = None
    #: drops out-of-order updates of the parents named in ``versioned_parents``
    looks_at_versions: bool = False
    versioned_parents: tuple[str, ...] = ()
    suppresses: bool = False
    #: of a windowed aggregation, milliseconds
    grace: int | None = None
    source: SourceNode | None = None
    repartition: Repartition | None = None
    table_topic: str | None = None
    self_join: SelfJoin | None = None
    #: set by the rewrites
    filters_null_keys: bool = False
    reuses_topic: bool = False
    joins_itself: bool = False
    parents: dict[GraphNode, None] = field(default_factory=dict, repr=False)
    children: dict[GraphNode, None] = field(default_factory=dict, repr=False)

    @property
    def parent_names(self) -> tuple[str, ...]:
        """Names of the nodes that forward to this one."""
        return tuple(parent.name for parent in self.parents)

    def adopt(self, child: GraphNode) -> None:
        """Make a node a child of this one."""
        self.children[child] = None
        child.parents[self] = None

    def abandon(self, child: GraphNode) -> None:
        """Make a node no longer a child of this one."""
        if child in self.children:
            del self.children[child]
            del child.parents[self]

    def find_above(self, wanted: Callable[[GraphNode], bool]) -> GraphNode | None:
        """Return the first match among this node and all above it, depth first."""
        if wanted(self):
            return self
        for parent in self.parents:
            found = parent.find_above(wanted)
            if found is not None:
                return found
        return None


class Graph:
    """All nodes below one root, the counter of names, and the groups of sources that must be partitioned alike."""

    def __init__(self) -> None:
        self.root = GraphNode("root", lambda topology, node: None)
        self.nodes: dict[GraphNode, None] = {}
        self.copartitions: list[frozenset[str]] = []
        #: names that carry a number: an edit of the program may change them
        self.generated: set[str] = set()
        self._claimed: set[str] = set()
        self._index = 0
        self._priority = 0

    # names

    def new_name(self, prefix: str) -> str:
        """Use up a number; return the name of a node."""
        new = self._numbered(prefix)
        self.generated.add(new)
        return new

    def new_store(self, prefix: str) -> str:
        """Use up a number; return the name of a store."""
        return self.new_name(f"{prefix}STATE-STORE-")

    def name(self, given: str | None, prefix: str, suffix: str = "") -> str:
        """Return the given name with a suffix, else a new one. The number is used up in both cases."""
        if given is None:
            return self.new_name(prefix)
        self._numbered(prefix)
        return check_name(given + suffix, "name")

    def _numbered(self, prefix: str) -> str:
        self._index += 1
        return f"{prefix}{self._index - 1:010d}"

    def claim(self, store: str) -> str:
        """Take a store's name for one table alone."""
        if store in self._claimed:
            raise TopologyError(f"another table is already kept in a store called {store!r}: choose another name")
        self._claimed.add(store)
        return store

    # nodes

    def add(self, node: GraphNode, *parents: GraphNode) -> GraphNode:
        """Put a node below its parents; adding it again moves it to now."""
        for parent in parents:
            parent.adopt(node)
            node.priority = self._priority
            self._priority += 1
        self.nodes[node] = None
        return node

    def copartition(self, *sources: frozenset[str]) -> frozenset[str]:
        """Declare that the topics of these source nodes must have as many partitions as each other."""
        together = frozenset().union(*sources)
        self.copartitions.append(together)
        return together

    def copy(self) -> Graph:
        """Return a graph that can be rewritten without changing this one."""
        twin = Graph()
        twin.copartitions = list(self.copartitions)
        twin.generated = set(self.generated)
        twin._index, twin._priority = self._index, self._priority
        twins = {self.root: twin.root} | {node: replace(node, parents={}, children={}) for node in self.nodes}
        twin.nodes = {twins[node]: None for node in self.nodes}
        for node, copied in twins.items():
            copied.children = {twins[child]: None for child in node.children}
            copied.parents = {twins[parent]: None for parent in node.parents}
        return twin

    def in_order(self) -> Iterator[GraphNode]:
        """Yield the nodes to write: parents first, else in the order they were said."""
        arrival = itertools.count()
        ready = [(self.root.priority, next(arrival), self.root)]
        written: set[GraphNode] = set()
        while ready:
            _, _, node = heapq.heappop(ready)
            yield node
            written.add(node)
            for child in node.children:
                if child not in written and written.issuperset(child.parents):
                    heapq.heappush(ready, (child.priority, next(arrival), child))


def processor(
    operator: Callable[[GraphNode], Operator],
    *,
    stores: Callable[[], Iterable[StoreSpec]] = tuple,
    connect: Iterable[str] = (),
    name: str | None = None,
    parents: tuple[str, ...] | None = None,
) -> Write:
    """Return how to write one processor with its stores. Operator and stores are made then, when all is known."""

    def write(topology: Topology, node: GraphNode) -> None:
        named = name or node.name
        topology.add(ProcessorNode(named, operator(node), node.parent_names if parents is None else parents))
        for spec in stores():
            topology.add_state_store(spec, named)
        for store in connect:
            topology.connect(named, store)

    return write


def one(operator: Operator) -> Callable[[GraphNode], Operator]:
    """Return the maker of an operator that is known already."""
    return lambda node: operator
