"""The nodes of a windowed stream-stream join."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.dsl.checks import check_joiner
from penstock.dsl.graph import Graph, GraphNode, SelfJoin, one, processor
from penstock.dsl.join_stores import GivenStores, given_stores, shared_store, side_store
from penstock.dsl.joins import JoinOptions
from penstock.errors import TopologyError
from penstock.operators.stateless import PassThrough
from penstock.operators.stream_join import JoinKind, JoinWindow, StreamStreamJoin, StreamStreamSelfJoin
from penstock.serde import Serde
from penstock.windows import JoinWindows

if TYPE_CHECKING:
    from penstock.dsl.kstream import KStream
    from penstock.topology.topology import Topology


def stream_stream(
    this: KStream[Any, Any], other: KStream[Any, Any], joiner: Any, kind: JoinKind, how: JoinOptions
) -> KStream[Any, Any]:
    """Join two streams: each record meets those of the other side whose time is in its window."""
    how.refuse("KStream", "grace", "select")
    if not isinstance(how.window, JoinWindows):
        raise TopologyError(
            f"a join of two streams needs window=JoinWindows(difference), but window is {how.window!r}; "
            f"to keep one side without an end, turn it into a table with to_table()"
        )
    check_joiner(joiner, "join", how.with_key)
    if this._rekeyed:
        this = this._repartitioned(this._name if how.name is None else f"{how.name}-left", how.key, how.value)
    if other._rekeyed:
        prefix = other._name if how.name is None else f"{how.name}-right"
        other = other._repartitioned(prefix, how.key, how.other_value)
    sources = this._graph.copartition(this._sources, other._sources)
    join = _Join(this, other, joiner, kind, how, how.window)
    node = join.add(this._graph)
    return this._handle(node, key=how.key or this._key, value=None, rekeyed=False, sources=sources)


class _Join:
    """One join: its names and its stores, then its nodes."""

    def __init__(
        self,
        this: KStream[Any, Any],
        other: KStream[Any, Any],
        joiner: Any,
        kind: JoinKind,
        how: JoinOptions,
        windows: JoinWindows,
    ) -> None:
        self.this, self.other = this, other
        self.joiner, self.kind, self.how, self.windows = joiner, kind, how, windows
        self.left_outer, self.right_outer = kind != "inner", kind == "outer"
        graph, name = this._graph, how.name
        this_suffix = "-outer-this-join" if self.right_outer else "-this-join"
        other_suffix = "-outer-other-join" if self.left_outer else "-other-join"
        self.this_window = graph.name(name, "KSTREAM-WINDOWED-", "-this-windowed")
        self.other_window = graph.name(name, "KSTREAM-WINDOWED-", "-other-windowed")
        this_generated = graph.new_name("KSTREAM-OUTERTHIS-" if self.right_outer else "KSTREAM-JOINTHIS-")
        other_generated = graph.new_name("KSTREAM-OUTEROTHER-" if self.left_outer else "KSTREAM-JOINOTHER-")
        self.this_join = this_generated if name is None else name + this_suffix
        self.other_join = other_generated if name is None else name + other_suffix
        self.merge = graph.name(name, "KSTREAM-MERGE-", "-merge")

        given = given_stores(how.store, windows)
        named = given.this or given.base
        if named is not None:
            shared = named.name + ("-outer-shared-join" if self.right_outer else "-left-shared-join")
        else:
            shared = f"KSTREAM-OUTERSHARED-{this_generated[-10:]}"
            graph.generated.add(shared)
        if given.base is not None:
            this_generated, other_generated = given.base.name + this_suffix, given.base.name + other_suffix
        key = how.key or _first_key(given) or this._key
        value = how.value or (given.this and given.this.value) or this._value
        other_value = how.other_value or (given.other and given.other.value) or other._value
        self.this_store = side_store(given.base, given.this, this_generated, windows, key, value)
        self.other_store = side_store(given.base, given.other, other_generated, windows, key, other_value)
        graph.claim(self.this_store.name)
        graph.claim(self.other_store.name)
        self.shared = shared_store(given, shared, key, value, other_value) if self.left_outer else None

    def add(self, graph: Graph) -> GraphNode:
        """Put the two windows and the join into the graph."""
        for name, stream, spec, left in (
            (self.this_window, self.this, self.this_store, True),
            (self.other_window, self.other, self.other_store, False),
        ):
            window = JoinWindow(store=spec.name, windows=self.windows, left_side=left, clock=self.merge)
            write = processor(one(window), stores=lambda spec=spec: (spec,))  # type: ignore[misc]
            graph.add(GraphNode(name, write), stream._node)
        windows = SelfJoin(self.this_window, self.other_window)
        node = GraphNode(self.merge, self.write, keeps_null_keys=self.left_outer, self_join=windows)
        return graph.add(node, self.this._node, self.other._node)

    def write(self, topology: Topology, node: GraphNode) -> None:
        """Add the two sides and the node behind both; or, of a stream with itself, one node that does all."""
        if node.joins_itself:
            alone = StreamStreamSelfJoin(
                store=self.this_store.name, windows=self.windows, joiner=self.joiner, with_key=self.how.with_key
            )
            processor(one(alone), stores=lambda: (self.this_store,), parents=(self.this_window,))(topology, node)
            return
        self._side(topology, node, left=True)
        self._side(topology, node, left=False)
        processor(one(PassThrough()), parents=(self.this_join, self.other_join))(topology, node)

    def _side(self, topology: Topology, node: GraphNode, *, left: bool) -> None:
        name, window = (self.this_join, self.this_window) if left else (self.other_join, self.other_window)
        reads = self.other_store if left else self.this_store
        specs = (reads,) if self.shared is None else (reads, self.shared)
        operator = StreamStreamJoin(
            store_other=reads.name,
            windows=self.windows,
            joiner=self.joiner,
            left_side=left,
            outer=self.left_outer if left else self.right_outer,
            kind=self.kind,
            clock=self.merge,
            with_key=self.how.with_key,
            shared_store=None if self.shared is None else self.shared.name,
            store_own=(self.this_store if left else self.other_store).name,
        )
        processor(one(operator), stores=lambda: specs, name=name, parents=(window,))(topology, node)


def _first_key(given: GivenStores) -> Serde[Any] | None:
    return next((spec.key for spec in given if spec is not None and spec.key is not None), None)
