"""Runs epochs on Spark, each as one job. One of few records is inline (``inline_epochs``): a resident task runs it (``resident``).
Of others the job is made of the steps of the plan::

    read exactly the ranges (``lane.kafka_input``)                                [Python, in the reading tasks]
    ─ tell the times of the records, if the first step needs them
    ─ exchange by lane, unless the first step runs where it reads            [JVM]
    ─ step 0, exchange, step 1, ...                                          [Python, in the lanes]
    envelope rows to the driver

All rows go in chunks: Spark would take every one of them apart, and put it together again. Where the tasks share a machine it moves
their names only (``protocol.chunk``, ``shuffle_folder``).

What travels to the workers is the name of a function (``lane.entry``), a broadcast, and bytes; what they run knows no Spark. There are no
DataFrames: to analyse, plan and compile one takes longer than many an epoch (docs/decisions/0020).
What runs the jobs has three bodies (``choice``): ``spark_fast``, ``spark_public`` and ``in_process_jobs``.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakSet

import pyarrow as pa
import pyarrow.compute as pc

from penstock.clock import stopwatch_us
from penstock.engine.executor.choice import AUTO, IN_PROCESS, make_jobs
from penstock.engine.executor.inline_epochs import InlineEpochs
from penstock.engine.executor.resident import ResidentTasks
from penstock.engine.executor.shuffle_folder import ShuffleFolder
from penstock.engine.executor.spark_session import raising_engine_errors
from penstock.errors import EngineError
from penstock.lane import entry
from penstock.log.kafka import KafkaLog
from penstock.plan.plan import Step
from penstock.protocol.channel import Part
from penstock.protocol.chunk import unpacked
from penstock.protocol.envelope import NOTE
from penstock.protocol.report import decode_report
from penstock.protocol.request import EpochRequest, Range, Stage, encode_request
from penstock.protocol.state_folder import application_folder

logger = logging.getLogger("penstock.engine")

#: how long the records of an inline epoch are waited for: an unreachable cluster is waited for by the loop, which can be stopped
READ_SECONDS = 10.0


class SparkExecutor:
    """Runs epochs as Spark jobs."""

    def __init__(
        self, session: Any, stage: Stage, log: KafkaLog, inline_epoch_records: int, executor: str = AUTO
    ) -> None:
        from penstock.engine.executor import program

        self._session = session
        self._shuffle_folder: ShuffleFolder | None = None
        #: whether an epoch has left files there
        self._has_files = False
        if session.sparkContext.master.startswith("local"):
            self._shuffle_folder = ShuffleFolder(application_folder(stage))
            stage = replace(stage, shuffle_folder=str(self._shuffle_folder.folder))
        self._stage = stage
        self._cores = max(1, int(session.sparkContext.defaultParallelism))
        data = pickle.dumps((import_paths(), program.dump(stage)))
        self._broadcast = session.sparkContext.broadcast(data)
        self._identity = uuid.uuid4().hex
        self._threads: WeakSet[threading.Thread] = WeakSet()
        #: microseconds of the last epoch in the driver, while the lanes run, by phase
        self.spent: dict[str, int] = {}
        #: whether the last epoch was inline
        self.inline = False
        self.inline_epochs = InlineEpochs(stage, log.ranges(timeout=READ_SECONDS), inline_epoch_records)
        self._steps = step_names(stage.plan.steps)
        self._jobs = make_jobs(executor, session.sparkContext, self._broadcast, stage.lanes, self._identity)
        #: whether user code keeps resources in workers
        self._has_resources = False
        #: the resident tasks of this machine, which run inline epochs
        self._resident: ResidentTasks | None = None
        if self._shuffle_folder is not None and executor != IN_PROCESS:
            self._resident = ResidentTasks(self._serve, min(self._cores, stage.lanes))

    @property
    def resident_tasks(self) -> int:
        """How many resident tasks are connected."""
        return 0 if self._resident is None else self._resident.connected

    def run(self, request: EpochRequest, ranges: Iterable[Range]) -> pa.Table:
        """Run an epoch; return what left the lanes, as envelope rows."""
        ranges = list(ranges)
        since = stopwatch_us()
        parts = self.inline_epochs.write(request, ranges)
        self.spent = {"read": stopwatch_us() - since}
        self.inline = parts is not None
        with raising_engine_errors(), self._tidying():
            chunks = self._run(request, ranges) if parts is None else self._run_inline(request, parts)
            since = stopwatch_us()
            rows = unpacked(chunks)
            self.spent["collect"] = stopwatch_us() - since
        reports = [decode_report(data) for data in rows.filter(pc.equal(rows["kind"], NOTE))["value"].to_pylist()]
        self.inline_epochs.learn(reports)
        self._has_resources = self._has_resources or any(report.resources for report in reports)
        return rows

    def follow(self, request: EpochRequest) -> None:
        """Let resident tasks bring their shards to a barrier meanwhile."""
        if self._resident is not None:
            self._resident.notify(encode_request(request))

    def restore(self, request: EpochRequest) -> pa.Table:
        """Bring every shard to the last barrier, in parallel; return the reports of the lanes."""
        with raising_engine_errors():
            self._name_job(f"restore to epoch {request.epoch}")
            return unpacked(self._jobs.run(self._stage.lanes, [self._given(entry.restore, request)]))

    def _run(self, request: EpochRequest, ranges: list[Range]) -> list[bytes]:
        if self._shuffle_folder is not None:
            self._shuffle_folder.sweep()
            self._has_files = True
        if self._resident is not None:
            self._resident.dismiss()
        self._name_job(f"epoch {request.epoch}: {self._steps}")
        parts = self._shared_out(ranges)
        return self._jobs.run(len(parts), self._functions(request, parts))

    def _run_inline(self, request: EpochRequest, parts: list[Part]) -> list[bytes]:
        if self._shuffle_folder is not None and self._has_files:  # by the last large epoch, which is over
            self._shuffle_folder.clear()
            self._has_files = False
        if self._resident is not None:
            return self._resident.run(encode_request(request), parts)
        self._name_job(f"inline epoch {request.epoch}: {self._steps}")
        return self._jobs.run(1, [self._given(entry.inline_epoch, request, parts)])

    def _serve(self, address: str) -> None:
        """Run the job of a resident task."""
        self._name_job(f"resident task of inline epochs: {self._steps}")
        self._jobs.run(1, [partial(entry.serve, self._broadcast, self._identity, address)])

    def _shared_out(self, ranges: list[Range]) -> list[list[Range]]:
        first = self._stage.plan.steps[0]  # calls are bounded per lane
        most = min(self._cores, self._stage.lanes) if first.waits and not first.exchange else self._cores
        return shared_out(ranges, most)

    def _functions(self, request: EpochRequest, parts: list[list[Range]]) -> list[Callable[..., Any]]:
        """Return what an epoch runs, one after the other, each before an exchange but the last."""
        steps = self._stage.plan.steps
        reading = [self._given(entry.read, request, parts)] if steps[0].exchange else []
        return reading + [
            self._given(entry.run, request, step.level, None if step.exchange else parts) for step in steps
        ]

    def _given(self, function: Callable[..., Any], request: EpochRequest, *given: Any) -> Callable[..., Any]:
        return partial(function, self._broadcast, self._identity, encode_request(request), *given)

    def cancel(self) -> None:
        """Cancel an epoch that runs in another thread."""
        self._session.sparkContext.cancelJobGroup(self._identity)

    def _name_job(self, name: str) -> None:
        """Name the next job of this thread, as Spark's UI shows it; mark it as ours, so that it can be cancelled and others are not."""
        name = f"{self._stage.application_id}, {name}"
        if threading.current_thread() not in self._threads:
            self._threads.add(threading.current_thread())
            self._session.sparkContext.setJobGroup(self._identity, name, interruptOnCancel=True)
        else:
            self._session.sparkContext.setJobDescription(name)

    def close(self) -> None:
        """Release the broadcast; the session stays."""
        if self._resident is not None:
            self._resident.close()
        if self._has_resources:
            self._release_resources()
        self._jobs.close()
        self._broadcast.destroy(blocking=False)
        if self._shuffle_folder is not None:
            self._shuffle_folder.close()

    def _release_resources(self) -> None:
        """Have the workers close what user code keeps in them. One that Spark has ended meanwhile is not reached: it was killed."""
        rendezvous = None if self._shuffle_folder is None else str(self._shuffle_folder.folder)
        try:
            with raising_engine_errors():
                self._name_job("close resources")
                self._jobs.run(self._cores, [partial(entry.release, self._identity, rendezvous, self._cores)])
        except EngineError as error:
            logger.warning("resources of processors are not closed: %s", error)

    @contextmanager
    def _tidying(self) -> Iterator[None]:
        """Delete what an epoch that fails leaves behind."""
        try:
            yield
        except BaseException:
            if self._shuffle_folder is not None:
                self._shuffle_folder.clear()
            raise


