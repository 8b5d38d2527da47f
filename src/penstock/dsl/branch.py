"""BranchedKStream: ``stream.split().branch(p).branch(q).default()``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.dsl.graph import GraphNode, one, processor
from penstock.errors import TopologyError
from penstock.operators.stateless import Branch, PassThrough
from penstock.strict import strict_options
from penstock.topology.functions import check_function
from penstock.topology.names import check_name

if TYPE_CHECKING:
    from penstock.dsl.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")


@strict_options
class BranchedKStream(Generic[K, V]):
    """Branches being added to a split stream. A record goes to the first branch whose predicate is true.

    >>> from penstock import StreamsBuilder
    >>> orders = StreamsBuilder().stream("orders")
    >>> sorted(orders.split("by-").branch(lambda k, v: v > 100, name="large").default(name="other"))
    ['by-large', 'by-other']
    """

    def __init__(self, source: KStream[K, V], name: str | None) -> None:
        self._source = source
        self._predicates: list[Callable[[K, V], Any]] = []
        self._branches: dict[str, KStream[K, V]] = {}
        self._closed = False
        graph = source._graph
        self._name = graph.name(name, "KSTREAM-BRANCH-")
        self._node = graph.add(GraphNode(self._name, processor(self._operator)), source._node)

    def branch(self, p: Callable[[K, V], Any], name: str | None = None) -> BranchedKStream[K, V]:
        """Send the records for which ``p(key, value)`` is true, and that no branch before took, to a new stream."""
        check_function(p, "branch", "key", "value")
        self._predicates.append(p)
        self._add(name, str(len(self._predicates)))
        return self

    def default(self, name: str | None = None) -> dict[str, KStream[K, V]]:
        """Send the remaining records to a stream of their own; return all branches by name."""
        self._add(name, "0")
        self._closed = True
        return dict(self._branches)

    def no_default(self) -> dict[str, KStream[K, V]]:
        """Drop the remaining records; return all branches by name."""
        return dict(self._branches)

    def _operator(self, node: GraphNode) -> Branch:
        return Branch(predicates=tuple(self._predicates), children=tuple(self._branches))

    def _add(self, name: str | None, position: str) -> None:
        if self._closed:
            raise TopologyError(f"split {self._name!r} already has its default branch: add branches before default()")
        source = self._source
        child = check_name(self._name + (position if name is None else name), "name")
        if child in self._branches:
            raise TopologyError(f"split {self._name!r} already has a branch {child!r}: give it another name")
        source._graph.new_name(child)
        node = source._graph.add(GraphNode(child, processor(one(PassThrough()))), self._node)
        self._branches[child] = source._handle(node, key=source._key, value=source._value, rekeyed=source._rekeyed)
