"""The nodes of joins by key: stream with stream, stream with table, stream with global table, table with table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.dsl.checks import check_joiner
from penstock.dsl.graph import GraphNode, one, processor
from penstock.dsl.stores import JoinStore, Serdes2, table_store
from penstock.dsl.tables import JoinedTable
from penstock.durations import millis
from penstock.errors import TopologyError
from penstock.operators.base import Operator
from penstock.operators.stream_join import JoinKind
from penstock.operators.stream_table_join import StreamGlobalTableJoin, StreamTableJoin
from penstock.operators.table_join import TableJoinMerge, TableTableJoin
from penstock.serde import Serde
from penstock.state.spec import StoreKind, StoreSpec
from penstock.topology.functions import check_function
from penstock.windows import JoinWindows

if TYPE_CHECKING:
    from penstock.dsl.kstream import KStream
    from penstock.dsl.ktable import GlobalKTable, KTable
    from penstock.topology.topology import Topology


class JoinOptions(NamedTuple):
    """The keyword options of a stream's joins; which of them apply depends on the other side."""

    window: JoinWindows | None
    grace: timedelta | int | None
    select: Callable[..., Any] | None
    with_key: bool
    key: Serde[Any] | None
    value: Serde[Any] | None
    other_value: Serde[Any] | None
    store: JoinStore
    name: str | None

    def refuse(self, other: str, *names: str) -> None:
        """Refuse options that make no sense with that other side."""
        for name in names:
            if getattr(self, name) is not None:
                raise TopologyError(f"a join with a {other} has no option {name!r}: leave it out")


def stream_table(
    stream: KStream[Any, Any], table: KTable[Any, Any], joiner: Any, kind: JoinKind, how: JoinOptions
) -> KStream[Any, Any]:
    """Join every record with the row of its key."""
    if kind == "outer":
        raise TopologyError(
            "a stream and a table cannot be outer-joined: use left_join(), or turn the table into a stream"
        )
    how.refuse("KTable", "window", "select", "store")
    check_joiner(joiner, "join", how.with_key)
    if stream._rekeyed:
        stream = stream._repartitioned(how.name or stream._name, how.key, how.value)
    graph, left = stream._graph, kind == "left"
    sources = graph.copartition(stream._sources, table._sources)
    named = graph.name(how.name, "KSTREAM-LEFTJOIN-" if left else "KSTREAM-JOIN-")
    grace = None if how.grace is None else millis(how.grace, "grace", least=0)
    buffer = None
    if grace is not None:
        if table._node.versioned is False:
            raise TopologyError(_NOT_VERSIONED)
        key, value = how.key or stream._key, how.value or stream._value
        # every record of a key waits, not only its last
        buffer = StoreSpec(f"{named}-Buffer", StoreKind.BUFFER, key, value, cached=False, retain_duplicates=True)
    view = table._table.view()
    operator = StreamTableJoin(
        table=view,
        joiner=joiner,
        with_key=how.with_key,
        left=left,
        grace=grace,
        buffer=None if buffer is None else buffer.name,
    )
    add = processor(one(operator), stores=lambda: () if buffer is None else (buffer,), connect=view.stores)

    def write(topology: Topology, node: GraphNode) -> None:
        add(topology, node)
        if grace is not None:
            _check_history(topology, view.stores, grace)

    node = graph.add(GraphNode(named, write, keeps_null_keys=left), stream._node)
    return stream._handle(node, key=how.key or stream._key, value=None, rekeyed=False, sources=sources)


_NOT_VERSIONED = "a join with grace= needs a versioned table: give the table store=Stores.versioned(name, history)"


def _check_history(topology: Topology, stores: tuple[str, ...], grace: int) -> None:
    for name in stores:
        history = topology.stores[name].history
        if history is None:
            raise TopologyError(_NOT_VERSIONED)
        if history < grace:
            raise TopologyError(
                f"store {name!r} keeps versions for {history} ms, but the join has a grace of {grace} ms: raise its history"
            )


def stream_global_table(
    stream: KStream[Any, Any], table: GlobalKTable[Any, Any], joiner: Any, kind: JoinKind, how: JoinOptions
) -> KStream[Any, Any]:
    """Join every record with the row whose key ``select`` gives; nothing is repartitioned."""
    if kind == "outer":
        raise TopologyError("a stream and a global table cannot be outer-joined: use left_join()")
    how.refuse("GlobalKTable", "window", "grace", "store", "key", "value", "other_value")
    if how.select is None:
        raise TopologyError("a join with a GlobalKTable needs select=f(key, value), which gives the key to look up")
    check_function(how.select, "join", "key", "value")
    check_joiner(joiner, "join", how.with_key)
    left = kind == "left"
    operator = StreamGlobalTableJoin(
        store=table._spec.name, select=how.select, joiner=joiner, with_key=how.with_key, left=left
    )
    # Kafka says LEFTJOIN for both kinds
    named = stream._graph.name(how.name, "KSTREAM-LEFTJOIN-")
    node = GraphNode(named, processor(one(operator)), keeps_null_keys=left)
    stream._graph.add(node, stream._node)
    return stream._handle(node, key=stream._key, value=None, rekeyed=stream._rekeyed)


def table_table(
    this: KTable[Any, Any],
    other: KTable[Any, Any],
    joiner: Any,
    kind: JoinKind,
    store: str | StoreSpec | None,
    name: str | None,
    given: Serdes2,
) -> KTable[Any, Any]:
    """Join the rows of one key; each side's updates meet the other side's row."""
    check_joiner(joiner, "join")
    graph = this._graph
    asked = store is not None or given != (None, None)
    kept = table_store(graph, store, "KTABLE-MERGE-", given, (this._key, None)) if asked else None
    merge = graph.name(name, "KTABLE-MERGE-")
    sources = graph.copartition(this._sources, other._sources)
    if kind != "inner":
        this._table.enable_old(force=True)
    if kind == "outer":
        other._table.enable_old(force=True)
    this_view, other_view = this._table.view(), other._table.view()
    table = JoinedTable(this._table, other._table, kept and kept.spec, joiner, kind)
    this_name = graph.name(name, "KTABLE-JOINTHIS-", "-join-this")
    other_name = graph.name(name, "KTABLE-JOINOTHER-", "-join-other")

    def side(which: Any, view: Any, parent: str) -> Callable[[GraphNode], Operator]:
        return lambda node: TableTableJoin(
            other=view,
            joiner=joiner,
            kind=kind,
            side=which,
            send_old=table.send_old,
            versioned=parent in node.versioned_parents,
        )

    parts = (
        processor(
            side("this", other_view, this._name), name=this_name, parents=(this._name,), connect=other_view.stores
        ),
        processor(
            side("other", this_view, other._name), name=other_name, parents=(other._name,), connect=this_view.stores
        ),
        processor(
            lambda node: TableJoinMerge(store=table.store, send_old=table.send_old),
            stores=table.specs,
            name=merge,
            parents=(this_name, other_name),
        ),
    )

    def write(topology: Topology, node: GraphNode) -> None:
        for part in parts:
            part(topology, node)

    node = GraphNode(merge, write, versioned=bool(kept and kept.versioned), looks_at_versions=True)
    graph.add(node, this._node, other._node)
    key, value = (kept.spec.key, kept.spec.value) if kept else (this._key, None)
    return type(this)(graph, node, key, value, sources, table, kept and kept.spec.name)
