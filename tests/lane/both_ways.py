"""A step run both ways, by column and one by one, over random records: what the tests of columns share."""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable
from contextlib import closing
from typing import Any, ClassVar

import msgspec
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from penstock import StreamsBuilder
from penstock import config as configuration
from penstock.lane import mixed, record_times, step_batches
from penstock.lane.output import StepOutput
from penstock.lane.run import run_step
from penstock.lane.task import Task
from penstock.lane.task_batches import TaskBatches
from penstock.lane.worker import Worker
from penstock.plan.batch_paths import has_kernels
from penstock.plan.passes import make_plan
from penstock.protocol.envelope import (
    CHANGELOG,
    FAILURE,
    NOTE,
    PENDING,
    RECORD,
    SINK,
    pack_headers,
    rows_of,
    unpack_headers,
)
from penstock.protocol.raw_rows import RAW_SCHEMA
from penstock.protocol.report import decode_report
from penstock.protocol.request import EpochRequest, ShardRequest, Stage
from penstock.protocol.state_folder import application_folder, remove_memory
from penstock.protocol.timing import ObservedTimes, Timing
from penstock.state import lmdb_write
from penstock.state.spec import StoreKind

SHARDS = 2
#: of tests that ask how records went, not what came of them: with ``PENSTOCK_KERNELS=0`` all go one by one
needs_kernels = pytest.mark.skipif(not has_kernels(), reason="kernels are switched off")


