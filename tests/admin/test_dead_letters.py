"""Records that fail, over HTTP: grouped with examples, as dead letters, and written again."""

import json
import os

import httpx
import pytest
from served import TOKEN
from tests.app.conftest import Cluster, Starter

from penstock import Serdes, StreamsBuilder
from penstock.admin.dead_letters import wanted
from penstock.admin.error_report import ended
from penstock.errors import ProcessingError
from penstock.record import Origin

START = 1_600_000_000_000
WRITES = {"Authorization": f"Bearer {TOKEN}"}


def halve(number: int) -> float:
    """Fails for 0."""
    return 1000 / number


def topology(cluster: Cluster) -> StreamsBuilder:
    builder = StreamsBuilder()
    numbers = builder.stream(cluster.name("numbers"), value=Serdes.json, name="numbers")
    numbers.map_values(halve, name="halve").group_by_key().count(store="halved")
    numbers.to(cluster.name("out"))
    return builder


@pytest.fixture(scope="module")
def failing(kafka_broker, spark_session, tmp_path_factory):
    """An application some of whose records fail: at offsets 1 and 3 by a function, at 4 by the serde."""
    cluster = Cluster(kafka_broker.bootstrap_servers, f"letters-{os.getpid()}")
    before = cluster.log.admin.topics().keys()
    start = Starter(spark_session, cluster, tmp_path_factory.mktemp("state"))
    for topic in ("numbers", "out", "dead"):
        cluster.topic(topic)
    app = start.app(
        topology(cluster),
        admin="0",
        admin_token=TOKEN,
        on_processing_error="dead_letter",
        on_deserialization_error="dead_letter",
        dead_letter_topic=cluster.name("dead"),
    )
    app.start().wait_until_running(120_000)
    rows = [("a", "1"), ("b", "0"), ("a", "2"), ("c", "0"), ("d", "{nonsense")]
    cluster.send(cluster.name("numbers"), *((key, value, START + at) for at, (key, value) in enumerate(rows)))
    with httpx.Client(base_url=f"http://{app.admin_address}", timeout=60) as client:
        position = json.dumps({cluster.name("numbers"): {"0": 4}})
        for _ in range(6):  # the first epoch, on a machine that has much to do
            known = client.get("/v1/stores/halved/keys/a", params={"position": position, "wait_ms": 30_000})
            if known.status_code == 200:
                break
        assert known.json().get("value") == 2, known.text
        yield cluster, client
    start.close()
    cluster.log.admin.delete_topics(cluster.log.admin.topics().keys() - before)
    cluster.close()


def test_errors_are_grouped_with_the_record_and_the_line_of_the_users_code(failing):
    cluster, client = failing
    groups = {(group["node"], group["exception"]): group for group in client.get("/v1/errors").json()["groups"]}
    divided = groups["halve", "ZeroDivisionError"]
    assert (divided["count"], divided["action"], divided["reason"]) == (2, "dead_letter", "processing_error")
    source = cluster.name("numbers")
    assert [each["record"] for each in divided["examples"]] == [f"{source}-0@1", f"{source}-0@3"]
    line = halve.__code__.co_firstlineno + 2
    assert divided["examples"][0]["line"] == f"{__file__}:{line}"
    assert f"halve ({__file__}:" in divided["examples"][0]["function"]
    (unread,) = [group for (node, _), group in groups.items() if node == "numbers"]
    assert (unread["reason"], unread["examples"][0]["record"]) == ("deserialization_error", f"{source}-0@4")


def test_letters_are_listed_shown_and_redriven_once(failing):
    cluster, client = failing
    found = client.get("/v1/dead-letters").json()
    assert (found["topic"], found["found"], found["older"]) == (cluster.name("dead"), 3, False)
    assert {kind["node"]: kind["letters"] for kind in found["kinds"]} == {"halve": 2, "numbers": 1}
    only = client.get("/v1/dead-letters", params={"node": "halve", "limit": 1}).json()
    assert (only["found"], only["letters"][0]["source"]["offset"]) == (2, 3)
    place = only["letters"][0]["partition"], only["letters"][0]["offset"]
    letter = client.get("/v1/dead-letters/{}/{}".format(*place)).json()
    assert letter["decoded"] == {"key": "c", "value": 0}
    assert "ZeroDivisionError" in letter["stacktrace"]
    address, body = "/v1/dead-letters/redrive", {"positions": [place]}
    assert client.post(address, json=body).status_code == 401
    assert client.post(address, json={**body, "dry_run": True}, headers=WRITES).json()["records"] == 1
    ends = [len(cluster.read(cluster.name("numbers")))]
    assert client.post(address, json=body, headers=WRITES).json()["records"] == 1
    again = client.post(address, json={"node": "halve", "exception": "ZeroDivisionError"}, headers=WRITES).json()
    # the one that was redriven may have failed again by now: a new letter
    assert again["already"] == 1
    ends.append(len(cluster.read(cluster.name("numbers"))))
    assert ends[1] - ends[0] == 1 + again["records"]
    assert client.get("/v1/dead-letters").json()["kinds"][0]["node"] == "halve"


def test_letters_that_are_not_there_are_404(failing):
    _, client = failing
    for place in ("0/100000", "7/0"):
        missing = client.get(f"/v1/dead-letters/{place}")
        assert missing.status_code == 404, missing.text
        assert "/v1/dead-letters" in missing.json()["remedy"]


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"all": false}', b'{"all": true, "node": "x"}', b'{"nod": "x"}', b'{"node": 7}',
     b'{"positions": 3}', b'{"positions": [[0]]}', b'{"positions": [["a", "b"]]}', b'{"dry_run": true}'],
)  # fmt: skip
def test_a_redrive_must_say_which_letters(serve, body):
    _, client = serve(dead_letter_topic="dead")
    refused = client.post("/v1/dead-letters/redrive", content=body, headers=WRITES)
    assert refused.status_code == 400
    assert "positions" in refused.json()["remedy"]


def test_all_letters_are_meant_only_if_that_is_said():
    chosen, dry_run = wanted(b'{"all": true}')
    assert chosen.says_nothing
    assert not dry_run


def test_an_application_without_a_dead_letter_topic_has_no_letters(serve):
    _, client = serve()
    for answer in (client.get("/v1/dead-letters"), client.post("/v1/dead-letters/redrive", headers=WRITES)):
        assert answer.status_code == 404
        assert "dead_letter_topic" in answer.json()["remedy"]


def test_what_ended_an_application_names_node_record_and_function():
    assert ended(None) is None
    origin = Origin("orders", 1, 7, 0, None, None, ())
    error = ProcessingError("ValueError: x", node="parse", origin=origin, function="f (shop.py:7)")
    found = ended(error)
    assert (found["node"], found["record"], found["function"]) == ("parse", "orders-1@7", "f (shop.py:7)")
