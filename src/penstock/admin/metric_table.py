"""The metrics, as one table: ``/metrics``, ``app.metric_samples()``, ``docs/metrics.md`` and the board of Grafana are made of it.

Every row is measured; nothing is here that would always be zero. ``kafka_streams``: the name that Micrometer gives a metric of Kafka
Streams with the same meaning, for the setting ``metrics_names``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import chain


class MetricKind(Enum):
    """What Prometheus does with it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


C, G, H, I = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM, MetricKind.INFO  # noqa: E741 (as in the table)


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table; its name is without ``penstock_``. All have the label ``application_id``, too."""

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    help: str
    kafka_streams: str | None = None


NODE, TASK, STATE = "kafka_stream_processor_node", "kafka_stream_task", "kafka_stream_state"
PARTITION = ("topic", "partition")
#: by the rows of the board, in their order
SECTIONS: dict[str, tuple[Metric, ...]] = {
    "Application": (
        Metric("state", G, ("state",), "1 for the state that the application is in, 0 for the others."),
        Metric("paused", G, (), "1 while the application is paused."),
        Metric("info", I, ("version", "fingerprint", "guarantee"), "Version of Penstock, and the topology that runs."),
        Metric("start_time_seconds", G, (), "When the application was started, as Unix time.", "kafka_stream_thread_start_time"),
        Metric("failures_total", C, ("kind",), "Errors that ended the application, also where it was started again."),
        Metric("lanes", G, (), "Lanes.", "kafka_stream_alive_stream_threads"),
        Metric("shards", G, (), "Shards."),
        Metric("resident_tasks", G, (), "Spark tasks that stay for the next inline epoch."),
        Metric("epoch", G, (), "Number of the last committed epoch."),
    ),
    "Input": (
        Metric("lag_records", G, PARTITION, "Offsets that wait to be read.", "kafka_consumer_fetch_manager_records_lag"),
        Metric("records_consumed_total", C, PARTITION, "Records read from source topics.", "kafka_stream_topic_records_consumed_total"),
        Metric("bytes_consumed_total", C, PARTITION, "Bytes of their keys and values.", "kafka_stream_topic_bytes_consumed_total"),
        Metric("event_time_lag_seconds", G, ("topic",), "How far the slowest partition that is waited for is behind the clock."),
        Metric("watermark_timestamp_seconds", G, PARTITION, "How far the event time of the partition has come, as Unix time."),
        Metric("partition_idle", G, PARTITION, "1 while the partition is quiet, and no time is held back for it."),
        Metric("stream_time_seconds", G, ("subtopology",), "Event time of a sub-topology, as Unix time."),
        Metric("record_lateness_seconds", H, ("topic",), "How far records are behind the time of their partition as they are read."),
        Metric("records_late_total", C, ("policy",), "Records after the end of their window, by the late policy: drop, dead_letter."),
        Metric("position_offset", G, PARTITION, "The next offset to read, as of the last barrier."),
        Metric("end_offset", G, PARTITION, "The last stable offset, as last seen."),
    ),
    "Epochs": (
        Metric("epochs_total", C, ("kind",), "Committed epochs: inline, spark, tick.", "kafka_stream_thread_commit_total"),
        Metric("epoch_duration_seconds", H, ("kind",), "From the run of the lanes to the commit."),
        Metric("epoch_step_seconds", H, ("step",), "Time of each step of an epoch, in the driver."),
        Metric("commit_duration_seconds", H, (), "From the begin of the transaction to its commit."),
        Metric("epoch_records", H, (), "Records of an epoch with input."),
        Metric("epoch_bytes", H, (), "Bytes of the records of an epoch with input, as they are held when read."),
        Metric("epoch_retries_total", C, ("reason",), "Attempts of epochs that failed and were run again, by error."),
        Metric("registry_requests_total", C, ("op", "code"), "Requests to schema registries: register, lookup, latest, schema."),
        Metric("commit_stall_seconds", G, ("reason",), "How long the epoch at hand is run again and again, by error."),
        Metric("broker_unavailable_seconds_total", C, (), "Time for which the broker did not answer."),
        Metric("last_commit_timestamp_seconds", G, (), "When the last epoch was committed, as Unix time."),
        Metric("lane_phase_seconds_total", C, ("phase",), "Time of all lanes together, and of the driver, by phase."),
        Metric("exchange_bytes_total", C, ("step",), "Bytes of records that came to a step by an exchange."),
    ),
    "Nodes": (
        Metric("node_seconds_total", C, ("node",), "Time of all lanes in a node, without nodes below; of single records sampled."),
        Metric("node_records_in_total", C, ("node",), "Records that came to a node.", f"{NODE}_process_total"),
        Metric("node_records_out_total", C, ("node",), "Records that a node has forwarded to the next ones.", f"{NODE}_forward_total"),
        Metric("batch_fallbacks_total", C, ("node", "reason"), "Batches that went to the record path."),
        Metric("final_results_total", C, ("node",), "Results of windows, given out as these close.", f"{NODE}_emit_final_records_total"),
        Metric("suppress_emitted_total", C, ("node",), "Rows that a suppress node has given out.", f"{NODE}_suppression_emit_total"),
        Metric("punctuations_total", C, ("node", "clock"), "Calls of punctuators and time-driven sources.", f"{TASK}_punctuate_total"),
        Metric("punctuation_seconds", H, ("node", "clock"), "Time of these calls, with nodes below."),
        Metric("timers", G, ("node",), "Timers of keys that wait, about so many."),
        Metric("timers_fired_total", C, ("node",), "Timers of keys that have fired."),
        Metric("async_in_flight", G, ("node",), "Most calls of map_values_async at a time, in the last epoch with calls of each lane."),
        Metric("async_call_seconds", H, ("node",), "Time of these calls, with attempts and pauses."),
        Metric("async_retries_total", C, ("node",), "Attempts after one that failed."),
    ),
    "Errors": (
        Metric("errors_total", C, ("kind", "action", "node"), "Records at which something failed, by what the policy said."),
        Metric("dead_letters_total", C, (), "Rows written to the dead-letter topic."),
        Metric("records_dropped_total", C, ("node", "reason"), "Records that were dropped.", f"{TASK}_dropped_records_total"),
        Metric("records_refused_total", C, ("topic",), "Rows that could not be sent, and were left out by the policy."),
    ),
    "Output": (
        Metric("records_produced_total", C, ("topic",), "Rows written to sink topics.", "kafka_stream_topic_records_produced_total"),
        Metric("bytes_produced_total", C, ("topic",), "Bytes of their keys and values.", "kafka_stream_topic_bytes_produced_total"),
        Metric("record_latency_seconds", H, ("node",), "From a row's timestamp to its commit, by sink; up to a thousand rows of a batch."),
    ),
    "State": (
        Metric("store_entries", G, ("store",), "Entries in the local state, about so many.", f"{STATE}_num_keys"),
        Metric("store_bytes", G, ("store",), "Bytes of the local state in use."),
        Metric("store_writes_total", C, ("store",), "Rows written to a store at barriers; of each key the last one of an epoch."),
        Metric("suppress_buffer_records", G, ("store",), "Rows that wait in suppress nodes.", f"{STATE}_suppression_buffer_count_current"),
        Metric("suppress_buffer_bytes", G, ("store",), "Bytes of these rows.", f"{STATE}_suppression_buffer_size_current"),
        Metric("changelog_rows_total", C, ("store",), "Rows written to the changelog of a store."),
        Metric("restore_remaining", G, ("store",), "Changelog offsets that the restore has still to read."),
        Metric("restore_rows_total", C, ("store",), "Changelog rows read by the restore of this start.", f"{TASK}_restore_total"),
        Metric("restore_duration_seconds", G, (), "From the start of the application to the end of the restore."),
        Metric("state_disk_free_bytes", G, (), "Bytes that are free where the local state is."),
        Metric("process_resident_bytes", G, ("process",), "Memory of the driver, of the JVM and of the workers of this machine."),
    ),
    "Queries and HTTP": (
        Metric("queries_total", C, ("store", "query", "outcome"), "Queries of stores: answered, or the error."),
        Metric("query_seconds", H, ("store", "query"), "Time of queries, up to the first row of those that give many."),
        Metric("open_snapshots", G, (), "Snapshots and scans that are open.", "kafka_stream_state_num_open_iterators"),
        Metric("subscribers", G, (), "Streams of events and changes that are open."),
        Metric("http_requests_total", C, ("route", "code"), "Requests to the admin endpoints."),
    ),
}  # fmt: skip
METRICS = tuple(chain.from_iterable(SECTIONS.values()))

BY_NAME = {metric.name: metric for metric in METRICS}


def user_metric(name: str, kind: str) -> Metric:
    """Return the row of a metric of user code.

    >>> user_metric("orders", "counter").name
    'user_orders_total'
    """
    suffix = "_total" if kind == MetricKind.COUNTER.value else ""
    labels = ("node", "lane") if kind == MetricKind.GAUGE.value else ("node",)
    return Metric(f"user_{name.removesuffix('_total')}{suffix}", MetricKind(kind), labels, "A metric of user code.")


def table() -> str:
    """Return the metrics as a Markdown table, for the documentation."""
    lines = ["| metric | type | labels | meaning | Kafka Streams |", "| --- | --- | --- | --- | --- |"]
    for row in METRICS:
        labels = ", ".join(f"`{label}`" for label in row.labels)
        alias = f"`{row.kafka_streams}`" if row.kafka_streams else ""
        lines.append(f"| `penstock_{row.name}` | {row.kind.value} | {labels} | {row.help} | {alias} |")
    return "\n".join(lines)
