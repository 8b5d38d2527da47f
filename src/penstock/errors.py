"""The whole error tree, grouped by what the reader must do.

::

    PenstockError
    ├── TopologyError            change the program: it was refused when it was built
    │   ├── OptionError              an option that a method does not have (a TypeError, too)
    │   └── TopologyChanged          decide: it is not the program that the application's state was made with
    ├── ConfigError              change the configuration: unknown name or bad value
    │   └── MissingExtra             install an extra: what was asked for needs a package (an ImportError, too)
    ├── StoreError               ask for another store, or at another time (unknown, closed)
    │   └── VerbError                a verb that the store does not have (an AttributeError, too)
    ├── StateError               ask at another time: the application has not started, or has ended
    ├── QueryError               ask something else, or at another time
    │   ├── UnknownStore             a store that the topology does not have (a StoreError, too)
    │   ├── WrongQuery               a query that this kind of store does not answer (a StoreError, too)
    │   ├── BadKey                   a key that the store's serde refuses (a StoreError, too)
    │   ├── NotUpToBound             the last barrier does not have the position that was asked for
    │   ├── NotAvailable             the application has not restored its state, or has ended (a StateError, too)
    │   └── SnapshotClosed           a snapshot was read after it was closed, or after its deadline (a StateError, too)
    ├── RecoveryError            decide: the application cannot go on from where it stood
    ├── BrokerError              look at Kafka; ``retriable``, ``abortable`` and ``fatal`` say what a program may do
    │   ├── TopicError               a topic or its offsets: missing, gone, or not as they must be
    │   ├── FencedError              stop: another instance with the same application id has taken over
    │   └── RegistryError            look at the schema registry: it is away (``retriable``), or refuses a schema
    ├── EngineError              look at Spark: an epoch could not be run
    │   ├── EpochTooLarge            nothing: it is run again with fewer records
    │   └── SparkEnded               start the application again: Spark's JVM has ended
    └── StreamsError             look at the data or at your function: a record could not be handled
        ├── DeserializationError     bytes of a source record that its serde refused
        ├── TimestampError           a source record without a usable timestamp
        ├── ProcessingError          an exception in a node, usually in your function
        ├── SerializationError       a value that the serde of a sink or store refused
        ├── ProductionError          a record that could not be sent
        └── BufferFullError          a suppress buffer that shuts down when full

Every StreamsError names the node, the topic-partition-offset and, where there is one, the user's function with file and line.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any


class PenstockError(Exception):
    """Anything that Penstock raises by itself."""


class TopologyError(PenstockError):
    """The program was refused while it was built; the message says what to write instead."""


class OptionError(TopologyError, TypeError):
    """A method was called with a keyword option that it does not have."""


class TopologyChanged(TopologyError):
    """The topology differs from the one that the application's state was made with; the message shows how."""


class ConfigError(PenstockError):
    """A setting is unknown or has a value that cannot be used."""


class MissingExtra(ConfigError, ImportError):
    """A part of Penstock was asked for whose packages are not installed; the message says what to install."""


class StoreError(PenstockError):
    """A store does not exist, is closed, or does not have that verb."""


class VerbError(StoreError, AttributeError):
    """A store was asked for a verb that it does not have, or not here."""


class StateError(PenstockError):
    """The application is in a state in which that cannot be done."""


class QueryError(PenstockError):
    """A query cannot be answered; the message says what to ask instead, or when."""


class UnknownStore(QueryError, StoreError):
    """There is no such store; the message says which exist."""


class WrongQuery(QueryError, StoreError):
    """Stores of this kind do not answer such a query; the message says which to write."""


class BadKey(QueryError, StoreError):
    """The store's serde refused a key of the query."""


class NotUpToBound(QueryError):
    """No barrier had the position in the time given. ``barrier``: the last one (epoch, position), None if there is none yet."""

    def __init__(self, message: str, *, barrier: Any = None) -> None:
        self.barrier = barrier
        super().__init__(message)


