"""Chains: the nodes below a source, or below a cached table, that take records by column.

A chain is an other way to the same result: it is taken where all its nodes know it, and given up, before anything has happened,
for records that are not for it; these go one by one. Where a stream forks, its branches must not meet in a store or a topic: by
column one of them runs after the other.

Records of several sources may go together, each source's through its own chain, one chain after the other, where these meet in nothing but
tables: what tells its updates by place runs first, what reads them, as of the places of its records, after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

from penstock.lane.context import NodeContext
from penstock.lane.sink import open_column_sink
from penstock.serde.columns import Columns, Commits, OnColumns
from penstock.topology.node import ProcessorNode, SinkNode

if TYPE_CHECKING:
    from penstock.lane.task import Task

_NONE: frozenset[str] = frozenset()


class Chain(NamedTuple):
    """A chain, the stores and topics that it writes to, the stores that it only reads, and those whose updates it tells by place."""

    on_columns: OnColumns
    writes: frozenset[str] = _NONE
    reads: frozenset[str] = _NONE
    tells: frozenset[str] = _NONE


def chain_below(task: Task, name: str) -> Chain | None:
    """Return what takes the records that a node forwards, or None if some node below takes them one by one only."""
    chains = [_of(task, child) for child in task.topology.children(name)]
    known = [chain for chain in chains if chain is not None]
    if len(known) < len(chains) or any(
        one.writes & (other.writes | other.reads) for one, other in permutations(known, 2)
    ):
        return None
    return _together(_fan_out(tuple(chain.on_columns for chain in known)), known)


def mixing_order(chains: Mapping[str, Chain]) -> tuple[str, ...] | None:
    """Return in which order chains of several sources run, if their records may go together, else None.

    >>> table = Chain(print, writes=frozenset({"store t"}), tells=frozenset({"store t"}))
    >>> join = Chain(print, writes=frozenset({"topic out"}), reads=frozenset({"store t"}))
    >>> mixing_order({"stream": join, "table": table}), mixing_order({"one": join, "other": join})
    (('table', 'stream'), None)
    """
    after: dict[str, set[str]] = {source: set() for source in chains}
    for one, other in permutations(chains, 2):
        writer, reader = chains[one], chains[other]
        if writer.writes & reader.writes or (writer.writes & reader.reads) - writer.tells:
            return None
        if writer.tells & reader.reads:
            after[other].add(one)
    try:
        return tuple(TopologicalSorter(after).static_order())
    except CycleError:
        return None


def _of(task: Task, name: str) -> Chain | None:
    node = task.topology.node(name)
    if isinstance(node, SinkNode):
        sink = open_column_sink(node, task, task.partitions_of)
        return None if sink is None else Chain(sink, frozenset({f"topic {node.topic}"}))
    assert isinstance(node, ProcessorNode)
    operator, below = node.operator, chain_below(task, name)
    context = NodeContext(task, name, {}, task.topology.stores_of(name))
    on_columns = operator.open_columns(context, None if below is None else below.on_columns)
    if on_columns is None:
        return None
    touched = operator.touches()
    writes = _named(touched)
    own = Chain(on_columns, writes, _named(operator.reads()), writes if operator.tells_places else _NONE)
    if below is None or (touched and all(task.stores[store].cached for store in touched)):
        return own  # what is below hears of it at the barrier
    if own.writes & (below.writes | below.reads) or own.reads & below.writes:
        return None
    return _together(on_columns, (own, below))


def _named(stores: Iterable[str]) -> frozenset[str]:
    return frozenset(f"store {store}" for store in stores)


def _together(on_columns: OnColumns, chains: Iterable[Chain]) -> Chain:
    """Return a chain that writes to, reads and tells of all that these do."""
    return Chain(on_columns, *(_NONE.union(*sets) for sets in zip(*(chain[1:] for chain in chains), strict=True)))


def _fan_out(chains: tuple[OnColumns, ...]) -> OnColumns:
    if len(chains) == 1:
        return chains[0]

    def forward(columns: Columns, commits: Commits) -> None:
        shared = columns.as_shared()
        for chain in chains:
            chain(shared, commits)

    return forward
