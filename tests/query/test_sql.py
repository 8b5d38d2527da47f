"""Any Spark session reads any store at the last committed barrier: equal to the store, whether the application runs or not."""

import json
import os
import random
import re
import runpy
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.app.test_restore import KEYS, every_kind, script, stores
from tests.docs.blocks import run
from tests.query.kinds import START, STORES, more_kinds

from penstock import Serde, Serdes, StreamsBuilder, sql
from penstock.errors import ConfigError, StoreError
from penstock.log.base import TopicSpec
from penstock.log.topics import changelog_name

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ROOT = Path(__file__).parents[2]


def millis(moment):
    """Return a time of Spark's, which Python is given in the zone of the machine, as milliseconds."""
    return None if moment is None else round((moment.astimezone(UTC) - EPOCH) / timedelta(milliseconds=1))


@pytest.fixture
def frame(spark_session, cluster, start):
    def make(store, **options):
        return sql.frame(spark_session, start.application_id, store, bootstrap_servers=cluster.servers, **options)

    return make


def rows(made):
    """Return the rows of a frame as (key, value, timestamp, start, end)."""
    return sorted(((r[0], r[1], *map(millis, r[2:5])) for r in made.collect()), key=repr)


def of_table(view, frame, store):
    """Compare a key-value store, with its timestamps if it keeps them, and return how many rows it has."""
    wanted, found = sorted(view(store).all()), rows(frame(store))
    assert [row[:2] for row in found] == [(key, _plain(value)) for key, value in wanted]
    for key, _, time, start, end in found:
        kept = view(store).get_with_timestamp(key).timestamp
        assert (start, end) == (None, None)
        assert kept in (-1, time)
    return len(found)


def _plain(value):
    return json.dumps(value, separators=(",", ":")) if isinstance(value, dict) else value


def of_windows(view, frame, store):
    wanted = sorted(((key.key, value, key.start, key.end) for key, value in view(store).all()), key=repr)
    found = [(key, value, start, end) for key, value, _, start, end in rows(frame(store))]
    assert sorted(found, key=repr) == wanted
    return len(found)


def of_sessions(view, frame, store, keys):
    wanted = [(s.key, value, s.start, s.end) for key in keys for s, value in view(store).fetch(key)]
    assert [(key, value, start, end) for key, value, _, start, end in rows(frame(store))] == sorted(wanted, key=repr)
    return len(wanted)


def of_versions(view, frame, store, keys):
    wanted = [(key, last.value, last.timestamp) for key in keys if (last := view(store).get(key)) is not None]
    assert [row[:3] for row in rows(frame(store))] == sorted(wanted)
    return len(wanted)


def send_all(cluster, records):
    for topic in ("left", "right", "table"):
        cluster.send(cluster.name(topic), *(row for name, row in records if name == topic))


def compare_all(view, frame):
    return [
        *(of_table(view, frame, store) for store in ("counts", "plain", "recent")),
        *(of_windows(view, frame, store) for store in ("windows", "join-this-join-store")),
        of_sessions(view, frame, "sessions", KEYS),
        of_versions(view, frame, "versions", KEYS),
    ]


def test_every_kind_of_store_is_equal_while_it_runs_and_after_it_has_ended(start, cluster, frame):
    topics = ("left", "right", "table", "tables", "windows", "sessions", "closed", "joined", "as-of", "kept", "rang")
    for topic in topics:
        cluster.topic(topic)
    send_all(cluster, script(1, 0, 200))
    driven = start(every_kind(cluster.name)).drain()
    seen = compare_all(driven.view, frame)
    assert all(seen), seen
    send_all(cluster, script(2, 200, 60))
    wanted = stores(driven.drain().view)
    driven.close()
    start.forget()
    held = {store: rows(frame(store)) for store in ("counts", "windows", "versions")}
    again = start(every_kind(cluster.name))  # no epoch: it stands where the first one ended
    assert stores(again.view) == wanted
    assert [row[:2] for row in held["counts"]] == sorted(again.view("counts").all())
    assert sorted((key, value, start) for key, value, _, start, _ in held["windows"]) == sorted(
        (key.key, value, key.start) for key, value in again.view("windows").all()
    )
    assert [row[:3] for row in held["versions"]] == [
        (key, last.value, last.timestamp) for key in KEYS if (last := again.view("versions").get(key)) is not None
    ]
    with pytest.raises(
        StoreError, match=r"'closing-store' is a buffer store: .* cannot be read as a table. Read .*counts"
    ):
        frame("closing-store")
    with pytest.raises(StoreError, match="'timers' is a timers store"):
        frame("timers")


