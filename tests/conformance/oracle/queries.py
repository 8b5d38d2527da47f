"""Penstock's queries as Kafka's (IQv2), asked of the stores of Kafka's test driver."""

from typing import Any

from penstock.query import queries as q

from .convert import to_java, to_python
from .jvm import J

PACKAGE = "org.apache.kafka.streams.query."


class Refused(Exception):
    """Kafka's store does not answer: its reason."""


def ask(store: Any, query: q.Query) -> Any:
    """Return the value, or a list of rows, that Kafka's store answers."""
    bound = J[PACKAGE + "PositionBound"].unbounded()
    try:
        result = store.query(to_kafka(query), bound, J[PACKAGE + "QueryConfig"](False))
    except J.UnsupportedOperationException as error:
        raise Refused(str(error.getMessage())) from error
    if result.isFailure():
        raise Refused(str(result.getFailureReason()))
    found = result.getResult()
    return list(_rows(found)) if hasattr(found, "hasNext") else to_python(found)


def _rows(found: Any) -> Any:
    while found.hasNext():
        yield to_python(found.next())
    found.close()


def to_kafka(query: q.Query) -> Any:
    """Return a query as Kafka has it."""
    java = J[PACKAGE + ("WindowRangeQuery" if isinstance(query, q.SessionQuery) else type(query).__name__)]
    match query:
        case q.KeyQuery(key) | q.TimestampedKeyQuery(key):
            return java.withKey(to_java(key))
        case q.RangeQuery(lower, upper) | q.TimestampedRangeQuery(lower, upper):
            made = _range(java, lower, upper)
            return made.withDescendingKeys() if query.reverse else made.withAscendingKeys()
        case q.WindowKeyQuery(key, since, until):
            return java.withKeyAndWindowStartRange(to_java(key), _instant(since), _instant(until))
        case q.WindowRangeQuery(since, until):
            return java.withWindowStartRange(_instant(since), _instant(until))
        case q.SessionQuery(key):
            return java.withKey(to_java(key))
        case q.VersionedKeyQuery(key, as_of):
            made = java.withKey(to_java(key))
            return made if as_of is None else made.asOf(_instant(as_of))
        case q.MultiVersionedKeyQuery(key, since, until):
            made = java.withKey(to_java(key))
            made = made if since is None else made.fromTime(_instant(since))
            made = made if until is None else made.toTime(_instant(until))
            return made.withDescendingTimestamps() if query.reverse else made.withAscendingTimestamps()
    raise AssertionError(f"Kafka has no {query}")


def _range(java: Any, lower: Any, upper: Any) -> Any:
    if lower is None and upper is None:
        return java.withNoBounds()
    if lower is None:
        return java.withUpperBound(to_java(upper))
    if upper is None:
        return java.withLowerBound(to_java(lower))
    return java.withRange(to_java(lower), to_java(upper))


def _instant(time: int) -> Any:
    return J.Instant.ofEpochMilli(time)
