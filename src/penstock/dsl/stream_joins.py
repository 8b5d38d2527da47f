"""The nodes of a windowed stream-stream join."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.dsl.checks import check_joiner
from penstock.dsl.graph import Graph, GraphNode, SelfJoin, one, processor
from penstock.dsl.joins import JoinOptions
from penstock.dsl.stores import given_spec
from penstock.errors import TopologyError
from penstock.operators.stateless import PassThrough
from penstock.operators.stream_join import JoinKind, JoinWindow, StreamStreamJoin, StreamStreamSelfJoin
from penstock.serde import Serde, Serdes
from penstock.state.outer_join import LeftOrRightSerde
from penstock.state.spec import StoreKind, StoreSpec
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

        given = given_spec(how.store, (StoreKind.WINDOW,), "Stores.window")
        if given is not None:
            this_generated, other_generated = given.name + this_suffix, given.name + other_suffix
            shared = given.name + ("-outer-shared-join" if self.right_outer else "-left-shared-join")
        else:
            shared = f"KSTREAM-OUTERSHARED-{this_generated[-10:]}"
            graph.generated.add(shared)
        key = how.key or this._key
        value, other_value = how.value or this._value, how.other_value or other._value
        self.this_store = self._window_store(given, this_generated, key, value)
        self.other_store = self._window_store(given, other_generated, key, other_value)
        self.shared = None
        if self.left_outer:
            either = LeftOrRightSerde(value or Serdes.json, other_value or Serdes.json)
            self.shared = StoreSpec(f"{shared}-store", StoreKind.OUTER_JOIN, key, either, cached=False)
            if given is not None:
                self.shared = self.shared.with_(persistent=given.persistent, logged=given.logged)

    def _window_store(
        self, given: StoreSpec | None, name: str, key: Serde[Any] | None, value: Serde[Any] | None
    ) -> StoreSpec:
        spec = given or StoreSpec(name, StoreKind.WINDOW)
        return spec.with_(
            name=self.this._graph.claim(f"{name}-store"),
            key=spec.key or key,
            value=value,
            cached=False,
            timestamped=False,
            retention=self.windows.retention,
            window_size=self.windows.size,
            retain_duplicates=True,
            topic_config=(("cleanup.policy", "delete"),),
            log_headers=True,
        )

    def add(self, graph: Graph) -> GraphNode:
        """Put the two windows and the join into the graph."""
        for name, stream, spec in (
            (self.this_window, self.this, self.this_store),
            (self.other_window, self.other, self.other_store),
        ):
            write = processor(one(JoinWindow(store=spec.name)), stores=lambda spec=spec: (spec,))  # type: ignore[misc]
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
        )
        processor(one(operator), stores=lambda: specs, name=name, parents=(window,))(topology, node)
