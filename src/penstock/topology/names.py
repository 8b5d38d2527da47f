"""What may be a name: of a node, a topic, a store. The rules are Kafka's rules for topics."""

from __future__ import annotations

import re

from penstock.errors import TopologyError

MAX_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_name(name: object, what: str) -> str:
    """Return a legal name, or say what is wrong with it.

    >>> check_name("word-counts", "topic")
    'word-counts'
    >>> check_name("word counts", "topic")
    Traceback (most recent call last):
    penstock.errors.TopologyError: topic 'word counts' is not a legal name: use letters, digits, '.', '_' and '-' only
    """
    if not isinstance(name, str) or not name:
        raise TopologyError(f"{what} must be a non-empty string, but is {name!r}")
    if name in (".", ".."):
        raise TopologyError(f"{what} must not be {name!r}: choose another name")
    if len(name) > MAX_LENGTH:
        raise TopologyError(f"{what} {name[:40]!r}… has {len(name)} characters: at most {MAX_LENGTH} are allowed")
    if not _LEGAL.fullmatch(name):
        raise TopologyError(f"{what} {name!r} is not a legal name: use letters, digits, '.', '_' and '-' only")
    return name
