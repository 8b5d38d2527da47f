"""The numbers of the metrics, as they are now. Reads counters that the loop keeps; asks nobody."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from penstock.admin.inspection import installed_version
from penstock.admin.metric_table import BY_NAME, Metric, MetricKind, user_metric
from penstock.admin.processes import resident_bytes
from penstock.admin.served_app import ServedApp
from penstock.clock import SystemClock, stopwatch_us
from penstock.distribution import Distribution
from penstock.engine.final_results import final_metric
from penstock.engine.fingerprint import fingerprint
from penstock.engine.loop import Loop
from penstock.engine.states import State
from penstock.engine.totals import Totals
from penstock.plan.plan import Plan
from penstock.query.service import Queries
from penstock.serde.registry.client import REQUESTS
from penstock.state.spec import StoreKind
from penstock.topology.node import SinkNode

#: requests of the lanes come with their reports
REGISTRY_REQUESTS = "registry_requests_total"
#: reasons of records that are after the end of their window
LATE = ("late_window", "late_join", "late_session", "late_record")


class Sample(NamedTuple):
    """One number, or one distribution, of a metric; labels in the order of the table."""

    name: str
    labels: tuple[str, ...]
    value: float | Distribution


def measure(running: ServedApp) -> Iterator[Sample]:
    """Yield all samples; what is not known yet is left out. INVARIANT: each is of a row of the table, with its labels."""
    yield from _of_application(running)
    if running.engine is not None:
        yield Sample("lanes", (), running.engine.stage.lanes)
        if running.engine.queries is not None:
            yield from _of_queries(running.engine.queries)
            yield from _of_stores(running.engine.queries, running.engine.stage.plan)
        yield from _of_machine(running.engine.stage.state_dir)
        if running.engine.executor is not None:
            yield Sample("resident_tasks", (), running.engine.executor.resident_tasks)
    loop = running.loop
    if loop is not None:
        yield from _of_epochs(loop)
        yield from _of_input(loop)
        yield from _of_user(loop.totals)
        yield from _of_output(loop, running.app.config["dead_letter_topic"])
        if running.engine is not None:
            yield from _of_plan(loop, running.engine.stage.plan)


def user_table(running: ServedApp) -> dict[str, Metric]:
    """Return the metrics of user code that have been used, by name: rows like those of the table."""
    kinds = {} if running.loop is None else dict(running.loop.totals.user.kinds)
    return {metric.name: metric for metric in (user_metric(name, kind) for name, kind in kinds.items())}


def as_data(samples: Iterator[Sample], user: Mapping[str, Metric]) -> dict[str, list[dict[str, Any]]]:
    """Return samples as plain data, by the whole name of the metric; of a distribution its count and sum."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, labels, value in samples:
        row: dict[str, Any] = dict(zip((BY_NAME.get(name) or user[name]).labels, labels, strict=True))
        if isinstance(value, Distribution):
            row |= {"count": value.cumulative()[-1], "sum": value.total}
        else:
            row["value"] = value
        found.setdefault(f"penstock_{name}", []).append(row)
    return found


def _of_application(running: ServedApp) -> Iterator[Sample]:
    app = running.app
    config = app.config
    labels = (installed_version(), fingerprint(app.topology), config["processing_guarantee"])
    yield Sample("info", labels, 1)
    for state in State:
        yield Sample("state", (str(state),), int(app.state is state))
    yield Sample("paused", (), int(app.paused))
    yield Sample("shards", (), config["shards"])
    yield from _counts("failures_total", app.failures)
    if app.started_at is not None:
        yield Sample("start_time_seconds", (), app.started_at / 1000)
    progress = app.restore_progress
    if progress is not None:
        for store in progress.rows.keys() | progress.stores.keys():
            yield Sample("restore_rows_total", (store,), progress.rows.get(store, 0))
            yield Sample("restore_remaining", (store,), progress.stores.get(store, 0))
    if app.restored_at is not None and app.started_at is not None:
        yield Sample("restore_duration_seconds", (), (app.restored_at - app.started_at) / 1000)


