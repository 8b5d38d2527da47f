"""What is known of a record that cannot be handled, on both sides: what the policy says, the headers of its dead letter, and the error
as bytes on its way to the driver."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Mapping
from typing import Any, TypeAlias

from penstock.errors import (
    ConfigError,
    EngineError,
    EpochTooLarge,
    PenstockError,
    ProcessingError,
    RegistryError,
    StreamsError,
    describe_function,
)
from penstock.record import Headers, Origin
from penstock.setting_checks import POLICIES
from penstock.topology.functions import takes

HEADER_PREFIX = "__streams.errors."
#: topic, partition, key, value, timestamp, headers
FailedDeadLetter: TypeAlias = tuple[str, None, bytes | None, bytes | None, int, Headers]
#: what errors know besides their text: of a record, of a cluster, of Spark
WHERE = ("node", "origin", "function")
#: begins the last line of a dead letter's stack trace, which names the node
NODE_LINE = "at node: "
DETAILS = (*WHERE, "code", "retriable", "abortable", "fatal", "passing")


def error_headers(headers: Headers, origin: Origin, node: str | None, error: BaseException) -> Headers:
    """Return the headers of a dead letter: the record's own, then those of KIP-1034.

    Kafka has no header for the node that failed: the last line of the stack trace names it.
    """
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    details = {
        "exception": name,
        "message": str(error),
        "stacktrace": "".join(traceback.format_exception(error)) + ("" if node is None else f"{NODE_LINE}{node}\n"),
        "topic": origin.topic,
        "partition": str(origin.partition),
        "offset": str(origin.offset),
    }
    added = ((HEADER_PREFIX + key, None if text is None else text.encode()) for key, text in details.items())
    return (*headers, *added)


def late_headers(origin: Origin, node: str, start: int, end: int, now: int) -> Headers:
    """Return the headers of a late record's dead letter: its own, then which window it missed, and by how much.

    ``late-by-ms`` is how far time was past the end of the window; without a window (it ends where it starts) past the record itself.
    """
    late_for = f"the window {start} to {end} of {node}" if start < end else f"{node}, which takes no late records"
    details = {
        "message": f"late for {late_for}",
        "topic": origin.topic,
        "partition": str(origin.partition),
        "offset": str(origin.offset),
        "node": node,
        **({"window-start": str(start), "window-end": str(end)} if start < end else {}),
        "watermark": str(now),
        "late-by-ms": str(now - end),
    }
    added = ((HEADER_PREFIX + key, None if text is None else text.encode()) for key, text in details.items())
    return (*origin.headers, *added)


def decide(policy: Any, error: StreamsError, record: Any, answers: tuple[str, ...] = POLICIES) -> str:
    """Ask a policy what to do about an error: one of ``answers``.

    A callable takes ``(error)``, ``(error, record)``, or Kafka's ``(origin, record, exception)``; ``error.__cause__`` is the
    user's exception. To run out of memory is no fault of the record: no policy is asked, and the epoch is run again with fewer.
    Nor is a schema registry that is away, or refuses a schema: the epoch is run again, or the application ends.
    """
    if isinstance(error.__cause__, MemoryError):
        raise error.__cause__
    if (away := registry_error(error)) is not None:
        raise away
    if isinstance(policy, str):
        return policy
    if takes(policy, 1):
        answer = policy(error)
    elif takes(policy, 2):
        answer = policy(error, record)
    else:
        answer = policy(error.origin, record, error.__cause__ or error)
    if answer not in answers:
        raise ConfigError(
            f"the error handler {describe_function(policy)} returned {answer!r}: must be one of {', '.join(answers)}"
        )
    return str(answer)


def registry_error(error: BaseException | None) -> RegistryError | None:
    """Return the error of a schema registry that an error comes of; None if it comes of none."""
    while error is not None and not isinstance(error, RegistryError):
        error = error.__cause__
    return error


def failed_dead_letter(config: Mapping[str, Any], error: BaseException) -> FailedDeadLetter | None:
    """Return the dead letter of the record that ends the application, if there is such a record and it is asked for."""
    origin = error.origin if isinstance(error, StreamsError) else None
    if not config["dead_letter_failures"] or not isinstance(error, StreamsError) or origin is None or not origin.topic:
        return None
    headers = error_headers(origin.headers, origin, error.node, error.__cause__ or error)
    if (trace := getattr(error, "remote_traceback", None)) is not None:
        told = f"{trace}{NODE_LINE}{error.node}\n" if error.node is not None else trace
        headers = tuple((name, told.encode() if name == HEADER_PREFIX + "stacktrace" else v) for name, v in headers)
    return config["dead_letter_topic"], None, origin.key, origin.value, max(origin.timestamp, 0), headers


def pack_failure(error: Exception) -> bytes:
    """Return an error as bytes for the driver: itself where it can travel, else as a ProcessingError; and the user's traceback."""
    trace = "".join(traceback.format_exception(error))
    if isinstance(error, MemoryError) or isinstance(error.__cause__, MemoryError):
        error = EngineError(f"a task ran out of memory: {error}")
    error = registry_error(error) or error
    kind = type(error) if isinstance(error, PenstockError) else ProcessingError
    text = str(error) if isinstance(error, PenstockError) else f"{type(error).__name__}: {error}"
    names = (*DETAILS, "records", "size") if isinstance(error, EpochTooLarge) else DETAILS
    details = {name: getattr(error, name) for name in names if hasattr(error, name)}
    if details.get("origin") is not None:
        details["origin"] = tuple(details["origin"])
    return pickle.dumps((kind, text, details, trace))


def unpack_failure(data: bytes) -> PenstockError:
    """Return the error that ``pack_failure`` packed; its note is the traceback where it happened."""
    kind, text, details, trace = pickle.loads(data)
    error: PenstockError = kind.__new__(kind)
    Exception.__init__(error, text)
    if issubclass(kind, StreamsError):
        details = dict.fromkeys(WHERE) | details
        details["origin"] = None if details["origin"] is None else Origin(*details["origin"])
    for name, value in details.items():
        setattr(error, name, value)
    error.remote_traceback = trace  # type: ignore[attr-defined]
    return error
