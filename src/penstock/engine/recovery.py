"""A start: take over, learn where the last barrier was, bring the shards there.

init_transactions   any earlier instance is fenced, its open transaction aborted
last epoch record   what was committed; the topology must be the one that made the state
restore             one Spark job after the other brings every shard nearer, until all stand at the barrier
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.compute as pc

from penstock.engine.fingerprint import check_same
from penstock.engine.ledger import Ledger, merged
from penstock.engine.record import EpochRecord, read_last
from penstock.errors import EngineError
from penstock.lane.envelope import FAILURE, NOTE
from penstock.lane.failure import unpack_failure
from penstock.lane.orders import Orders, Report, ShardOrder, Stage, decode_report
from penstock.log.base import Log
from penstock.plan.levels import find_levels
from penstock.topology.topology import Topology

logger = logging.getLogger("penstock.engine")

#: changelog rows of a shard that one job of a restore reads: progress is told after each job
RESTORE_ROWS = 500_000
#: runs of one job that fail for a passing reason before the application gives up
MOST_RUNS = 3


@dataclass(frozen=True, slots=True)
class RestoreProgress:
    """How far a restore has come: changelog rows read since the start, offsets left to read. ``done``: all shards stand."""

    restored: int
    left: int
    done: bool


#: told of the progress of a restore
OnRestore = Callable[[RestoreProgress], None]


def learn(log: Log, topology: Topology, application_id: str, shards: int, lanes: int, *, allow_change: bool) -> Ledger:
    """Return the ledger of the last barrier, or of the beginning of a new life."""
    record = read_last(log, application_id)
    if record is None:
        return Ledger(application_id, uuid.uuid4().hex, lanes, tuple(ShardOrder() for _ in range(shards)))
    same = check_same(record, topology, shards, allow_change=allow_change)
    ledger = Ledger.from_record(record, lanes)
    return ledger if same else _changed(ledger, record, topology)


def _changed(ledger: Ledger, record: EpochRecord, topology: Topology) -> Ledger:
    """Go on with another topology: local copies are made anew; clocks and stores that are still there go on, in whatever level.

    Pending files are of no use: they hold rows as the stores had them.
    """
    logger.warning("the topology has changed since epoch %d; local state is restored from the changelogs", record.epoch)
    by_shard: dict[int, list[Any]] = {}
    for shots in ledger.snapshots.values():
        for shard, shot in shots.items():
            by_shard.setdefault(shard, []).append(shot)
    known = {shard: merged(shots) for shard, shots in by_shard.items()}
    levels = sorted(set(find_levels(topology).values()))
    return replace(
        ledger,
        incarnation=uuid.uuid4().hex,
        shards=tuple(ShardOrder(order.version) for order in ledger.shards),
        snapshots={level: dict(known) for level in levels},
    )


def restore(lanes: Any, stage: Stage, orders: Orders, tell: OnRestore) -> None:
    """Bring all shards to the barrier of the orders, telling after each job how far it is."""
    restored = 0
    tables = stage.plan.topology.global_stores
    if not any(step.stores for step in stage.plan.steps) and not tables:
        return
    if not tables and not any(order.version for order in orders.shards):  # nothing was ever written
        tell(RestoreProgress(0, 0, True))
        return
    while True:
        reports = _reports(_run(lanes, orders))
        restored += sum(report.records for report in reports)
        left = sum(report.left for report in reports)
        tell(RestoreProgress(restored, left, left == 0))
        if not left:
            return


def _run(lanes: Any, orders: Orders) -> Any:
    """Run a job, again if it failed for a reason that may pass, as a worker that was ended: what is restored stays restored."""
    for _ in range(MOST_RUNS - 1):
        try:
            return lanes.restore(orders)
        except EngineError as error:
            if not error.passing:
                raise
            logger.warning("state is restored again: %s", error)
    return lanes.restore(orders)


def _reports(rows: Any) -> list[Report]:
    failed = rows.filter(pc.equal(rows["kind"], FAILURE))
    if len(failed):
        raise unpack_failure(failed["value"][0].as_py())
    return [decode_report(data) for data in rows.filter(pc.equal(rows["kind"], NOTE))["value"].to_pylist()]
