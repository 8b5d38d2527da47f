"""The doctor looks at the cluster: who answers, where, which release, and whether transactions work.

A cluster that does not answer is nothing that must be mended: it may not have been started yet.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from penstock.cli.finding import Finding
from penstock.errors import BrokerError, ConfigError

if TYPE_CHECKING:
    from penstock.log.kafka import KafkaLog

#: one for all doctors, so that a cluster remembers no more than one
TRANSACTIONAL_ID = "penstock-doctor"
CONNECT_SECONDS = 3
ANSWER_SECONDS = 15


def examine(servers: str, kafka: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[Finding]:
    """Look at the cluster that these servers belong to."""
    refusals = unreachable(servers.split(","))
    if len(refusals) == len(servers.split(",")):
        told = "; ".join(f"{server}: {why}" for server, why in refusals.items())
        advice = "start Kafka (`penstock dev` does, on this machine), or correct bootstrap_servers"
        yield Finding("Kafka", told, advice, may=True)
        return
    from penstock.log.kafka import KafkaLog

    log = KafkaLog(servers, kafka, timeout=ANSWER_SECONDS)
    try:
        yield from cluster(log, servers, kafka, config)
    finally:
        log.close()


def cluster(log: KafkaLog, servers: str, kafka: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[Finding]:
    """Ask the cluster about itself."""
    try:
        name, brokers = log.admin.cluster()
        topics = log.admin.topics()
    except ConfigError as error:
        yield Finding("Kafka", f"{servers} was not asked", str(error))
        return
    except BrokerError as error:
        yield Finding("Kafka", f"{servers} does not answer as it should", str(error))
        return
    release = release_of(brokers, kafka)
    found = f"{servers}: {release}, cluster {name}, {len(brokers)} brokers, {len(topics)} topics"
    yield Finding("Kafka", found, too_few(len(brokers), config["replication_factor"]))
    if hidden := unreachable(brokers):
        yield Finding(
            "Kafka's addresses",
            "; ".join(f"{server}: {why}" for server, why in hidden.items()),
            "the brokers say that they are there, and from here they are not: correct advertised.listeners of the brokers",
        )
    else:
        yield transactions(log, config["processing_guarantee"])


def too_few(brokers: int, replication: int) -> str:
    """Explain what to do if there are fewer brokers than replicas wanted.

    >>> too_few(1, 3)
    'replication_factor=3 needs 3 brokers: set it to 1 at most'
    """
    if replication <= brokers:
        return ""
    return f"replication_factor={replication} needs {replication} brokers: set it to {brokers} at most"


def transactions(log: KafkaLog, guarantee: str) -> Finding:
    """Try what every application does first: take a transactional id."""
    producer = log.producer(TRANSACTIONAL_ID)
    try:
        producer.init()
    except BrokerError as error:
        without = guarantee == "at_least_once"
        if error.code == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED":
            return Finding(
                "transactions", f"not tried: {error}", "see that the application's own id is allowed", may=True
            )
        return Finding(
            "transactions",
            str(error),
            "a cluster of fewer than three brokers needs transaction.state.log.replication.factor=1 and "
            "transaction.state.log.min.isr=1; without transactions there is only processing_guarantee='at_least_once'",
            may=without,
        )
    return Finding("transactions", "possible")


def release_of(brokers: Iterable[str], kafka: Mapping[str, Any]) -> str:
    """Name the release of the cluster, if a broker tells it over a connection without encryption."""
    from penstock.dev.release import kafka_release

    if str(kafka.get("security.protocol", "PLAINTEXT")).upper().endswith("SSL"):
        return "Kafka"
    releases = (kafka_release(*address(server)) for server in brokers)
    found = next((release for release in releases if release is not None), None)
    return f"Kafka {found}" if found else "Kafka"


def unreachable(servers: Iterable[str]) -> dict[str, str]:
    """Return the servers that no connection can be made to, each with the reason."""
    reasons = {}
    for server in servers:
        try:
            socket.create_connection(address(server), timeout=CONNECT_SECONDS).close()
        except OSError as error:
            reasons[server] = error.strerror or str(error)
    return reasons


def address(server: str) -> tuple[str, int]:
    """Split an address as Kafka's clients do.

    >>> address("SASL_SSL://kafka.example:9093"), address(" [::1]:9092"), address("localhost")
    (('kafka.example', 9093), ('::1', 9092), ('localhost', 9092))
    """
    place = server.strip().rpartition("://")[2]
    host, sign, port = place.rpartition(":")
    if not sign or not port.isdigit():
        host, port = place, "9092"
    return host.strip("[]"), int(port)
