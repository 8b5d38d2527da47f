"""Processor, FixedKeyProcessor, ValueTransformer: what a user implements.

One instance is made per node, shard and epoch, by the supplier that was given to ``process()``: the class itself, or any
callable that makes a new instance each time. ``init`` is called once, when all nodes and stores are there; ``close``
when the task ends, at the barrier. What is to outlive it goes into a store, or is a resource of the process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from penstock.processor.context import FixedKeyProcessorContext, ProcessorContext, TransformerContext
from penstock.processor.fixed_key import FixedKeyRecord
from penstock.record import Record

K = TypeVar("K")
V = TypeVar("V")


class Processor(ABC, Generic[K, V]):
    """Handles records one by one, with state, time and a free choice of what to forward.

    >>> class Loud(Processor):
    ...     def process(self, record):
    ...         self.context.forward(record.with_value(record.value.upper()))
    """

    context: ProcessorContext

    def init(self, context: ProcessorContext) -> None:
        """Keep the context as ``self.context``. Override to fetch stores and to schedule punctuations."""
        self.context = context

    @abstractmethod
    def process(self, record: Record[K, V]) -> None:
        """Handle one record; results go out through ``context.forward``."""

    def on_timer(self, timestamp: int, key: K, context: ProcessorContext) -> None:
        """Handle a timer of ``key`` that was registered with ``context.timers`` and is due."""
        raise NotImplementedError(
            f"{type(self).__name__} registered a timer, but has no on_timer(timestamp, key, context)"
        )

    def close(self) -> None:
        """Release what ``init`` acquired."""


class FixedKeyProcessor(ABC, Generic[K, V]):
    """Handles records as a Processor does, but may not change their key, so that nothing has to be moved afterwards.

    >>> class Doubled(FixedKeyProcessor):
    ...     def process(self, record):
    ...         self.context.forward(record.with_value(record.value * 2))
    """

    context: FixedKeyProcessorContext

    def init(self, context: FixedKeyProcessorContext) -> None:
        """Keep the context as ``self.context``. Override to fetch stores and to schedule punctuations."""
        self.context = context

    @abstractmethod
    def process(self, record: FixedKeyRecord[K, V]) -> None:
        """Handle one record; results go out through ``context.forward``."""

    def on_timer(self, timestamp: int, key: K, context: FixedKeyProcessorContext) -> None:
        """Handle a timer of ``key`` that was registered with ``context.timers`` and is due."""
        raise NotImplementedError(
            f"{type(self).__name__} registered a timer, but has no on_timer(timestamp, key, context)"
        )

    def close(self) -> None:
        """Release what ``init`` acquired."""


class ValueTransformer(ABC, Generic[K, V]):
    """Maps the rows of a table (``KTable.transform_values``): with state, but it forwards nothing itself.

    >>> class Length(ValueTransformer):
    ...     def transform(self, key, value):
    ...         return None if value is None else len(value)
    """

    context: TransformerContext

    def init(self, context: TransformerContext) -> None:
        """Keep the context as ``self.context``. Override to fetch stores and to schedule punctuations."""
        self.context = context

    @abstractmethod
    def transform(self, key: K, value: V | None) -> Any:
        """Return the new value of a row; called for tombstones too, with None."""

    def close(self) -> None:
        """Release what ``init`` acquired."""
