"""Stateless stream operators: filter, map, flat_map, select_key, peek, foreach, print, branch. No store, no clock.

Each one handles a record by itself and passes timestamp and headers on untouched.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import compress, repeat
from operator import not_
from typing import Any, ClassVar

from penstock.batch.batch import Batch, Commits, OnBatch
from penstock.batch.column import Column
from penstock.operators.base import Contains, Forward, Operator, OperatorContext
from penstock.operators.each import Failed, call_each, judge_each
from penstock.record import Headers


def has_key(key: Any, value: Any) -> bool:
    """Tell whether a record has a key: the predicate in front of a repartition topic."""
    return key is not None


@dataclass(frozen=True, slots=True)
class Filter(Operator):
    """Forward the records for which ``predicate(key, value)`` holds (``negate``: does not hold)."""

    contains: ClassVar[Contains] = Contains.irregular

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

    def open_batch(self, context: OperatorContext, forward: OnBatch | None) -> OnBatch | None:
        """Return the same for many records."""
        if forward is None:
            return None
        predicate, negate = self.predicate, self.negate

        def on_batch(batch: Batch, commits: Commits) -> None:
            items = batch.keys.items, batch.values.items
            batch, answers = call_each(context, batch, commits, predicate, *items)
            at = list(compress(range(len(batch)), map(not_, answers) if negate else answers))
            if at:
                forward(batch if len(at) == len(batch) else batch.pick(at), commits)

        return on_batch

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's functions in this operator."""
        return (self.predicate,)


@dataclass(frozen=True, slots=True)
class SelectKey(Operator):
    """Replace the key by ``mapper(key, value)``."""

    contains: ClassVar[Contains] = Contains.irregular

    mapper: Callable[[Any, Any], Any]

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        mapper = self.mapper

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(mapper(key, value), value, timestamp, headers)

        return on_record

    def open_batch(self, context: OperatorContext, forward: OnBatch | None) -> OnBatch | None:
        """Return the same for many records."""
        if forward is None:
            return None
        mapper = self.mapper

        def on_batch(batch: Batch, commits: Commits) -> None:
            items = batch.keys.items, batch.values.items
            batch, keys = call_each(context, batch, commits, mapper, *items)
            if keys:
                forward(batch.having(keys=Column(keys)), commits)

        return on_batch

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's functions in this operator."""
        return (self.mapper,)


@dataclass(frozen=True, slots=True)
class Map(Operator):
    """Replace key and value by the pair ``mapper(key, value)``; a result that is not a pair is an error."""

    contains: ClassVar[Contains] = Contains.irregular

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

    def open_batch(self, context: OperatorContext, forward: OnBatch | None) -> OnBatch | None:
        """Return the same for many records."""
        if forward is None:
            return None
        mapper = self.mapper

        def on_batch(batch: Batch, commits: Commits) -> None:
            items = batch.keys.items, batch.values.items
            batch, pairs = call_each(context, batch, commits, mapper, *items)
            if not are_pairs(pairs):
                batch, pairs = call_each(context, batch, commits, as_pair, pairs, repeat("map"))
            if pairs:
                forward(batch.having(*split_pairs(pairs)), commits)

        return on_batch

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's functions in this operator."""
        return (self.mapper,)


@dataclass(frozen=True, slots=True)
class FlatMap(Operator):
    """Replace a record by the pairs of the iterable ``mapper(key, value)``, in order."""

    contains: ClassVar[Contains] = Contains.irregular

    mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]]

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        mapper = self.mapper

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            for pair in _some(mapper(key, value), "flat_map"):
                if pair.__class__ is not tuple or len(pair) != 2:
                    pair = as_pair(pair, "flat_map")
                forward(pair[0], pair[1], timestamp, headers)

        return on_record

    def open_batch(self, context: OperatorContext, forward: OnBatch | None) -> OnBatch | None:
        """Return the same for many records."""
        if forward is None:
            return None
        mapper = self.mapper

        def on_batch(batch: Batch, commits: Commits) -> None:
            pairs: list[Any] = []
            at: list[int] = []
            failed: list[Failed] = []
            for i, (key, value) in enumerate(zip(batch.keys.items, batch.values.items, strict=True)):
                before = len(pairs)
                try:
                    pairs += _some(mapper(key, value), "flat_map")
                except Exception as error:  # what came before it was forwarded
                    failed.append(Failed(i, error))
                at += [i] * (len(pairs) - before)
            if not are_pairs(pairs):
                pairs, at = _as_pairs(pairs, at, failed)
            judge_each(context, batch, commits, failed)
            if pairs:
                forward(batch.spread(at, *split_pairs(pairs)), commits)

        return on_batch

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's functions in this operator."""
        return (self.mapper,)


