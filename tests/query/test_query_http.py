"""``penstock query --url``: a running application gives the same answers as Kafka."""

import json
import os
import threading

import pytest
from tests.app.conftest import Cluster, Starter
from tests.query.test_query_command import START, topology
from typer.testing import CliRunner

from penstock.cli.app import app as command

pytest.importorskip("penstock.admin", reason="the admin server is built on another branch")

RUNNER = CliRunner()
QUERIES = [
    ("counts",),
    ("counts", "--key", "ant"),
    ("counts", "--reverse", "--limit", "2"),
    ("counts", "--from", "b", "--to", "bat"),
    ("counts", "--prefix", "b"),
    ("windows",),
    ("windows", "--key", "ant", "--since", str(START + 1)),
    ("sessions", "--key", "ant"),
    ("sessions", "--key", "ant", "--since", str(START + 200), "--until", str(START + 200)),
    ("prices", "--key", "pear"),
    ("prices", "--key", "pear", "--history"),
    ("prices", "--key", "pear", "--as-of", str(START + 1500)),
    ("objects", "--key", '{"id": 1}'),
]


@pytest.fixture(scope="module")
def both(kafka_broker, spark_session, tmp_path_factory):
    """Ask an application that runs, over HTTP and from Kafka."""
    cluster = Cluster(kafka_broker.bootstrap_servers, f"url-{os.getpid()}")
    start = Starter(spark_session, cluster, tmp_path_factory.mktemp("state"))
    for topic in ("asked", "prices", "by-number"):
        cluster.topic(topic)
    rows = [("ant", "a", 0), ("bee", "b", 100), ("ant", "c", 300), ("ant", "d", 2500), ("bat", "e", 2600)]
    cluster.send(cluster.name("asked"), *((key, value, START + at) for key, value, at in rows))
    prices = [("pear", "1", 0), ("pear", "3", 2000), ("pear", "2", 1000)]
    cluster.send(cluster.name("prices"), *((key, value, START + at) for key, value, at in prices))
    cluster.send(cluster.name("by-number"), ('{"id":1}', '{"n":[1,2]}', START))
    app = start.app(topology(cluster), admin="127.0.0.1:0")
    app.start()

    def ask(*arguments, code=0):
        found = []
        for whom in (("--url", f"http://{app.admin_address}"), ("--application-id", start.application_id)):
            environment = {"PENSTOCK_BOOTSTRAP_SERVERS": cluster.servers}
            result = RUNNER.invoke(command, ["query", *whom, *arguments], env=environment)
            assert result.exit_code == code, result.output
            assert "Traceback" not in result.output
            found.append(result.stdout if code == 0 else result.output)
        return found

    pause = threading.Event()
    for _ in range(600):
        done = RUNNER.invoke(command, ["query", "--url", f"http://{app.admin_address}", "counts", "--json"])
        if done.exit_code == 0 and sum(row["value"] for row in json.loads(done.stdout)["rows"]) == len(rows):
            break
        pause.wait(0.1)
    yield ask
    start.close()
    cluster.close()


@pytest.mark.parametrize("query", QUERIES, ids=" ".join)
def test_the_application_and_kafka_give_the_same_rows(both, query):
    over_http, from_kafka = both(*query)
    assert over_http == from_kafka
    assert over_http


def test_json_and_the_list_of_stores_agree(both):
    over_http, from_kafka = (json.loads(found) for found in both("windows", "--key", "bee", "--json"))
    assert [(row["value"], row["window"]) for row in over_http["rows"]] == [
        (row["value"], row["window"]) for row in from_kafka["rows"]
    ]
    assert over_http["epoch"] >= 1
    assert over_http["position"].keys() == from_kafka["position"].keys()
    listed = [{store["name"] for store in json.loads(found)["stores"]} for found in both("--json")]
    assert listed[0] == listed[1]


def test_a_key_without_a_row_ends_with_1_and_an_unknown_store_says_which_there_are(both):
    assert both("counts", "--key", "cow", code=1) == ["", ""]
    result = RUNNER.invoke(command, ["query", "--url", "http://127.0.0.1:1", "counts", "--key-serde", "json"])
    assert result.exit_code == 2
