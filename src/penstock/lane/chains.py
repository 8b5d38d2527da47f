"""Chains: the nodes below a source, or below a cached table, that take records by column.

A chain is an other way to the same result: it is taken where all its nodes know it, and given up, before anything has happened,
for records that are not for it; these go one by one. Where a stream forks, its branches must not meet in a store or a topic: by
column one of them runs after the other.

Records of several sources may go together, each source's through its own chain, one chain after the other, where these meet in nothing but
tables: what tells its updates by place runs first, what reads them, as of the places of its records, after it.

Where they meet in a join of streams, their chains end there. What is behind it is a chain of its own, their *tail*, which runs after them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import permutations
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from penstock.batch.batch import Batch, Commits, OnBatch
from penstock.lane.contain import contained
from penstock.lane.context import NodeContext
from penstock.lane.meeting import Meeting
from penstock.lane.sink import open_column_sink
from penstock.operators.base import Contains, Operator
from penstock.topology.node import ProcessorNode, SinkNode

if TYPE_CHECKING:
    from penstock.lane.task import Task

_NONE: frozenset[str] = frozenset()


class Chain(NamedTuple):
    """A chain, the stores and topics that it writes to, the stores that it only reads, and those whose updates it tells by place.

    ``tails``: the chains behind the nodes in which it meets others, by the names of these nodes.
    """

    on_batch: OnBatch
    writes: frozenset[str] = _NONE
    reads: frozenset[str] = _NONE
    tells: frozenset[str] = _NONE
    tails: Mapping[str, Chain] = MappingProxyType({})
    #: whether each of its nodes sorts out by itself what it cannot take by column
    contained: bool = False

    @property
    def all_writes(self) -> frozenset[str]:
        """What it and its tails write to."""
        return self.writes.union(*(tail.all_writes for tail in self.tails.values()))

    @property
    def all_reads(self) -> frozenset[str]:
        """What it and its tails only read."""
        return self.reads.union(*(tail.all_reads for tail in self.tails.values()))


#: where chains meet, by the names of these nodes; None: what is behind such a node takes records one by one only
Meetings: TypeAlias = dict[str, "tuple[Meeting, Chain] | None"]


def chain_below(task: Task, name: str, meetings: Meetings) -> Chain | None:
    """Return what takes the records that a node forwards, or None if some node below takes them one by one only."""
    chains = [_of(task, child, meetings) for child in task.topology.children(name)]
    known = [chain for chain in chains if chain is not None]
    if len(known) < len(chains) or any(
        one.all_writes & (other.all_writes | other.all_reads) for one, other in permutations(known, 2)
    ):
        return None
    return _together(_fan_out(tuple(chain.on_batch for chain in known)), known)


def mixing_order(chains: Mapping[str, Chain]) -> tuple[str, ...] | None:
    """Return in which order chains of several sources run, if their records may go together, else None.

    >>> table = Chain(print, writes=frozenset({"store t"}), tells=frozenset({"store t"}))
    >>> join = Chain(print, writes=frozenset({"topic out"}), reads=frozenset({"store t"}))
    >>> mixing_order({"stream": join, "table": table}), mixing_order({"one": join, "other": join})
    (('table', 'stream'), None)
    >>> tail = Chain(print, writes=frozenset({"topic out"}), reads=frozenset({"store t"}))
    >>> mixing_order({"stream": Chain(print, tails={"join": tail}), "other": table._replace(tails={"join": tail})})
    ('stream', 'other', 'join')
    """
    after: dict[str, set[str]] = {source: set() for source in chains}
    chains = {**chains, **_tails(chains, after)}
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


def _tails(chains: Mapping[str, Chain], after: dict[str, set[str]]) -> dict[str, Chain]:
    """Return the tails of chains, and theirs; note which chains each comes after."""
    found: dict[str, Chain] = {}
    waiting = list(chains.items())
    while waiting:
        name, chain = waiting.pop()
        for node, tail in chain.tails.items():
            found[node] = _together(tail.on_batch, (found.get(node, tail), tail))
            after.setdefault(node, set()).add(name)
            waiting.append((node, tail))
    return found


def _of(task: Task, name: str, meetings: Meetings) -> Chain | None:
    node = task.topology.node(name)
    if isinstance(node, SinkNode):
        sink = open_column_sink(node, task, task.partitions_of)
        if sink is None:
            return None
        sink = contained(task, name, sink, Contains.everything)
        return Chain(sink, frozenset({f"topic {node.topic}"}), contained=True)
    assert isinstance(node, ProcessorNode)
    operator, context = node.operator, NodeContext(task, name, {}, task.topology.stores_of(name))
    if operator.meets:
        return _side(task, name, operator, context, meetings)
    below = chain_below(task, name, meetings)
    on_batch = operator.open_batch(context, None if below is None else below.on_batch)
    if on_batch is None:
        return None
    touched = operator.touches()
    if not task.at_once.isdisjoint(touched):
        return None
    writes = _named(touched)
    last = below is None or (touched and all(task.stores[store].cached for store in touched))
    contains = operator.contains if last or (below is not None and below.contained) else Contains.nothing
    on_batch = contained(task, name, on_batch, contains)
    own = Chain(
        on_batch,
        writes,
        _named(operator.reads()),
        writes if operator.tells_places else _NONE,
        contained=contains is not Contains.nothing,
    )
    if below is None or last:
        return own  # what is below hears of it at the barrier
    if own.writes & (below.all_writes | below.all_reads) or own.reads & below.all_writes:
        return None
    return _together(on_batch, (own, below))


def _side(task: Task, name: str, operator: Operator, context: NodeContext, meetings: Meetings) -> Chain | None:
    """Return a chain that ends where it meets others."""
    (below,) = task.topology.children(name)
    if below not in meetings:
        tail = _of(task, below, meetings)
        meetings[below] = None if tail is None else (Meeting(tail.on_batch), tail)
    side, found = operator.open_side(context), meetings[below]
    if side is None or found is None:
        return None
    meeting, tail = found
    own = Chain(meeting.brings(side), _named(operator.touches()), _named(operator.reads()))
    if own.writes & (tail.all_writes | tail.all_reads) or own.reads & tail.all_writes:
        return None
    return Chain(own.on_batch, tails={below: _together(tail.on_batch, (own, tail))})


def _named(stores: Iterable[str]) -> frozenset[str]:
    return frozenset(f"store {store}" for store in stores)


def _together(on_batch: OnBatch, chains: Sequence[Chain]) -> Chain:
    """Return a chain that writes to, reads and tells of all that these do."""
    writes = _NONE.union(*(chain.writes for chain in chains))
    reads = _NONE.union(*(chain.reads for chain in chains))
    tells = _NONE.union(*(chain.tells for chain in chains))
    tails = {node: tail for chain in chains for node, tail in chain.tails.items()}
    return Chain(on_batch, writes, reads, tells, tails, all(chain.contained for chain in chains))


def _fan_out(chains: tuple[OnBatch, ...]) -> OnBatch:
    if len(chains) == 1:
        return chains[0]

    def forward(batch: Batch, commits: Commits) -> None:
        shared = batch.as_shared()
        for chain in chains:
            chain(shared, commits)

    return forward