def _of_machine(state_dir: str) -> Iterator[Sample]:
    if os.path.isdir(state_dir):
        disk = os.statvfs(state_dir)
        yield Sample("state_disk_free_bytes", (), disk.f_bavail * disk.f_frsize)
    for process, size in resident_bytes().items():
        yield Sample("process_resident_bytes", (process,), size)


def _of_epochs(loop: Loop) -> Iterator[Sample]:
    meters, totals = loop.attempts.meters, loop.totals
    yield Sample("epoch", (), loop.committed.epoch)
    yield from _counts("epochs_total", meters.epochs)
    yield from _counts("epoch_retries_total", meters.retries)
    for kind, durations in dict(meters.durations).items():
        yield Sample("epoch_duration_seconds", (kind,), durations)
    for step, seconds in dict(meters.steps).items():
        yield Sample("epoch_step_seconds", (step,), seconds)
    for phase, us in dict(totals.spent).items():
        if phase.startswith("lane: "):
            yield Sample("lane_phase_seconds_total", (phase.removeprefix("lane: "),), us / 1e6)
    if loop.history.epochs:
        yield Sample("last_commit_timestamp_seconds", (), loop.history.epochs[-1].committed_at / 1000)
        yield Sample("commit_duration_seconds", (), meters.commits)
        yield Sample("epoch_records", (), meters.records)
        yield Sample("epoch_bytes", (), meters.bytes)
    for (topic, partition), count in dict(totals.read).items():
        yield Sample("records_consumed_total", (topic, str(partition)), count)
    for (topic, partition), size in dict(totals.read_bytes).items():
        yield Sample("bytes_consumed_total", (topic, str(partition)), size)
    stalls = loop.attempts.stalls
    stall = stalls.now
    if stall is not None:
        yield Sample("commit_stall_seconds", (stall.reason,), (stopwatch_us() - stall.since_us) / 1e6)
    away = stopwatch_us() - stall.since_us if stall is not None and stall.away else 0
    yield Sample("broker_unavailable_seconds_total", (), (stalls.unavailable_us + away) / 1e6)
    yield from _late(totals)


def _of_input(loop: Loop) -> Iterator[Sample]:
    lags = loop.lags()
    for (topic, partition), offset in loop.committed.positions.items():
        lag = lags.get((topic, partition), 0)
        place = (topic, str(partition))
        yield Sample("lag_records", place, lag)
        yield Sample("position_offset", place, offset)
        yield Sample("end_offset", place, offset + lag)
    behind: dict[str, int] = {}
    for time in loop.partition_times():
        place = (time.topic, str(time.partition))
        yield Sample("watermark_timestamp_seconds", place, time.watermark / 1000)
        yield Sample("partition_idle", place, int(time.idle))
        if not time.idle:
            behind[time.topic] = min(time.watermark, behind.get(time.topic, time.watermark))
    now = SystemClock().now_ms()
    for topic, watermark in behind.items():
        yield Sample("event_time_lag_seconds", (topic,), (now - watermark) / 1000)


def _late(totals: Totals) -> Iterator[Sample]:
    kept = totals.events.get(("records_late_total", ("dead_letter",)), 0)
    late = sum(count for (_, reason), count in dict(totals.dropped).items() if reason in LATE)
    if late > kept:
        yield Sample("records_late_total", ("drop",), late - kept)


def _of_stores(queries: Queries, plan: Plan) -> Iterator[Sample]:
    """Yield sizes of the stores whose rows are on this machine."""
    for store, (entries, size) in queries.sizes().items():
        yield Sample("store_entries", (store,), entries)
        yield Sample("store_bytes", (store,), size)
        if plan.topology.stores[store].kind is StoreKind.TIMERS:
            for node in plan.topology.nodes:
                if store in plan.topology.stores_of(node):
                    yield Sample("timers", (node,), entries)


