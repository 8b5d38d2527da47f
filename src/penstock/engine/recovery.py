"""A start: take over, learn where the last barrier was, bring the shards there.

init_transactions   any earlier instance is fenced, its open transaction aborted
last epoch record   what was committed; the topology must be the one that made the state
restore             one Spark job after the other brings every shard nearer, until all stand at the barrier
"""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.committed_state import CommittedState, merged
from penstock.engine.executor.base import Executor
from penstock.engine.fingerprint import check_same
from penstock.engine.record import EpochRecord, read_last
from penstock.engine.sources import find_topics, places_of
from penstock.engine.topics import logged_stores
from penstock.errors import EngineError, RecoveryError
from penstock.log.base import Log, TopicPartition
from penstock.log.topics import changelog_name, epochs_name
from penstock.plan.levels import find_levels
from penstock.protocol.envelope import FAILURE, NOTE
from penstock.protocol.failure import unpack_failure
from penstock.protocol.report import TaskReport, decode_report
from penstock.protocol.request import EpochRequest, ShardRequest, Stage
from penstock.protocol.worker_log import replay
from penstock.topology.topology import Topology

logger = logging.getLogger("penstock.engine")

#: changelog rows of a shard that one job of a restore reads: progress is told after each job
RESTORE_ROWS = 500_000
#: runs of one job that fail for a passing reason before the application gives up
MOST_RUNS = 3


@dataclass(frozen=True, slots=True)
class RestoreProgress:
    """How far a restore has come: changelog rows read since the start, offsets left to read. ``done``: all shards stand.

    ``stores``: the offsets that are left, by store, of those that have some; ``rows``: the rows that were read, by store.
    """

    restored: int
    left: int
    done: bool
    stores: Mapping[str, int] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)


#: told of the progress of a restore
OnRestore = Callable[[RestoreProgress], None]


def learn(
    log: Log, topology: Topology, application_id: str, shards: int, lanes: int, *, allow_change: bool
) -> CommittedState:
    """Return the committed state as of the last epoch record, or the initial one of a new incarnation."""
    record = read_last(log, application_id)
    if record is None:
        check_first_start(log, topology, application_id)
        return CommittedState(application_id, uuid.uuid4().hex, lanes, tuple(ShardRequest() for _ in range(shards)))
    if record.epoch == 0:  # nobody has run it: `penstock reset` has said where to begin
        fresh = tuple(ShardRequest() for _ in range(shards))
        return CommittedState(application_id, record.incarnation, lanes, fresh, positions=record.positions)
    same = check_same(record, topology, shards, allow_change=allow_change)
    check_changelogs(log, topology, record)
    committed = CommittedState.from_record(record, lanes)
    return committed if same else _changed(committed, record, topology)


def check_first_start(log: Log, topology: Topology, application_id: str) -> None:
    """Refuse to begin anew where something was done before: its results would go on with empty stores.

    A source with ``offset_reset='none'`` begins at offsets that somebody has set for the group: these are no sign of an earlier run.
    """
    names = {changelog_name(application_id, store) for store in logged_stores(topology)} & log.admin.topics().keys()
    places = places_of(log.admin.partitions(sorted(names)))
    reading = find_topics(log.admin, topology, application_id)
    read = [place for place in places_of(reading.partitions) if reading.source_of[place[0]].offset_reset != "none"]
    if (found := _first_with_rows(log, places)) is not None:
        raise _lost(application_id, f"its changelog {found} has rows")
    if topology.stores and log.admin.committed(application_id, read):
        raise _lost(application_id, f"its group {application_id!r} has offsets")


def _first_with_rows(log: Log, places: list[TopicPartition]) -> str | None:
    """Return a topic of which a partition has a committed row: what is left of an aborted first epoch does not count."""
    begins, ends = log.admin.earliest_offsets(places), log.admin.stable_offsets(places)
    reader = log.reader()
    try:
        filled = [place for place in places if ends[place] > begins[place]]
        return next((topic for topic, shard in filled if reader.last_record(topic, shard) is not None), None)
    finally:
        reader.close()


