"""Stateless stream operators: filter, map, flat_map, select_key, peek, foreach, print, branch. No store, no clock.

Each one handles a record by itself and passes timestamp and headers on untouched.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.operators.base import Forward, Operator, OperatorContext
from penstock.record import Headers


def has_key(key: Any, value: Any) -> bool:
    """Return whether a record has a key: the predicate in front of a repartition topic."""
    return key is not None


@dataclass(frozen=True, slots=True)
class Filter(Operator):
    """Forward the records for which ``predicate(key, value)`` holds (``negate``: does not hold)."""

    calls: ClassVar[tuple[str, ...]] = ("predicate",)

    predicate: Callable[[Any, Any], Any]
    negate: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        predicate = self.predicate

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if predicate(key, value):
                forward(key, value, timestamp, headers)

        def on_record_not(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if not predicate(key, value):
                forward(key, value, timestamp, headers)

        return on_record_not if self.negate else on_record


@dataclass(frozen=True, slots=True)
class SelectKey(Operator):
    """Replace the key by ``mapper(key, value)``."""

    calls: ClassVar[tuple[str, ...]] = ("mapper",)

    mapper: Callable[[Any, Any], Any]

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        mapper = self.mapper

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(mapper(key, value), value, timestamp, headers)

        return on_record


@dataclass(frozen=True, slots=True)
class Map(Operator):
    """Replace key and value by the pair ``mapper(key, value)``; a result that is not a pair is an error."""

    calls: ClassVar[tuple[str, ...]] = ("mapper",)

    mapper: Callable[[Any, Any], tuple[Any, Any]]

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        mapper = self.mapper

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            pair = mapper(key, value)
            if pair.__class__ is not tuple or len(pair) != 2:
                pair = as_pair(pair, "map")
            forward(pair[0], pair[1], timestamp, headers)

        return on_record


@dataclass(frozen=True, slots=True)
class FlatMap(Operator):
    """Replace a record by the pairs of the iterable ``mapper(key, value)``, in order."""

    calls: ClassVar[tuple[str, ...]] = ("mapper",)

    mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]]

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        mapper = self.mapper

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            for pair in as_iterable(mapper(key, value), "flat_map"):
                if pair.__class__ is not tuple or len(pair) != 2:
                    pair = as_pair(pair, "flat_map")
                forward(pair[0], pair[1], timestamp, headers)

        return on_record


@dataclass(frozen=True, slots=True)
class MapValues(Operator):
    """Replace the value by ``mapper(value)``, or ``mapper(key, value)`` where ``with_key``. The key stays."""

    calls: ClassVar[tuple[str, ...]] = ("mapper",)

    mapper: Callable[..., Any]
    with_key: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        mapper = self.mapper

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(key, mapper(value), timestamp, headers)

        def on_record_with_key(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(key, mapper(key, value), timestamp, headers)

        return on_record_with_key if self.with_key else on_record


@dataclass(frozen=True, slots=True)
class FlatMapValues(Operator):
    """Replace a record by one record per item of ``mapper(value)``, or ``mapper(key, value)`` where ``with_key``."""

    calls: ClassVar[tuple[str, ...]] = ("mapper",)

    mapper: Callable[..., Iterable[Any]]
    with_key: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        mapper = self.mapper

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            for item in mapper(value):
                forward(key, item, timestamp, headers)

        def on_record_with_key(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            for item in mapper(key, value):
                forward(key, item, timestamp, headers)

        return on_record_with_key if self.with_key else on_record


@dataclass(frozen=True, slots=True)
class Peek(Operator):
    """Call ``action(key, value)``, then forward the record as it is."""

    calls: ClassVar[tuple[str, ...]] = ("action",)

    action: Callable[[Any, Any], Any]

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        action = self.action

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            action(key, value)
            forward(key, value, timestamp, headers)

        return on_record


@dataclass(frozen=True, slots=True)
class Foreach(Operator):
    """Call ``action(key, value)`` and end the stream there."""

    calls: ClassVar[tuple[str, ...]] = ("action",)

    action: Callable[[Any, Any], Any]

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        action = self.action

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            action(key, value)

        return on_record


@dataclass(frozen=True, slots=True)
class Print(Operator):
    """Write ``[label]: key, value`` and end the stream there.

    ``file``: a path (appended to), an object with ``write``, or None for the standard output.
    """

    label: str | None = None
    file: Any = None

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        label = self.label if self.label is not None else context.node
        file = self.file
        if isinstance(file, str | os.PathLike):
            file = open(file, "a", encoding="utf-8")  # noqa: SIM115 - closed with the task
            context.on_close(file.close)

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            out = file if file is not None else sys.stdout
            out.write(f"[{label}]: {key}, {value}\n")
            out.flush()

        return on_record


@dataclass(frozen=True, slots=True)
class PassThrough(Operator):
    """Forward the record as it is: merge nodes, branch children, joins' pass nodes."""

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(key, value, timestamp, headers)

        return on_record


@dataclass(frozen=True, slots=True)
class Branch(Operator):
    """Forward each record to the child of the first predicate that holds; if none does, to the default or nowhere.

    The default child is the one name more than there are predicates, the last.
    """

    predicates: tuple[Callable[[Any, Any], Any], ...]
    children: tuple[str, ...]

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        children = context.children
        routes = tuple((p, children[name]) for p, name in zip(self.predicates, self.children, strict=False))
        default = children[self.children[-1]] if len(self.children) > len(self.predicates) else None

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            for predicate, child in routes:
                if predicate(key, value):
                    child(key, value, timestamp, headers)
                    return
            if default is not None:
                default(key, value, timestamp, headers)

        return on_record

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's functions in this operator."""
        return self.predicates


def as_iterable(found: Any, verb: str) -> Iterable[Any]:
    """Return what a mapper has made of a record, if it is anything."""
    if found is None:
        raise TypeError(f"the function of {verb} must return an iterable of (key, value) pairs, not None")
    return found  # type: ignore[no-any-return]


def as_pair(result: Any, verb: str) -> tuple[Any, Any]:
    """Return a mapper's result as a pair, or say what is wrong with it."""
    if isinstance(result, (tuple, list)) and len(result) == 2:
        return result[0], result[1]
    raise TypeError(f"the function of {verb} must return a (key, value) pair, but returned {result!r}")
