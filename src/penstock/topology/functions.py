"""The user's functions are checked when they are given, not when the first record meets them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from penstock.errors import ConfigError, TopologyError, describe_function
from penstock.watermark import LatePolicy, WatermarkStrategy


def check_function(function: Any, verb: str, *arguments: str) -> Callable[..., Any]:
    """Return a function that can be called with so many arguments, or say how it is called.

    >>> check_function(lambda value: value, "filter", "key", "value")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    penstock.errors.TopologyError: filter() calls its function with (key, value), but <lambda> takes (value)...
    """
    if not callable(function):
        raise TopologyError(f"{verb}() needs a function of ({', '.join(arguments)}), but got {function!r}")
    callee: Callable[..., Any] = function
    try:
        signature = inspect.signature(callee)
    except ValueError:  # a built-in that does not say what it takes
        return callee
    try:
        signature.bind(*arguments)
    except TypeError:
        name = getattr(function, "__name__", None) or type(function).__name__
        wanted = f"{verb}() calls its function with ({', '.join(arguments)})"
        give = f"give it a function of {len(arguments)} {'argument' if len(arguments) == 1 else 'arguments'}"
        raise TopologyError(f"{wanted}, but {name} takes {signature}: {give} ({describe_function(function)})") from None
    return callee


def takes(function: Callable[..., Any], count: int) -> bool:
    """Return whether a function can be called with so many arguments; one that does not say can.

    >>> takes(lambda key, value: value, 1)
    False
    """
    try:
        return _takes(function, count)
    except TypeError:  # it cannot be hashed
        return _takes.__wrapped__(function, count)


@lru_cache(maxsize=256)
def _takes(function: Callable[..., Any], count: int) -> bool:
    """The answer is kept: the tasks of every shard ask for it in every epoch."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def check_partitioner(function: Any) -> Callable[..., Any] | None:
    """Return a partitioner, or None where none is given; it may take the headers before the number, or leave out the topic."""
    if function is None or (callable(function) and (takes(function, 5) or takes(function, 3))):
        return function  # type: ignore[no-any-return]
    return check_function(function, "partitioner", "topic", "key", "value", "partitions")


def partitioner_call(partitioner: Callable[..., Any]) -> Callable[..., Any]:
    """Return a partitioner as a function of (topic, key, value, headers, partitions), whichever of them it takes.

    >>> partitioner_call(lambda topic, key, value, partitions: partitions - 1)("out", "k", "v", (), 4)
    3
    >>> partitioner_call(lambda key, value, partitions: len(key))("out", "k", "v", (), 4)
    1
    """
    if takes(partitioner, 4):
        return lambda topic, key, value, headers, partitions: partitioner(topic, key, value, partitions)
    if takes(partitioner, 5):
        return partitioner
    return lambda topic, key, value, headers, partitions: partitioner(key, value, partitions)


def check_topic_extractor(function: Any) -> Callable[..., Any]:
    """Return a function that names the topic of a record; it may leave out the record's origin."""
    if callable(function) and takes(function, 2):
        return function  # type: ignore[no-any-return]
    return check_function(function, "to", "key", "value", "origin")


def check_extractor(function: Any) -> Callable[..., Any] | None:
    """Return a timestamp extractor, or None where none is given; it may leave out the partition's time."""
    if function is None or (callable(function) and takes(function, 1)):
        return function  # type: ignore[no-any-return]
    return check_function(function, "timestamp", "record", "partition_time")


def check_wrapper(function: Any) -> Callable[..., Any] | None:
    """Return a wrapper of processors, or None where none is given."""
    return None if function is None else check_function(function, "wrapper", "node", "process")


def wants_partition_time(extractor: Callable[..., Any]) -> bool:
    """Whether an extractor takes the time that its partition has reached."""
    try:
        parameters = inspect.signature(extractor).parameters.values()
    except (TypeError, ValueError):
        return True
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(positional) >= 2 or any(p.kind is p.VAR_POSITIONAL for p in parameters)


def check_watermark(strategy: Any) -> None:
    """Refuse what is no watermark strategy, and one whose function cannot be called."""
    if strategy is None:
        return
    if not isinstance(strategy, WatermarkStrategy):
        raise TopologyError(f"watermark= takes a WatermarkStrategy, e.g. .bounded(5_000), but got {strategy!r}")
    if strategy.function is not None:
        check_function(strategy.function, "WatermarkStrategy.custom", "key", "value", "timestamp")


def check_late(policy: Any) -> None:
    """Refuse what is no late policy."""
    if policy is not None and not isinstance(policy, LatePolicy):
        names = ", ".join(f"LatePolicy.{one.name}" for one in LatePolicy)
        raise TopologyError(f"late= takes one of {names}, but got {policy!r}")


def check_dead_letters(topology: Any, config: Mapping[str, Any]) -> None:
    """Refuse a source whose late records are to be kept where there is no topic for them."""
    for name, node in topology.nodes.items():
        if getattr(node, "late", None) is LatePolicy.dead_letter and config["dead_letter_topic"] is None:
            raise ConfigError(
                f"source {name!r} has late=LatePolicy.dead_letter, which needs dead_letter_topic='...': set it, "
                "or use LatePolicy.drop or .accept"
            )