@dataclass(frozen=True, slots=True)
class MapValues(Operator):
    """Replace the value by ``mapper(value)``, or ``mapper(key, value)`` where ``with_key``. The key stays."""

    contains: ClassVar[Contains] = Contains.irregular

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

    def open_batch(self, context: OperatorContext, forward: OnBatch | None) -> OnBatch | None:
        """Return the same for many records."""
        if forward is None:
            return None
        mapper, with_key = self.mapper, self.with_key

        def on_batch(batch: Batch, commits: Commits) -> None:
            values = batch.values.items
            items = (batch.keys.items, values) if with_key else (values,)
            batch, mapped = call_each(context, batch, commits, mapper, *items)
            if mapped:
                forward(batch.having(values=Column(mapped)), commits)

        return on_batch

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's functions in this operator."""
        return (self.mapper,)


@dataclass(frozen=True, slots=True)
class FlatMapValues(Operator):
    """Replace a record by one record per item of ``mapper(value)``, or ``mapper(key, value)`` where ``with_key``."""

    contains: ClassVar[Contains] = Contains.irregular

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

    def open_batch(self, context: OperatorContext, forward: OnBatch | None) -> OnBatch | None:
        """Return the same for many records."""
        if forward is None:
            return None
        mapper, with_key = self.mapper, self.with_key

        def on_batch(batch: Batch, commits: Commits) -> None:
            items: list[Any] = []
            at: list[int] = []
            failed: list[Failed] = []
            keys = batch.keys.items if with_key else repeat(None)
            for i, (key, value) in enumerate(zip(keys, batch.values.items, strict=False)):
                before = len(items)
                try:
                    items += mapper(key, value) if with_key else mapper(value)
                except Exception as error:  # what came before it was forwarded
                    failed.append(Failed(i, error))
                at += [i] * (len(items) - before)
            judge_each(context, batch, commits, failed)
            if items:
                forward(batch.spread(at, batch.keys.pick(at), Column(items)), commits)

        return on_batch

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's functions in this operator."""
        return (self.mapper,)


@dataclass(frozen=True, slots=True)
class Peek(Operator):
    """Call ``action(key, value)``, then forward the record as it is."""

    action: Callable[[Any, Any], Any]

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        action = self.action

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            action(key, value)
            forward(key, value, timestamp, headers)

        return on_record

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's functions in this operator."""
        return (self.action,)


@dataclass(frozen=True, slots=True)
class Foreach(Operator):
    """Call ``action(key, value)`` and end the stream there."""

    action: Callable[[Any, Any], Any]

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        action = self.action

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            action(key, value)

        return on_record

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's functions in this operator."""
        return (self.action,)


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

    contains: ClassVar[Contains] = Contains.irregular

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(key, value, timestamp, headers)

        return on_record

    def open_batch(self, context: OperatorContext, forward: OnBatch | None) -> OnBatch | None:
        """Return the same for many records."""
        return forward


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


def _some(found: Any, verb: str) -> Iterable[Any]:
    """Return what a mapper has made of a record, if it is anything."""
    if found is None:
        raise TypeError(f"the function of {verb} must return an iterable of (key, value) pairs, not None")
    return found  # type: ignore[no-any-return]


def _as_pairs(found: list[Any], at: list[int], failed: list[Failed]) -> tuple[list[Any], list[int]]:
    """Return as pairs what mappers have made of records; of a record nothing from the first on that is none, which is a failure."""
    pairs: list[Any] = []
    places: list[int] = []
    ended = -1
    for item, place in zip(found, at, strict=True):
        if place == ended:
            continue
        try:
            pairs.append(as_pair(item, "flat_map"))
            places.append(place)
        except TypeError as error:
            ended = place
            failed[:] = [other for other in failed if other.at != place]  # it was not called so far
            failed.append(Failed(place, error))
    failed.sort(key=lambda one: one.at)
    return pairs, places


def are_pairs(items: list[Any]) -> bool:
    """Whether all items are tuples of two.

    >>> are_pairs([(1, 2)]), are_pairs([(1, 2), [1, 2]])
    (True, False)
    """
    return all(item.__class__ is tuple and len(item) == 2 for item in items)


def split_pairs(pairs: list[Any]) -> tuple[Column, Column]:
    """Return pairs as two columns."""
    return Column([pair[0] for pair in pairs]), Column([pair[1] for pair in pairs])


def as_pair(result: Any, verb: str) -> tuple[Any, Any]:
    """Return a mapper's result as a pair, or say what is wrong with it."""
    if isinstance(result, (tuple, list)) and len(result) == 2:
        return result[0], result[1]
    raise TypeError(f"the function of {verb} must return a (key, value) pair, but returned {result!r}")
