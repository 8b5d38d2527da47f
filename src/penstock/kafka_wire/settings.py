"""Which of librdkafka's settings are understood here, with librdkafka's meaning; a writer with any other one is librdkafka's.

honoured    read into `ProducerSettings`
fixed       only with the value that this writer has anyway
ignored     about what this writer does not have: queues, threads, statistics, consumers
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.kafka_wire.errors import UnsupportedSetting

#: (host, port)
Address = tuple[str, int]

#: the client's own, unless it is told otherwise
LARGEST_MESSAGE = 1_000_000
BATCH_SIZE = 1_000_000
#: codecs that are understood, by the number that a batch has of them. Not lz4: Arrow writes blocks that depend on each other, and brokers
#: refuse those
CODECS = {"none": 0, "gzip": 1, "zstd": 4}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")

#: other names of the same settings
ALIASES = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "compression.codec": "compression.type",
    "request.required.acks": "acks",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "retries": "message.send.max.retries",
}
FIXED: dict[str, tuple[str, ...]] = {
    "partitioner": ("murmur2_random",),
    "acks": ("all", "-1"),
    "enable.idempotence": ("true",),
    "ssl.endpoint.identification.algorithm": ("https", "none"),
    "broker.address.family": ("any",),
    "socket.nagle.disable": ("true",),
    "socket.send.buffer.bytes": ("0",),
    "socket.receive.buffer.bytes": ("0",),
    "client.dns.lookup": ("use_all_dns_ips",),
    "api.version.request": ("true",),
    "plugin.library.paths": ("",),
}
IGNORED = {
    "allow.auto.create.topics",
    "api.version.request.timeout.ms",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "check.crcs",
    "client.rack",
    "batch.num.messages",
    "enable.auto.commit",
    "enable.metrics.push",
    "enable.partition.eof",
    "enable.random.seed",
    "fetch.error.backoff.ms",
    "fetch.max.bytes",
    "fetch.message.max.bytes",
    "fetch.min.bytes",
    "fetch.queue.backoff.ms",
    "fetch.wait.max.ms",
    "heartbeat.interval.ms",
    "internal.termination.signal",
    "isolation.level",
    "linger.ms",
    "log.connection.close",
    "log_level",
    "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "message.send.max.retries",
    "metadata.max.age.ms",
    "queue.buffering.backpressure.threshold",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "queue.buffering.max.ms",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "receive.message.max.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "session.timeout.ms",
    "socket.keepalive.enable",
    "socket.max.fails",
    "statistics.interval.ms",
    "sticky.partitioning.linger.ms",
    "topic.metadata.refresh.fast.interval.ms",
    "topic.metadata.refresh.sparse",
}


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """What a writer needs to know. Passwords are among it: not shown."""

    bootstrap: tuple[Address, ...]
    client_id: str
    tls: bool
    sasl: bool
    mechanism: str
    username: str
    password: str
    #: ssl.*, as given
    ssl: Mapping[str, str]
    batch_bytes: int
    largest: int
    transaction_ms: int
    request_ms: int
    #: how long an answer may take; a connection on which none comes is dead
    socket_seconds: float
    #: how long a connection may be idle and be used again; 0: for ever
    idle_seconds: float
    backoff_seconds: float
    longest_backoff_seconds: float
    #: how long a missing topic may take to appear
    propagation_seconds: float
    #: how old what is known of a topic may be
    refresh_seconds: float
    codec: str
    level: int | None

    def __repr__(self) -> str:
        return f"ProducerSettings(bootstrap={self.bootstrap})"


class _Given:
    """Settings that are taken one by one; what is left then was not understood."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._left = {ALIASES.get(name, name): value for name, value in settings.items()}

    def text(self, name: str, default: str = "") -> str:
        value = self._left.pop(name, default)
        if isinstance(value, bool):
            return str(value).lower()
        if not isinstance(value, str | int | float):
            raise UnsupportedSetting(f"{name} is no text and no number")
        return str(value)

    def number(self, name: str, default: int, *, least: int = 0) -> int:
        text = self.text(name, str(default))
        try:
            number = int(text)
        except ValueError as error:
            raise UnsupportedSetting(f"{name}={text} is no number") from error
        if number < least:
            raise UnsupportedSetting(f"{name}={number}")
        return number

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        text = self.text(name, default)
        found = next((choice for choice in choices if choice.lower() == text.lower()), None)
        if found is None:
            raise UnsupportedSetting(f"{name}={text}")
        return found

    def group(self, names: tuple[str, ...]) -> dict[str, str]:
        return {name: self.text(name) for name in names if self._left.get(name) is not None}

    def end(self) -> None:
        for name, values in FIXED.items():
            if name in self._left and (text := self.text(name).lower()) not in values:
                raise UnsupportedSetting(f"{name}={text}")
        if unknown := self._left.keys() - IGNORED:
            raise UnsupportedSetting(", ".join(sorted(unknown)))


