"""The commands that talk to a broker, against a real one."""

import io
import itertools
import json
import os
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.cli.kafka import SerdeName, decoded, encoded
from penstock.cli.produce import Arriving, Shape, rows_of, write
from penstock.dev import server
from penstock.log.base import TopicSpec
from penstock.log.kafka import KafkaLog
from penstock.serde import Serdes

RUNNER = CliRunner()
NUMBERS = itertools.count()


@pytest.fixture
def run(kafka_broker):
    """Run a command against the broker; standard error is part of the output of a failure."""

    def call(*arguments: str, code: int = 0, stdin: str | None = None):
        environment = {"PENSTOCK_BOOTSTRAP_SERVERS": kafka_broker.bootstrap_servers}
        result = RUNNER.invoke(app, list(arguments), input=stdin, env=environment)
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        return result

    return call


@pytest.fixture
def topic(run):
    name = f"cli-{os.getpid()}-{next(NUMBERS)}"
    run("topics", "create", name)
    return name


def consumed(run, topic, *options):
    return run("consume", topic, "--from-beginning", "--until-end", *options).stdout.splitlines()


# topics


def test_topics_are_created_listed_described_altered_and_deleted(run, topic):
    name = f"{topic}-b"
    made = run("topics", "create", name, "--partitions", "3", "-c", "cleanup.policy=compact", "--json").stdout
    assert json.loads(made) == {"topic": name, "partitions": 3, "created": True}
    assert "is there already" in run("topics", "create", name, "-p", "3").stdout
    assert {"topic": name, "partitions": 3} in json.loads(run("topics", "list", "--json").stdout)
    assert name in run("topics", "list").stdout
    found = json.loads(run("topics", "describe", name, "--json").stdout)
    assert found["configs"] == {"cleanup.policy": "compact"}
    assert found["partitions"] == [{"partition": n, "begin": 0, "stable": 0, "end": 0} for n in range(3)]
    assert "cleanup.policy=compact" in run("topics", "describe", name).stdout
    assert "retention.ms=5" in run("topics", "alter", name, "--config", "retention.ms=5").stdout
    run("topics", "delete", name, stdin="n\n", code=1)
    assert json.loads(run("topics", "delete", name, "--yes", "--json").stdout) == {"deleted": [name]}
    assert name not in run("topics", "list").stdout


def test_a_topic_that_differs_or_is_missing_is_an_error_with_a_remedy(run, topic):
    assert "has 1 partitions, but must have 2" in run("topics", "create", topic, "-p", "2", code=1).stderr
    assert "penstock topics create" in run("topics", "describe", "none-such", code=1).stderr
    assert "penstock topics create" in run("produce", "none-such", stdin="a\n", code=1).stderr
    assert "write name=value" in run("topics", "create", "x", "-c", "oops", code=2).stderr


def test_without_a_broker_the_error_says_what_to_do():
    result = RUNNER.invoke(app, ["topics", "list", "--bootstrap", "127.0.0.1:9"])
    assert result.exit_code == 1
    assert "penstock dev" in result.stderr


# produce and consume


def test_lines_become_values_and_come_back(run, topic):
    assert "2 record(s)" in run("produce", topic, stdin="one\n\ntwo\n").stdout
    assert consumed(run, topic) == ["null\tone", "null\ttwo"]
    assert consumed(run, topic, "--max", "1") == ["null\tone"]
    assert run("consume", topic, "--until-end").stdout == ""


def test_a_separator_parts_key_and_value(run, topic):
    run("produce", topic, "--separator", ":", "--value", "int64", stdin="a:1\nb:-2\n")
    assert consumed(run, topic, "--value", "int64") == ["a\t1", "b\t-2"]
    assert "line 1 has no ':'" in run("produce", topic, "--separator", ":", stdin="a\n", code=1).stderr


def test_the_key_may_be_a_field_of_the_value(run, topic):
    run("produce", topic, "--key-from", "id", "--value", "json", stdin='{"id": "a", "n": [1]}\n')
    assert consumed(run, topic, "--value", "json") == ['a\t{"id": "a", "n": [1]}']
    assert "field 'id'" in run("produce", topic, "--key-from", "id", stdin="{}\n", code=1).stderr


def test_records_go_round_whole(run, topic, tmp_path):
    rows = [
        {"key": "a", "value": {"n": 1}, "timestamp": 5, "headers": [["h", "1"], ["h", None]]},
        {"key": None, "value": None, "timestamp": 6},
    ]
    (tmp_path / "rows").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run("produce", topic, "--records", "--value", "json", "--file", str(tmp_path / "rows"), "--json")
    assert json.loads(done.stdout) == {"topic": topic, "records": 2}
    lines = consumed(run, topic, "--json", "--value", "json")
    assert [json.loads(line) for line in lines] == [
        {"topic": topic, "partition": 0, "offset": offset, "headers": [], **row} for offset, row in enumerate(rows)
    ]
    run("produce", f"{topic}", "--records", "--value", "json", stdin="\n".join(lines))
    again = [json.loads(line) for line in consumed(run, topic, "--json", "--value", "json")]
    assert [(row["key"], row["value"], row["timestamp"], row["headers"]) for row in again[2:]] == [
        (row["key"], row["value"], row["timestamp"], row.get("headers", [])) for row in rows
    ]


def test_partition_timestamp_and_headers_can_be_said_for_all(run, topic):
    run("produce", topic, "--partition", "0", "--timestamp", "7", "--header", "from=cli", stdin="v\n")
    (line,) = consumed(run, topic, "--json")
    assert json.loads(line)["timestamp"] == 7
    assert json.loads(line)["headers"] == [["from", "cli"]]


