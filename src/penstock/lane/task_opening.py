"""Opens what a task runs: its stores, and its nodes, whose closures call each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.lane.closures import guard, wrap
from penstock.lane.context import NodeContext
from penstock.lane.sink import open_sink
from penstock.operators.base import Forward
from penstock.state.open import open_store
from penstock.topology.node import ProcessorNode, SinkNode

if TYPE_CHECKING:
    from penstock.lane.task import Task


def open_stores(task: Task) -> dict[str, Any]:
    """Open the stores of the task's nodes, but for global ones."""
    for node in task.order:
        for name in task.topology.stores_of(node):
            task.keepers.setdefault(name, node)
    opened = {
        name: open_store(task.topology.stores[name], task.state, task)
        for name in task.keepers
        if name not in task.global_stores
    }
    for name, store in opened.items():
        if store.keeps_time:
            task.time.add_store(name, store)
    return opened


def watch_ends(task: Task) -> None:
    """Let rows that end by time leave, and those downstream hear of it, in front of the first record whose time it is."""
    for node in task.order:
        for name in task.topology.stores_of(node):
            store = task.stores.get(name)
            if store is not None and store.spec.ttl is not None and store.keeps_time:
                task.time.add_call(node, f"store/{name}", store.expire, store.earliest_end)


def open_nodes(task: Task) -> None:
    """Open children before parents, so that a parent's forward is its child itself."""
    opened = task.opened
    for name in reversed(task.order):
        node = task.topology.node(name)
        children, forward = _edges(task, name)
        if isinstance(node, ProcessorNode):
            context = NodeContext(task, name, children, task.topology.stores_of(name))
            opened[name] = _named(task, name, node.operator.open(context, forward))
        elif isinstance(node, SinkNode):
            # as in Kafka, a sink's failure is handled at the node before it
            opened[name] = task.errors.named(open_sink(node, task, task.partitions_of, task.errors.refuse), name)
        else:
            task.entries[name] = forward
            if node.schedule is not None:
                node.schedule.open(NodeContext(task, name, children, ()), forward)


def _edges(task: Task, name: str) -> tuple[dict[str, Forward], Forward]:
    """Return the ways from a node to each of the next ones, and to all of them in order."""
    below = tuple((child, task.opened[child]) for child in task.topology.children(name))
    children = {child: task.meter.edge(name, ((child, on_record),)) for child, on_record in below}
    return children, next(iter(children.values())) if len(children) == 1 else task.meter.edge(name, below)


def _named(task: Task, name: str, on_record: Forward) -> Forward:
    named = task.errors.named(on_record, name)
    if task.topology.wrapper is not None:
        named = task.errors.named(wrap(task.topology.wrapper, name, named), name)
    return guard(task.errors.handle, name, named) if task.config["on_processing_error"] != "fail" else named