def _lost(application_id: str, why: str) -> RecoveryError:
    return RecoveryError(
        f"topic {epochs_name(application_id)!r} has no record of an epoch, but {application_id!r} has run before: {why}. The topic was "
        "deleted or made anew, and what the state belongs to is not known without it. Restore the topic, or begin anew: "
        "`penstock reset` forgets the application's state and offsets; input and output topics stay"
    )


def check_changelogs(log: Log, topology: Topology, record: EpochRecord) -> None:
    """Refuse changelogs that are missing, or shorter than they were at the last barrier: state restored from them would be less."""
    ends = {
        (changelog_name(record.application_id, store), shard): end
        for store in logged_stores(topology)
        for shard, end in enumerate(record.changelogs.get(store, ()))
        if end
    }
    there = log.admin.topics()
    missing = sorted({topic for topic, shard in ends if there.get(topic, 0) <= shard})
    if missing:
        raise _short(record, f"changelog {missing[0]!r} does not exist")
    for (topic, shard), found in log.admin.end_offsets(ends).items():
        if found < ends[topic, shard] - bool(found):  # the marker of the last barrier may not be written yet
            raise _short(
                record,
                f"changelog {topic}-{shard} ends at offset {found}, but at epoch {record.epoch} at {ends[topic, shard]}",
            )


def _short(record: EpochRecord, what: str) -> RecoveryError:
    return RecoveryError(
        f"{what}: it was deleted or made anew, or the cluster has lost rows of it. State that is restored from it would miss rows. "
        f"Restore the topic, or begin anew: `penstock reset` forgets the state and offsets of {record.application_id!r}; input and "
        "output topics stay"
    )


def _changed(committed: CommittedState, record: EpochRecord, topology: Topology) -> CommittedState:
    """Go on with another topology: local copies are made anew; clocks and stores that are still there go on, in whatever level.

    Pending files are of no use: they hold rows as the stores had them.
    """
    logger.warning("the topology has changed since epoch %d; local state is restored from the changelogs", record.epoch)
    by_shard: dict[int, list[Any]] = {}
    for shots in committed.snapshots.values():
        for shard, shot in shots.items():
            by_shard.setdefault(shard, []).append(shot)
    known = {shard: merged(shots) for shard, shots in by_shard.items()}
    levels = sorted(set(find_levels(topology).values()))
    return replace(
        committed,
        incarnation=uuid.uuid4().hex,
        shards=tuple(ShardRequest(order.version) for order in committed.shards),
        snapshots={level: dict(known) for level in levels},
    )


def restore(executor: Executor, stage: Stage, request: EpochRequest, notify: OnRestore) -> None:
    """Bring all shards to the barrier of the request, telling after each job how far it is."""
    restored, rows = 0, Counter[str]()
    tables = stage.plan.topology.global_stores
    if not any(step.stores for step in stage.plan.steps) and not tables:
        return
    if not tables and not any(order.version for order in request.shards):  # nothing was ever written
        notify(RestoreProgress(0, 0, True))
        return
    while True:
        reports = _reports(_run(executor, request))
        restored += sum(report.records for report in reports)
        left = sum(report.left for report in reports)
        by_store: Counter[str] = Counter()
        for report in reports:
            by_store.update(report.left_by_store)
            rows.update(report.restored_by_store)
        notify(RestoreProgress(restored, left, left == 0, dict(+by_store), dict(rows)))
        if not left:
            return


def _run(executor: Executor, request: EpochRequest) -> pa.Table:
    """Run a job, again if it failed for a reason that may pass, as a worker that was ended: what is restored stays restored."""
    for _ in range(MOST_RUNS - 1):
        try:
            return executor.restore(request)
        except EngineError as error:
            if not error.passing:
                raise
            logger.warning("state is restored again: %s", error)
    return executor.restore(request)


def _reports(rows: pa.Table) -> list[TaskReport]:
    reports = [decode_report(data) for data in rows.filter(pc.equal(rows["kind"], NOTE))["value"].to_pylist()]
    for report in reports:
        replay(report.log)
    failed = rows.filter(pc.equal(rows["kind"], FAILURE))
    if len(failed):
        raise unpack_failure(failed["value"][0].as_py())
    return reports
