"""``penstock query`` shows what a store holds, read from Kafka."""

import json
import os

import pytest
from tests.app.conftest import Cluster, Starter
from typer.testing import CliRunner

from penstock import Serdes, SessionWindows, Stores, StreamsBuilder, TimeWindows
from penstock.cli.app import app

RUNNER = CliRunner()
START = 1_600_000_020_000
APPLICATION = f"asked-{os.getpid()}"


def topology(cluster):
    text = {"key": Serdes.string, "value": Serdes.string}
    builder = StreamsBuilder()
    lines = builder.stream(cluster.name("asked"), **text).group_by_key()
    lines.count(store="counts")
    lines.windowed_by(TimeWindows(1000, grace=60_000)).count(store="windows")
    lines.windowed_by(SessionWindows(500, grace=60_000)).reduce(lambda old, new: old + new, store="sessions")
    builder.table(cluster.name("prices"), **text, store=Stores.versioned("prices", 600_000, **text))
    builder.stream(cluster.name("by-number"), key=Serdes.json, value=Serdes.json).to_table(store="objects")
    return builder


@pytest.fixture(scope="module")
def asked(kafka_broker, spark_session, tmp_path_factory):
    """An application that has run and ended; calls the command for it."""
    cluster = Cluster(kafka_broker.bootstrap_servers, f"query-{os.getpid()}")
    start = Starter(spark_session, cluster, tmp_path_factory.mktemp("state"))
    start.application_id = APPLICATION
    for topic in ("asked", "prices", "by-number"):
        cluster.topic(topic)
    rows = [("ant", "a", 0), ("bee", "b", 100), ("ant", "c", 300), ("ant", "d", 2500), ("bat", "e", 2600)]
    cluster.send(cluster.name("asked"), *((key, value, START + at) for key, value, at in rows))
    prices = [("pear", "1", 0), ("pear", "3", 2000), ("pear", "2", 1000), ("plum", "9", 0), ("plum", None, 500)]
    cluster.send(cluster.name("prices"), *((key, value, START + at) for key, value, at in prices))
    cluster.send(cluster.name("by-number"), ('{"id":1}', '{"n":[1,2]}', START))
    start(topology(cluster)).drain()
    start.close()

    def call(*arguments, code=0):
        environment = {"PENSTOCK_BOOTSTRAP_SERVERS": cluster.servers}
        result = RUNNER.invoke(app, ["query", "--application-id", APPLICATION, *arguments], env=environment)
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        return result.stdout if code == 0 else result.output

    yield call
    cluster.close()


def lines(text):
    return text.splitlines()


def test_a_key_a_range_a_prefix_and_all(asked):
    assert lines(asked("counts")) == ["ant\t3", "bat\t1", "bee\t1"]
    assert lines(asked("counts", "--reverse", "--limit", "2")) == ["bee\t1", "bat\t1"]
    assert lines(asked("counts", "--key", "ant")) == ["ant\t3"]
    assert lines(asked("counts", "--from", "b", "--to", "bat")) == ["bat\t1"]
    assert lines(asked("counts", "--prefix", "b")) == ["bat\t1", "bee\t1"]
    assert asked("counts", "--key", "cow", code=1) == ""
    assert lines(asked("counts", "--value-serde", "bytes", "-k", "bat")) == ["bat\tAAAAAAAAAAE="]


def test_windows_sessions_and_versions(asked):
    window = f"[{START}, {START + 1000})"
    assert lines(asked("windows", "--key", "ant")) == [f"ant\t{window}\t2", f"ant\t[{START + 2000}, {START + 3000})\t1"]
    assert lines(asked("windows", "--until", str(START))) == [f"ant\t{window}\t2", f"bee\t{window}\t1"]
    assert lines(asked("windows", "--since", str(START + 1))) == [
        f"{key}\t[{START + 2000}, {START + 3000})\t1" for key in ("ant", "bat")
    ]
    assert lines(asked("sessions", "-k", "ant")) == [
        f"ant\t[{START}, {START + 300})\tac",
        f"ant\t[{START + 2500}, {START + 2500})\td",
    ]
    assert lines(asked("sessions", "--since", str(START + 200), "--until", str(START + 200))) == [
        f"ant\t[{START}, {START + 300})\tac"
    ]
    assert lines(asked("prices")) == ["pear\t3"]
    assert lines(asked("prices", "-k", "pear", "--as-of", str(START + 1500))) == [
        f"pear\t[{START + 1000}, {START + 2000})\t2"
    ]
    assert [line.split("\t")[2] for line in lines(asked("prices", "-k", "pear", "--history"))] == ["1", "2", "3"]
    assert [line.split("\t")[2] for line in lines(asked("prices", "-k", "plum", "--history"))] == ["9"]
    asked("prices", "-k", "plum", "--as-of", str(START + 700), code=1)


def test_json_has_the_barrier_and_all_columns(asked):
    found = json.loads(asked("windows", "--key", "bee", "--json"))
    assert found["epoch"] >= 1
    assert {partition for each in found["position"].values() for partition in each} == {"0"}
    (row,) = found["rows"]
    assert row.pop("shard") in range(4)
    assert row == {"key": "bee", "value": 1, "timestamp": START + 100, "window": {"start": START, "end": START + 1000}}
    objects = json.loads(asked("objects", "--key", '{"id": 1}', "--json"))
    assert [(row["key"], row["value"]) for row in objects["rows"]] == [({"id": 1}, {"n": [1, 2]})]


def test_the_stores_are_listed(asked):
    found = json.loads(asked("--json"))
    assert {store["name"]: store["kind"] for store in found["stores"]} == {
        "counts": "key_value",
        "objects": "key_value",
        "prices": "versioned",
        "sessions": "session",
        "windows": "window",
    }
    assert "counts" in asked()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["count"], "did you mean 'counts'"),
        (["counts", "--as-of", "1"], "versioned stores, but 'counts' is a key_value store"),
        (["prices", "--history"], "add --key"),
        (["counts", "--since", "1"], "are for windows"),
        (["counts", "--key", "a", "--prefix", "b"], "--key is one key"),
        (["counts", "--prefix", "b", "--to", "c"], "--prefix is a range of its own"),
        (["objects", "--key", "{"], "are JSON"),
        (["counts", "--value-serde", "json"], "a value of store 'counts' is not json"),
        (["counts", "--url", "http://127.0.0.1:1"], "say whom to ask"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_what_to_write(asked, options, said):
    code = 1 if options[0] == "count" or "--value-serde" in options else 2
    assert said in asked(*options, code=code).replace("\n", " ")


def test_an_application_that_does_not_answer_is_told_with_what_to_do():
    result = RUNNER.invoke(app, ["query", "counts", "--url", "http://127.0.0.1:1"])
    assert result.exit_code == 1
    assert "Does the application run with admin=" in result.output
    result = RUNNER.invoke(app, ["query", "counts", "--url", "127.0.0.1:1"])
    assert result.exit_code == 2
    assert "write it as http://127.0.0.1:8080" in result.output