SSL = (
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "ssl.key.password",
    "enable.ssl.certificate.verification",
)


def parse_settings(settings: Mapping[str, Any], batch_bytes: int | None = None) -> ProducerSettings:
    """Return settings as this writer has them; raise ``UnsupportedSetting`` where something is not understood.

    >>> parse_settings({"bootstrap.servers": "a:1,b"}).bootstrap
    (('a', 1), ('b', 9092))
    >>> parse_settings({"bootstrap.servers": "a:1", "sasl.mechanism": "OAUTHBEARER"})
    Traceback (most recent call last):
    penstock.kafka_wire.errors.UnsupportedSetting: sasl.mechanism=OAUTHBEARER
    """
    given = _Given(settings)
    identification = str(settings.get("ssl.endpoint.identification.algorithm", "https")).lower()
    protocol = given.choice("security.protocol", PROTOCOLS, "plaintext")
    largest = given.number("message.max.bytes", LARGEST_MESSAGE, least=1000)
    size = given.number("batch.size", batch_bytes or BATCH_SIZE, least=1)
    level = given.number("compression.level", -1, least=-1)
    known = ProducerSettings(
        bootstrap=tuple(address_of(each) for each in given.text("bootstrap.servers").split(",") if each.strip()),
        client_id=given.text("client.id", "penstock"),
        tls=protocol.endswith("ssl"),
        sasl=protocol.startswith("sasl"),
        mechanism=given.choice("sasl.mechanism", MECHANISMS, "PLAIN" if not protocol.startswith("sasl") else "GSSAPI"),
        username=given.text("sasl.username"),
        password=given.text("sasl.password"),
        ssl=given.group(SSL) | {"identification": identification},
        batch_bytes=min(size, largest, batch_bytes or size),
        largest=largest,
        transaction_ms=given.number("transaction.timeout.ms", 60_000, least=1000),
        request_ms=given.number("request.timeout.ms", 30_000, least=1),
        socket_seconds=given.number("socket.timeout.ms", 60_000, least=10) / 1000,
        idle_seconds=given.number("connections.max.idle.ms", 0) / 1000,
        backoff_seconds=given.number("retry.backoff.ms", 100, least=1) / 1000,
        longest_backoff_seconds=given.number("retry.backoff.max.ms", 1000, least=1) / 1000,
        propagation_seconds=given.number("topic.metadata.propagation.max.ms", 30_000) / 1000,
        refresh_seconds=given.number("topic.metadata.refresh.interval.ms", 300_000, least=-1) / 1000,
        codec=given.choice("compression.type", tuple(CODECS), "none"),
        level=None if level < 0 else level,
    )
    given.text("transactional.id")
    given.end()
    if not known.bootstrap:
        raise UnsupportedSetting("bootstrap.servers is empty")
    return known


def address_of(text: str) -> Address:
    """Return host and port.

    >>> address_of("SSL://[::1]:19092"), address_of("kafka")
    (('::1', 19092), ('kafka', 9092))
    """
    _, _, rest = text.strip().rpartition("://")
    host, colon, port = rest.rpartition(":")
    if not colon or "]" in port:
        host, port = rest, "9092"
    if not port.isdigit():
        raise UnsupportedSetting(f"bootstrap.servers={text}")
    return host.strip("[]"), int(port)
