"""The nodes that run a user's Processor or FixedKeyProcessor: one instance per shard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.operators.base import Forward, Operator, OperatorContext
from penstock.processor.context import NO_KEY, FixedKeyProcessorContext, ProcessorContext, TransformerContext
from penstock.processor.fixed_key import FixedKeyRecord
from penstock.processor.supplier import check_processor_supplier
from penstock.processor.timers import open_timers
from penstock.record import Headers, record_of


@dataclass(frozen=True, slots=True)
class SuppliedOperator(Operator):
    """A node that runs what ``supplier`` makes."""

    timed: ClassVar[bool] = True
    scheduling: ClassVar[bool] = True

    supplier: Callable[[], Any]

    def __post_init__(self) -> None:
        """Refuse a supplier that cannot work while the program is built."""
        check_processor_supplier(self.supplier)

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's functions in this operator."""
        return (getattr(self.supplier, "process", self.supplier),)


@dataclass(frozen=True, slots=True)
class Process(SuppliedOperator):
    """Run the Processor that ``supplier`` makes."""

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        processor = self.supplier()
        process = processor.process
        begin(processor, ProcessorContext(context, forward), context)

        def on_first(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            process(record_of(key, value, timestamp, headers))

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            origin = context.origin
            if origin.timestamp == timestamp and origin.headers == headers:
                process(record_of(key, value, timestamp, headers))
                return
            # a node before may have changed time and headers; the changelogs of the user's stores show them
            context.origin = origin._replace(timestamp=timestamp, headers=headers)
            try:
                process(record_of(key, value, timestamp, headers))
            finally:
                context.origin = origin

        return on_first if context.is_first else on_record


@dataclass(frozen=True, slots=True)
class ProcessValues(SuppliedOperator):
    """Run the FixedKeyProcessor that ``supplier`` makes."""

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        processor = self.supplier()
        process = processor.process
        inner = FixedKeyProcessorContext(context, forward)
        begin(processor, inner, context)

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            origin = context.origin
            inner.key = key
            if origin.timestamp != timestamp or origin.headers != headers:
                context.origin = origin._replace(timestamp=timestamp, headers=headers)
            try:
                process(record_of(key, value, timestamp, headers, FixedKeyRecord))
            finally:
                context.origin = origin
                inner.key = NO_KEY

        return on_record


def begin(instance: Any, inner: ProcessorContext | TransformerContext, context: OperatorContext) -> None:
    """Have ``init`` and ``close`` of a user's object called, where it has them; give it its timers."""
    init = getattr(instance, "init", None)
    close = getattr(instance, "close", None)

    def fire(timestamp: int, key: Any) -> None:
        context.count_event("timers_fired_total")
        if not isinstance(inner, FixedKeyProcessorContext):
            instance.on_timer(timestamp, key, inner)
            return
        inner.key = key
        try:
            instance.on_timer(timestamp, key, inner)
        finally:
            inner.key = NO_KEY

    def initialise() -> None:
        inner.timer_service = open_timers(instance, context, fire)
        if init is not None:
            init(inner)

    context.on_init(initialise)
    if close is not None:
        context.on_close(close)


def open_transformer(supplier: Callable[[], Any], context: OperatorContext) -> Callable[[Any, Any], Any]:
    """Make a ValueTransformer for this shard; return its ``transform``."""
    transformer = supplier()
    begin(transformer, TransformerContext(context), context)
    transform: Callable[[Any, Any], Any] = transformer.transform
    return transform
