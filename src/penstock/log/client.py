"""The one place where client settings are made: said once, in librdkafka's names, rendered for every client.

    Connection("localhost:9092", {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": ..., ...})

A name may carry the client it is for: ``producer.linger.ms``, ``consumer.fetch.max.bytes``, ``admin.…``, and ``spark.…`` for
a setting of Spark's Java consumer in Java's own names. Without one it is for all clients of this process; of those,
Spark's consumer gets what it knows (security, sockets, fetch sizes), translated.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.errors import ConfigError

#: what the clients say of themselves; silent unless the program sets up logging
logger = logging.getLogger("penstock.kafka")
logger.addHandler(logging.NullHandler())

CLIENTS = ("producer", "consumer", "admin", "spark")

#: A broker that has just come back may tell that there is none. The client then drops its connection, but remembers that a group's
#: coordinator was there, and requests to it wait until any connection changes its state, whatever their timeout (librdkafka issues
#: 5456, 5511). To close connections that nobody uses is such a change: it ends the wait. See docs/decisions/0007.
IDLE_MS = 10_000

#: ours unless the user says otherwise
PREFERENCES: dict[str, dict[str, Any]] = {
    "producer": {
        "partitioner": "murmur2_random",  # a key goes where Java's producer sends it
        "queue.buffering.max.messages": 1_000_000,
        "linger.ms": 1000,  # larger batches cost less; a commit flushes and waits for none of it
        # a transaction right after another one is told to wait for its markers: a commit takes 17 to 26 ms, not 100 to 127
        "retry.backoff.ms": 10,
        "socket.nagle.disable": True,
        "topic.metadata.propagation.max.ms": 10_000,  # how long a missing topic may take to appear
        "connections.max.idle.ms": IDLE_MS,
    },
    "consumer": {
        "socket.nagle.disable": True,
        "queued.min.messages": 200_000,
        # how long a client that holds so many does not ask for more: a second, unless told, for which a restore stood still
        "fetch.queue.backoff.ms": 5,
    },
    "admin": {},
}

#: names that Java's consumer has too, and those it calls otherwise
JAVA_NAMES = {
    **{
        name: name
        for name in (
            "client.id", "client.rack", "security.protocol", "sasl.kerberos.service.name", "ssl.key.password", "ssl.cipher.suites",
            "ssl.endpoint.identification.algorithm", "fetch.min.bytes", "fetch.max.bytes", "max.partition.fetch.bytes",
            "request.timeout.ms", "retry.backoff.ms", "retry.backoff.max.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms",
            "connections.max.idle.ms", "metadata.max.age.ms", "check.crcs",
        )
    },
    "sasl.mechanism": "sasl.mechanism",
    "sasl.mechanisms": "sasl.mechanism",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "socket.connection.setup.timeout.ms": "socket.connection.setup.timeout.ms",
}  # fmt: skip

#: PEM files are read here and go along as text: an executor may be on another machine
PEM_FILES = {
    "ssl.ca.location": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
}
PEM_TEXTS = {
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach a cluster. Settings are not shown: passwords are among them."""

    bootstrap_servers: str
    kafka: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def settings(self, client: str, **required: Any) -> dict[str, Any]:
        """Return the settings of a client of this process. ``required`` ones (``_`` for ``.``) cannot be overridden.

        >>> Connection("a:1", {"linger.ms": 1, "producer.linger.ms": 2}).settings("producer")["linger.ms"]
        2
        """
        ours = {name.replace("_", "."): value for name, value in required.items()}
        return (
            {"bootstrap.servers": self.bootstrap_servers}
            | PREFERENCES[client]
            | self._shared()
            | self._only_for(client)
            | ours
        )

    def spark_options(self) -> dict[str, str]:
        """Return the options of Spark's Kafka source: the same cluster, the same security, in Java's names.

        >>> Connection("a:1", {"security.protocol": "SSL", "linger.ms": 5}).spark_options()
        {'kafka.bootstrap.servers': 'a:1', 'kafka.security.protocol': 'SSL'}
        """
        given = self._shared() | self._only_for("consumer")
        java: dict[str, Any] = {"bootstrap.servers": self.bootstrap_servers}
        java |= {JAVA_NAMES[name]: value for name, value in given.items() if name in JAVA_NAMES}
        if java.get("ssl.endpoint.identification.algorithm") == "none":
            java["ssl.endpoint.identification.algorithm"] = ""  # Java's word for it
        own = self._only_for("spark")
        java |= _certificates(given)
        if "sasl.jaas.config" not in own:
            java |= _login(given)
            _refuse_what_java_cannot(given, own)
        java |= own
        return {f"kafka.{name}": _text(value) for name, value in java.items()}

    def _shared(self) -> dict[str, Any]:
        return {name: value for name, value in self.kafka.items() if name.partition(".")[0] not in CLIENTS}

    def _only_for(self, client: str) -> dict[str, Any]:
        return {
            name.removeprefix(f"{client}."): value
            for name, value in self.kafka.items()
            if name.startswith(f"{client}.")
        }


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _certificates(given: Mapping[str, Any]) -> dict[str, str]:
    java = {PEM_TEXTS[name]: str(value) for name, value in given.items() if name in PEM_TEXTS}
    for name, target in PEM_FILES.items():
        if name in given:
            java[target] = _read(name, given[name])
    for store in ("truststore", "keystore"):
        if any(name.startswith(f"ssl.{store}.") for name in java):
            java[f"ssl.{store}.type"] = "PEM"
    return java


