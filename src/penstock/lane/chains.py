"""Chains: the nodes below a source, or below a cached table, that take records by column.

A chain is an other way to the same result: it is taken where all its nodes know it, and given up, before anything has happened,
for records that are not for it; these go one by one. Where a stream forks, its branches must not meet in a store or a topic: by
column one of them runs after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.lane.context import NodeContext
from penstock.lane.sink import open_column_sink
from penstock.serde.columns import Columns, Commits, OnColumns
from penstock.topology.node import ProcessorNode, SinkNode

if TYPE_CHECKING:
    from penstock.lane.task import Task


class Chain(NamedTuple):
    """A chain, and the stores and topics that it writes to or reads."""

    on_columns: OnColumns
    touched: frozenset[str]


def chain_below(task: Task, name: str) -> OnColumns | None:
    """Return what takes the records that a node forwards, or None if some node below takes them one by one only."""
    found = _below(task, name)
    return None if found is None else found.on_columns


def _below(task: Task, name: str) -> Chain | None:
    chains = [_of(task, child) for child in task.topology.children(name)]
    known = [chain for chain in chains if chain is not None]
    if len(known) < len(chains):
        return None
    touched = frozenset[str]().union(*(chain.touched for chain in known))
    if len(touched) < sum(len(chain.touched) for chain in known):
        return None
    return Chain(_fan_out(tuple(chain.on_columns for chain in known)), touched)


def _of(task: Task, name: str) -> Chain | None:
    node = task.topology.node(name)
    if isinstance(node, SinkNode):
        sink = open_column_sink(node, task, task.partitions_of)
        return None if sink is None else Chain(sink, frozenset({f"topic {node.topic}"}))
    assert isinstance(node, ProcessorNode)
    below = _below(task, name)
    context = NodeContext(task, name, {}, task.topology.stores_of(name))
    on_columns = node.operator.open_columns(context, None if below is None else below.on_columns)
    if on_columns is None:
        return None
    own = node.operator.touches()
    if own or below is None:  # what is below hears of it at the barrier
        return Chain(on_columns, frozenset(f"store {store}" for store in own))
    return Chain(on_columns, below.touched)


def _fan_out(chains: tuple[OnColumns, ...]) -> OnColumns:
    if len(chains) == 1:
        return chains[0]

    def forward(columns: Columns, commits: Commits) -> None:
        shared = columns.as_shared()
        for chain in chains:
            chain(shared, commits)

    return forward
