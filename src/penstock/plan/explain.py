"""A plan as text: what each step reads, runs, keeps and sends, and why a node takes records one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.topology.node import SinkNode, SourceNode

if TYPE_CHECKING:
    from penstock.plan.plan import Plan, Step


def explained(plan: Plan) -> str:
    """Return a plan as text."""
    lines: list[str] = []
    for step in plan.steps:
        if step.exchange:
            lines.append("exchange by shard")
        lines.append(f"step {step.level}  {'in the lanes' if step.exchange else 'where the records are read'}")
        lines += [f"    {title:<8} {', '.join(names)}" for title, names in _parts(plan, step) if names]
        lines += [f"    records  {node}: {reason}" for node, reason in _one_by_one(plan, step)]
        lines += [f"    loose    {store}: depends on where epochs end" for store in step.stores if store in plan.loose]
    return "\n".join(lines)


def _parts(plan: Plan, step: Step) -> list[tuple[str, list[str]]]:
    nodes = plan.topology.nodes
    reads = [t for s in step.sources for t in _topics(plan, s)]
    sinks = [node for name in step.nodes if isinstance(node := nodes[name], SinkNode)]
    sends = [f"{s.topic} to step {plan.level_of[plan.source_of(str(s.topic))]}" for s in sinks if s.internal]
    writes = [s.topic or "(extracted)" for s in sinks if not s.internal]
    batched = [name for name in step.nodes if name not in plan.batch_paths.reasons]
    return [
        ("reads", reads),
        ("runs", list(step.nodes)),
        ("stores", list(step.stores)),
        ("sends", sends),
        ("writes", writes),
        ("by batch", ["all"] if len(batched) == len(step.nodes) else batched),
    ]


def _one_by_one(plan: Plan, step: Step) -> list[tuple[str, str]]:
    """Return the nodes that take records one by one, and why."""
    reasons = plan.batch_paths.reasons
    return [(name, reasons[name]) for name in step.nodes if name in reasons]


def _topics(plan: Plan, source: str) -> tuple[str, ...]:
    node = plan.topology.nodes[source]
    assert isinstance(node, SourceNode)
    if node.schedule is not None:
        return (f"schedule {node.schedule.schedule}",)
    return node.topics or (f"pattern {node.pattern.pattern}",) if node.pattern else node.topics