def trying(examples: int) -> settings:
    """How many examples are tried: two in five of so many, with ``PENSTOCK_LONG=1`` ten times as many."""
    return settings(
        max_examples=10 * examples if os.environ.get("PENSTOCK_LONG") else -(-2 * examples // 5), deadline=None
    )


NEVER = 1 << 40

values = st.one_of(
    st.integers(0, 4).map(lambda n: msgspec.json.encode({"n": n})),
    st.sampled_from([b'{ "n" : 3 }', None, b"null", b"{", b"{}"]),
)
#: topic, partition, key, value, timestamp, headers
records = st.lists(
    st.tuples(
        st.sampled_from(["in", "in", "in", "side"]),
        st.integers(0, 1),
        st.sampled_from([b"a", b"b", b"c", b"d", None, b"\xff"]) | st.sampled_from([b"a", b"b"]),
        values,
        st.integers(0, 40),
        st.sampled_from([None] * 8 + [pack_headers((("h", b"1"),))] * 4 + [pack_headers((("\udcff", b"1"),))]),
    ),
    max_size=40,
)
usual = st.lists(
    st.tuples(
        st.sampled_from(["in", "side"]),
        st.integers(0, 1),
        st.sampled_from([b"a", b"b", b"c"]),
        st.integers(0, 4).map(lambda n: msgspec.json.encode({"n": n})),
        st.integers(0, 40),
        st.none(),
    ),
    min_size=1,
    max_size=60,
)


class Runs:
    """An application's steps, run without Spark over a folder of its own. Those that are left open are closed with the test."""

    left_open: ClassVar[set[Runs]] = set()

    def __init__(
        self,
        shape: Callable[[StreamsBuilder], None],
        folder: str,
        policy: str,
        *,
        optimize: str | tuple[str, ...] = (),
        between: bool = False,
    ) -> None:
        #: whether the records between the steps can be seen, too
        self._between = between
        builder = StreamsBuilder()
        shape(builder)
        policies = {f"on_{name}_error": policy for name in ("processing", "deserialization", "production")}
        config = configuration.load({"application_id": "app", "dead_letter_topic": "dead", **policies}, environ={})
        plan = make_plan(builder.build(optimize=optimize))
        #: either side of an outer join gives out what waits of both
        stores = plan.topology.stores
        outer = {name for name, spec in stores.items() if spec.kind is StoreKind.OUTER_JOIN}
        self._either = {node for node in plan.topology.nodes if outer.intersection(plan.topology.stores_of(node))}
        self._stage = Stage(plan, "app", config, SHARDS, 1, folder, "nowhere:1")
        remove_memory(self._stage, application_folder(self._stage))  # of a run that was killed
        self._worker = Worker(self._stage)
        self.left_open.add(self)
        topics = {
            topic: name for name, node in self._stage.sources.items() if not node.internal for topic in node.topics
        }
        self._topics, self._source_of = tuple(sorted(topics)), topics
        self._offsets: dict[tuple[str, int], int] = {}
        self._shards = [ShardRequest()] * SHARDS
        self._snapshots: dict[int, dict[int, Any]] = {}
        self._reached: dict[tuple[str, int], int] = {}
        self._timing = Timing(plan.topology, idle_ms=1)
        self._epoch = 0

    def close(self) -> None:
        """Close the files and delete them, on the disk and in memory: the next run may get a folder of the same name."""
        self.left_open.discard(self)
        self._worker.close()
        remove_memory(self._stage, application_folder(self._stage))
        shutil.rmtree(self._stage.state_dir)

    def epoch(self, given_records: list[Any]) -> dict[str, Any]:
        """Run an epoch; return what can be seen of it."""
        self._epoch += 1
        told = self._timing.time_update(ObservedTimes(self._reached), self._source_of, self._reached, 0)
        reached = [(topic, partition, time) for (topic, partition), time in self._reached.items()]
        request = EpochRequest(
            epoch=self._epoch, token=str(self._epoch), incarnation="x", shards=tuple(self._shards),
            changelogs={name: [0] * SHARDS for name in self._stage.plan.topology.stores}, positions=[], topics=self._topics,
            source_of=self._source_of, reached=reached, partitions={"out": 2, "other": 2, "dead": 2}, snapshots=self._snapshots,
            global_ends=[], time_update=told,
        )  # fmt: skip
        rows = [row for row in map(self._raw, given_records) if row is not None]
        passing: list[Any] = []
        batches: list[Any] = pa.Table.from_pylist(rows, RAW_SCHEMA).to_batches()
        moves: list[Any] = []
        batches = list(record_times.add_times(self._worker, request, batches, moves))
        for step in self._stage.plan.steps:
            batches = list(run_step(self._worker, request, step.level, 0, batches, moves))
            if self._between:
                rows_between = [row[2:] for batch in batches for row in rows_of(batch) if row.kind == RECORD]
                rows_between.sort(
                    key=lambda row: (row[0], row[-1])
                )  # by source and place; of siblings the order counts, not the number
                passing.append([(*row[:-1], row[-1][:24]) for row in rows_between])
        seen = self._seen([row for batch in batches for row in rows_of(batch)])
        return {**seen, "between": passing} if self._between else seen

    def _raw(self, record: Any) -> dict[str, Any] | None:
        topic, partition, key, value, timestamp, headers = record
        if topic not in self._topics:
            return None
        offset = self._offsets[topic, partition] = self._offsets.get((topic, partition), -1) + 1
        shard = partition % SHARDS if key is None else zlib.crc32(key) % SHARDS
        place = self._topics.index(topic) * 65536 + partition
        columns = (shard, place, offset, key, value, timestamp, headers)
        return dict(zip(RAW_SCHEMA.names, columns, strict=True))

    def _seen(self, rows: list[Any]) -> dict[str, Any]:
        failed = [row.value for row in rows if row.kind == FAILURE]
        if failed:
            return {"failed": failed[0].count(b"ProcessingError"), "why": failed[0]}
        seen: dict[str, Any] = {"sinks": {}, "changelogs": {}, "dropped": {}, "snapshots": {}, "nodes": {}}
        for row in rows:
            assert row.kind not in (RECORD, PENDING)
            if row.kind == SINK:
                rows_of_place = seen["sinks"].setdefault((row.name, row.partition), [])
                rows_of_place.append((row.key, row.value, row.timestamp, row.headers))
            elif row.kind == CHANGELOG:
                seen["changelogs"][row.name, row.partition, row.key] = (row.value, row.timestamp, row.headers)
            elif row.kind == NOTE:
                self._note(decode_report(row.value), seen)
        return seen

    def _note(self, report: Any, seen: dict[str, Any]) -> None:
        for node, reason, many in report.dropped:
            seen["dropped"][node, reason] = seen["dropped"].get((node, reason), 0) + many
        for node, records_in, records_out, _ in report.nodes:
            if not records_in + records_out:  # it only had time
                continue
            before = seen["nodes"].get(node, (0, 0))
            out = 0 if node in self._either else records_out  # what comes of both is the next node's
            seen["nodes"][node] = before[0] + records_in, before[1] + out
        for topic, partition, time in report.reached:
            self._reached[topic, partition] = max(time, self._reached.get((topic, partition), -1))
        seen["reached"] = dict(self._reached)
        # when something is due may be told too early: how much depends on what was looked at
        seen["snapshots"][report.level] = {
            shard: {name: part for name, part in shot.items() if name != "due"}
            for shard, shot in report.snapshots.items()
        }
        self._snapshots.setdefault(report.level, {}).update(report.snapshots)
        for shard, name in report.pending.items():
            before = self._shards[shard].version
            known = self._shards[shard].pending if before == str(self._epoch) else ()
            last = self._shards[shard].before if before == str(self._epoch) else before
            self._shards[shard] = ShardRequest(str(self._epoch), last, (*known, name))


def both_ways(
    shape: Any,
    folders: Any,
    epochs: list[list[Any]],
    policy: str,
    *,
    apart: bool = False,
    most: int = 1 << 15,
    by_key: bool = False,
    **how: Any,
) -> None:
    """Compare by column with one by one; ``apart``: with columns of one source at a time, too, however few records they have.

    ``most``: rows of several sources that go together at most. ``by_key``: between different keys the order does not matter, but for dead
    letters. ``how``: as ``Runs`` takes it. Without kernels all ways are one by one, whatever the sizes.
    """
    ways = [(1, 1, 1), (NEVER, 16, NEVER), *([(1, 1, NEVER)] if apart else [])]
    seen = []
    for few, short, few_mixed in ways:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(step_batches, "FEW", few)
            patch.setattr(step_batches, "PART", 9)
            patch.setattr(mixed, "FEW_MIXED", few_mixed)
            patch.setattr(mixed, "SHORT", short)
            patch.setattr(mixed, "MOST_MIXED", most)
            patch.setattr(lmdb_write, "BULK", few)  # what is written by column is a run, too
            if has_kernels():
                _shrink_kernels(patch, few)
            with closing(Runs(shape, folders(), policy, **how)) as runs:
                seen.append([_comparable(runs.epoch(epoch), by_key) for epoch in epochs])
    assert all(one == seen[0] for one in seen[1:]), seen
    assert not any("failed" in epoch for epoch in seen[0]), seen[0]


def _shrink_kernels(patch: pytest.MonkeyPatch, few: int) -> None:
    """Let kernels take few rows, and let what is around a record that cannot go by column be a part of so few records."""
    from penstock.kernels import fallback, fold, table_rows

    for module, name, size in ((table_rows, "FEW", few), (fallback, "SMALL", 3), (fold, "SLICE", 2)):
        patch.setattr(module, name, size)


def _comparable(seen: dict[str, Any], by_key: bool) -> dict[str, Any]:
    """Return what can be seen of an epoch without what may differ: the frames of our own in a stack trace, the order of keys."""
    sinks = seen.get("sinks", {})
    if ("dead", -1) in sinks:
        sinks["dead", -1] = [(*row[:3], _headers(row[3])) for row in sinks["dead", -1]]
    for (topic, _), rows in sinks.items() if by_key else ():
        if topic != "dead":
            rows.sort(key=lambda row: row[0] or b"")
    return seen


def _headers(packed: Any) -> Any:
    headers = () if packed is None else unpack_headers(packed)
    return [(key, value.splitlines()[-1:] if key.endswith("stacktrace") and value else value) for key, value in headers]


def watch_columns(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Note of each batch whether it went by column; one that does not try to is a failure, and so are rows that leave one by one."""
    if not has_kernels():
        pytest.skip("kernels are switched off")
    taken: list[bool] = []
    for name in ("process", "process_together"):

        def noted(*args: Any, process: Any = getattr(TaskBatches, name)) -> bool:
            taken.append(process(*args))
            return taken[-1]

        monkeypatch.setattr(TaskBatches, name, noted)
    monkeypatch.setattr(Task, "process_all", lambda *_: pytest.fail("records went one by one"))
    for leaving in ("_sinks", "_records"):
        monkeypatch.setattr(StepOutput, leaving, lambda *_: pytest.fail("records left one by one"))
    return taken
