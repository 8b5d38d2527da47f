"""Metrics of a running application that are the numbers of what was planted: stores, buffers, timers, calls, late records, latency."""

import os
import threading

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.app.conftest import Cluster, Starter

from penstock import (
    Buffer,
    LatePolicy,
    Processor,
    PunctuationType,
    Serdes,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from penstock.engine import commit
from penstock.engine.epoch import EpochState
from penstock.errors import BrokerError
from penstock.query.queries import KeyQuery

START = 1_600_000_020_000
TEXT = {"key": Serdes.string, "value": Serdes.string}


class Reminders(Processor):
    """A timer for each key that never comes due, and a punctuator by stream time."""

    def init(self, context):
        self.context = context
        context.schedule(10_000, PunctuationType.STREAM_TIME, lambda now: None)

    def process(self, record):
        self.context.timers.register_event_time(record.key, START + 10**9)
        self.context.forward(record)


def program(lines, dropped, kept, out, held):
    failed = set()

    def ask(value):
        if value == "again" and value not in failed:
            failed.add(value)
            raise OSError("busy")
        return value

    builder = StreamsBuilder()
    stream = builder.stream(lines, **TEXT)
    asked = stream.map_values_async(ask, retries=2, name="ask")
    builder.add_state_store(Stores.timers("reminders"))
    asked.process(Reminders, stores=["reminders"], name="remind").to(out, **TEXT)
    table = stream.group_by_key(**TEXT).count(store=Stores.key_value("counts", cached=False))
    table.suppress(Suppressed.until_time_limit(10**9, Buffer.unbounded()), name="held").to_stream().to(
        held, value=Serdes.int64
    )
    for topic, policy, store in ((dropped, None, "open"), (kept, LatePolicy.dead_letter, "strict")):
        source = builder.stream(topic, **TEXT, late=policy)
        source.group_by_key(**TEXT).windowed_by(TimeWindows(1_000)).count(store=store)
    return builder


@pytest.fixture(scope="module")
def measured(kafka_broker, spark_session, tmp_path_factory):
    cluster = Cluster(kafka_broker.bootstrap_servers, f"measured-{os.getpid()}")
    start = Starter(spark_session, cluster, tmp_path_factory.mktemp("state"))
    topics = [cluster.topic(name) for name in ("lines", "late-dropped", "late-kept", "out", "out-held", "errors")]
    lines, *_, errors = topics
    rows = [(f"k{n % 10}", "again" if n == 4 else f"v{n}", START + 1_000 * n) for n in range(40)]
    cluster.send(lines, *rows, ("k0", "old", START))
    for name in ("late-dropped", "late-kept"):
        cluster.send(cluster.name(name), ("a", "x", START + 60_000), *(("a", "x", START) for _ in range(3)))
    app = start.app(program(*topics[:5]), admin="0", dead_letter_topic=errors)
    app.start().wait_until_running(120_000)
    position = {(lines, 0): 40, (cluster.name("late-kept"), 0): 3, (cluster.name("late-dropped"), 0): 3}
    app.query("counts", KeyQuery("k0"), at_least=position, wait_ms=30_000)
    yield app, cluster, start
    start.close()
    cluster.close()


@pytest.fixture
def now(measured):
    """The samples by name: {labels but the application: value}; of a histogram (count, sum)."""
    found: dict[str, dict] = {}
    for name, rows in measured[0].metric_samples().items():
        for row in rows:
            value = (row.pop("count"), row.pop("sum")) if "count" in row else row.pop("value")
            found.setdefault(name.removeprefix("penstock_"), {})[tuple(row.values())] = value
    return found


def test_stores_say_how_much_is_in_them_and_was_written(measured, now):
    sizes = lambda: {row["store"]: row["value"] for row in measured[0].metric_samples()["penstock_store_entries"]}  # noqa: E731
    until(lambda: sizes().get("counts") == 10)  # once the lane has heard of the barrier
    assert {row["store"] for row in measured[0].metric_samples()["penstock_store_bytes"] if row["value"]} >= {"counts"}
    assert now["store_writes_total"]["counts",] == 10, "one row of each key, at the barrier"
    assert sizes()["open"] == sizes()["strict"] == 1


def test_what_a_suppress_node_holds_back_is_counted(now):
    assert now["suppress_buffer_records"] == {("held-store",): 10} or list(now["suppress_buffer_records"].values()) == [
        10
    ]
    (size,) = now["suppress_buffer_bytes"].values()
    assert size > 10 * 28


def test_timers_punctuators_and_calls(now):
    assert now["timers"] == {("remind",): 10}
    calls, seconds = now["punctuation_seconds"]["remind", "stream"]
    assert calls == now["punctuations_total"]["remind", "stream"] > 0
    assert seconds > 0
    assert now["async_retries_total"] == {("ask",): 1}
    calls, seconds = now["async_call_seconds"]["ask",]
    assert calls == 41
    assert seconds >= 0.1, "the pause before the second attempt"
    assert 1 <= now["async_in_flight"]["ask",] <= 64 * 2


def test_late_records_are_counted_by_policy_and_by_how_late_they_are(measured, now):
    cluster = measured[1]
    assert now["records_late_total"] == {("drop",): 3, ("dead_letter",): 3}
    assert now["record_lateness_seconds"][cluster.name("late-kept"),] == (4, 180)
    assert now["record_lateness_seconds"][cluster.name("lines"),] == (41, 39)


def test_bytes_latency_and_times(measured, now):
    cluster = measured[1]
    read = cluster.read(cluster.name("lines"))
    size = sum(len(record.key) + len(record.value) for record in read)
    assert now["bytes_consumed_total"][cluster.name("lines"), "0"] == size
    sinks = dict(now["record_latency_seconds"].values())
    assert sinks.keys() == {41, 3}, "records and dead letters; the suppressed rows have not left"
    assert sinks[41] > 41 * 1_000_000, "these are records of the year 2020"
    assert now["stream_time_seconds"]
    assert max(now["stream_time_seconds"].values()) <= (START + 60_000) / 1000
    assert now["broker_unavailable_seconds_total"] == {(): 0}
    assert "failures_total" not in now
    assert "commit_stall_seconds" not in now


def test_a_broker_that_does_not_answer_is_a_stall_and_time_that_is_counted(measured, monkeypatch):
    app, cluster, _ = measured
    away, perform = threading.Event(), commit.PERFORM[EpochState.SEND_OFFSETS]

    def send_offsets(work):
        if away.is_set():
            raise BrokerError("nobody there", retriable=True, abortable=True)
        perform(work)

    monkeypatch.setitem(commit.PERFORM, EpochState.SEND_OFFSETS, send_offsets)
    away.set()
    cluster.send(cluster.name("late-dropped"), ("a", "x", START + 60_000))
    stall = until(lambda: app.metric_samples().get("penstock_commit_stall_seconds"))
    away.clear()
    assert stall[0]["reason"] == "BrokerError"
    until(lambda: not app.metric_samples().get("penstock_commit_stall_seconds"))
    assert app.metric_samples()["penstock_broker_unavailable_seconds_total"][0]["value"] > 0


def test_every_sample_is_on_the_page_for_prometheus(measured):
    text = httpx.get(f"http://{measured[0].admin_address}/metrics", timeout=30).text
    names = {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}
    for name in measured[0].metric_samples():
        assert names & {name, f"{name}_count"}, name


def test_what_is_restored_is_counted_by_store(measured):
    app, cluster, start = measured
    assert app.close()
    start.forget()
    again = start.app(app.topology, dead_letter_topic=cluster.name("errors"), admin="0")
    again.start().wait_until_running(120_000)
    rows = {row["store"]: row["value"] for row in again.metric_samples()["penstock_restore_rows_total"]}
    assert rows["counts"] == 10
    assert rows["open"] >= 2, "of the first epoch, and of the one after the stall"
    assert again.close()


def until(f):
    for _ in range(900):
        if (found := f()) or found is True:
            return found
        threading.Event().wait(0.1)
    raise AssertionError("it never comes to hold")
