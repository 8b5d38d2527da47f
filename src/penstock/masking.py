"""Secrets among settings are not shown: not in tables, messages, logs, nor on command lines that others can read."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "***"

#: names of settings, of Kafka's clients and of Spark, whose values are never shown
_SECRET = re.compile(
    r"passw|basic[._]?auth|passphrase|pwd|secret|token(?!\.endpoint)|credential|jaas|private|[._-]key$|(api|access)[._-]?key|\.pem$",
    re.IGNORECASE,
)
#: of the settings for security, those that may be shown: any other may hold a secret
_SECURITY = re.compile(r"^((producer|consumer|admin)\.)?(sasl|ssl)[._]", re.IGNORECASE)
_HARMLESS = re.compile(
    r"\.(mechanisms?|username|location|suites|list|providers|algorithm|method|grant\.type|scope|client\.id|endpoint\.url"
    r"|service\.name|principal|keytab|min\.time\.before\.relogin)$",
    re.IGNORECASE,
)
#: user and password in an address
_USER = re.compile(r"(?<=://)[^/@\s]+(?=@)")
#: what is shorter is not looked for in texts: it would be found everywhere
_LEAST = 4

_known: set[str] = set()


def is_secret(name: str) -> bool:
    """Whether the value of a setting is not to be shown.

    >>> [is_secret(name) for name in ("sasl.password", "consumer.ssl.key.pem", "sasl.oauthbearer.config", "ssl.key.password")]
    [True, True, True, True]
    >>> [is_secret(name) for name in ("sasl.mechanism", "sasl.username", "ssl.ca.location", "linger.ms", "spark.master")]
    [False, False, False, False, False]
    """
    if _SECRET.search(name):
        return True
    return bool(_SECURITY.match(name)) and not _HARMLESS.search(name)


def masked(value: Any) -> Any:
    """Return a value of a setting as it may be shown.

    >>> masked({"sasl.username": "me", "sasl.password": "hush", "proxy": "http://me:hush@host/x"})
    {'sasl.username': 'me', 'sasl.password': '***', 'proxy': 'http://***@host/x'}
    """
    if isinstance(value, Mapping):
        return {name: HIDDEN if is_secret(str(name)) else masked(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [masked(inner) for inner in value]
    return _USER.sub(HIDDEN, value) if isinstance(value, str) else value


def remember(settings: Mapping[str, Any]) -> None:
    """Know the secrets among settings, so that ``scrubbed`` finds them in what others say."""
    for name, value in settings.items():
        if is_secret(str(name)) and isinstance(value, str) and len(value) >= _LEAST:
            _known.add(value)


def scrubbed(text: str) -> str:
    """Return a text without the secrets that are known, and without users of addresses.

    >>> remember({"sasl.password": "open sesame"})
    >>> scrubbed("no such user: me, open sesame, at http://a:b@c")
    'no such user: me, ***, at http://***@c'
    """
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return _USER.sub(HIDDEN, text)


class Scrub(logging.Filter):
    """Takes the secrets out of what is logged."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the message; keep the record."""
        text = record.getMessage()
        clean = scrubbed(text)
        if clean != text:
            record.msg, record.args = clean, ()
        return True
