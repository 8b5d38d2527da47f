"""KTable.suppress(): the node, its buffer, and the grace that it finds by walking up to the window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.dsl.graph import GraphNode, processor
from penstock.dsl.options import Suppressed
from penstock.dsl.tables import SuppressedTable
from penstock.errors import TopologyError
from penstock.operators.base import Operator
from penstock.operators.suppress import Suppress
from penstock.state.spec import StoreKind, StoreSpec
from penstock.topology.names import check_name

if TYPE_CHECKING:
    from penstock.dsl.ktable import KTable

PREFIX = "KTABLE-SUPPRESS-"


def suppress(upstream: KTable[Any, Any], suppressed: Suppressed, name: str | None) -> KTable[Any, Any]:
    """Return the table whose updates are held back."""
    if not isinstance(suppressed, Suppressed):
        raise TopologyError(
            f"suppress() takes Suppressed.until_window_closes() or .until_time_limit(), not {suppressed!r}"
        )
    if upstream._node.versioned:
        raise TopologyError(
            "suppress() cannot follow a versioned table: keep it in Stores.key_value, or leave suppress out"
        )
    given = name or suppressed.name
    graph, buffer = upstream._graph, suppressed.buffer
    named = graph.new_name(PREFIX) if given is None else check_name(given, "name")
    final = suppressed.wait is None
    wait = find_grace(upstream._node) if suppressed.wait is None else suppressed.wait
    store = graph.new_store(PREFIX) if given is None else f"{given}-store"
    spec = StoreSpec(
        store, StoreKind.BUFFER, upstream._key, upstream._value, persistent=False, logged=buffer.logged, cached=False
    )
    # the view of a suppressed table is the value before the one that waits
    upstream._table.enable_old(force=True)
    table = SuppressedTable(upstream._table, spec)

    def operator(node: GraphNode) -> Operator:
        return Suppress(
            store=store,
            wait=wait,
            max_records=buffer.records,
            max_bytes=buffer.bytes,
            when_full="shut_down" if buffer.shut_down else "emit",
            final=final,
            window_end_time=final,
            send_old=table.send_old,
            windowed=find_window(upstream._node) if final else None,
        )

    node = GraphNode(named, processor(operator, stores=table.specs), versioned=False, suppresses=True)
    graph.add(node, upstream._node)
    return type(upstream)(graph, node, upstream._key, upstream._value, upstream._sources, table, None)


def find_grace(node: GraphNode, below: tuple[str, ...] = ()) -> int:
    """Return the grace of the window above a node, the largest if there are several; every way up must meet one."""
    if node.grace is not None:
        return node.grace
    path = (node.name, *below)
    if not node.parents:
        raise TopologyError(
            f"until_window_closes() needs a windowed aggregation upstream, but there is none in {' -> '.join(path[1:])}: "
            f"put windowed_by() before the aggregation, or use until_time_limit()"
        )
    return max(find_grace(parent, path) for parent in node.parents)


def find_window(node: GraphNode) -> str | None:
    """Return the name of the windowed aggregation above a node; None if there are several."""
    if node.grace is not None:
        return node.name
    above = list(node.parents)
    return find_window(above[0]) if len(above) == 1 else None
