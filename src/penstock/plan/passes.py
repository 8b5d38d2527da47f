"""The passes that make a plan of a topology, in order. Each takes a plan and returns a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from penstock.operators.aggregate import StreamCount
from penstock.operators.foreign_key_join import ResponseJoin, SubscriptionJoin
from penstock.plan.batch_paths import find_batch_paths, stopped_by_time
from penstock.plan.levels import find_levels, returning_sources
from penstock.plan.node_levels import carry_over, find_node_levels, only_reads, writers_of
from penstock.plan.plan import Plan, Step, reachable
from penstock.serde import Serde
from penstock.state.spec import StoreKind
from penstock.topology.functions import wants_partition_time
from penstock.topology.node import Node, ProcessorNode, SinkNode, SourceNode
from penstock.topology.partitioners import ByInnerKey
from penstock.topology.topology import Topology

#: stores whose rows expire by time
KEEPS_TIME = frozenset(
    {StoreKind.WINDOW, StoreKind.SESSION, StoreKind.VERSIONED, StoreKind.BUFFER, StoreKind.OUTER_JOIN}
)
#: stores of tables whose changes a later step can follow
FOLLOWED = frozenset({StoreKind.KEY_VALUE, StoreKind.VERSIONED})

Pass: TypeAlias = Callable[[Plan], Plan]


def level_sources(plan: Plan) -> Plan:
    """Give every source its level; carry over what goes to a later step without a re-key."""
    levels = find_levels(plan.topology)
    nodes = find_node_levels(plan.topology, levels)
    topology, level_of = carry_over(plan.topology, nodes.of)
    if len(topology.nodes) == len(plan.topology.nodes):
        topology = plan.topology
    carried = frozenset(level_of) - frozenset(levels)
    returning = returning_sources(plan.topology)
    return replace(plan, topology=topology, level_of=level_of, carried=carried, returning=returning, loose=nodes.loose)


def cut_steps(plan: Plan) -> Plan:
    """Make a step for each level: its sources and all that their records reach."""
    steps = []
    for level in sorted(set(plan.level_of.values())):
        sources = tuple(name for name, at in plan.level_of.items() if at == level)
        reached = reachable(plan.topology, sources)
        nodes = tuple(name for name in plan.topology.nodes if name in reached)
        stores = dict.fromkeys(store for name in nodes for store in plan.topology.stores_of(name))
        own = tuple(store for store in stores if store not in plan.topology.global_stores)
        steps.append(Step(level, sources, nodes, own))
    return replace(plan, steps=tuple(steps))


def mark_time(plan: Plan) -> Plan:
    """Note which steps need to know how far time has come, which may have work without a record, and which wait for calls."""
    steps = []
    for step in plan.steps:
        operators = [
            node.operator for name in step.nodes if isinstance(node := plan.topology.nodes[name], ProcessorNode)
        ]
        specs = [plan.topology.stores[store] for store in step.stores]
        asks = [plan.topology.nodes[name] for name in step.sources]
        timed = (
            any(operator.timed or operator.scheduling for operator in operators)
            or any(spec.kind in KEEPS_TIME or spec.ttl is not None for spec in specs)
            or any(isinstance(node, SourceNode) and _asks_for_time(node) for node in asks)
        )
        scheduling, waits = (any(getattr(o, flag) for o in operators) for flag in ("scheduling", "waits"))
        scheduled = any(isinstance(node, SourceNode) and node.schedule is not None for node in asks)
        steps.append(replace(step, timed=timed, scheduling=scheduling, scheduled=scheduled, waits=waits))
    if any(step.timed for step in steps):  # what a later clock needs to know is told where the records are read
        steps[0] = replace(steps[0], timed=True)
    return replace(plan, steps=tuple(steps))


def _asks_for_time(source: SourceNode) -> bool:
    return source.timestamp is not None and wants_partition_time(source.timestamp)


def skip_first_exchange(plan: Plan) -> Plan:
    """Run the first step where the records are read if it keeps nothing."""
    if not plan.steps or plan.steps[0].stores or plan.steps[0].scheduling or plan.steps[0].scheduled:
        return plan
    return replace(plan, steps=(replace(plan.steps[0], exchange=False), *plan.steps[1:]))


def share_stores(plan: Plan) -> Plan:
    """Note which stores a step shares with later steps of the same epoch."""
    steps, later = list(plan.steps), set[str]()
    for at in reversed(range(len(steps))):
        steps[at] = replace(steps[at], read_later=tuple(store for store in steps[at].stores if store in later))
        later.update(steps[at].stores)
    return replace(plan, steps=tuple(steps))


def follow_tables(plan: Plan) -> Plan:
    """Note which tables a node only reads that an earlier step of the epoch writes: records have come back to them.

    A foreign-key join need not follow them, where no other node of its step does: it answers for the newest rows.
    """
    topology = plan.topology
    level = {name: step.level for step in plan.steps for name in step.nodes}
    behind = {
        (name, store)
        for name in topology.nodes
        for store in only_reads(topology, name)
        if store in topology.stores_of(name)
        and any(level[writer] < level[name] for writer in writers_of(topology, store))
    }
    wanted = {(store, level[name]) for name, store in behind if not _is_foreign_key(topology.nodes[name])}
    known = {pair for pair in wanted if topology.stores[pair[0]].kind in FOLLOWED and pair[0] not in plan.loose}
    follows: dict[str, frozenset[str]] = {}
    for name, store in sorted(behind):
        if (store, level[name]) in known:
            follows[name] = follows.get(name, frozenset()) | {store}
    return replace(plan, follows=follows, loose=plan.loose | {store for store, _ in wanted - known})


def _is_foreign_key(node: Node) -> bool:
    return isinstance(node, ProcessorNode) and isinstance(node.operator, ResponseJoin | SubscriptionJoin)


def gather_shared(plan: Plan) -> Plan:
    """Send the records of every sub-topology that has a shared store to one shard."""
    stores = plan.topology.stores
    one_shard = frozenset(
        name
        for sub in plan.topology.subtopologies()
        if any(stores[store].kind is StoreKind.SHARED for store in sub.stores)
        for name in sub.nodes
        if name in plan.level_of
    )
    return replace(plan, one_shard=one_shard)


def keep_shards(plan: Plan) -> Plan:
    """Note which records stay in their shard on the way to the next step. What was gathered in one shard goes where its key belongs."""
    nodes = plan.topology.nodes
    gathered = reachable(plan.topology, tuple(plan.one_shard))
    staying = frozenset(
        plan.source_of(str(node.topic))
        for name, node in nodes.items()
        if isinstance(node, SinkNode) and node.stays and name not in gathered
    )
    return replace(plan, staying=staying)


def follow_partitioners(plan: Plan) -> Plan:
    """Note which records go to the shard of a partition, because a partitioner of the user's has chosen it."""
    chosen = frozenset(
        plan.source_of(str(node.topic))
        for node in plan.topology.nodes.values()
        if isinstance(node, SinkNode) and node.internal and not isinstance(node.partitioner, ByInnerKey | None)
    )
    return replace(plan, by_partition=chosen)