def _of_plan(loop: Loop, plan: Plan) -> Iterator[Sample]:
    """Yield what the plan gives a meaning: which nodes give final results, which steps have an exchange before them."""
    totals = loop.totals
    sinks = {node.topic: name for name, node in plan.topology.nodes.items() if isinstance(node, SinkNode)}
    for topic, seconds in dict(loop.attempts.meters.latencies).items():
        yield Sample("record_latency_seconds", (sinks.get(topic, topic),), seconds)
    yield from _stream_times(loop, plan)
    for step in plan.steps:
        if step.exchange and totals.sizes[step.level]:
            yield Sample("exchange_bytes_total", (str(step.level),), totals.sizes[step.level])
    for node, work in dict(totals.nodes).items():
        metric = final_metric(plan.topology, node)
        if metric is not None:
            yield Sample(metric, (node,), work.records_out)


def _stream_times(loop: Loop, plan: Plan) -> Iterator[Sample]:
    """Yield how far each sub-topology is: of each index of its partitions the greatest time, of these the least."""
    known = [each for each in loop.partition_times() if each.time >= 0]
    times = [each for each in known if not each.idle] or known
    for part in plan.topology.subtopologies():
        by_index: dict[int, int] = {}
        for each in times:
            if each.source in part.nodes:
                by_index[each.partition] = max(each.watermark, by_index.get(each.partition, each.watermark))
        if by_index:
            yield Sample("stream_time_seconds", (str(part.id),), min(by_index.values()) / 1000)


def _of_user(totals: Totals) -> Iterator[Sample]:
    for name, values in dict(totals.user.values).items():
        metric = user_metric(name, totals.user.kinds[name])
        for labels, value in dict(values).items():
            yield Sample(metric.name, labels, value)


def _of_queries(queries: Queries) -> Iterator[Sample]:
    for asked, count in dict(queries.meter.counts).items():
        yield Sample("queries_total", asked, count)
    for answered, seconds in dict(queries.meter.seconds).items():
        yield Sample("query_seconds", answered, seconds)
    yield Sample("open_snapshots", (), queries.open_readings())


def _errors(totals: Totals) -> Counter[tuple[str, str, str]]:
    found: Counter[tuple[str, str, str]] = Counter()
    for group in totals.failures.groups():
        found[group.reason, group.action, group.node] += group.count
    return found


def _of_output(loop: Loop, dead_letter_topic: str | None) -> Iterator[Sample]:
    totals, meters = loop.totals, loop.attempts.meters
    events = Counter(dict(totals.events))
    events.update({(REGISTRY_REQUESTS, asked): count for asked, count in dict(REQUESTS).items()})  # by the driver
    for (metric, labels), count in events.items():
        yield Sample(metric, labels, count)
    for (metric, labels), spread in dict(totals.spread).items():
        yield Sample(metric, labels, spread)
    for (metric, labels), places in dict(totals.gauges).items():
        yield Sample(metric, labels, sum(dict(places).values()))
    for failed, count in _errors(totals).items():
        yield Sample("errors_total", failed, count)
    for node, work in dict(totals.nodes).items():
        yield Sample("node_records_in_total", (node,), work.records_in)
        yield Sample("node_records_out_total", (node,), work.records_out)
        yield Sample("node_seconds_total", (node,), work.us / 1e6)
    for name, counts in (("records_dropped_total", totals.dropped), ("batch_fallbacks_total", totals.fallbacks)):
        for (node, reason), count in dict(counts).items():
            yield Sample(name, (node, reason), count)
    yield from _counts("records_produced_total", totals.records_out)
    yield from _counts("bytes_produced_total", meters.produced_bytes)
    yield from _counts("records_refused_total", totals.refused)
    yield from _counts("changelog_rows_total", meters.changelog_rows)
    if dead_letter_topic is not None:
        yield Sample("dead_letters_total", (), totals.records_out.get(dead_letter_topic, 0))


def _counts(name: str, counts: Mapping[str, int]) -> Iterator[Sample]:
    assert BY_NAME[name].kind is MetricKind.COUNTER
    for label, count in dict(counts).items():
        yield Sample(name, (label,), count)
