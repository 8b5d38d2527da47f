"""Restore: a system has counted some millions of keys; its state folder is deleted, and it is started again.

The rate is that of the changelog: rows restored by the time from the first to the last of them. That the state is right is seen by
what comes then: more records of some of the keys, to a second topic, must be added to what was restored.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace

from bench.latency import until_running
from bench.peers.process import Process, SystemFailed
from bench.peers.system import System
from bench.results import Collected
from bench.runs import Run
from bench.stage import Stage, scratch
from bench.writing import KEPT, Written, places
from penstock.log.base import Row, TopicSpec

#: records that come after the restore
MORE = 10_000


def measure(stage: Stage, written: Written, system: System, application_id: str, number: int) -> list[Run]:
    """Fill the state of a system, delete it, and see it come back."""
    workload, topic = written.workload, f"{written.workload.name}-more-{system.name}-{number}"
    stage.log.admin.ensure_topics([TopicSpec(topic, workload.partitions, KEPT)])
    ends = {**written.ends, **dict.fromkeys(places([topic], workload.partitions), 0)}
    both = replace(written, topics=[*written.topics, topic], ends=ends)
    with scratch() as folder:
        task = stage.task(both, system, application_id, folder)
        with stage.running(system, task) as process:
            stage.watch(both, process, task).until_done(stage.progress)
        shutil.rmtree(task.state_dir)
        more = _with_more(stage, both, topic)  # not beside the restore: it takes a while
        with stage.running(system, task) as again:
            watch = stage.watch(more, again, task)
            until_running(again)
            watch.until_done(stage.progress)
    stage.check(more, task.target)
    stage.forget(topic)
    return [Run(workload.name, system.name, system.label, number, figures(again) | watch.costs(), watch.roles())]


def figures(process: Process) -> dict[str, float]:
    """Return how fast the rows came back."""
    told = process.told("RESTORED")
    if not told:
        raise SystemFailed(f"nothing was restored. {process.last_words()}")
    (at, rows), began = told[-1], process.heard["RESTORING"]
    return {
        "restored_per_second": rows / (at - began),
        "restored": float(rows),
        "seconds_of_restore": at - began,
        "seconds_to_running": process.heard["RUNNING"] - process.started,
    }


def _with_more(stage: Stage, both: Written, topic: str) -> Written:
    """Write the records that come after the restore; say what must come out of all."""
    producer = stage.log.producer(None)
    producer.init()
    producer.begin()
    producer.produce(_more(both, topic))
    producer.commit()
    producer.close()
    rows = itertools.chain(_first(both), _more(both, topic))
    right = Collected(both.workload.compare).add(both.workload.expected(rows))
    return replace(both, right=right, records=both.records + MORE)


def _first(both: Written) -> Iterator[Row]:
    return both.workload.rows(both.size, both.topics[:1])


def _more(both: Written, topic: str) -> Iterator[Row]:
    now = time.time_ns() // 1_000_000
    for _, partition, key, value, _, headers in itertools.islice(_first(both), MORE):
        yield topic, partition, key, value, now, headers
