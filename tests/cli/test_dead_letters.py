"""``penstock dead-letters`` against a real broker."""

import json
import os
import subprocess
import sys

import pytest
from tests.dead_letters.letters import letter_row, records, write
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.log.base import TopicSpec
from penstock.log.kafka import KafkaLog
from penstock.record import NO_ORIGIN

RUNNER = CliRunner()


@pytest.fixture
def log(kafka_broker):
    log = KafkaLog(kafka_broker.bootstrap_servers)
    yield log
    log.close()


@pytest.fixture
def topics(name, log):
    """A source topic and a dead-letter topic with five letters: 0, 1 of parse, 2, 3 of price, 4 of a topic that is gone."""
    orders, dead = name("orders"), name("dead")
    log.admin.ensure_topics([TopicSpec(orders, 2), TopicSpec(dead, 2)])
    rows = [letter_row(dead, number, source=orders) for number in (0, 1)]
    rows += [letter_row(dead, number, source=orders, node="price", error=KeyError, to=1) for number in (2, 3)]
    write(log, [*rows, letter_row(dead, 4, source=f"{orders}-gone", headers=(("own", b"\xff"),))])
    return orders, dead


@pytest.fixture
def run(kafka_broker, topics):
    def call(*arguments, code=0, stdin=None):
        environment = {
            "PENSTOCK_BOOTSTRAP_SERVERS": kafka_broker.bootstrap_servers,
            "PENSTOCK_DEAD_LETTER_TOPIC": topics[1],
        }
        result = RUNNER.invoke(app, ["dead-letters", *arguments], input=stdin, env=environment)
        assert result.exit_code == code, result.output
        assert "Traceback (most" not in result.output
        return result

    return call


def listed(run, *options):
    return [json.loads(line) for line in run("list", "--json", *options).stdout.splitlines()]


def redriven(log, topic, **options):
    return [json.loads(record.value)["n"] for record in records(log, topic, **options)]


def test_letters_are_listed_filtered_and_counted(run, topics):
    orders, dead = topics
    found = listed(run)
    assert [(each["partition"], each["offset"]) for each in found] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    assert found[3] == {
        "topic": dead,
        "partition": 1,
        "offset": 0,
        "source": {"topic": orders, "partition": 1, "offset": 2},
        "node": "price",
        "exception": "KeyError",
        "reason": "'bad 2'",
        "timestamp": found[3]["timestamp"],
        "redrives": 0,
        "redriven": None,
    }
    for options, count in {
        ("--node", "price"): 2,
        ("--exception", "ValueError", "--topic", orders): 2,
        ("--since", "3"): 2,
        ("--limit", "1"): 1,
        ("--node", "none"): 0,
    }.items():
        assert len(listed(run, *options)) == count, options
    assert listed(run, "--limit", "2")[-1]["source"]["topic"] == f"{orders}-gone"
    assert listed(run, "--summary") == [
        {"node": "parse", "exception": "ValueError", "letters": 3, "not_redriven": 3},
        {"node": "price", "exception": "KeyError", "letters": 2, "not_redriven": 2},
    ]
    text = run("list", "--limit", "4").stdout
    assert f"{orders}-1@3" in text
    assert "The newest 4 of 5" in text
    assert "not redriven" in text
    assert "no such letters" in run("list", "--node", "none").stdout


def test_a_letter_is_shown_whole(run, topics):
    text = run("show", "1:0").stdout
    for part in (f"letter: {topics[1]}-1@0", f"source: {topics[0]}-1@2", "node: price", '"n": 2', "KeyError: 'bad 2'"):
        assert part in text
    form = json.loads(run("show", "0:2", "--json").stdout)
    assert form["headers"] == [["own", {"bytes": "/w=="}]]
    assert form["value"] == {"bytes": "eyJuIjogNH0=", "text": '{"n": 4}', "json": {"n": 4}}
    assert form["key"] == {"bytes": "azQ=", "text": "k4"}
    assert "from 0 to 2" in run("show", "0:7", code=1).stderr
    assert "no partition 5" in run("show", "5:0", code=1).stderr
    assert "PARTITION:OFFSET" in run("show", "five", code=2).stderr


