"""Queries of a running application, through a real broker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock import (
    KeyQuery,
    NotAvailable,
    NotUpToBound,
    RangeQuery,
    Serdes,
    Stores,
    StreamsBuilder,
    TimeWindows,
    UnknownStore,
    ValueAndTimestamp,
    Windowed,
    WindowRangeQuery,
)
from penstock.query.barriers import Barrier, Barriers, position_of
from penstock.query.followed_shards import FollowedShards
from penstock.query.routing import Routing
from penstock.query.service import Queries

NUMBERS = {"key": Serdes.string, "value": Serdes.int64}


class Unlogged:
    def init(self, context):
        self.store = context.store("unlogged")

    def process(self, record):
        self.store.put(record.key, (self.store.get(record.key) or 0) + 1)

    def close(self):
        pass


def topology(topic, names):
    builder = StreamsBuilder()
    words = builder.stream(topic, value=Serdes.string)
    grouped = words.group_by_key(value=Serdes.string)
    grouped.count(store="counts")
    grouped.windowed_by(TimeWindows(1000)).count(store=Stores.window("windows", 60_000, 1000, persistent=False))
    builder.add_state_store(Stores.key_value("unlogged", logged=False, **NUMBERS))
    words.process(Unlogged, stores=["unlogged"])
    builder.global_table(names, value=Serdes.string, store="names")
    return builder


def test_a_client_reads_its_own_writes(start, cluster):
    topic, names = cluster.topic("words", partitions=2), cluster.topic("names")
    cluster.send(names, ("de", "Germany", 1))
    app = start.app(topology(topic, names), shards=8)
    with pytest.raises(NotAvailable, match="wait_until_running"):
        app.query("counts", KeyQuery("a"))
    app.start().wait_until_running(120_000)
    assert app.query("counts", KeyQuery("a")).value is None
    with pytest.raises(UnknownStore, match="did you mean 'counts'"):
        app.store("count")
    for offset in range(15):
        cluster.send(topic, ("a", "x", 5000 + offset, offset % 2))
        found = app.query("counts", KeyQuery("a"), at_least={(topic, offset % 2): offset // 2}, wait_ms=60_000)
        assert found.value == offset + 1
        assert found.position[topic, offset % 2] == offset // 2
        assert app.store("unlogged").get("a") == offset + 1
    assert app.query("names", KeyQuery("de")).value == "Germany"
    rows = list(app.query("windows", WindowRangeQuery(0, 10_000)))
    assert rows == [(Windowed("a", 5000, 6000), ValueAndTimestamp(15, 5014))]
    with pytest.raises(NotUpToBound, match="asked for 99"):
        app.query("counts", KeyQuery("a"), at_least={(topic, 0): 99}, wait_ms=50)
    _reads_stay_at_their_barrier(app, cluster, topic)
    _changes_are_told(app, cluster, topic)
    app.close()
    with pytest.raises(NotAvailable, match="NOT_RUNNING"):
        app.query("counts", KeyQuery("a"))
    _restored(start, topic, names)


def _reads_stay_at_their_barrier(app, cluster, topic):
    """Scans and snapshots do not move, while epochs go on."""
    scan = app.store("counts").all()
    with app.snapshot() as before:
        cluster.send(topic, *((f"k{n}", "x", 6000, 0) for n in range(500)))
        after = app.query("counts", RangeQuery(), at_least={(topic, 0): 7 + 500}, wait_ms=60_000)
        assert len(list(after)) == 501
        assert after.epoch > before.epoch
        assert list(before.query("counts", RangeQuery())) == [("a", 15)]
        assert before.store("counts").get_with_timestamp("a") == ValueAndTimestamp(15, 5014)
        assert before.store("counts").get("k1") is None
    assert list(scan) == [("a", 15)]


def _changes_are_told(app, cluster, topic):
    """The rows of each barrier reach whoever subscribes, and nobody after that."""
    heard, barriers = [], []
    with app.changes.subscribe("counts", heard.append), app.barriers.subscribe(barriers.append):
        cluster.send(topic, ("a", "x", 7000, 0), ("b", "x", 7000, 1))
        app.barriers.wait({(topic, 0): 508, (topic, 1): 7}, wait_ms=60_000)
    rows = {row.key: (row.shard, row.value, row.timestamp) for changes in heard for row in changes}
    for key, count in (("a", 16), ("b", 1)):
        shard = app.metadata_for_key("counts", key).shard
        assert rows[key.encode()] == (shard, Serdes.int64.serialize(count), 7000)
    assert {changes.barrier.epoch for changes in heard} <= {barrier.epoch for barrier in barriers}
    before = len(heard)
    cluster.send(topic, ("a", "x", 7001, 0))
    app.barriers.wait({(topic, 0): 509}, wait_ms=60_000)
    assert len(heard) == before
    assert app.changes.wanted == frozenset()


def _restored(start, topic, names):
    """A start finds all of it again, but what no log has: there, nothing was lost locally."""
    again = start.app(topology(topic, names), shards=8).start().wait_until_running(120_000)
    found = again.query("counts", KeyQuery("a"))
    assert (found.value, found.position[topic, 0]) == (17, 509)
    assert again.query("names", KeyQuery("de")).value == "Germany"
    assert len(list(again.query("windows", WindowRangeQuery(0, 10_000)))) == 503
    again.close()
    start.forget()
    third = start.app(topology(topic, names), shards=8).start().wait_until_running(120_000)
    assert dict(third.query("counts", RangeQuery("a", "b"))) == {"a": 17, "b": 1}
    assert list(third.store("unlogged").all()) == []
    third.close()


def test_a_driver_without_the_lanes_disk_follows_the_changelogs(start, cluster, tmp_path):
    """As on a cluster: its copy is brought to each barrier that is asked for, and snapshots of earlier ones stay."""
    topic, names = cluster.topic("words"), cluster.topic("names")
    cluster.send(names, ("de", "Germany", 1))
    driven = start(topology(topic, names), shards=4)
    stage = replace(driven.engine.stage, state_dir=str(tmp_path / "elsewhere"))
    barriers = Barriers()
    queries = Queries(
        Routing(stage.plan, stage.shards, stage.lanes), FollowedShards(stage), stage.shards,
        barriers=barriers, global_stores=True, moves_ahead=False, timeout_ms=60_000,
    )  # fmt: skip
    held = []
    try:
        for epoch in range(1, 6):
            cluster.send(topic, *((f"k{n}", "x", 5000) for n in range(epoch * 10)))
            assert driven.loop.step()
            at = driven.loop.committed
            queries.publish(Barrier(at.epoch, position_of(at.positions)), driven.loop.attempts.at_barrier())
            held.append(queries.snapshot())
            assert dict(queries.query("counts", RangeQuery())) == dict(driven.view("counts").all())
            assert queries.query("names", KeyQuery("de")).value == "Germany"
            found, wanted = (
                list(q.query("windows", WindowRangeQuery(0, 9000))) for q in (queries, driven.engine.queries)
            )
            assert found == wanted
        for epoch, snapshot in enumerate(held, 1):
            rows = dict(snapshot.store("counts").all())
            assert rows == {f"k{n}": epoch - n // 10 for n in range(epoch * 10)}, epoch
    finally:
        queries.close()