def test_stores_with_other_logs_are_equal_or_refused_with_what_to_do(start, cluster, frame):
    for topic in ("lines", "others"):
        cluster.topic(topic, partitions=3)
    cluster.topic("prices", partitions=3)
    cluster.topic("rates", partitions=2)
    cluster.topic("names")
    draw = random.Random(5)
    sent = {"lines": [], "others": [], "prices": []}
    for number in range(300):
        row = (draw.choice(KEYS) + str(draw.randrange(9)), draw.choice(("a", "b", "")), START + number * 40)
        sent["lines" if number % 3 else "others"].append((*row, draw.randrange(3)))
        price = None if draw.random() < 0.2 else json.dumps({"cents": number}, separators=(",", ":"))
        sent["prices"].append((row[0], price, row[2], int(row[0][-1]) % 3))
    for topic, records in sent.items():
        cluster.send(cluster.name(topic), *records)
    cluster.send(cluster.name("prices"), (None, "{}", START, 1), ("ant0", "{", START + 20_000, 1))
    cluster.send(cluster.name("rates"), *((key, (7).to_bytes(8, "big"), START, n % 2) for n, key in enumerate(KEYS)))
    topology = more_kinds(cluster.name)
    assert topology.stores["prices"].source_topic == cluster.name("prices")
    driven = start(topology, on_deserialization_error="skip").drain()
    for store in STORES:
        seen = (of_windows if store == "windows-in-memory" else of_table)(driven.view, frame, store)
        assert seen, store
    shards = {(row["key"], row["shard"]) for row in frame("prices").collect()}
    assert {shard for _, shard in shards} == {0, 1, 2, 3}
    assert frame("prices").rdd.getNumPartitions() == 3
    assert frame("brief").rdd.getNumPartitions() == 4
    assert {row["shard"] for row in frame("rates").collect()} == {None}
    with pytest.raises(StoreError, match=r"'unlogged' has logged=False.*give it logged=True, or ask the application"):
        frame("unlogged")
    with pytest.raises(StoreError, match=r"the global store 'made' is what a processor makes of topic"):
        frame("made")
    with pytest.raises(StoreError, match=r"has no store 'price' \(did you mean 'prices'\?\); it has: all, brief"):
        frame("price")


def test_an_application_that_has_committed_nothing_is_refused(spark_session, cluster):
    with pytest.raises(StoreError, match="no committed epoch of an application 'nobody'"):
        sql.frame(spark_session, "nobody", "counts", bootstrap_servers=cluster.servers)


def totals(cluster):
    builder = StreamsBuilder()
    builder.stream(cluster.name("orders")).group_by_key().reduce(lambda old, new: new, store="last")
    return builder


def test_values_are_shown_as_asked_for(start, cluster, frame, spark_session):
    cluster.topic("orders")
    cluster.send(cluster.name("orders"), ("a", '{"n":1,"at":{"x":0.5}}', START), ("b", '{"n":2}', START + 5))
    start(totals(cluster)).drain().close()
    assert [row["value"] for row in frame("last").orderBy("key").collect()] == ['{"n":1,"at":{"x":0.5}}', '{"n":2}']
    columns = frame("last", value="n bigint, at struct<x: double>").selectExpr("key", "value.n", "value.at.x")
    assert sorted(map(tuple, columns.collect()), key=repr) == [("a", 1, 0.5), ("b", 2, None)]
    assert {bytes(r["value"]) for r in frame("last", key="bytes", value=Serdes.bytes).collect()} >= {b'{"n":2}'}
    own = Serde(lambda value: b"", lambda data: {"bytes": len(data)}, name="size")
    assert [row["value"] for row in frame("last", value=own).orderBy("key").collect()] == [
        '{"bytes":22}',
        '{"bytes":7}',
    ]
    with pytest.raises(Exception, match="MALFORMED_RECORD"):
        frame("last", value="n array<int>").collect()
    with pytest.raises(Exception, match="the values of store 'last' are not int64"):
        frame("last", value="int64").collect()
    with pytest.raises(ConfigError, match="value='jsom': there is no such serde"):
        frame("last", value="jsom")


