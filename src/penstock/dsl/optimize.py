"""Rewrites of the logical graph at build: a tuple of named passes, run in this order on a copy of the graph.

The three that change topics or stores are Kafka Streams' ``topology.optimization`` and run only if asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.dsl.graph import Graph, GraphNode
from penstock.dsl.repartition import repartition_node
from penstock.errors import TopologyError, nearest


def rewrite(graph: Graph, optimize: str | Iterable[str]) -> Graph:
    """Return a rewritten copy of the graph; ``optimize``: names of optimisations, or "all"."""
    wanted = _wanted(optimize)
    graph = graph.copy()
    for name, rewriting, optional in PASSES:
        if not optional or name in wanted:
            rewriting(graph)
    return graph


def _wanted(optimize: str | Iterable[str]) -> set[str]:
    choices = {name for name, _, optional in PASSES if optional}
    names = {optimize} if isinstance(optimize, str) else set(optimize)
    for name in names - choices - {"all", "none"}:
        known = ", ".join(sorted(choices))
        raise TopologyError(f"there is no optimisation {name!r}{nearest(name, choices)}: use 'all', or some of {known}")
    return choices if "all" in names else names


def merge_duplicate_sources(graph: Graph) -> None:
    """Let several streams of the same topics share one source node."""
    first: dict[object, GraphNode] = {}
    for node in list(graph.root.children):
        if node.source is None:
            continue
        source = node.source
        if source.pattern is not None:
            main = first.setdefault((source.pattern.pattern, source.pattern.flags), node)
        else:
            mains = dict.fromkeys(first.setdefault(topic, node) for topic in source.topics)
            main = next((found for found in mains if found is not node), node)
        if main is not node:
            _merge_sources(graph, main, node)


def _merge_sources(graph: Graph, main: GraphNode, node: GraphNode) -> None:
    one, other = main.source, node.source
    assert one is not None
    assert other is not None
    if one.pattern is None and set(one.topics) != set(other.topics):
        raise TopologyError(
            f"sources {main.name!r} and {node.name!r} read topics that overlap but are not the same "
            f"({sorted(one.topics)}, {sorted(other.topics)}): read each topic once, and merge() the streams"
        )
    for option in ("key", "value", "timestamp", "offset_reset", "watermark", "late"):
        if getattr(one, option) != getattr(other, option):
            raise TopologyError(
                f"sources {main.name!r} and {node.name!r} read the same topics with different {option}: make them equal"
            )
    for child in list(node.children):
        node.abandon(child)
        main.adopt(child)
    graph.root.abandon(node)
    _rename_copartition(graph, node.name, main.name)


def reuse_ktable_source_topics(graph: Graph) -> None:
    """Let tables be restored from the topic they are read from, instead of a changelog of their own."""
    for node in graph.nodes:
        node.reuses_topic = node.table_topic is not None


def merge_repartition_topics(graph: Graph) -> None:
    """Where a key was changed once and several later nodes depend on it, send the records through one topic."""
    repartitions = _below_key_changers(graph)
    _pull_below_merges(graph, repartitions)
    for changer, nodes in repartitions.items():
        if nodes:
            _merge_repartitions(graph, changer, list(nodes))


def _below_key_changers(graph: Graph) -> dict[GraphNode, dict[GraphNode, None]]:
    """Return, by the node that changed the key, the repartition nodes below it with no value changed in between."""
    found: dict[GraphNode, dict[GraphNode, None]] = {}
    for node in graph.nodes:
        if node.key_changing:
            found[node] = {}
        elif node.repartition is not None and node.repartition.optimizable:
            changer = node.find_above(lambda above: above.key_changing)
            if changer and changer is node.find_above(lambda above: above.key_changing or above.value_changing):
                found[changer][node] = None
    return found


def _pull_below_merges(graph: Graph, repartitions: dict[GraphNode, dict[GraphNode, None]]) -> None:
    """Where streams with changed keys are merged first, the one topic belongs below the merge."""
    pulled: dict[GraphNode, list[GraphNode]] = {}
    for merge in (node for node in graph.nodes if node.merges):
        pulled[merge] = [
            changer
            for changer, nodes in repartitions.items()
            if all(_child_above(node, merge) for node in nodes) and _child_above(merge, changer)
        ]
    for merge, changers in pulled.items():
        repartitions[merge] = {node: None for changer in changers for node in repartitions[changer]}
    for changer in {changer for changers in pulled.values() for changer in changers}:
        del repartitions[changer]


def _child_above(node: GraphNode, parent: GraphNode) -> GraphNode | None:
    """Return the child of ``parent`` through which ``node`` is below it."""
    return node.find_above(lambda above: parent in above.parents)


def _merge_repartitions(graph: Graph, changer: GraphNode, nodes: list[GraphNode]) -> None:
    plans = [node.repartition for node in nodes if node.repartition is not None]
    key = next((plan.key for plan in plans if plan.key is not None), None)
    value = next((plan.value for plan in plans if plan.value is not None), None)
    merged = repartition_node(graph, plans[0].topic, key, value)
    merged.priority = changer.priority
    for node in nodes:
        # several may be below the same child, which then has moved already
        child = _child_above(node, changer)
        if child is not None:
            merged.adopt(child)
            changer.abandon(child)
        for parent in list(node.parents):
            for grandchild in list(node.children):
                parent.adopt(grandchild)
        for parent in list(node.parents):
            parent.abandon(node)
        for grandchild in list(node.children):
            node.abandon(grandchild)
        _rename_copartition(graph, node.name, merged.name)
    changer.adopt(merged)
    graph.nodes[merged] = None


def single_store_self_join(graph: Graph) -> None:
    """Let a stream that is joined with itself keep its records once."""
    for node in list(graph.nodes):
        if node.self_join is None or len(node.parents) != 1:
            continue
        parent = next(iter(node.parents))
        other = next(child for child in parent.children if child.name == node.self_join.other_window)
        parent.abandon(other)
        node.joins_itself = True


def filter_null_keys(graph: Graph) -> None:
    """Drop records without a key before they are repartitioned, unless a left or outer join further down wants them."""
    wanting: dict[GraphNode, bool] = {}

    def wants(node: GraphNode) -> bool:
        if node not in wanting:
            wanting[node] = any(child.keeps_null_keys or wants(child) for child in node.children)
        return wanting[node]

    for node in graph.nodes:
        if node.repartition is not None:
            node.filters_null_keys = not wants(node)


def follow_versions(graph: Graph) -> None:
    """Tell the nodes that look at versions which of their parents are versioned tables."""
    for node in graph.nodes:
        if node.looks_at_versions:
            node.versioned_parents = tuple(parent.name for parent in node.parents if _versioned(parent))
        if node.suppresses and all(_versioned(parent) for parent in node.parents):
            raise TopologyError(
                f"suppress() ({node.name}) follows a versioned table further up: keep a table between them in "
                f"Stores.key_value, or leave suppress out"
            )


def _versioned(node: GraphNode) -> bool:
    if node.versioned is not None:
        return node.versioned
    return bool(node.parents) and all(_versioned(parent) for parent in node.parents)


def _rename_copartition(graph: Graph, old: str, new: str) -> None:
    graph.copartitions = [
        group - {old} | {new} if old in group else group  # the same topic under the name of the node that stays
        for group in graph.copartitions
    ]


#: (name, rewrite, only if asked for)
PASSES: tuple[tuple[str, Callable[[Graph], None], bool], ...] = (
    ("merge_duplicate_sources", merge_duplicate_sources, False),
    ("reuse_ktable_source_topics", reuse_ktable_source_topics, True),
    ("merge_repartition_topics", merge_repartition_topics, True),
    ("single_store_self_join", single_store_self_join, True),
    ("filter_null_keys", filter_null_keys, False),
    ("follow_versions", follow_versions, False),
)