def test_one_matching_and_all_are_redriven_each_once(run, log, topics):
    orders, dead = topics
    assert "1 record(s) would be written again" in run("redrive", "0:1", "--dry-run").stdout
    run("redrive", "0:1", stdin="n\n", code=1)
    assert redriven(log, orders) == []
    assert f"{dead}-redriven" not in log.admin.topics()
    assert "1 record(s) written again" in run("redrive", "0:1", stdin="y\n").stdout
    (record,) = records(log, orders)
    assert (record.partition, record.key, record.timestamp) == (1, b"k1", 1)
    headers = dict(record.headers)
    assert (headers["own"], headers["__penstock.redrive.letter"]) == (b"1", f"{dead}-0@1".encode())
    assert (headers["__penstock.redrive.count"], len(record.headers)) == (b"1", 4)
    assert "were redriven before" in run("redrive", "0:1", "--yes").stdout
    run("redrive", "--node", "price", "--yes")
    assert redriven(log, orders) == [1, 2, 3]
    failed = run("redrive", "--all", "--yes", "--json", code=1)
    result = json.loads(failed.stdout)
    assert (result["records"], result["letters"], result["already"]) == (1, 1, 3)
    (refused,) = result["refused"]
    assert refused["source"] == f"{orders}-gone-1@4"
    assert "penstock topics create" in refused["why"]
    assert redriven(log, orders) == [1, 2, 3, 0]
    assert [each["redriven"] is None for each in listed(run)] == [False, False, True, False, False]
    assert "cannot be redriven: its source topic" in run("redrive", "0:2", "--yes", code=1).stderr


def test_what_is_to_be_redriven_must_be_said(run, topics, kafka_broker):
    assert "say which letters" in run("redrive", "--yes", code=2).stderr
    assert "--all takes every letter" in run("redrive", "--all", "--node", "price", code=2).stderr
    assert "is no time" in run("redrive", "--since", "yesterday", code=2).stderr
    assert "there is no letter" in run("redrive", "0:9", "--yes", code=1).stderr
    assert "penstock topics create" in run("list", "-d", "none-such", code=1).stderr
    result = RUNNER.invoke(app, ["dead-letters", "list", "-b", kafka_broker.bootstrap_servers])
    assert result.exit_code == 2
    assert "dead_letter_topic" in result.stderr


KILLED = """
import os, signal, sys
from penstock.dead_letters import redrive as module
from penstock.dead_letters.filters import LetterFilter
from penstock.log.kafka import KafkaLog

module.MOST_RECORDS = 1
log = KafkaLog(sys.argv[1])
make = log.producer

def producer(transactional_id):
    made = make(transactional_id)
    commit, commits = made.commit, []

    def commit_once():
        if commits:
            made.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        commits.append(commit())

    made.commit = commit_once
    return made

log.producer = producer
module.redrive(log, sys.argv[2], LetterFilter(topic=sys.argv[3]))
"""


def test_a_redrive_that_is_killed_in_a_transaction_writes_nothing_twice(run, log, topics, kafka_broker):
    """The second record is in the log with its mark, and not committed."""
    orders, dead = topics
    arguments = [sys.executable, "-c", KILLED, kafka_broker.bootstrap_servers, dead, orders]
    assert subprocess.run(arguments, timeout=60, env=os.environ).returncode == -9
    assert log.admin.end_offsets([(orders, 1)]) != log.admin.stable_offsets([(orders, 1)])
    assert redriven(log, orders, settled=False) == [0]
    assert sum(each["redriven"] is not None for each in listed(run)) == 1
    run("redrive", "--topic", orders, "--yes")
    assert redriven(log, orders) == [0, 1, 2, 3]


def test_a_letter_without_a_source_record_cannot_be_redriven(run, log, topics):
    from penstock.protocol.failure import error_headers

    write(log, [(topics[1], 1, None, None, 5, error_headers((), NO_ORIGIN, "tick", ValueError()))])
    assert "names no source record" in run("redrive", "--node", "tick", "--yes", code=1).stderr
    assert "source: -" in run("show", "1:2").stdout
