"""What is old to the clock of a broker is not old to a store: nothing that is needed leaves a changelog, and what is not does."""

import pytest

from penstock import JoinWindows, Serdes, SessionWindows, Stores, StreamsBuilder, TimeWindows
from penstock.dev.broker import QUICK_START, Broker
from penstock.engine import changelog_expiry
from penstock.log.base import TopicSpec

START = 1_600_000_020_000
TEXT = {"key": Serdes.string, "value": Serdes.string}
#: a broker that looks for old records all the time
EAGER = {
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.min.cleanable.ratio": "0.01",
}


@pytest.fixture(scope="module")
def kafka_broker():
    with Broker(java_options=[QUICK_START], settings=EAGER) as broker:
        yield broker


def topology(left, right):
    builder = StreamsBuilder()
    stream, other = builder.stream(left, **TEXT), builder.stream(right, **TEXT)
    stream.group_by_key().windowed_by(TimeWindows(3_600_000, grace=0)).count(store="windows")
    stream.group_by_key().windowed_by(SessionWindows(3_600_000, grace=0)).count(store="sessions")
    joined = stream.join(other, lambda a, b: f"{a}{b}", window=JoinWindows(3_600_000, grace=0), store="join", **TEXT)
    joined.group_by_key().count(store="matches")
    builder.table(left + "-table", **TEXT, store=Stores.versioned("versions", 3_600_000, **TEXT))
    return builder


def test_state_of_old_event_times_outlives_the_cleaner_of_the_broker(start, cluster):
    left, right = cluster.topic("left"), cluster.topic("right")
    table = f"{left}-table"
    cluster.log.admin.ensure_topics([TopicSpec(table, 1, {"retention.ms": "-1"})])
    first = start(topology(left, right))
    for n in range(3):
        cluster.send(left, ("a", str(n), START + n), ("b", str(n), START + n))
        cluster.send(table, ("a", str(n), START + n))
        first.drain()
    first.close()
    start.forget()
    _cleaned(cluster)
    cluster.send(left, ("a", "3", START + 10))
    cluster.send(right, ("b", "x", START + 10))
    cluster.send(table, ("a", "3", START + 10))
    again = start(topology(left, right)).drain()
    assert sorted(count for _, count in again.view("windows").all()) == [3, 4]
    assert {key: [count for _, count in again.view("sessions").fetch(key)] for key in "ab"} == {"a": [4], "b": [3]}
    assert dict(again.view("matches").all()) == {"b": 3}
    assert [version.value for version in again.view("versions").history("a")] in (list("0123"), list("3210"))


def _cleaned(cluster):
    """Wait until the broker has gone through its topics: what was written to one with a retention is deleted there."""
    topic = cluster.topic("canary", cleanup_policy="compact,delete", retention_ms=86_400_000)
    for _ in range(2):
        before = cluster.log.admin.end_offsets([(topic, 0)])[topic, 0]
        cluster.send(topic, ("a", "1", START))
        while cluster.log.admin.earliest_offsets([(topic, 0)])[topic, 0] == before:
            pass


def test_the_changelog_of_windows_is_cut_as_their_time_goes_on(start, cluster, monkeypatch):
    monkeypatch.setattr(changelog_expiry, "EVERY_MS", 0)
    lines, out = cluster.topic("lines"), cluster.topic("out")
    builder = StreamsBuilder()
    counted = builder.stream(lines, **TEXT).group_by_key().windowed_by(TimeWindows(1000, grace=1000))
    counts = counted.count(store=Stores.window("windows", 2000, 1000, cached=False))
    counts.to_stream().to(out, key=Serdes.windowed(Serdes.string, 1000), value=Serdes.int64)
    changelog = f"{start.application_id}-windows-changelog"
    driven = start(builder, shards=1)
    begins = []
    for minute in range(6):
        cluster.send(lines, *(("a", "v", START + minute * 60_000 + n * 300) for n in range(4)))
        driven.drain()
        begins.append(cluster.log.admin.earliest_offsets([(changelog, 0)])[changelog, 0])
    # a row and a marker an epoch; those of the last two minutes are kept
    assert [begin // 2 for begin in begins] in ([0, 0, 0, 1, 2, 3], [0, 0, 1, 2, 3, 4])
    driven.close()
    start.forget()
    again = start(builder, shards=1)
    assert again.restored == 2
    cluster.send(lines, ("a", "v", START + 5 * 60_000 + 950), ("a", "late", START))
    again.drain()
    assert [int.from_bytes(row.value, "big") for row in cluster.read(out)] == [1, 2, 3, 4] * 6 + [5]
    assert sum(again.loop.totals.dropped.values()) == 1
