"""What a task tells the driver of its work, as a NOTE row of the envelope."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from penstock.protocol.failed_records import FailureGroup
from penstock.protocol.worker_log import LogLine

#: the level of a report of a task that only reads
READING = -1


class TaskReport(msgspec.Struct):
    """What a task of a step did."""

    level: int
    task: int
    records: int = 0
    #: bytes of these records
    size: int = 0
    #: shard → file of its pending writes
    pending: dict[int, str] = {}
    snapshots: dict[int, Any] = {}
    reached: list[tuple[str, int, int]] = []
    marks: list[tuple[str, int, int]] = []
    dropped: list[tuple[str, str, int]] = []
    #: records that a policy left out
    failures: list[FailureGroup] = []
    #: batches that went to the record path: (node, reason, how many)
    fallbacks: list[tuple[str, str, int]] = []
    #: what nodes did: (node, records in, records out, microseconds)
    nodes: list[tuple[str, int, int, int]] = []
    #: (topic, partition, records that were read, their bytes)
    read: list[tuple[str, int, int, int]] = []
    #: what happened: (metric, its labels, how often)
    events: list[tuple[str, tuple[str, ...], int]] = []
    #: how long things took: (metric, its labels, how many were up to each bound, their sum)
    spread: list[tuple[str, tuple[str, ...], list[int], float]] = []
    #: what is there now: (metric, its labels, shard or lane, number); the last one counts
    gauges: list[tuple[str, tuple[str, ...], int, float]] = []
    #: metrics of user code: (node, name, kind, bounds, values)
    user: list[tuple[str, str, str, tuple[float, ...], tuple[float, ...]]] = []
    commit_requested: bool = False
    #: user code keeps resources in the process of the task
    resources: bool = False
    #: changelog offsets that a restore has still to read
    left: int = 0
    #: the same by store
    left_by_store: dict[str, int] = {}
    #: rows that a restore has read, by store
    restored_by_store: dict[str, int] = {}
    #: where the time went, in microseconds
    spent: dict[str, int] = {}
    #: what was logged in its process
    log: list[LogLine] = []


encode_report = msgspec.msgpack.Encoder().encode
decode_report = msgspec.msgpack.Decoder(TaskReport).decode


def cost_of(reports: Iterable[TaskReport]) -> tuple[int, int, int]:
    """Return the records that an epoch has read, their size in bytes, and the microseconds of work of all lanes."""
    reports = list(reports)
    read = [report for report in reports if report.level == READING] or [each for each in reports if each.level == 0]
    records, size = sum(report.records for report in read), sum(report.size for report in read)
    spent = (report.spent for report in reports)
    return (
        records,
        size,
        sum(us for phases in spent for phase, us in phases.items() if phase not in ("read", "exchange")),
    )
