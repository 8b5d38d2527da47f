"""The one place where client settings are made: said once, in librdkafka's names, rendered for every client.

    Connection("localhost:9092", {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": ..., ...})

A name may carry the client it is for: ``producer.linger.ms``, ``consumer.fetch.max.bytes``, ``admin.…``. Without one it is for all.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.errors import ConfigError
from penstock.masking import Scrub, remember

#: what the clients say of themselves; silent unless the program sets up logging
logger = logging.getLogger("penstock.kafka")
logger.addHandler(logging.NullHandler())
logger.addFilter(Scrub())

CLIENTS = ("producer", "consumer", "admin")

#: A broker that has just come back may tell that there is none. The client then drops its connection, but remembers that a group's
#: coordinator was there, and requests to it wait until any connection changes its state, whatever their timeout (librdkafka issues
#: 5456, 5511). To close connections that nobody uses is such a change: it ends the wait. See docs/decisions/0007.
IDLE_MS = 10_000

#: How long a broker may take to answer. A connection on which no answer comes is dead, be it that nobody has said so (half open), and is
#: made anew; what was asked is asked again.
ANSWER_MS = 30_000

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
        "allow.auto.create.topics": False,  # a topic that is missing is an error, also where the cluster would make it
    },
    "consumer": {
        "socket.nagle.disable": True,
        # what a client holds when its range ends was read in vain
        "queued.min.messages": 20_000,
        # how long a client that holds so many does not ask for more: a second, unless told, for which a restore stood still
        "fetch.queue.backoff.ms": 5,
    },
    "admin": {},
}

#: files of certificates and keys, and the settings that hold their text
PEM_FILES = {
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
}

#: names of settings that hold a secret, or the file of one
SECRET = re.compile(r"password|secret|credential|jaas|private|oauthbearer\.(config|token$)|\bkey(\.(pem|location))?$")


def secrets(kafka: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings that hold a secret.

    >>> secrets({"sasl.username": "me", "sasl.password": "hush", "ssl.key.location": "key.pem", "ssl.ca.location": "ca.pem"})
    ['sasl.password', 'ssl.key.location']
    """
    return sorted(name for name, value in kafka.items() if value and SECRET.search(name.lower()))


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach a cluster. Settings are not shown: passwords are among them."""

    bootstrap_servers: str
    kafka: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        remember(self.kafka)

    def settings(self, client: str, **required: Any) -> dict[str, Any]:
        """Return the settings of a client of this process. ``required`` ones (``_`` for ``.``) cannot be overridden.

        >>> Connection("a:1", {"linger.ms": 1, "producer.linger.ms": 2}).settings("producer")["linger.ms"]
        2
        """
        ours = {name.replace("_", "."): value for name, value in required.items()}
        given = self._shared() | self._only_for(client) | ours
        answer_ms = min(ANSWER_MS, int(given.get("transaction.timeout.ms", ANSWER_MS)))  # the client wants it so
        bound = {"bootstrap.servers": self.bootstrap_servers, "socket.timeout.ms": answer_ms}
        return bound | PREFERENCES[client] | given

    def _shared(self) -> dict[str, Any]:
        return {name: value for name, value in self.kafka.items() if name.partition(".")[0] not in CLIENTS}

    def _only_for(self, client: str) -> dict[str, Any]:
        return {
            name.removeprefix(f"{client}."): value
            for name, value in self.kafka.items()
            if name.startswith(f"{client}.")
        }


def portable(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings that hold on other machines, too: the text of certificates and keys instead of the names of their files.

    >>> portable({"ssl.ca.location": "nowhere.pem"})
    Traceback (most recent call last):
    penstock.errors.ConfigError: kafka={'ssl.ca.location': 'nowhere.pem'}: the file cannot be read: No such file or directory
    """
    told: dict[str, Any] = {}
    for name, value in kafka.items():
        client, dot, rest = name.partition(".") if name.partition(".")[0] in CLIENTS else ("", "", name)
        if rest in PEM_FILES and not Path(value).is_dir():
            told[f"{client}{dot}{PEM_FILES[rest]}"] = _read(name, value)
        else:
            told[name] = value
    return told


def _read(name: str, path: Any) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise ConfigError(f"kafka={{{name!r}: {str(path)!r}}}: the file cannot be read: {error.strerror}") from error