def test_a_session_that_knows_nothing_of_penstock_finds_the_format(start, cluster, spark_session):
    cluster.topic("orders")
    cluster.send(cluster.name("orders"), ("a", "1", START))
    driven = start(totals(cluster)).drain()
    session = spark_session.newSession()
    read = session.read.format("penstock").option("application_id", start.application_id).option("store", "last")
    made = read.option("bootstrap_servers", cluster.servers).option("value", "string").load()
    assert [(row["key"], row["value"], millis(row["timestamp"])) for row in made.collect()] == [("a", "1", START)]
    cluster.send(cluster.name("orders"), ("b", "2", START))
    driven.drain()
    assert read.option("bootstrap_servers", cluster.servers).load().count() == 2
    with pytest.raises(Exception, match=r"needs .option\('bootstrap_servers', ...\)"):
        session.read.format("penstock").option("application_id", "x").option("store", "y").load()
    with pytest.raises(Exception, match=r"no option 'stores' \(did you mean 'store'\?\)"):
        session.read.format("penstock").option("stores", "y").load()


def test_rows_of_an_epoch_that_was_not_committed_are_not_there(start, cluster, frame):
    """As after a kill -9 in the middle of an epoch: its transaction is open, and then aborted."""
    cluster.topic("orders")
    cluster.send(cluster.name("orders"), *((f"k{n}", str(n), START) for n in range(20)))
    start(totals(cluster)).drain().close()
    wanted = rows(frame("last"))
    assert len(wanted) == 20
    killed = cluster.log.producer(start.application_id)
    killed.init()
    killed.begin()
    topic = changelog_name(start.application_id, "last")
    killed.produce([(topic, shard, b"k1", b'"torn"', START, ()) for shard in range(4)])
    killed.flush()
    assert rows(frame("last")) == wanted
    killed.abort()
    assert rows(frame("last")) == wanted
    again = start(totals(cluster))
    assert sorted(again.view("last").all()) == [(key, int(value)) for key, value, *_ in wanted]


def test_a_store_in_sql_joins_a_parquet_file(start, cluster, spark_session, tmp_path, capsys):
    """The blocks of docs/sql.md; examples/store_in_sql.py, the same with more columns, has tests of its own."""
    example = runpy.run_path(str(ROOT / "examples" / "store_in_sql.py"))
    cluster.log.admin.ensure_topics([TopicSpec("shop.orders", 2, {"retention.ms": "-1"})])
    orders = [("ann", 2.5), ("bob", 1.0), ("ann", 4.0), ("cid", 3.0), ("eve", 9.0)]
    cluster.send("shop.orders", *((who, json.dumps({"amount": amount}), START) for who, amount in orders))
    start(example["topology"](), application_id="shop").drain().close()
    customers = tmp_path / "customers.parquet"
    pq.write_table(pa.table({"id": ["ann", "bob", "cid", "dot"], "country": ["AT", "BE", "BE", "DE"]}), customers)
    there = {"localhost:9092": cluster.servers, "customers.parquet": str(customers), '"SSL"': '"PLAINTEXT"'}
    run("sql", {"spark": spark_session}, **there)
    cluster.log.admin.delete_topics(["shop.orders", "shop-epochs", "shop-totals-changelog"])
    assert sorted(re.findall(r"^\| +(\w\w)\| +([0-9.]+)\|$", capsys.readouterr().out, re.MULTILINE)) == [
        ("AT", "6.5"),
        ("BE", "4.0"),
    ]


@pytest.mark.skipif(not os.environ.get("PENSTOCK_LONG"), reason="the long form: set PENSTOCK_LONG=1")
def test_five_million_rows_are_equal_to_the_store():
    """In a process of its own, which has its own session; what it prints is the figure of docs/sql.md."""
    run = subprocess.run(
        [sys.executable, "-m", "bench.frame", "5000000", "2"], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    print(run.stdout)
    assert json.loads(run.stdout.splitlines()[-1])["rows"] == 5_000_000