def shared_out(ranges: Iterable[Range], most: int) -> list[list[Range]]:
    """Return ranges in at most so many parts of about the same size; one at least.

    >>> shared_out([Range("a", 0, 0, 5), Range("a", 1, 0, 3), Range("a", 2, 0, 3)], 2)
    [[('a', 0, 0, 5)], [('a', 1, 0, 3), ('a', 2, 0, 3)]]
    """
    parts: list[list[Any]] = [[]]
    sizes = [0]
    for one in sorted(ranges, key=lambda r: r.end - r.start, reverse=True):
        least = min(range(len(parts)), key=sizes.__getitem__)
        if sizes[least] and len(parts) < most:
            parts.append([])
            sizes.append(0)
            least = len(parts) - 1
        parts[least].append(tuple(one))
        sizes[least] += one.end - one.start
    return parts


def step_names(steps: Iterable[Step]) -> str:
    """Explain what the steps of a plan run, each by its first node and its last.

    >>> step_names([Step(0, ("lines",), ("lines", "words", "words-sink"), ()), Step(1, ("words",), ("words",), ())])
    'step 0 (lines … words-sink), step 1 (words)'
    """
    ends = [(step.level, dict.fromkeys((step.nodes or step.sources)[:: max(1, len(step.nodes) - 1)])) for step in steps]
    return ", ".join(f"step {level} ({' … '.join(names)})" for level, names in ends)


def import_paths() -> tuple[list[str], list[str]]:
    """Return where this program imports from, as a worker must: folders that come before Python's own library, and all others."""
    paths = [os.path.abspath(path or ".") for path in sys.path if not path or os.path.isdir(path)]
    library = os.path.dirname(os.path.abspath(os.__file__))
    at = paths.index(library) if library in paths else 0
    return paths[:at], paths[at:]
