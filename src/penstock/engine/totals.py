"""Counters of a run, and where the time of its epochs went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.distribution import Distribution
from penstock.engine.user_totals import UserTotals
from penstock.engine.work import Work
from penstock.processor.node_meter import BOUNDS, NodeWork
from penstock.protocol.failed_records import FailureGroups

#: of an epoch while its lanes run, in the order in which a record meets them; time of all tasks together, and of the
#: driver
PHASES = ("read", "exchange", "order", "decode", "operators", "state", "encode", "collect")


@dataclass(slots=True)
class Totals:
    """Counters since the start."""

    epochs: int = 0
    records_in: int = 0
    records_out: Counter[str] = field(default_factory=Counter)
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: batches that went to the record path, by node and reason
    fallbacks: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    #: records that a policy left out, with examples
    failures: FailureGroups = field(default_factory=FailureGroups)
    #: node → records in, records out, microseconds
    nodes: dict[str, NodeWork] = field(default_factory=dict)
    #: records read, by topic and partition
    read: Counter[tuple[str, int]] = field(default_factory=Counter)
    #: bytes of records that came to a step, by its level
    sizes: Counter[int] = field(default_factory=Counter)
    #: (metric, its labels) → how often
    events: Counter[tuple[str, tuple[str, ...]]] = field(default_factory=Counter)
    #: (metric, its labels) → how long it took
    spread: dict[tuple[str, tuple[str, ...]], Distribution] = field(default_factory=dict)
    #: (metric, its labels) → shard or lane → what is there
    gauges: dict[tuple[str, tuple[str, ...]], dict[int, float]] = field(default_factory=dict)
    #: bytes of keys and values that were read, by topic and partition
    read_bytes: Counter[tuple[str, int]] = field(default_factory=Counter)
    user: UserTotals = field(default_factory=UserTotals)
    retries: int = 0
    #: microseconds by step of the driver, and by phase of the lanes, of all epochs and of the last one
    spent: Counter[str] = field(default_factory=Counter)
    last: dict[str, int] = field(default_factory=dict)
    #: of the last epoch: by phase of the lanes, then by step
    profile: dict[str, int] = field(default_factory=dict)

    def count(self, work: Work, spent: Mapping[str, int]) -> None:
        """Add a committed epoch. ``spent``: microseconds in the driver while its lanes ran, by phase."""
        self.epochs += 1
        self.records_in += sum(report.records for report in work.reports if report.level == 0)
        self.records_out += work.written
        self.refused += work.refused
        self.failures.merge(work.failures.take())
        phases: Counter[str] = Counter(spent)
        for report in work.reports:
            phases.update(report.spent)
            self.failures.merge(report.failures)
            for node, reason, count in report.dropped:
                self.dropped[node, reason] += count
            for node, reason, count in report.fallbacks:
                self.fallbacks[node, reason] += count
            for topic, partition, count, size in report.read:
                self.read[topic, partition] += count
                self.read_bytes[topic, partition] += size
            for metric, labels, counts, total in report.spread:
                more = Distribution(BOUNDS[metric], counts, total)
                self.spread.setdefault((metric, labels), Distribution(BOUNDS[metric])).merge(more)
            for metric, labels, place, value in report.gauges:
                self.gauges.setdefault((metric, labels), {})[place] = value
            for metric, labels, count in report.events:
                self.events[metric, labels] += count
            self.sizes[report.level] += report.size
            self.user.add(report.task, report.user)
            for node, *done in report.nodes:
                self.nodes[node] = self.nodes.get(node, NodeWork()).plus(NodeWork(*done))
        self.profile = {f"lane: {phase}": phases[phase] for phase in PHASES if phase in phases} | self.last
        self.spent.update(self.profile)
