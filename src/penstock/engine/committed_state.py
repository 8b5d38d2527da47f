"""The committed state: everything the driver knows as of the last barrier. Pure data, no I/O.

CommittedState ──request()──▶ the request of the next epoch
               ◀──after()──  the reports of its tasks, when it is about to be committed
               ──record()──▶ the epoch record, from which ``from_record`` restores it at the next start
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.engine.record import Clocks, EpochRecord, nested
from penstock.log.base import Offsets
from penstock.processor.punctuation import merged_snapshots
from penstock.protocol.report import TaskReport
from penstock.protocol.request import EpochRequest, ShardRequest, offsets
from penstock.protocol.timing import ObservedTimes, TimeUpdate, is_due, known_due

#: of an epoch without a time update
NOTHING = TimeUpdate()


@dataclass(frozen=True, slots=True)
class CommittedState:
    """The application as of its last barrier."""

    application_id: str
    incarnation: str
    lanes: int
    shards: tuple[ShardRequest, ...]
    epoch: int = 0
    #: store → end offset of its changelog, by shard; stores that were removed from the topology included, they may
    #: come back
    changelogs: Mapping[str, list[int]] = field(default_factory=dict)
    positions: Offsets = field(default_factory=dict)
    reached: Mapping[tuple[str, int], int] = field(default_factory=dict)
    snapshots: Mapping[int, dict[int, Any]] = field(default_factory=dict)
    #: greatest watermarks of sources whose strategy is a function; wall-clock times of the last records
    marks: Mapping[tuple[str, int], int] = field(default_factory=dict)
    arrived: Mapping[tuple[str, int], int] = field(default_factory=dict)
    #: (sources, partition index) → time that was advanced by the wall clock, not by a record
    ahead: Mapping[tuple[str, int], int] = field(default_factory=dict)
    #: source topic → its id
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_record(cls, record: EpochRecord, lanes: int) -> CommittedState:
        """Return the committed state that an epoch record describes."""
        request = zip(record.versions, record.befores, record.pending, strict=True)
        return cls(
            record.application_id,
            record.incarnation,
            lanes,
            tuple(ShardRequest(version, before, tuple(files)) for version, before, files in request),
            record.epoch,
            record.changelogs,
            record.positions,
            {(topic, partition): time for topic, partition, time in record.clocks.reached},
            {int(level): {int(s): shot for s, shot in shots.items()} for level, shots in record.snapshots.items()},
            offsets(record.clocks.marks),
            offsets(record.clocks.arrived),
            offsets(record.clocks.ahead),
            topic_ids=record.topic_ids,
        )

    @property
    def observed(self) -> ObservedTimes:
        """The observed times."""
        return ObservedTimes(self.reached, self.marks, self.arrived, self.ahead)

    def request(
        self,
        token: str,
        *,
        source_of: Mapping[str, str],
        partitions: Mapping[str, int],
        global_ends: Offsets,
        now: int = 0,
        time_update: TimeUpdate = NOTHING,
        restore_limit: int = 0,
        cache_bytes: int | None = None,
        levels: Mapping[str, int] | None = None,
    ) -> EpochRequest:
        """Return the request of the next epoch, or of a restore."""
        return EpochRequest(
            epoch=self.epoch + 1,
            token=token,
            incarnation=self.incarnation,
            shards=self.shards,
            changelogs=dict(self.changelogs),
            positions=_rows(self.positions),
            topics=tuple(sorted(source_of)),
            source_of=dict(source_of),
            reached=_rows(self.reached),
            partitions=dict(partitions),
            snapshots={level: dict(shots) for level, shots in self.snapshots.items()},
            global_ends=_rows(global_ends),
            marks=_rows(self.marks),
            time_update=time_update,
            now=now,
            restore_limit=restore_limit,
            cache_bytes=cache_bytes,
            levels=dict(levels or {}),
        )

    def after(
        self,
        token: str,
        reports: Iterable[TaskReport],
        positions: Offsets,
        changelogs: Mapping[str, list[int]],
        now: int = 0,
        time_update: TimeUpdate = NOTHING,
    ) -> CommittedState:
        """Return the committed state of the next barrier. ``positions``, ``changelogs``: input and changelog offsets.

        ``now`` and ``time_update``: the wall clock and the time update of the epoch.
        """
        files: dict[int, list[str]] = {}
        reached, marks, arrived = dict(self.reached), dict(self.marks), dict(self.arrived)
        snapshots = {level: dict(shots) for level, shots in self.snapshots.items()}
        for report in sorted(reports, key=lambda report: (report.level, report.task)):
            for shard, name in report.pending.items():
                files.setdefault(shard, []).append(name)
            for topic, partition, time in report.reached:
                reached[topic, partition] = max(reached.get((topic, partition), -1), time)
                arrived[topic, partition] = now
            for topic, partition, mark in report.marks:
                marks[topic, partition] = max(marks.get((topic, partition), -1), mark)
            if report.snapshots:
                snapshots.setdefault(report.level, {}).update(report.snapshots)
        shards = tuple(
            ShardRequest(token, order.version, tuple(files[shard])) if shard in files else order
            for shard, order in enumerate(self.shards)
        )
        return replace(
            self,
            epoch=self.epoch + 1,
            shards=shards,
            changelogs={**self.changelogs, **changelogs},
            positions=dict(positions),
            reached=reached,
            snapshots=snapshots,
            marks=marks,
            arrived=arrived,
            ahead={**self.ahead, **offsets(time_update.ahead)},
        )

    def record(
        self,
        token: str,
        *,
        fingerprint: str,
        topology: str,
        committed_at: int,
        stores: str = "",
        profile: Mapping[str, int] | None = None,
    ) -> EpochRecord:
        """Return the epoch record of this barrier."""
        return EpochRecord(
            epoch=self.epoch,
            token=token,
            application_id=self.application_id,
            shards=len(self.shards),
            lanes=self.lanes,
            offsets=nested(self.positions),
            topic_ids=dict(self.topic_ids),
            changelogs=dict(self.changelogs),
            versions=[order.version for order in self.shards],
            befores=[order.before for order in self.shards],
            pending=[list(order.pending) for order in self.shards],
            incarnation=self.incarnation,
            clocks=Clocks(
                reached=_rows(self.reached),
                marks=_rows(self.marks),
                arrived=_rows(self.arrived),
                ahead=_rows(self.ahead),
            ),
            snapshots={str(lv): {str(s): shot for s, shot in shots.items()} for lv, shots in self.snapshots.items()},
            fingerprint=fingerprint,
            topology=topology,
            stores=stores,
            committed_at=committed_at,
            profile=dict(profile or {}),
        )

    def is_due(self, time_update: TimeUpdate) -> bool:
        """Whether this time update alone has an effect: then an epoch without records is run."""
        return any(is_due(time_update, shot) for shots in self.snapshots.values() for shot in shots.values())

    def due(self, waking: Mapping[int, Container[int]]) -> int | None:
        """Return when the next wall-clock punctuation, timer or schedule is due, in milliseconds, or None.

        ``waking``: level → the shards that an epoch without input runs; what is left in others is ignored.
        """
        dues = [
            shot["punctuations"]["wall_clock_time"].get("next")
            for level, shots in self.snapshots.items()
            for shard, shot in shots.items()
            if shard in waking.get(level, ())
        ]
        return min((due for due in dues if due is not None), default=None)


def merged(snapshots: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the snapshots of all tasks of a shard into one, from which a task with any nodes and stores resumes."""
    shots = list(snapshots)
    kinds = sorted({kind for shot in shots for kind in shot["punctuations"]})
    due: dict[str, list[int]] = {}
    for feed, (known, first) in ((feed, pair) for shot in shots for feed, pair in known_due(shot)):
        least = due.get(feed, [known, first])
        due[feed] = [min(known, least[0]), min(first, least[1])]
    return {
        "punctuations": {kind: merged_snapshots(shot["punctuations"][kind] for shot in shots) for kind in kinds},
        "due": due,
        "stores": {name: numbers for shot in shots for name, numbers in shot["stores"].items()},
    }


def _rows(numbers: Mapping[tuple[str, int], int]) -> list[tuple[str, int, int]]:
    return [(topic, partition, number) for (topic, partition), number in sorted(numbers.items())]
