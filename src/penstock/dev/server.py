"""What a single Kafka server is started with: its jars, its settings, its commands; and how to ask whether it answers.

The server is broker and controller in one process (KRaft). Its settings suit tests and laptops: every internal topic has
one partition and one replica, groups start without a delay, and nothing is deleted by age, because tests write records
with old timestamps.
"""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from penstock.errors import PenstockError

KAFKA = "4.3.1"
#: the oldest broker that tests run against
OLDEST_KAFKA = "3.3.2"
#: how many jars the server comes to; only for a progress bar
JARS = 46

#: an option of the JVM: only the quick compiler. A start takes half the time; the broker is slower under load
QUICK_START = "-XX:TieredStopAtLevel=1"

SETTINGS: dict[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.retention.minutes": "525600",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",
    # a process may have few files open: those of a topic that is deleted go at once, and old timestamps make no new ones
    "log.segment.delete.delay.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.roll.hours": "876000",
    "log.cleaner.dedupe.buffer.size": str(16 << 20),
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",  # after a crash the broker waits so long for its own earlier session to end
    "num.network.threads": "2",
    "num.io.threads": "4",
}

#: what a failed start says in its log, and what the reader must do
REMEDIES = (
    ("UnsupportedClassVersionError", "Java 17 or newer is needed: put one on PATH or in JAVA_HOME"),
    ("Address already in use", "another program listens on that port: stop it, or give another port"),
    ("Failed to acquire lock", "another broker uses that data folder: stop it, or give another folder"),
    ("InconsistentClusterIdException", "the data folder is of another cluster: give another folder, or start fresh"),
    ("Could not reserve enough space", "there is not enough memory for the heap: give a smaller one"),
    ("OutOfMemoryError", "the heap is too small: give a larger one"),
    ("No space left on device", "the disk of the data folder is full"),
)


class BrokerFailed(PenstockError):
    """The Kafka broker could not be started, or died. The message says why and what to do."""


def coordinates(kafka: str = KAFKA) -> tuple[str, ...]:
    """Return the server of a version, and a logger that writes to standard error (the server's own jars have none)."""
    return f"org.apache.kafka:kafka_2.13:{kafka}", "org.slf4j:slf4j-simple:1.7.36@jar"


COORDINATES = coordinates()


def properties(host: str, port: int, controller: int, data: Path, given: Mapping[str, str]) -> str:
    """Return the text of ``server.properties``; settings given win.

    >>> text = properties("127.0.0.1", 9092, 9093, Path("d"), {"num.partitions": "3"})
    >>> [line for line in text.splitlines() if line.startswith(("listeners", "num.part"))]
    ['num.partitions=3', 'listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093']
    """
    own = {
        "listeners": f"PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{host}:{port}",
        "controller.quorum.voters": f"1@{host}:{controller}",
        "log.dirs": str(data.absolute() / "log"),
    }
    rows = SETTINGS | own | {name: str(value) for name, value in given.items()}
    return "".join(f"{name}={value}\n" for name, value in rows.items())


def java_command(java: Path, jars: Iterable[Path], options: Iterable[str], main: str, *arguments: str) -> list[str]:
    """Return the command that runs a class of the jars."""
    return [
        str(java),
        *options,
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        "-cp",
        ":".join(str(jar) for jar in jars),
        main,
        *arguments,
    ]


def why(log: str) -> str:
    """Explain what a log means: the remedy if the cause is known, else its last lines.

    >>> why("java.net.BindException: Address already in use")
    'another program listens on that port: stop it, or give another port'
    """
    for sign, remedy in REMEDIES:
        if sign in log:
            return remedy
    lines = [line for line in log.splitlines() if line.strip()]
    return "its log ends with:\n  " + "\n  ".join(lines[-8:]) if lines else "it left no log"


def free_ports(host: str, count: int) -> list[int]:
    """Choose ports that nobody listens on.

    They lie below the range from which the kernel takes ports for outgoing connections, so that none of those takes a
    port of ours while the broker is down between a stop and a restart.
    """
    found: list[int] = []
    for candidate in random.SystemRandom().sample(range(10_000, 32_000), 500):
        if is_free(host, candidate):
            found.append(candidate)
        if len(found) == count:
            return found
    raise BrokerFailed(f"no free port was found on {host}: give one")


def is_free(host: str, port: int) -> bool:
    """Return whether a server can listen on a port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


#: Metadata request, version 4, of no topics, as client "penstock", correlation id 1 (KIP-4: an empty list asks for brokers)
_ASK_METADATA = struct.pack(">hhih8siB", 3, 4, 1, 8, b"penstock", 0, 0)


def answers(host: str, port: int) -> bool:
    """Return whether a broker listens there that is ready: one that lists at least one broker as alive, itself."""
    try:
        reply = ask(host, port, _ASK_METADATA)
        _, _, brokers = struct.unpack_from(">iii", reply)  # correlation id, throttle time, number of brokers
    except (OSError, struct.error):
        return False
    return bool(brokers > 0)


def ask(host: str, port: int, request: bytes, timeout: float = 1) -> bytes:
    """Send a request of Kafka's protocol over a plain connection; return the answer."""
    with socket.create_connection((host, port), timeout=timeout) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        return _read(connection, struct.unpack(">i", _read(connection, 4))[0])


def _read(connection: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionResetError("the broker closed the connection")
        parts += part
    return parts