def _read(name: str, path: Any) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise ConfigError(f"kafka={{{name!r}: {str(path)!r}}}: the file cannot be read: {error.strerror}") from error


def _login(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the JAAS configuration of Java for the mechanism that is set, if one is."""
    mechanism = str(given.get("sasl.mechanism") or given.get("sasl.mechanisms") or "GSSAPI").upper()
    if not str(given.get("security.protocol", "")).upper().startswith("SASL"):
        return {}
    if mechanism not in LOGINS:
        raise ConfigError(
            f"sasl.mechanism {mechanism} cannot be translated for Spark's Java consumer: "
            "give its own settings as kafka={'spark.sasl.jaas.config': '...', ...}"
        )
    return {"sasl.jaas.config": LOGINS[mechanism](given)}


def _by_password(module: str) -> Callable[[Mapping[str, Any]], str]:
    def login(given: Mapping[str, Any]) -> str:
        for name in ("sasl.username", "sasl.password"):
            if name not in given:
                raise ConfigError(f"kafka={{...}} has a sasl.mechanism but no {name!r}: add it")
        options = {"username": given["sasl.username"], "password": given["sasl.password"]}
        return _jaas(f"org.apache.kafka.common.security.{module}", options)

    return login


def _by_keytab(given: Mapping[str, Any]) -> str:
    options = {"useKeyTab": "true", "storeKey": "true"}
    for name, option in (("sasl.kerberos.keytab", "keyTab"), ("sasl.kerberos.principal", "principal")):
        if name not in given:
            raise ConfigError(f"kafka={{...}} asks for Kerberos but has no {name!r}: add it")
        options[option] = given[name]
    return _jaas("com.sun.security.auth.module.Krb5LoginModule", options)


def _jaas(module: str, options: Mapping[str, Any]) -> str:
    r"""Write a line of JAAS; quotes and backslashes inside a value are escaped.

    >>> print(_jaas("M", {"password": 'a"b\\'}))
    M required password="a\"b\\";
    """
    said = " ".join(
        '{}="{}"'.format(name, str(value).replace("\\", "\\\\").replace('"', '\\"')) for name, value in options.items()
    )
    return f"{module} required {said};"


LOGINS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "PLAIN": _by_password("plain.PlainLoginModule"),
    "SCRAM-SHA-256": _by_password("scram.ScramLoginModule"),
    "SCRAM-SHA-512": _by_password("scram.ScramLoginModule"),
    "GSSAPI": _by_keytab,
}


def _refuse_what_java_cannot(given: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    if _text(given.get("enable.ssl.certificate.verification", "true")) == "false" and not any(
        name.startswith("ssl.") for name in own
    ):
        raise ConfigError(
            "enable.ssl.certificate.verification=false: Spark's Java consumer cannot skip the check of certificates. "
            "Give the authority's certificate instead (ssl.ca.location)"
        )
