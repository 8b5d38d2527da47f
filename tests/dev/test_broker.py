"""A real broker starts, crashes, comes back with its data, and never outlives the process that started it."""

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from penstock.dev import server
from penstock.dev.broker import QUICK_START, Broker, BrokerFailed

FAKE_JAVA = """#!/bin/sh
for word; do case "$word" in
  *StorageTool) mkdir -p "{folder}/log" && echo id > "{folder}/log/meta.properties"; exit {formats};;
esac; done
echo "{says}"
exit 1
"""


@pytest.fixture
def fake_java(tmp_path, monkeypatch):
    """Install a Java that says something and exits; no jar is asked for."""

    def install(says="", formats=0):
        program = tmp_path / "home" / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(FAKE_JAVA.format(folder=tmp_path / "data", says=says, formats=formats))
        program.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(program.parent.parent))
        monkeypatch.setattr("penstock.dev.broker.resolve", lambda *args, **options: [])
        return tmp_path / "data"

    return install


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def test_a_broker_crashes_freezes_and_comes_back_on_its_port_with_its_data(tmp_path):
    with Broker(data=tmp_path / "data", java_options=[QUICK_START]) as broker:
        port, first = broker.port, broker.pid
        assert server.answers("127.0.0.1", port)
        cluster = (tmp_path / "data" / "log" / "meta.properties").read_text()
        broker.pause()
        assert not server.answers("127.0.0.1", port)
        broker.resume()
        until(lambda: server.answers("127.0.0.1", port))
        broker.kill()
        assert not broker.running
        assert broker.pid is None
        broker.restart()
        assert (broker.port, broker.running) == (port, True)
        assert broker.pid != first
        assert (tmp_path / "data" / "log" / "meta.properties").read_text() == cluster
    assert not broker.running
    assert (tmp_path / "data" / "log").is_dir()


def test_a_broker_ends_when_the_process_that_started_it_is_killed():
    program = (
        "from penstock.dev.broker import *\n"
        "broker = Broker(java_options=[QUICK_START]).start()\n"
        "print(broker.pid, broker.data, flush=True)\n"
        "input()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pid, data = parent.stdout.readline().split()
    assert alive(int(pid))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    until(lambda: not alive(int(pid)))
    until(lambda: not Path(data).exists())


def test_a_cluster_may_have_an_id_that_begins_with_a_hyphen(tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.dev.broker.uuid.uuid4", lambda: uuid.UUID("f8" * 16))
    with Broker(data=tmp_path, java_options=[QUICK_START]):
        assert "cluster.id=-" in (tmp_path / "log" / "meta.properties").read_text()


def test_a_port_that_is_taken_is_named(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(BrokerFailed, match=rf"port {port} .*taken.*another port"):
            Broker(port=port, data=tmp_path).start()


def test_without_a_start_there_is_no_address_and_nothing_to_pause():
    broker = Broker()
    with pytest.raises(BrokerFailed, match="start it first"):
        _ = broker.bootstrap_servers
    with pytest.raises(BrokerFailed, match="start it first"):
        broker.pause()
    broker.stop()


@pytest.mark.parametrize(
    ("says", "remedy"),
    [
        ("Failed to acquire lock on file .lock", "another broker uses that data folder"),
        ("java.lang.UnsupportedClassVersionError", "Java 17 or newer"),
        ("something nobody foresaw", "log ends with:\n  something nobody foresaw"),
    ],
)
def test_a_broker_that_does_not_start_says_what_to_do(fake_java, says, remedy):
    with pytest.raises(BrokerFailed, match=remedy):
        Broker(data=fake_java(says)).start()


def test_a_folder_that_cannot_be_prepared_is_named(fake_java):
    with pytest.raises(BrokerFailed, match="data could not be prepared"):
        Broker(data=fake_java(formats=1)).start()


def test_a_failed_start_leaves_no_temporary_folder(fake_java, tmp_path, monkeypatch):
    fake_java("no")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    broker = Broker()
    with pytest.raises(BrokerFailed):
        broker.start()
    assert not list(tmp_path.glob("penstock-kafka-*"))


def test_fresh_empties_what_a_broker_left_and_only_that(fake_java, tmp_path):
    folder = fake_java("no")
    (folder / "log").mkdir(parents=True)
    (folder / "log" / "photos").write_text("")
    with pytest.raises(BrokerFailed, match="not a broker's"):
        Broker(data=folder, fresh=True).start()
    (folder / "log" / "meta.properties").write_text("")
    with pytest.raises(BrokerFailed, match="did not start"):
        Broker(data=folder, fresh=True).start()
    assert [path.name for path in (folder / "log").iterdir()] == ["meta.properties"]


def test_settings_given_win(fake_java):
    folder = fake_java("no")
    with pytest.raises(BrokerFailed):
        Broker(data=folder, auto_create_topics=True, settings={"num.partitions": "7"}).start()
    lines = (folder / "server.properties").read_text().splitlines()
    assert "num.partitions=7" in lines
    assert "auto.create.topics.enable=true" in lines
    assert "log.retention.ms=-1" in lines


def test_nothing_answers_on_a_port_without_a_broker():
    (port,) = server.free_ports("127.0.0.1", 1)
    assert not server.answers("127.0.0.1", port)
