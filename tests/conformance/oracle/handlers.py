"""Penstock's error policies as Kafka's exception handlers.

``fail``, ``skip`` and ``dead_letter`` are handler classes of Kafka's own where there are such (`CLASSES`); Kafka has none that goes
on after a production error, and takes no instances at all, only names of classes. So a proxy is put into the fields of an open
driver for those, and for policies that are Python functions.
"""

from collections.abc import Callable
from typing import Any

from penstock.errors import DeserializationError, ProcessingError, SerializationError
from penstock.protocol.failure import decide
from penstock.record import Origin, Record

from .convert import from_headers, last_raised, proxy, to_python
from .jvm import J

_ERRORS = "org.apache.kafka.streams.errors"
CLASSES = {
    "on_deserialization_error": (
        "deserialization.exception.handler",
        {
            "skip": f"{_ERRORS}.LogAndContinueExceptionHandler",
            "dead_letter": f"{_ERRORS}.LogAndContinueExceptionHandler",
            "fail": f"{_ERRORS}.LogAndFailExceptionHandler",
        },
    ),
    "on_processing_error": (
        "processing.exception.handler",
        {
            "skip": f"{_ERRORS}.LogAndContinueProcessingExceptionHandler",
            "dead_letter": f"{_ERRORS}.LogAndContinueProcessingExceptionHandler",
            "fail": f"{_ERRORS}.LogAndFailProcessingExceptionHandler",
        },
    ),
}


def settings(config: dict[str, Any]) -> dict[str, str]:
    """The settings of Kafka that say the same as ours, where there are such.

    Kafka's handlers write dead letters whenever there is a topic for them, so it is named only where a policy asks.
    """
    found = {
        java: classes[config[name]] for name, (java, classes) in CLASSES.items() if isinstance(config.get(name), str)
    }
    if "dead_letter" in [config.get(name) for name in CLASSES]:
        found["errors.dead.letter.queue.topic.name"] = config["dead_letter_topic"]
    return found


def install(driver: Any, config: dict[str, Any]) -> None:
    """Put proxies for the policies that `settings` cannot say into an open TopologyTestDriver."""
    task = _get(driver, "task")
    if task is None:
        return
    letters = config.get("dead_letter_topic")
    mixed = "dead_letter" in config.values()
    if _needs_proxy(policy := config.get("on_deserialization_error"), mixed):
        handler = _handler("DeserializationExceptionHandler", DeserializationError, policy, letters)
        for queue in _get(_get(task, "partitionGroup"), "partitionQueues").values():
            _set(_get(queue, "recordDeserializer"), "deserializationExceptionHandler", handler)
    if _needs_proxy(policy := config.get("on_processing_error"), mixed):
        handler = _handler("ProcessingExceptionHandler", ProcessingError, policy, letters)
        _set(task, "processingExceptionHandler", handler)
        for node in _get(task, "topology").processors():
            _set(node, "processingExceptionHandler", handler)
    if (policy := config.get("on_production_error", "fail")) != "fail":
        handler = _handler("ProductionExceptionHandler", SerializationError, policy, letters)
        _set(_get(task, "recordCollector"), "productionExceptionHandler", handler)


def _needs_proxy(policy: Any, mixed: bool) -> bool:
    """Functions, and a skip beside a dead_letter: Kafka's own handler would write a letter there, too."""
    return callable(policy) or (policy == "skip" and mixed)


def _handler(interface: str, kind: type[Exception], policy: Any, letters: str | None) -> Any:
    response = J[f"{_ERRORS}.{interface}$Response"]
    build = J[f"{_ERRORS}.internals.ExceptionHandlerUtils"].maybeBuildDeadLetterQueueRecords

    def handle(context: Any, record: Any, exception: Any, *_: Any) -> Any:
        answer = decide(policy, _error(kind, context, exception), _record(record))
        if answer == "fail":
            return response.fail()
        if answer == "skip":
            return response.resume()
        return response.resume(build(letters, context.sourceRawKey(), context.sourceRawValue(), context, exception))

    return proxy(f"{_ERRORS}.{interface}", handleError=handle, handleSerializationError=handle)


def _error(kind: Callable[..., Exception], context: Any, exception: Any) -> Any:
    """What a policy of ours is given: the error with the node, the coordinates and the raw bytes."""
    topic = context.topic()
    origin = Origin(
        None if topic is None else str(topic),
        int(context.partition()),
        int(context.offset()),
        int(context.timestamp()),
        _bytes(context.sourceRawKey()),
        _bytes(context.sourceRawValue()),
        from_headers(context.headers()),
    )
    error = kind(str(exception), node=str(context.processorNodeId()), origin=origin)
    error.__cause__ = last_raised()
    return error


def _record(java: Any) -> Any:
    if java is None:
        return None
    return Record(to_python(java.key()), to_python(java.value()), int(java.timestamp()), from_headers(java.headers()))


def _bytes(java: Any) -> bytes | None:
    return None if java is None else bytes(java)


def _field(target: Any, name: str) -> Any:
    kind = target.getClass()
    while kind is not None:
        for field in kind.getDeclaredFields():
            if str(field.getName()) == name:
                field.setAccessible(True)
                return field
        kind = kind.getSuperclass()
    raise LookupError(f"{target.getClass()} has no field {name}")


def _get(target: Any, name: str) -> Any:
    return _field(target, name).get(target)


def _set(target: Any, name: str, value: Any) -> None:
    _field(target, name).set(target, value)