def scope_stores(plan: Plan) -> Plan:
    """Note which nodes have stores that belong to keys, and by which serdes these go to shards."""
    nodes = plan.topology.nodes
    free = plan.staying_below(plan.one_shard | plan.by_partition)  # what stays in a shard is as free there as before
    scopes: dict[str, tuple[Serde[Any], ...]] = {}
    for source in (node for node in nodes.values() if isinstance(node, SourceNode) and node.schedule is None):
        if source.name in plan.carried:
            continue
        for name in plan.staying_below({source.name}, among=plan.carried) - free:
            known = scopes.get(name, ())
            scopes[name] = known if source.key in known else (*known, source.key)
    return replace(plan, scopes={name: scopes[name] for name in nodes if name in scopes})


def count_ahead(plan: Plan) -> Plan:
    """Note which records are only counted, so that those of a key can be counted before the exchange, exactly.

    Not where somebody would notice: a wrapper that sees every record, a watermark strategy, a node that may schedule, or that reads
    the counts.
    """
    topology = plan.topology
    sources = [node for node in topology.nodes.values() if isinstance(node, SourceNode)]
    if topology.wrapper is not None or any(node.watermark is not None for node in sources):
        return plan
    scheduling = {name for step in plan.steps if step.scheduling or step.scheduled for name in step.sources}
    counting = frozenset(
        node.name
        for node in sources
        if node.internal and node.name not in scheduling and _is_counted(topology, topology.children(node.name))
    )
    return replace(plan, counting=counting)


def _is_counted(topology: Topology, children: tuple[str, ...]) -> bool:
    nodes = [topology.nodes[child] for child in children]
    if len(nodes) != 1 or not isinstance(nodes[0], ProcessorNode) or not isinstance(nodes[0].operator, StreamCount):
        return False
    store = nodes[0].operator.store
    if any(store in topology.stores_of(name) for name in topology.nodes if name not in children):
        return False  # another node reads the counts, record by record
    spec = topology.stores[store]
    return spec.kind is StoreKind.KEY_VALUE and bool(spec.cached) and spec.ttl is None


def number_subtopologies(plan: Plan) -> Plan:
    """Note which sub-topology each source belongs to."""
    numbers = {name: sub.id for sub in plan.topology.subtopologies() for name in sub.nodes if name in plan.level_of}
    return replace(plan, subtopology_of=numbers)


def choose_batch_paths(plan: Plan) -> Plan:
    """Decide which nodes take batches: not those of a step in which rows leave by time, between two records."""
    paths = find_batch_paths(plan.topology, plan.followed)
    reasons = dict(paths.reasons)
    for step in plan.steps:
        if (waits := stopped_by_time(plan.topology, step.nodes)) is not None:
            why = f"rows of {waits} leave when time has come, between two records of its step"
            reasons.update((name, reasons.get(name, why)) for name in step.nodes)
    return replace(plan, batch_paths=replace(paths, reasons=reasons))


#: the passes in order; each takes a plan and returns a plan
PASSES: tuple[Pass, ...] = (
    level_sources,
    cut_steps,
    mark_time,
    skip_first_exchange,
    share_stores,
    follow_tables,
    gather_shared,
    keep_shards,
    follow_partitioners,
    scope_stores,
    count_ahead,
    number_subtopologies,
    choose_batch_paths,
)


def make_plan(topology: Topology) -> Plan:
    """Compile a topology."""
    plan = Plan(topology)
    for compile_pass in PASSES:
        plan = compile_pass(plan)
    return plan