class NotAvailable(QueryError, StateError):
    """The stores cannot be read now: the application has not restored its state yet, or has ended."""


class SnapshotClosed(QueryError, StateError):
    """A snapshot, or a scan of it, was read after it was closed or after its deadline."""


class RecoveryError(PenstockError):
    """What earlier runs of the application left behind cannot be used; the message says what can be done."""


class EngineError(PenstockError):
    """Spark could not run an epoch; if that may pass it is run again, and given up if that does not help."""

    def __init__(self, message: str, *, passing: bool = True) -> None:
        self.passing = passing
        super().__init__(message)


class EpochTooLarge(EngineError):
    """A task was to read more bytes than an epoch may have; ``records`` of ``size`` bytes were read until then. A smaller one may pass."""

    def __init__(self, message: str, *, records: int, size: int) -> None:
        self.records = records
        self.size = size
        super().__init__(message)


class SparkEnded(EngineError):
    """Spark's JVM has ended; the application must be started again."""

    def __init__(self, message: str) -> None:
        super().__init__(message, passing=False)


class BrokerError(PenstockError):
    """Kafka did not do what was asked; ``code`` is its own name of the reason.

    What a program may do about it: ``retriable``: the same call again; ``abortable``: abort the transaction, then do its
    work again; ``fatal``: nothing with this client any more.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        retriable: bool = False,
        abortable: bool = False,
        fatal: bool = False,
    ) -> None:
        self.code = code
        self.retriable = retriable
        self.abortable = abortable
        self.fatal = fatal
        super().__init__(message)


class TopicError(BrokerError):
    """A topic is missing, its records are gone, or it has other partitions or settings than it must have."""


class FencedError(BrokerError):
    """Another instance with the same application id has taken over; this one may not write any more."""


class RegistryError(BrokerError):
    """The schema registry did not do what was asked. ``retriable``: it is away, and is waited for as a broker is."""


class StreamsError(PenstockError):
    """A record could not be handled. ``node``, ``origin`` (coordinates) and ``function`` say where."""

    def __init__(
        self, message: str, *, node: str | None = None, origin: Any = None, function: str | None = None
    ) -> None:
        self.node = node
        self.origin = origin
        self.function = function
        parts = [message]
        if node is not None:
            parts.append(f"  node:     {node}")
        if origin is not None:
            parts.append(f"  record:   {coordinates(origin)}")
        if function is not None:
            parts.append(f"  function: {function}")
        super().__init__("\n".join(parts))


class DeserializationError(StreamsError):
    """The serde of a source refused the bytes of a record."""


class TimestampError(StreamsError):
    """A source record has no usable timestamp."""


class ProcessingError(StreamsError):
    """An exception in a node; the cause is the original exception."""


class SerializationError(StreamsError):
    """The serde of a sink or a store refused a value."""


class ProductionError(StreamsError):
    """A record could not be sent to its topic. ``retry``: the policy wants its epoch to be run again."""

    retry = False


class BufferFullError(StreamsError):
    """A suppress buffer with ``shut_down_when_full`` went over its limit."""


def coordinates(origin: Any) -> str:
    """Describe where a record came from: ``topic-partition@offset``."""
    if origin is None or origin.topic is None:
        return "none (punctuation or timer)"
    return f"{origin.topic}-{origin.partition}@{origin.offset} (timestamp {origin.timestamp})"


def describe_function(function: Callable[..., Any] | None) -> str | None:
    """Name a user's function with its file and line, so that an error points at it.

    >>> describe_function(len)
    'len (built-in)'
    """
    if function is None:
        return None
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    if code is None:
        return f"{name} (built-in)"
    return f"{name} ({code.co_filename}:{code.co_firstlineno})"


def nearest(name: str, choices: Iterable[str]) -> str:
    """Give the "did you mean" part of a message, or nothing.

    >>> nearest("lane", ["lanes", "shards"])
    " (did you mean 'lanes'?)"
    """
    close = difflib.get_close_matches(name, list(choices), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