def test_what_was_read_before_a_bad_line_is_written(run, topic):
    failed = run("produce", topic, "--value", "json", stdin="1\n2\nno\n", code=1)
    assert "line 3 is not JSON" in failed.stderr
    assert consumed(run, topic) == ["null\t1", "null\t2"]


def test_consume_shows_committed_records_unless_told_otherwise(run, topic, kafka_broker):
    log = KafkaLog(kafka_broker.bootstrap_servers)
    producer = log.producer(f"{topic}-app")
    producer.init()
    producer.begin()
    producer.produce([(topic, 0, None, b"open", 5, ())])
    producer.flush()
    assert consumed(run, topic) == []
    assert consumed(run, topic, "--uncommitted") == ["null\topen"]
    producer.abort()
    log.close()


def test_consume_stops_when_nothing_comes(run, topic):
    run("produce", topic, stdin="v\n")
    assert run("consume", topic, "--from-beginning", "--timeout", "0.3").stdout == "null\tv\n"
    assert run("consume", topic, "--from-beginning", "--max", "1").stdout == "null\tv\n"


def test_wrong_forms_partitions_and_options_are_named(run, topic):
    run("produce", topic, stdin="text\n")
    wrong = run("consume", topic, "--from-beginning", "--until-end", "--value", "int64", code=1)
    assert f"the value of {topic}-0@0 is not int64" in wrong.stderr
    assert "has no partition 3" in run("consume", topic, "--partition", "3", code=2).stderr
    assert "one key" in run("produce", topic, "--separator", ":", "--records", stdin="", code=2).stderr
    assert "no file" in run("produce", topic, "--file", "nowhere", code=2).stderr
    assert "not a record" in run("produce", topic, "--records", stdin="[]\n", code=1).stderr


@pytest.mark.parametrize(
    ("form", "value", "data"),
    [
        (SerdeName.string, "é", "é".encode()),
        (SerdeName.json, {"a": 1}, b'{"a":1}'),
        (SerdeName.int32, -1, b"\xff" * 4),
        (SerdeName.int64, 1, b"\0" * 7 + b"\1"),
        (SerdeName.float64, 0.0, b"\0" * 8),
        (SerdeName.float32, 0.0, b"\0" * 4),
        (SerdeName.boolean, True, b"\1"),
        (SerdeName.uuid, "00000000-0000-0000-0000-000000000001", b"00000000-0000-0000-0000-000000000001"),
        (SerdeName.bytes, "/w==", b"\xff"),
    ],
)
def test_forms_go_both_ways(form, value, data):
    assert encoded(value, form, "") == data
    assert decoded(data, form, "") == value
    assert encoded(None, form, "") is None
    assert decoded(None, form, "") is None


def test_a_windowed_key_is_shown_with_its_start():
    from penstock import Windowed

    data = Serdes.windowed(Serdes.string, 10).serialize(Windowed("a", 20, 30))
    assert decoded(data, SerdeName.windowed, "") == {"key": "a", "start": 20}


# dev


def test_dev_runs_a_broker_until_it_is_interrupted_and_keeps_its_records(tmp_path):
    (port,) = server.free_ports("127.0.0.1", 1)
    command = [sys.executable, "-c", "from penstock.cli import main; main()", "dev", "--json"]
    command += ["--port", str(port), "--data", str(tmp_path / "data")]
    dev = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        facts = json.loads(dev.stdout.readline())
        assert facts["bootstrap_servers"] == f"127.0.0.1:{port}"
        assert KafkaLog(facts["bootstrap_servers"]).admin.ensure_topics([TopicSpec("kept")]) == ["kept"]
        taken = RUNNER.invoke(app, ["dev", "--port", str(port), "--data", str(tmp_path / "other")])
        assert (taken.exit_code, "is taken" in taken.stderr) == (1, True)
    finally:
        dev.send_signal(signal.SIGINT)
        assert dev.wait(60) == 0
    assert not server.answers("127.0.0.1", port)
    assert list((tmp_path / "data" / "log").glob("kept-0"))


class Interrupted(io.StringIO):
    """An input at whose end somebody presses Ctrl-C."""

    def __next__(self):
        if line := self.readline():
            return line
        raise KeyboardInterrupt


class Handed(list):
    """A producer that keeps what it is given."""

    produce = list.extend


def test_an_input_that_is_interrupted_counts_as_ended():
    shape = Shape("t", SerdeName.string, SerdeName.string, False, None, None, None, 5, ())
    handed = Handed()
    assert write(handed, rows_of(Interrupted("a\nb\n"), shape), lambda: True, lambda: None) == 2
    assert handed == [("t", None, None, b"a", 5, ()), ("t", None, None, b"b", 5, ())]


def test_lines_that_have_come_are_handed_over_together_and_none_waits_for_the_next():
    shape = Shape("t", SerdeName.string, SerdeName.string, False, None, None, None, 5, ())
    pipe, end = os.pipe()
    lines, handed = Arriving(os.fdopen(pipe, "rb")), []

    class Telling:
        def produce(self, rows):
            handed.append([value.decode() for _, _, _, value, _, _ in rows])
            if len(handed) == 1:  # only now the rest is written: the first ones did not wait for it
                os.write(end, "\u00e9\n".encode()[:1])
                os.write(end, "\u00e9\nlast".encode()[1:])
                os.close(end)

    os.write(end, b"one\r\ntwo\n")
    assert write(Telling(), rows_of(lines, shape), lines.has_more, lambda: None) == 4
    assert handed == [["one", "two"], ["\u00e9"], ["last"]]
